//! haproxy.cfg and its maps, laid out as by HAProxy's ingress controller: maps from host and path to a backend, rules for
//! other host settings, and a backend with slots for each Service. Pure.

use std::fmt::Write;

use super::slots::Slots;
use crate::adapter::desired::{Action, CORS_HEADERS, DesiredState, Host, PathMatch};
use crate::adapter::frame::Frame;

/// The name of the configuration in the folder.
pub(super) const CONFIGURATION: &str = "haproxy.cfg";
/// The map of exact paths.
pub(super) const EXACT: &str = "exact.map";
/// The map of prefixes.
pub(super) const PREFIX: &str = "prefix.map";

/// The complete configuration. The runtime API reports `generation` once a worker serves it.
#[must_use]
pub(crate) fn render(frame: &Frame, desired: &DesiredState, slots: &Slots, generation: u64) -> String {
    let mut text = global(frame, generation);
    text.push_str(defaults(frame));
    text.push_str(&frontend(frame, desired));
    for (name, host) in &desired.hosts {
        text.push_str(&extras(name, host));
    }
    text.push_str("  use_backend %[var(txn.backend)] if { var(txn.backend) -m found }\n");
    text.push_str("  default_backend none\nbackend none\n  http-request return status 404\n");
    for name in desired.backends.keys() {
        text.push_str(&backend(frame, name, slots));
    }
    text
}

/// The two maps, exact paths and prefixes: host and path to backend.
#[must_use]
pub(crate) fn maps(desired: &DesiredState) -> [(&'static str, String); 2] {
    let (mut exact, mut prefix) = (String::new(), String::new());
    for (name, host) in &desired.hosts {
        for rule in &host.rules {
            let Action::Forward { backend, .. } = &rule.action else { continue };
            match &rule.path {
                PathMatch::Exact(path) => _ = writeln!(exact, "{name}{path} {backend}"),
                PathMatch::Prefix(path) => {
                    let stem = PathMatch::stem(path);
                    _ = writeln!(prefix, "{name}{stem}/ {backend}");
                    if !stem.is_empty() {
                        _ = writeln!(exact, "{name}{stem} {backend}");
                    }
                }
            }
        }
    }
    [(EXACT, exact), (PREFIX, prefix)]
}

fn global(frame: &Frame, generation: u64) -> String {
    let mut text = format!(
        "global
  description generation-{generation}
  stats socket {} mode 600 level admin expose-fd listeners
  hard-stop-after 30m
  tune.ssl.default-dh-param 2048
",
        frame.file("runtime.sock")
    );
    if let Some(workers) = frame.workers {
        _ = writeln!(text, "  nbthread {workers}");
    }
    text.push_str("  ssl-default-bind-options ssl-min-ver TLSv1.2\n");
    if !frame.is_recommended() {
        text.push_str("  log stdout format raw local0\n");
    }
    text
}

fn defaults(frame: &Frame) -> &'static str {
    if frame.is_recommended() {
        "defaults
  mode http
  no log
  option http-keep-alive
  option redispatch
  http-reuse always
  timeout connect 5s
  timeout client 600s
  timeout server 600s
  timeout http-keep-alive 600s
"
    } else {
        "defaults
  mode http
  log global
  option httplog
  option dontlognull
  option http-keep-alive
  timeout http-request 5s
  timeout connect 5s
  timeout client 50s
  timeout queue 5s
  timeout server 50s
  timeout tunnel 1h
  timeout http-keep-alive 1m
"
    }
}

fn frontend(frame: &Frame, desired: &DesiredState) -> String {
    let backlog = if frame.is_recommended() { " backlog 4096" } else { "" };
    let mut text = format!("frontend web\n  bind {}{backlog}\n", frame.listen.http);
    if !desired.certificates.is_empty() {
        let certificates: Vec<_> = desired
            .certificates
            .keys()
            .map(|name| format!("crt {}", frame.file(&format!("{name}.pem"))))
            .collect();
        _ = writeln!(
            text,
            "  bind {}{backlog} ssl {} alpn h2,http/1.1",
            frame.listen.https,
            certificates.join(" ")
        );
    }
    text.push_str("  option forwardfor\n  http-request set-header X-Forwarded-Proto https if { ssl_fc }\n");
    if frame.is_recommended() {
        // The headers that the other proxies send to backends.
        text.push_str(
            "  http-request set-header X-Forwarded-Proto http if !{ ssl_fc }
  http-request set-header X-Real-IP %[src]
  http-request set-header X-Request-ID %[uuid()]
  http-request set-header X-Forwarded-Host %[req.hdr(Host)]
  http-request set-header X-Forwarded-Port %[dst_port]
",
        );
    }
    _ = writeln!(
        text,
        "  http-request set-var(txn.path) path
  http-request set-var(txn.host) req.hdr(host),field(1,:),lower
  http-request set-var(txn.backend) var(txn.host),concat(,txn.path),map({})
  http-request set-var(txn.backend) var(txn.host),concat(,txn.path),map_beg({}) if !{{ var(txn.backend) -m found }}",
        frame.file(EXACT),
        frame.file(PREFIX)
    );
    text
}

/// Rules of one host that maps cannot express.
fn extras(name: &str, host: &Host) -> String {
    let mut text = String::new();
    let of_host = format!("{{ var(txn.host) -m str {name} }}");
    for rule in &host.rules {
        match (&rule.path, &rule.action) {
            (PathMatch::Exact(path), Action::Redirect { target: to }) => {
                _ = writeln!(
                    text,
                    "  http-request redirect location {to} code 302 if {of_host} {{ var(txn.path) -m str {path} }}"
                );
            }
            (PathMatch::Prefix(path), Action::Forward { strip: Some(_), .. }) => {
                let stem = PathMatch::stem(path);
                _ = writeln!(text, "  http-request replace-path ^{stem}(?:/|$)(.*) /\\1 if {of_host}");
            }
            _ => {}
        }
    }
    if host.cors {
        let fields = CORS_HEADERS.map(|(header, value)| format!("hdr {header} \"{value}\""));
        _ = writeln!(text, "  http-request return status 204 {} if {of_host} METH_OPTIONS", fields.join(" "));
        for (header, value) in CORS_HEADERS {
            _ = writeln!(text, "  http-response set-header {header} \"{value}\" if {of_host}");
        }
    }
    for (header, value) in &host.response_headers {
        _ = writeln!(text, "  http-response set-header {header} \"{value}\" if {of_host}");
    }
    text
}

fn backend(frame: &Frame, name: &str, slots: &Slots) -> String {
    let mut text = format!("backend {name}\n  balance roundrobin\n");
    // Recommended settings keep idle connections for a minute, as nginx does; by default HAProxy closes half of them
    // every 5 s.
    let pool = if frame.is_recommended() { " pool-purge-delay 60s" } else { "" };
    _ = writeln!(text, "  default-server check{pool}");
    for (slot, endpoint) in slots.for_backend(name).iter().enumerate() {
        match endpoint {
            Some(endpoint) => _ = writeln!(text, "  server {} {endpoint}", server(slot)),
            None => _ = writeln!(text, "  server {} 127.0.0.1:1 disabled", server(slot)),
        }
    }
    text
}

/// The name of a slot.
pub(super) fn server(slot: usize) -> String {
    format!("SRV_{}", slot + 1)
}
