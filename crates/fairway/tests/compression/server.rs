//! The recorded servers: nginx with the configuration that ingress-nginx generates for compression
//! (`rootfs/etc/nginx/template/nginx.tmpl` of v1.15.1), and Caddy with `encode`. Used only for recording.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use fairway_testkit::wait::{WAIT_TIMEOUT, eventually, free_address};
use tempfile::TempDir;
use tokio::net::TcpStream;

/// The default of `gzip-types` in ingress-nginx v1.15.1.
const TYPES: &str = "application/atom+xml application/javascript application/x-javascript application/json application/rss+xml application/vnd.ms-fontobject application/x-font-ttf application/x-web-app-manifest+json application/xhtml+xml application/xml font/opentype image/svg+xml image/x-icon text/css text/javascript text/plain text/x-component";

/// The recorded server.
#[derive(Clone, Copy)]
pub(crate) enum Server {
    Nginx,
    Caddy,
}

/// A running server.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    child: Child,
    _folder: TempDir,
}

impl Server {
    /// The root folder with nginx and its libraries, or the program of Caddy, for recording.
    pub(crate) fn to_record(self) -> Option<PathBuf> {
        let name = match self {
            Self::Nginx => "FAIRWAY_NGINX_ROOT",
            Self::Caddy => "FAIRWAY_CADDY",
        };
        std::env::var_os(name).map(PathBuf::from)
    }
}

impl Running {
    /// Starts a server in front of an endpoint.
    pub(crate) async fn start(
        server: Server,
        program: &Path,
        keys: &BTreeMap<String, String>,
        endpoint: SocketAddr,
    ) -> Self {
        let folder = TempDir::new().unwrap();
        let address = free_address();
        let (file, text) = match server {
            Server::Nginx => ("nginx.conf", nginx(keys, address, endpoint)),
            Server::Caddy => ("Caddyfile", caddy(keys, address, endpoint)),
        };
        std::fs::write(folder.path().join(file), text).unwrap();
        let mut command = match server {
            Server::Nginx => {
                let mut command = Command::new(program.join("lib64/ld-linux-x86-64.so.2"));
                command.arg("--library-path").arg(program.join("usr/lib/x86_64-linux-gnu"));
                command.arg(program.join("usr/sbin/nginx"));
                command.arg("-p").arg(folder.path()).args(["-c", file, "-e", "error.log"]);
                command
            }
            Server::Caddy => {
                let mut command = Command::new(program);
                command.args(["run", "--config", file]).env("HOME", folder.path());
                command
            }
        };
        let child = command.current_dir(folder.path()).spawn().unwrap();
        eventually("nginx accepts connections", WAIT_TIMEOUT, || async {
            TcpStream::connect(address).await.is_ok()
        })
        .await;
        Self { address, child, _folder: folder }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn caddy(keys: &BTreeMap<String, String>, listen: SocketAddr, endpoint: SocketAddr) -> String {
    let codings = [("enable-zstd", "zstd"), ("use-gzip", "gzip")];
    let codings: Vec<_> =
        codings.iter().filter(|(key, _)| keys.contains_key(*key)).map(|(_, it)| *it).collect();
    format!(
        "{{
admin off
auto_https off
persist_config off
}}
http://{listen}, http://a.test:{port} {{
bind 127.0.0.1
encode {{
{codings}
minimum_length 256
}}
reverse_proxy {endpoint} {{
transport http {{
compression off
}}
}}
}}
",
        port = listen.port(),
        codings = codings.join("\n"),
    )
}

fn nginx(keys: &BTreeMap<String, String>, listen: SocketAddr, endpoint: SocketAddr) -> String {
    let key = |name: &str, default: &'static str| keys.get(name).map_or(default, String::as_str).to_owned();
    format!(
        "daemon off; master_process off; pid nginx.pid; error_log error.log;
events {{ }}
http {{
access_log off;
client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
gzip on; gzip_comp_level {level}; gzip_http_version 1.1; gzip_min_length {length}; gzip_types {types};
gzip_proxied any; gzip_vary on;
server {{
listen {listen};
location / {{
proxy_pass http://{endpoint};
proxy_http_version 1.1;
proxy_set_header Host $host;
proxy_set_header Connection '';
proxy_buffering off;
}} }} }}
",
        level = key("gzip-level", "1"),
        length = key("gzip-min-length", "256"),
        types = key("gzip-types", TYPES),
    )
}
