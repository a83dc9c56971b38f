//! nginx as an ingress runs it: upstream keep-alive, forwarded headers, one worker. Never touches /etc/nginx.

use std::path::Path;
use std::process::Command;

use anyhow::Context;
use fairway_lab_measure::Executable;

use super::peer::{NO_TOKENS, Need, Peer, packaged};
use crate::scenario::{ForwardedUnit, Load, Tls};
use crate::site::{ANSWER_FIELDS, Certificate, HOST, IDLE_UPSTREAMS, PREFIX, Site};

pub(super) const NGINX: Peer = Peer {
    name: "nginx",
    without: &[(Need::Tokens, NO_TOKENS)],
    find: |binaries, release| packaged(binaries, release, "nginx"),
    version: Executable::version,
    prepare,
};

fn prepare(binary: &Executable, site: &mut Site, certificate: &Certificate) -> anyhow::Result<Command> {
    if site.scenario.is_stream() {
        let text = stream(binary, site)?;
        return start(binary, site, &text);
    }
    let is_quic = site.scenario.is_http3();
    anyhow::ensure!(
        !is_quic || options(binary)?.contains("--with-http_v3_module"),
        "this nginx was built without HTTP/3"
    );
    let chain = site.write_secret("chain.pem", &certificate.chain)?;
    let key = site.write_secret("key.pem", &certificate.key)?;
    let text = match site.scenario.is_recommended() {
        true => configuration(site, &https(site, &chain, &key)),
        false => as_it_comes(site, &chain, &key),
    };
    start(binary, site, &text)
}

fn start(binary: &Executable, site: &mut Site, configuration: &str) -> anyhow::Result<Command> {
    let path = site.write("nginx.conf", configuration)?;
    let mut command = binary.command();
    command.arg("-p").arg(&site.directory).arg("-e").arg("stderr").arg("-c").arg(path);
    Ok(command)
}

/// Forwards connections or datagrams. If each datagram comes from another port, nginx is configured to expect one response.
fn stream(binary: &Executable, site: &Site) -> anyhow::Result<String> {
    let Site { directory, http, backend, workers, .. } = site;
    let (directory, module) = (directory.display(), stream_module(binary)?);
    let (idle, buffer) = (site.stream_idle(), site.stream_buffer());
    let (listen, of_datagrams) = match (site.scenario.forwarded, site.scenario.load) {
        (ForwardedUnit::Datagrams, Load::Once) => ("udp", "\n    proxy_responses 1;"),
        (ForwardedUnit::Datagrams, _) => ("udp", ""),
        _ => ("backlog=4096", ""),
    };
    Ok(format!(
        "{module}daemon off;
worker_processes {workers};
pid {directory}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 16384; multi_accept on; }}
stream {{
  access_log off;
  server {{
    listen {http} {listen};
    proxy_pass {backend};
    proxy_connect_timeout 5s;
    proxy_timeout {idle}s;
    proxy_buffer_size {buffer};{of_datagrams}
  }}
}}
"
    ))
}

/// Debian has the module in a separate package; elsewhere it is built in.
fn stream_module(binary: &Executable) -> anyhow::Result<String> {
    let options = options(binary)?;
    if !options.contains("--with-stream=dynamic") {
        anyhow::ensure!(options.contains("--with-stream"), "this nginx was built without its stream module");
        return Ok(String::new());
    }
    let file = binary.root().unwrap_or(Path::new("/")).join("usr/lib/nginx/modules/ngx_stream_module.so");
    anyhow::ensure!(
        file.is_file(),
        "there is no {} (the package libnginx-mod-stream; `lab/peers/current --renew` gets it)",
        file.display()
    );
    Ok(format!("load_module {};\n", file.display()))
}

/// The arguments that it was built with.
fn options(binary: &Executable) -> anyhow::Result<String> {
    let options = binary.command().arg("-V").output().context("ask nginx what it was built with")?;
    Ok(String::from_utf8_lossy(&options.stderr).into_owned())
}

/// The minimum nginx needs to forward.
fn as_it_comes(site: &Site, chain: &Path, key: &Path) -> String {
    let Site { directory, http, https, backend, workers, .. } = site;
    let (directory, chain, key) = (directory.display(), chain.display(), key.display());
    format!(
        "daemon off;
worker_processes {workers};
pid {directory}/nginx.pid;
events {{}}
http {{
  access_log {directory}/access.log;
  client_body_temp_path {directory}/client;
  proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi;
  scgi_temp_path {directory}/scgi;
  server {{
    server_name {HOST};
    listen {http};
    listen {https} ssl;
    ssl_certificate {chain};
    ssl_certificate_key {key};
    location / {{ proxy_pass http://{backend}; }}
  }}
}}
"
    )
}

/// Tickets stay on: without them and without a cache nginx spends twice the CPU on a handshake.
fn https(site: &Site, chain: &Path, key: &Path) -> String {
    let version = match site.scenario.tls {
        Some(Tls::V12) => {
            "ssl_protocols TLSv1.2;
    ssl_ciphers ECDHE-RSA-AES256-GCM-SHA384;"
        }
        _ => {
            "ssl_protocols TLSv1.3;
    ssl_conf_command Ciphersuites TLS_AES_256_GCM_SHA384;"
        }
    };
    // Datagrams are written in batches, as others do by default.
    let listen = match site.scenario.is_http3() {
        true => format!("listen {} quic reuseport;\n    quic_gso on;", site.https),
        false => format!("listen {} ssl backlog=4096;", site.https),
    };
    format!(
        "    {listen}
    ssl_certificate {};
    ssl_certificate_key {};
    {version}
    ssl_ecdh_curve X25519;
    ssl_session_cache off;",
        chain.display(),
        key.display()
    )
}

fn configuration(site: &Site, https: &str) -> String {
    let Site { directory, http, backend, workers, .. } = site;
    let directory = directory.display();
    let http2 = if site.scenario.is_http2() { "http2 on;" } else { "" };
    let location = location(site);
    format!(
        "daemon off;
worker_processes {workers};
pid {directory}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 16384; multi_accept on; }}
http {{
  access_log off;
  server_tokens off;
  sendfile on;
  tcp_nopush on;
  keepalive_timeout 600s;
  keepalive_requests 100000000;
  client_body_temp_path {directory}/client;
  proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi;
  scgi_temp_path {directory}/scgi;
  upstream backend {{
    server {backend};
    keepalive {IDLE_UPSTREAMS};
    keepalive_requests 100000000;
    keepalive_timeout 600s;
  }}
  server {{
    server_name {HOST};
    listen {http} backlog=4096;
    {http2}
{https}
{location}  }}
}}
"
    )
}

/// The path of the location, and the edits there.
fn edits(site: &Site) -> (String, String) {
    if !site.scenario.is_edited() {
        return ("/".to_owned(), String::new());
    }
    let fields =
        ANSWER_FIELDS.map(|(name, value)| format!("add_header {name} \"{value}\";\n      ")).concat();
    (format!("{PREFIX}/"), format!("rewrite ^{PREFIX}/(.*) /$1 break;\n      {fields}"))
}

/// gRPC has its own directives with the same meaning.
fn location(site: &Site) -> String {
    let (kind, pass) = if site.is_grpc() {
        ("grpc", "grpc_pass grpc://backend;".to_owned())
    } else {
        let version = if site.has_h2c_upstream() { "2" } else { "1.1" };
        let pass = format!("proxy_pass http://backend;\n      proxy_http_version {version};");
        // HTTP/2 has no field `Connection`.
        let close = if site.has_h2c_upstream() { "" } else { "\n      proxy_set_header Connection \"\";" };
        ("proxy", pass + close)
    };
    let buffers = if site.is_grpc() {
        "grpc_buffer_size 16k;"
    } else {
        "proxy_buffer_size 16k;
      proxy_buffers 8 32k;
      proxy_max_temp_file_size 0;"
    };
    // Requests of HTTP/3 have no field `Host`, and this port is the scheme's, so that both are the same.
    let host = if site.scenario.is_http3() { "$host" } else { "$http_host" };
    let (path, edits) = edits(site);
    format!(
        "    location {path} {{
      {edits}{pass}
      {kind}_connect_timeout 5s;
      {kind}_set_header Host {host};
      {kind}_set_header X-Request-ID $request_id;
      {kind}_set_header X-Real-IP $remote_addr;
      {kind}_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      {kind}_set_header X-Forwarded-Host {host};
      {kind}_set_header X-Forwarded-Port $server_port;
      {kind}_set_header X-Forwarded-Proto $scheme;
      {buffers}
    }}
"
    )
}
