//! HAProxy with one thread, reused server connections and forwarded headers. Never touches /etc/haproxy.

use std::path::Path;
use std::process::Command;

use anyhow::Context;
use fairway_lab_measure::Executable;

use super::peer::{NO_TOKENS, Need, Peer, packaged};
use crate::scenario::Tls;
use crate::site::{ANSWER_FIELDS, Certificate, PREFIX, Site};

pub(super) const HAPROXY: Peer = Peer {
    name: "haproxy",
    without: &[(Need::Datagrams, "forwards no UDP"), (Need::Tokens, NO_TOKENS)],
    find: |binaries, release| packaged(binaries, release, "haproxy"),
    version: Executable::version,
    prepare,
};

fn prepare(binary: &Executable, site: &mut Site, certificate: &Certificate) -> anyhow::Result<Command> {
    let is_quic = site.scenario.is_http3();
    anyhow::ensure!(!is_quic || is_built_with(binary, "+QUIC")?, "this HAProxy was built without QUIC");
    let both =
        site.write_secret("chain-and-key.pem", &format!("{}{}", certificate.chain, certificate.key))?;
    let text = match site.scenario.is_recommended() {
        _ if site.scenario.is_stream() => tcp(binary, site)?,
        true => configuration(site, &both),
        false => as_it_comes(site, &both),
    };
    let path = site.write("haproxy.cfg", &text)?;
    let mut command = binary.command();
    command.arg("-db").arg("-f").arg(path);
    Ok(command)
}

/// Connections as they come. Where they are bulk it may move bytes in the kernel if it was built for that.
fn tcp(binary: &Executable, site: &Site) -> anyhow::Result<String> {
    let Site { http, backend, workers, .. } = site;
    let (idle, buffer) = (site.stream_idle(), site.stream_buffer());
    // A quarter of `maxconn` would be its pipes: with them it would need more files than the machine gives it.
    let (pipes, splice) = match site.is_bulk() && is_built_with(binary, "+LINUX_SPLICE")? {
        true => ("\n  maxpipes 1024", "\n  option splice-auto"),
        false => ("", ""),
    };
    Ok(format!(
        "global
  nbthread {workers}
  maxconn 8000
  tune.bufsize {buffer}{pipes}
defaults
  mode tcp
  no log{splice}
  timeout connect 5s
  timeout client {idle}s
  timeout server {idle}s
frontend stream
  bind {http} backlog 4096
  default_backend endpoints
backend endpoints
  server one {backend}
"
    ))
}

/// Whether it was built with a feature.
fn is_built_with(binary: &Executable, feature: &str) -> anyhow::Result<bool> {
    let options = binary.command().arg("-vv").output().context("ask HAProxy what it was built with")?;
    let options = String::from_utf8_lossy(&options.stdout).into_owned();
    Ok(options.split_whitespace().any(|option| option == feature))
}

/// The edits. Headers are added, which costs HAProxy less than setting them.
fn edits(site: &Site) -> String {
    if !site.scenario.is_edited() {
        return String::new();
    }
    let fields = ANSWER_FIELDS
        .map(|(name, value)| format!("  http-response add-header {name} \"{value}\"\n"))
        .concat();
    format!("  http-request replace-path {PREFIX}/(.*) /\\1\n{fields}")
}

/// The minimum HAProxy needs to forward, with the timeouts of its own examples, without which it warns.
fn as_it_comes(site: &Site, certificate: &Path) -> String {
    let Site { http, https, backend, workers, .. } = site;
    let certificate = certificate.display();
    format!(
        "global
  nbthread {workers}
defaults
  mode http
  timeout connect 5s
  timeout client 50s
  timeout server 50s
frontend web
  bind {http}
  bind {https} ssl crt {certificate}
  default_backend endpoints
backend endpoints
  server one {backend}
"
    )
}

fn configuration(site: &Site, certificate: &Path) -> String {
    let Site { http, https, backend, workers, .. } = site;
    let tls = match site.scenario.tls {
        Some(Tls::V12) => {
            "ssl-default-bind-options ssl-min-ver TLSv1.2 ssl-max-ver TLSv1.2
  ssl-default-bind-ciphers ECDHE-RSA-AES256-GCM-SHA384"
        }
        _ => {
            "ssl-default-bind-options ssl-min-ver TLSv1.3
  ssl-default-bind-ciphersuites TLS_AES_256_GCM_SHA384"
        }
    };
    let (certificate, alpn) = (certificate.display(), site.alpn());
    let listener = if site.scenario.is_http3() {
        format!("quic4@{https} ssl crt {certificate} alpn {alpn}")
    } else {
        format!("{https} backlog 4096 ssl crt {certificate} alpn {alpn}")
    };
    let proto = if site.has_h2c_upstream() { " proto h2" } else { "" };
    let edits = edits(site);
    format!(
        "global
  nbthread {workers}
  maxconn 8000
  tune.ssl.cachesize 0
  {tls}
  ssl-default-bind-curves X25519
defaults
  mode http
  no log
  timeout connect 5s
  timeout client 600s
  timeout server 600s
  timeout http-keep-alive 600s
  option http-keep-alive
  http-reuse always
frontend web
  bind {http} backlog 4096
  bind {listener}
  option forwardfor
  http-request set-header X-Real-IP %[src]
  http-request set-header X-Request-ID %[uuid()]
  http-request set-header X-Forwarded-Host %[req.hdr(Host)]
  http-request set-header X-Forwarded-Port %[dst_port]
  http-request set-header X-Forwarded-Proto http if !{{ ssl_fc }}
  http-request set-header X-Forwarded-Proto https if {{ ssl_fc }}
{edits}  default_backend endpoints
backend endpoints
  server one {backend}{proto}
"
    )
}
