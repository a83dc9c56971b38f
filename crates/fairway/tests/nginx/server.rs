//! Runs nginx to record its responses. The configuration is what ingress-nginx v1.15.1 generates for a case, reduced
//! to what the cases need: directives as in its template (`rootfs/etc/nginx/template/nginx.tmpl`), and `map`
//! directives in place of its Lua code (`lua_ingress.lua`).

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command};

use fairway_testkit::wait::{WAIT_TIMEOUT, eventually};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};

use crate::nginx::USER;
use crate::nginx::case::Case;

/// A running nginx. Dropping it ends the process.
pub(crate) struct Nginx {
    pub(crate) address: SocketAddr,
    child: Child,
    _folder: TempDir,
}

impl Nginx {
    /// Starts nginx in front of a backend, and waits until it accepts connections. nginx and its libraries are
    /// installed below `root`, and `page_backend` serves the error pages of the annotation `default-backend`.
    pub(crate) async fn start(
        root: &Path,
        case: &Case,
        backend: SocketAddr,
        page_backend: SocketAddr,
    ) -> Self {
        let folder = TempDir::new().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let nginx_conf = configuration(case, address, backend, page_backend);
        std::fs::write(folder.path().join("nginx.conf"), nginx_conf).unwrap();
        std::fs::write(folder.path().join("users"), USER).unwrap();
        let child = Command::new(root.join("lib64/ld-linux-x86-64.so.2"))
            .arg("--library-path")
            .arg(root.join("usr/lib/x86_64-linux-gnu"))
            .arg(root.join("usr/sbin/nginx"))
            .arg("-p")
            .arg(folder.path())
            .args(["-c", "nginx.conf", "-e", "error.log"])
            .spawn()
            .unwrap();
        eventually("nginx accepts connections", WAIT_TIMEOUT, || async {
            TcpStream::connect(address).await.is_ok()
        })
        .await;
        Self { address, child, _folder: folder }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// The value of a ConfigMap key, or a default.
fn key_or<'a>(case: &'a Case, name: &str, default: &'a str) -> &'a str {
    case.keys.get(name).map_or(default, |value| value.trim())
}

/// The directives that the template generates for annotations, and for the keys that set their defaults: those of the
/// `http`, `server` and `location` blocks.
fn annotation_directives(case: &Case, page_backend: SocketAddr) -> [String; 3] {
    let annotation = |name: &str| case.annotations.get(name).map(|value| value.trim());
    let (mut http, mut server, mut location) = (String::new(), String::new(), String::new());
    for limit in ["limit-req", "limit-conn"] {
        let status = key_or(case, &format!("{limit}-status-code"), "503");
        _ = writeln!(http, "{}_status {status};", limit.replace('-', "_"));
    }
    let denied = annotation("denylist-source-range").unwrap_or_default();
    for range in denied.split(',').filter(|range| !range.is_empty()) {
        _ = writeln!(location, "deny {};", range.trim());
    }
    if annotation("auth-type").is_some() {
        _ = writeln!(
            location,
            "auth_basic a; auth_basic_user_file users; proxy_set_header Authorization '';"
        );
        _ = writeln!(location, "satisfy {};", annotation("satisfy").unwrap_or("all"));
    }
    if let Some(connections) = annotation("limit-connections") {
        http.push_str("limit_conn_zone $binary_remote_addr zone=conn:5m;\n");
        _ = writeln!(location, "limit_conn conn {connections};");
    }
    let multiplier: u32 = annotation("limit-burst-multiplier").map_or(5, |value| value.parse().unwrap());
    for (name, unit) in [("limit-rps", "s"), ("limit-rpm", "m")] {
        if let Some(limit) = annotation(name) {
            _ = writeln!(http, "limit_req_zone $binary_remote_addr zone={unit}:5m rate={limit}r/{unit};");
            let burst = limit.parse::<u32>().unwrap() * multiplier;
            _ = writeln!(location, "limit_req zone={unit} burst={burst} nodelay;");
        }
    }
    if let Some(path) = annotation("app-root") {
        _ = writeln!(server, "if ($uri = /) {{ return 302 $scheme://$http_host{path}; }}");
    }
    if let Some(url) = annotation("permanent-redirect") {
        _ = writeln!(location, "return {} {url};", annotation("permanent-redirect-code").unwrap_or("301"));
    }
    let force_redirect =
        annotation("force-ssl-redirect").unwrap_or_else(|| key_or(case, "force-ssl-redirect", "false"));
    if force_redirect == "true" {
        // The Lua code of ingress-nginx removes one trailing slash, and runs after the rules of the rewrite module.
        let keeps_slash = key_or(case, "preserve-trailing-slash", "false") == "true";
        let slash_rule = if keeps_slash { "" } else { "'~^(?<cut>.*)/$' $cut;" };
        _ = writeln!(http, "map $request_uri $to_https {{ default $request_uri; {slash_rule} }}");
        let code = key_or(case, "http-redirect-code", "308");
        _ = writeln!(location, "return {code} https://$host$to_https;");
    }
    let split_codes = |list: &str| -> Vec<String> {
        list.split(',').map(|code| code.trim().to_owned()).filter(|code| !code.is_empty()).collect()
    };
    let own_codes = split_codes(annotation("custom-http-errors").unwrap_or_default());
    let common_codes = split_codes(key_or(case, "custom-http-errors", ""));
    // The prefix of the locations that serve the error pages for `own_codes`.
    let own_pages = if annotation("default-backend").is_some() { "own" } else { "common" };
    for (codes, page_prefix, lines) in
        [(&common_codes, "common", &mut http), (&own_codes, own_pages, &mut location)]
    {
        if !codes.is_empty() {
            lines.push_str("proxy_intercept_errors on;\n");
        }
        for code in codes {
            _ = writeln!(lines, "error_page {code} = @{page_prefix}_{code};");
        }
    }
    for code in &common_codes {
        _ = writeln!(server, "location @common_{code} {{ internal; return 404; }}");
    }
    for code in own_codes.iter().filter(|code| own_pages == "own" || !common_codes.contains(code)) {
        let page = format!(
            "proxy_intercept_errors off; proxy_set_header X-Code {code}; proxy_set_header X-Original-URI $request_uri; \
             rewrite (.*) / break; proxy_pass http://{page_backend};"
        );
        let response = if own_pages == "own" { page.as_str() } else { "return 404;" };
        _ = writeln!(server, "location @{own_pages}_{code} {{ internal; {response} }}");
    }
    [http, server, location]
}

/// The directives that the template generates for `block-user-agents` and `block-referers`: those of the `http` and
/// `server` blocks.
fn blocked_client_directives(case: &Case) -> [String; 2] {
    let mut http = String::new();
    let mut server = String::new();
    for (key, header, variable) in
        [("block-user-agents", "user_agent", "block_ua"), ("block-referers", "referer", "block_ref")]
    {
        let patterns = key_or(case, key, "").split(',').map(str::trim).filter(|pattern| !pattern.is_empty());
        let map_entries: String = patterns.map(|pattern| format!("{pattern} 1;\n")).collect();
        if map_entries.is_empty() {
            continue;
        }
        _ = writeln!(http, "map $http_{header} ${variable} {{ default 0;\n{map_entries}}}");
        _ = writeln!(server, "if (${variable}) {{ return 403; }}");
    }
    [http, server]
}

/// The complete `nginx.conf`.
fn configuration(case: &Case, listen: SocketAddr, backend: SocketAddr, page_backend: SocketAddr) -> String {
    let key = |name: &str| key_or(case, name, "");
    let is_on = |name: &str| key(name) == "true";
    let on_or_off = |on: bool| if on { "on" } else { "off" };
    let (trusts_headers, uses_proxy_protocol) = (is_on("use-forwarded-headers"), is_on("use-proxy-protocol"));
    assert!(
        !(trusts_headers && uses_proxy_protocol),
        "{}: use-forwarded-headers and use-proxy-protocol together need the headers-more module",
        case.name
    );
    let client_header =
        Some(key("forwarded-for-header")).filter(|name| !name.is_empty()).unwrap_or("X-Forwarded-For");
    let client_header_variable = format!("$http_{}", client_header.to_lowercase().replace('-', "_"));
    let mut http = String::new();
    _ = writeln!(http, "underscores_in_headers {};", on_or_off(is_on("enable-underscores-in-headers")));
    _ = writeln!(http, "ignore_invalid_headers {};", on_or_off(key("ignore-invalid-headers") != "false"));
    if trusts_headers || uses_proxy_protocol || is_on("enable-real-ip") {
        let source = if uses_proxy_protocol { "proxy_protocol" } else { client_header };
        _ = writeln!(http, "real_ip_header {source};");
        http.push_str("real_ip_recursive on;\n");
        let ranges = if case.keys.contains_key("proxy-real-ip-cidr") {
            key("proxy-real-ip-cidr")
        } else {
            "0.0.0.0/0"
        };
        for range in ranges.split(',') {
            _ = writeln!(http, "set_real_ip_from {};", range.trim());
        }
    }
    // The body of a `map`: the header that the client sent, if it is trusted and present, or else `fallback`.
    let header_or = |header: &str, fallback: &str| match trusts_headers {
        true => format!("{{ default {header}; '' {fallback}; }}"),
        false => format!("{{ default {fallback}; }}"),
    };
    _ = writeln!(
        http,
        "map $http_x_forwarded_proto $pass_access_scheme {}",
        header_or("$http_x_forwarded_proto", "$scheme")
    );
    _ = writeln!(
        http,
        "map $http_x_forwarded_host $best_http_host {}",
        header_or("$http_x_forwarded_host", "$http_host")
    );
    let sender = if uses_proxy_protocol { "$proxy_protocol_addr" } else { "$realip_remote_addr" };
    _ = writeln!(
        http,
        "map $http_x_forwarded_for $full_x_forwarded_for {{ default '$http_x_forwarded_for, {sender}'; '' {sender}; }}"
    );
    let appends_sender = trusts_headers && is_on("compute-full-forwarded-for");
    let forwarded_for = if appends_sender { "$full_x_forwarded_for" } else { "$remote_addr" };
    let [blocked_http, blocked_server] = blocked_client_directives(case);
    http.push_str(&blocked_http);
    let allow = case.allow.as_ref().map(|ranges| {
        let allowed: String = ranges.split(',').map(|range| format!("allow {}; ", range.trim())).collect();
        format!("{allowed} deny all;")
    });
    let deny: String = key("block-cidrs")
        .split(',')
        .filter(|range| !range.trim().is_empty())
        .map(|range| format!("deny {};\n", range.trim()))
        .collect();
    let [annotation_http, annotation_server, annotation_location] = annotation_directives(case, page_backend);
    format!(
        "daemon off; master_process off; pid nginx.pid; error_log error.log;
events {{ }}
http {{
access_log off;
client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
{http}
{annotation_http}
{deny}
server {{
listen {listen}{listen_option};
server_name _;
{blocked_server}
{annotation_server}
location / {{
{annotation_location}
{allow}
proxy_pass http://{backend};
proxy_http_version 1.1;
proxy_set_header Host $best_http_host;
proxy_set_header Connection '';
proxy_set_header X-Real-IP $remote_addr;
proxy_set_header X-Forwarded-For {forwarded_for};
proxy_set_header X-Forwarded-Host $best_http_host;
proxy_set_header X-Forwarded-Proto $pass_access_scheme;
proxy_set_header X-Forwarded-Scheme $pass_access_scheme;
proxy_set_header X-Scheme $pass_access_scheme;
proxy_set_header X-Original-Forwarded-For {client_header_variable};
proxy_set_header X-Original-Forwarded-Host $http_x_forwarded_host;
proxy_set_header Proxy '';
}} }} }}
",
        listen_option = if uses_proxy_protocol { " proxy_protocol" } else { "" },
        allow = allow.unwrap_or_default(),
    )
}
