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

use crate::nginx::case::Case;

/// nginx, running.
pub(crate) struct Nginx {
    pub(crate) address: SocketAddr,
    child: Child,
    _folder: TempDir,
}

impl Nginx {
    /// Starts it in front of a backend. `root` is a root folder that has it with its libraries.
    pub(crate) async fn start(root: &Path, case: &Case, backend: SocketAddr) -> Self {
        let folder = TempDir::new().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        std::fs::write(folder.path().join("nginx.conf"), configuration(case, address, backend)).unwrap();
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

fn configuration(case: &Case, listen: SocketAddr, backend: SocketAddr) -> String {
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
    let allow = case.allow.as_ref().map(|ranges| {
        let allowed: String = ranges.split(',').map(|range| format!("allow {}; ", range.trim())).collect();
        format!("{allowed} deny all;")
    });
    let deny: String = key("block-cidrs")
        .split(',')
        .filter(|range| !range.trim().is_empty())
        .map(|range| format!("deny {};\n", range.trim()))
        .collect();
    format!(
        "daemon off; master_process off; pid nginx.pid; error_log error.log;
events {{ }}
http {{
access_log off;
client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
{http}
{deny}
server {{
listen {listen}{proxied};
server_name _;
{server}
location / {{
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
