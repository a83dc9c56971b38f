//! nginx with the configuration that ingress-nginx makes of the keys, as far as the cases need it: what its template
//! (`rootfs/etc/nginx/template/nginx.tmpl` of v1.15.1) writes, and in maps what its Lua (`lua_ingress.lua`) does to variables.
//! Used only while answers are recorded.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command};

use fairway_testkit::wait::{PATIENCE, eventually};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};

use crate::nginx::USER;
use crate::nginx::case::Case;

/// nginx, running.
pub(crate) struct Nginx {
    pub(crate) address: SocketAddr,
    child: Child,
    _folder: TempDir,
}

impl Nginx {
    /// Starts it in front of a backend. `root` is a root folder that has it with its libraries.
    pub(crate) async fn start(root: &Path, case: &Case, backend: SocketAddr, pages: SocketAddr) -> Self {
        let folder = TempDir::new().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        std::fs::write(folder.path().join("nginx.conf"), configuration(case, address, backend, pages))
            .unwrap();
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
        eventually("nginx accepts", PATIENCE, || async { TcpStream::connect(address).await.is_ok() }).await;
        Self { address, child, _folder: folder }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// What the template writes for annotations: lines of the http block, of the server, and of the location.
fn of_annotations(case: &Case, pages: SocketAddr) -> [String; 3] {
    let key =
        |name: &str, otherwise: &'static str| case.keys.get(name).map_or(otherwise, |value| value.trim());
    let annotation = |name: &str| case.annotations.get(name).map(|value| value.trim());
    let (mut http, mut server, mut location) = (String::new(), String::new(), String::new());
    for limit in ["limit-req", "limit-conn"] {
        let status = key(&format!("{limit}-status-code"), "503");
        _ = writeln!(http, "{}_status {status};", limit.replace('-', "_"));
    }
    for range in
        annotation("denylist-source-range").unwrap_or_default().split(',').filter(|it| !it.is_empty())
    {
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
    let multiplier: u32 = annotation("limit-burst-multiplier").map_or(5, |it| it.parse().unwrap());
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
    let is_forced = annotation("force-ssl-redirect").unwrap_or(key("force-ssl-redirect", "false"));
    if is_forced == "true" {
        // What Lua does after the rules of the rewrite module; it takes one slash from the end.
        let cut =
            if key("preserve-trailing-slash", "false") == "true" { "" } else { "'~^(?<cut>.*)/$' $cut;" };
        _ = writeln!(http, "map $request_uri $to_https {{ default $request_uri; {cut} }}");
        _ = writeln!(location, "return {} https://$host$to_https;", key("http-redirect-code", "308"));
    }
    let (own, common) = (annotation("custom-http-errors"), key("custom-http-errors", ""));
    let codes =
        |list: &str| list.split(',').map(|it| it.trim().to_owned()).filter(|it| !it.is_empty()).collect();
    let (own, common): (Vec<String>, Vec<String>) = (codes(own.unwrap_or_default()), codes(common));
    let own_pages = if annotation("default-backend").is_some() { "own" } else { "common" };
    for (codes, place, lines) in [(&common, "common", &mut http), (&own, own_pages, &mut location)] {
        if !codes.is_empty() {
            lines.push_str("proxy_intercept_errors on;\n");
        }
        for code in codes {
            _ = writeln!(lines, "error_page {code} = @{place}_{code};");
        }
    }
    for code in &common {
        _ = writeln!(server, "location @common_{code} {{ internal; return 404; }}");
    }
    for code in own.iter().filter(|code| own_pages == "own" || !common.contains(code)) {
        let page = format!(
            "proxy_intercept_errors off; proxy_set_header X-Code {code}; proxy_set_header X-Original-URI $request_uri; \
             rewrite (.*) / break; proxy_pass http://{pages};"
        );
        let answer = if own_pages == "own" { page.as_str() } else { "return 404;" };
        _ = writeln!(server, "location @{own_pages}_{code} {{ internal; {answer} }}");
    }
    [http, server, location]
}

/// What the template writes for `block-user-agents` and `block-referers`: lines of the http block and of the server.
fn blocked_clients(case: &Case) -> [String; 2] {
    let key = |name: &str| case.keys.get(name).map_or("", |value| value.trim());
    let mut http = String::new();
    let mut server = String::new();
    for (key_name, header, blocked) in
        [("block-user-agents", "user_agent", "block_ua"), ("block-referers", "referer", "block_ref")]
    {
        let entries: Vec<_> = key(key_name).split(',').map(str::trim).filter(|it| !it.is_empty()).collect();
        if entries.is_empty() {
            continue;
        }
        let entries: String = entries.iter().map(|entry| format!("{entry} 1;\n")).collect();
        _ = writeln!(http, "map $http_{header} ${blocked} {{ default 0;\n{entries}}}");
        _ = writeln!(server, "if (${blocked}) {{ return 403; }}");
    }
    [http, server]
}

fn configuration(case: &Case, listen: SocketAddr, backend: SocketAddr, pages: SocketAddr) -> String {
    let key = |name: &str| case.keys.get(name).map_or("", |value| value.trim());
    let is_on = |name: &str| key(name) == "true";
    let switch = |on: bool| if on { "on" } else { "off" };
    let (forwarded, proxied) = (is_on("use-forwarded-headers"), is_on("use-proxy-protocol"));
    assert!(!(forwarded && proxied), "{}: the headers-more module would be needed", case.name);
    let header = Some(key("forwarded-for-header")).filter(|it| !it.is_empty()).unwrap_or("X-Forwarded-For");
    let variable = format!("$http_{}", header.to_lowercase().replace('-', "_"));
    let mut http = String::new();
    _ = writeln!(http, "underscores_in_headers {};", switch(is_on("enable-underscores-in-headers")));
    _ = writeln!(http, "ignore_invalid_headers {};", switch(key("ignore-invalid-headers") != "false"));
    if forwarded || proxied || is_on("enable-real-ip") {
        _ = writeln!(http, "real_ip_header {};", if proxied { "proxy_protocol" } else { header });
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
    let of_client = |variable: &str, otherwise: &str| match forwarded {
        true => format!("{{ default {variable}; '' {otherwise}; }}"),
        false => format!("{{ default {otherwise}; }}"),
    };
    _ = writeln!(
        http,
        "map $http_x_forwarded_proto $pass_access_scheme {}",
        of_client("$http_x_forwarded_proto", "$scheme")
    );
    _ = writeln!(
        http,
        "map $http_x_forwarded_host $best_http_host {}",
        of_client("$http_x_forwarded_host", "$http_host")
    );
    let sender = if proxied { "$proxy_protocol_addr" } else { "$realip_remote_addr" };
    _ = writeln!(
        http,
        "map $http_x_forwarded_for $full_x_forwarded_for {{ default '$http_x_forwarded_for, {sender}'; '' {sender}; }}"
    );
    let chain = forwarded && is_on("compute-full-forwarded-for");
    let address = if chain { "$full_x_forwarded_for" } else { "$remote_addr" };
    let [blocked_http, server] = blocked_clients(case);
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
    let [more_http, more_server, more_location] = of_annotations(case, pages);
    format!(
        "daemon off; master_process off; pid nginx.pid; error_log error.log;
events {{ }}
http {{
access_log off;
client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
{http}
{more_http}
{deny}
server {{
listen {listen}{proxied};
server_name _;
{server}
{more_server}
location / {{
{more_location}
{allow}
proxy_pass http://{backend};
proxy_http_version 1.1;
proxy_set_header Host $best_http_host;
proxy_set_header Connection '';
proxy_set_header X-Real-IP $remote_addr;
proxy_set_header X-Forwarded-For {address};
proxy_set_header X-Forwarded-Host $best_http_host;
proxy_set_header X-Forwarded-Proto $pass_access_scheme;
proxy_set_header X-Forwarded-Scheme $pass_access_scheme;
proxy_set_header X-Scheme $pass_access_scheme;
proxy_set_header X-Original-Forwarded-For {variable};
proxy_set_header X-Original-Forwarded-Host $http_x_forwarded_host;
proxy_set_header Proxy '';
}} }} }}
",
        proxied = if proxied { " proxy_protocol" } else { "" },
        allow = allow.unwrap_or_default(),
    )
}
