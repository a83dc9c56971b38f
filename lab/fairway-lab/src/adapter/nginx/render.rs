//! nginx.conf in the form in which NGINX Ingress Controller lays it out: an upstream for each Service, a server for each
//! host. Pure.

use std::fmt::Write;

use crate::adapter::desired::{Action, CORS_HEADERS, DesiredState, Host, PathMatch, Rule};
use crate::adapter::frame::Frame;

/// The name of the configuration in the folder.
pub(super) const CONFIGURATION: &str = "nginx.conf";

/// Request headers about the client, in addition to Host.
const OF_THE_CLIENT: [(&str, &str); 5] = [
    ("X-Real-IP", "$remote_addr"),
    ("X-Forwarded-For", "$proxy_add_x_forwarded_for"),
    ("X-Forwarded-Host", "$host"),
    ("X-Forwarded-Port", "$server_port"),
    ("X-Forwarded-Proto", "$scheme"),
];

/// The complete configuration. The socket `generation.sock` returns `generation` once workers serve it.
#[must_use]
pub(crate) fn render(frame: &Frame, desired: &DesiredState, generation: u64) -> String {
    let mut text = main_block(frame);
    text.push_str(&http_block(frame));
    text.push_str(&default_servers(frame, generation));
    for (name, endpoints) in desired.backends.iter().filter(|(_, endpoints)| !endpoints.is_empty()) {
        _ = writeln!(text, "  upstream {name} {{\n    zone {name} 256k;\n    random two least_conn;");
        for endpoint in endpoints {
            _ = writeln!(text, "    server {endpoint} max_fails=1 fail_timeout=10s max_conns=0;");
        }
        if frame.is_recommended() {
            text.push_str("    keepalive 1024;\n    keepalive_requests 100000000;\n");
        }
        text.push_str("  }\n");
    }
    let forwarding = forwarding(frame);
    for (name, host) in &desired.hosts {
        text.push_str(&server(frame, &forwarding, desired, name, host));
    }
    text.push_str("}\n");
    text
}

fn main_block(frame: &Frame) -> String {
    let workers = frame.workers.map_or_else(|| "auto".to_owned(), |workers| workers.to_string());
    let connections = if frame.is_recommended() { 16_384 } else { 1_024 };
    format!(
        "daemon off;
worker_processes {workers};
pid {pid};
error_log stderr notice;
events {{ worker_connections {connections}; }}
",
        pid = frame.file("nginx.pid")
    )
}

fn http_block(frame: &Frame) -> String {
    let logs = if frame.is_recommended() {
        "  access_log off;
  server_tokens off;
  keepalive_timeout 600s;
  keepalive_requests 100000000;
"
    } else {
        "  access_log /dev/stdout main;
  keepalive_timeout 75s;
"
    };
    // Without a server named so, requests of HTTP/1.1 upstreams would carry `Connection: close`.
    let connection = if frame.is_recommended() { "\"\"" } else { "close" };
    let mut text = format!(
        "http {{
  log_format main '$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \"$http_referer\" '
                  '\"$http_user_agent\" \"$http_x_forwarded_for\"';
{logs}  sendfile on;
  server_names_hash_max_size 32768;
  server_names_hash_bucket_size 256;
  map $http_upgrade $connection_upgrade {{ default upgrade; '' {connection}; }}
"
    );
    for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        _ = writeln!(text, "  {kind}_temp_path {};", frame.file(kind));
    }
    text.push_str(&tls(frame));
    text
}

fn tls(frame: &Frame) -> String {
    let cache = if frame.is_recommended() { "  ssl_session_cache shared:lab:20m;\n" } else { "" };
    format!("  ssl_protocols TLSv1.2 TLSv1.3;\n{cache}")
}

/// The default server, and the socket that reports the workers' configuration.
fn default_servers(frame: &Frame, generation: u64) -> String {
    let socket = frame.file("generation.sock");
    format!(
        "  server {{
    listen unix:{socket};
    access_log off;
    location / {{ return 200 \"{generation}\"; }}
  }}
  server {{
    listen {http} default_server{backlog};
    listen {https} ssl default_server{backlog};
    ssl_reject_handshake on;
    location / {{ return 404; }}
  }}
",
        http = frame.listen.http,
        https = frame.listen.https,
        backlog = if frame.is_recommended() { " backlog=4096" } else { "" },
    )
}

fn server(frame: &Frame, forwarding: &str, desired: &DesiredState, name: &str, host: &Host) -> String {
    let mut text = format!("  server {{\n    server_name {name};\n    listen {};\n", frame.listen.http);
    if let Some(certificate) = &host.certificate {
        let file = |kind: &str| frame.file(&format!("{certificate}.{kind}"));
        _ = writeln!(text, "    listen {} ssl http2;", frame.listen.https);
        _ = writeln!(text, "    ssl_certificate {};", file("crt"));
        _ = writeln!(text, "    ssl_certificate_key {};", file("key"));
    }
    let headers = host.response_headers.iter().map(|(header, value)| (header.as_str(), value.as_str()));
    let cors: &[(&str, &str)] = if host.cors { &CORS_HEADERS } else { &[] };
    for (header, value) in headers.chain(cors.iter().copied()) {
        _ = writeln!(text, "    add_header {header} \"{value}\" always;");
    }
    if host.cors {
        text.push_str("    if ($request_method = OPTIONS) { return 204; }\n");
    }
    for rule in &host.rules {
        text.push_str(&locations(forwarding, desired, rule));
    }
    text.push_str("  }\n");
    text
}

/// A prefix is one of whole segments: `/a/` and `= /a`; `/` alone needs no second one.
fn locations(forwarding: &str, desired: &DesiredState, rule: &Rule) -> String {
    match &rule.path {
        PathMatch::Exact(path) => location(forwarding, desired, &format!("= {path}"), &rule.action),
        PathMatch::Prefix(path) => {
            let stem = PathMatch::stem(path);
            let mut text = location(forwarding, desired, &format!("{stem}/"), &rule.action);
            if !stem.is_empty() {
                text.push_str(&location(forwarding, desired, &format!("= {stem}"), &rule.action));
            }
            text
        }
    }
}

fn location(forwarding: &str, desired: &DesiredState, matching: &str, action: &Action) -> String {
    let answered = |response: &str| format!("    location {matching} {{ return {response}; }}\n");
    let passed = |to: &str, how: &str| format!("    location {matching} {{\n      {to};\n{how}    }}\n");
    match action {
        Action::Redirect { target: to } => answered(&format!("302 {to}")),
        Action::Forward { backend, .. } if desired.backends.get(backend).is_none_or(Vec::is_empty) => {
            answered("502")
        }
        Action::Forward { backend, strip } => {
            // With a path, nginx replaces the part that the location matched.
            let path = if strip.is_some() { "/" } else { "" };
            passed(&format!("proxy_pass http://{backend}{path}"), forwarding)
        }
    }
}

/// Proxy settings, the same in every location.
fn forwarding(frame: &Frame) -> String {
    let (bounds, buffers) = if frame.is_recommended() {
        (
            "      proxy_connect_timeout 5s;
",
            "      proxy_buffer_size 16k;
      proxy_buffers 8 32k;
      proxy_max_temp_file_size 0;
",
        )
    } else {
        (
            "      proxy_connect_timeout 60s;
      proxy_read_timeout 60s;
      proxy_send_timeout 60s;
      client_max_body_size 1m;
",
            "      proxy_buffering on;
",
        )
    };
    let headers = headers(frame);
    format!(
        "      proxy_http_version 1.1;
{bounds}      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $connection_upgrade;
{headers}{buffers}"
    )
}

/// Request headers about the request.
fn headers(frame: &Frame) -> String {
    let id = frame.is_recommended().then_some(("X-Request-ID", "$request_id"));
    let mut text = String::new();
    for (header, value) in [("Host", "$host")].into_iter().chain(id).chain(OF_THE_CLIENT) {
        _ = writeln!(text, "      proxy_set_header {header} {value};");
    }
    text
}
