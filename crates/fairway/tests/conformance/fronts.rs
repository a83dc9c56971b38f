//! The proxies to test: the binary of this checkout, and for the report nginx, HAProxy and Envoy if they are in the laboratory's
//! cache (`make lab-peers`). Each forwards everything to one backend.

use std::iter;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fairway_testkit::certificates::Authority;
use fairway_testkit::manifests::{Ingress, Manifests, service_with_endpoints};
use fairway_testkit::process::{Fairway, Program};
use fairway_testkit::wait::{eventually, free_address};
use tempfile::TempDir;
use tokio::net::TcpStream;

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");

const CLASS: &str = "apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: fairway}\n\
                     spec: {controller: fairway.dev/ingress-controller}\n";

/// A running proxy.
pub(crate) struct Front {
    pub(crate) name: &'static str,
    pub(crate) version: String,
    /// HTTP/1, and HTTP/2 with prior knowledge.
    pub(crate) http: SocketAddr,
    pub(crate) https: SocketAddr,
    _running: Running,
}

/// Resources that live as long as the front.
#[expect(dead_code, reason = "kept until the front is dropped")]
enum Running {
    Fairway(Box<Fairway>, Manifests),
    Peer(Program, TempDir),
}

/// A version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spoken {
    Http1,
    /// With prior knowledge.
    Http2,
}

impl Spoken {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Http1 => "h1",
            Self::Http2 => "h2",
        }
    }
}

/// Fairway with one Ingress for every host.
pub(crate) async fn fairway(backend: SocketAddr) -> Front {
    fairway_to(backend, Spoken::Http1).await
}

/// Fairway with a backend of HTTP/2 with prior knowledge.
pub(crate) async fn fairway_before_http2(backend: SocketAddr) -> Front {
    fairway_to(backend, Spoken::Http2).await
}

/// Fairway with a backend of this version.
pub(crate) async fn fairway_to(backend: SocketAddr, spoken: Spoken) -> Front {
    let manifests = Manifests::new();
    manifests.put("class.yaml", CLASS);
    let mut service = service_with_endpoints("a", "web", 80, &[backend]);
    if spoken == Spoken::Http2 {
        service =
            service.replacen("targetPort: 80\n", "targetPort: 80\n      appProtocol: kubernetes.io/h2c\n", 1);
        assert!(service.contains("appProtocol"), "{service}");
    }
    manifests.put("service.yaml", service);
    let ingress = Ingress::new("a", "web").class(Some("fairway")).annotation("ssl-redirect", "false");
    let leaf = Authority::new("conformance").leaf(&["a.test", "*.a.test"]);
    manifests.put("secret.yaml", leaf.secret_yaml("a", "certificate"));
    let ingress = ingress.tls(Some("certificate"), &["a.test"]).route("", "/", ("web", 80));
    manifests.put("web.yaml", ingress.yaml());
    let flags = ["--workers", "1", "--access-log", "off", "--default-certificate", "a/certificate"];
    let fairway = Fairway::ready(Path::new(BINARY), manifests.path(), &flags).await;
    let version = format!("{} (this checkout)", env!("CARGO_PKG_VERSION"));
    let (http, https) = (fairway.http, fairway.https);
    Front { name: "Fairway", version, http, https, _running: Running::Fairway(Box::new(fairway), manifests) }
}

/// The names of Fairway and of the peers that are installed.
pub(crate) fn names() -> Vec<&'static str> {
    let peers = PEERS.into_iter().filter(|peer| (peer.command)().is_some()).map(|peer| peer.name);
    iter::once("Fairway").chain(peers).collect()
}

/// The proxy with this name; `None` if it is not configured for this version towards a backend.
pub(crate) async fn named(name: &str, backend: SocketAddr, spoken: Spoken) -> Option<Front> {
    let Some(peer) = PEERS.into_iter().find(|peer| peer.name == name) else {
        return Some(fairway_to(backend, spoken).await);
    };
    let command = (peer.command)().filter(|_| spoken == Spoken::Http1)?;
    Some(start(peer, command, backend).await)
}

/// How a peer is started.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    /// The program, and the arguments before its own.
    pub(crate) command: fn() -> Option<Vec<String>>,
    version: &'static str,
    file: &'static str,
    arguments: fn(&Path) -> Vec<String>,
    configuration: fn(&Places<'_>) -> String,
}

pub(crate) const PEERS: [&Peer; 3] = [&NGINX, &HAPROXY, &ENVOY];

pub(crate) static NGINX: Peer = Peer {
    name: "nginx",
    command: || in_root("usr/sbin/nginx"),
    version: "-v",
    file: "nginx.conf",
    arguments: |file| ["-c", &file.display().to_string(), "-e", "stderr"].map(str::to_owned).to_vec(),
    configuration: nginx,
};

pub(crate) static HAPROXY: Peer = Peer {
    name: "HAProxy",
    command: || in_root("usr/sbin/haproxy"),
    version: "-v",
    file: "haproxy.cfg",
    arguments: |file| vec!["-f".to_owned(), file.display().to_string()],
    configuration: haproxy,
};

static ENVOY: Peer = Peer {
    name: "Envoy",
    command: || cached("envoy/envoy/_bin/envoy").map(|program| vec![program.display().to_string()]),
    version: "--version",
    file: "envoy.yaml",
    arguments: |file| {
        let arguments = ["--concurrency", "1", "--use-dynamic-base-id", "-l", "error", "-c"];
        arguments.iter().map(|&argument| argument.to_owned()).chain([file.display().to_string()]).collect()
    },
    configuration: envoy,
};

/// The addresses and the directory of a peer.
pub(crate) struct Places<'p> {
    http: SocketAddr,
    https: SocketAddr,
    backend: SocketAddr,
    folder: &'p Path,
}

pub(crate) async fn start(peer: &'static Peer, command: Vec<String>, backend: SocketAddr) -> Front {
    let folder = TempDir::with_prefix("fairway-conformance-").unwrap();
    let leaf = Authority::new("conformance").leaf(&["a.test"]);
    leaf.write_to(folder.path()).unwrap();
    std::fs::write(folder.path().join("both.pem"), format!("{}{}", leaf.chain_pem, leaf.key_pem)).unwrap();
    let (http, https) = (free_address(), free_address());
    let file = folder.path().join(peer.file);
    let text = (peer.configuration)(&Places { http, https, backend, folder: folder.path() });
    std::fs::write(&file, text).unwrap();
    let version = version(&command, peer.version);
    let arguments: Vec<String> = command[1..].iter().cloned().chain((peer.arguments)(&file)).collect();
    let program = Program::start(Path::new(&command[0]), &arguments);
    eventually(&format!("{} listens", peer.name), Duration::from_secs(20), || async {
        TcpStream::connect(https).await.is_ok() && TcpStream::connect(http).await.is_ok()
    })
    .await;
    Front { name: peer.name, version, http, https, _running: Running::Peer(program, folder) }
}

/// The version in the output of a program: the first word with a dot between digits.
fn version(command: &[String], flag: &str) -> String {
    let output = Command::new(&command[0]).args(&command[1..]).arg(flag).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let mut words = text.split([' ', '/', '\n']);
    let is_version = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
    words.find(is_version).unwrap_or("unknown").to_owned()
}

fn cached(path: &str) -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    Some(cache.join("fairway/lab").join(path)).filter(|path| path.exists())
}

/// A program of the root folder, run with the folder's own loader.
fn in_root(program: &str) -> Option<Vec<String>> {
    let root = cached("current")?;
    let loaders = [
        ("lib64/ld-linux-x86-64.so.2", "usr/lib/x86_64-linux-gnu"),
        ("lib/ld-linux-aarch64.so.1", "usr/lib/aarch64-linux-gnu"),
    ];
    let (loader, libraries) = loaders.into_iter().find(|(loader, _)| root.join(loader).exists())?;
    let program = Some(root.join(program)).filter(|program| program.exists())?;
    let paths = [root.join(loader), "--library-path".into(), root.join(libraries), program];
    Some(paths.iter().map(|path| path.display().to_string()).collect())
}

fn nginx(ports: &Places<'_>) -> String {
    let Places { http, https, backend, folder } = ports;
    let folder = folder.display();
    let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("  {name}_temp_path {folder}/{name};\n"))
        .concat();
    format!(
        "daemon off;\nworker_processes 1;\npid {folder}/nginx.pid;\nerror_log stderr crit;\nevents {{}}\n\
         http {{\n  access_log off;\n{paths}\
         \x20 map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}\n\
         \x20 map $http_host $host_or_own {{ default $http_host; '' $host; }}\n\
         \x20 upstream web {{ server {backend}; keepalive 16; }}\n\
         \x20 server {{\n    listen {http};\n    listen {https} ssl;\n    http2 on;\n\
         \x20   ssl_certificate {folder}/tls.crt;\n    ssl_certificate_key {folder}/tls.key;\n\
         \x20   location / {{\n      proxy_pass http://web;\n      proxy_http_version 1.1;\n\
         \x20     proxy_set_header Host $host_or_own;\n      proxy_set_header Upgrade $http_upgrade;\n\
         \x20     proxy_set_header Connection $connection_upgrade;\n    }}\n  }}\n}}\n"
    )
}

fn haproxy(ports: &Places<'_>) -> String {
    let Places { http, https, backend, folder } = ports;
    format!(
        "global\n  nbthread 1\ndefaults\n  mode http\n  timeout connect 5s\n  timeout client 30s\n  timeout server 30s\n\
         frontend front\n  bind {http}\n  bind {https} ssl crt {}/both.pem alpn h2,http/1.1\n  default_backend web\n\
         backend web\n  server web {backend}\n",
        folder.display()
    )
}

/// Envoy's names of types are long.
const EXTENSIONS: &str = "type.googleapis.com/envoy.extensions";

fn envoy(ports: &Places<'_>) -> String {
    let Places { http, https, backend, folder } = ports;
    let folder = folder.display();
    let filters = format!("'@type': {EXTENSIONS}.filters");
    let manager = format!(
        "{{name: manager, typed_config: {{{filters}.network.http_connection_manager.v3.HttpConnectionManager, \
         stat_prefix: web, codec_type: AUTO, upgrade_configs: [{{upgrade_type: websocket}}], http_filters: \
         [{{name: router, typed_config: {{{filters}.http.router.v3.Router}}}}], route_config: {{virtual_hosts: \
         [{{name: web, domains: ['*'], routes: [{{match: {{prefix: /}}, route: {{cluster: web}}}}]}}]}}}}}}"
    );
    let tls = format!(
        "{{name: tls, typed_config: {{'@type': {EXTENSIONS}.transport_sockets.tls.v3.DownstreamTlsContext, \
         common_tls_context: {{alpn_protocols: [h2, http/1.1], tls_certificates: [{{certificate_chain: \
         {{filename: {folder}/tls.crt}}, private_key: {{filename: {folder}/tls.key}}}}]}}}}}}"
    );
    let address = |address: &SocketAddr| {
        format!("{{socket_address: {{address: {}, port_value: {}}}}}", address.ip(), address.port())
    };
    let (http, https, backend) = (address(http), address(https), address(backend));
    let listener = |name: &str, address: &str, chain: &str| {
        format!(
            "  - {{name: {name}, address: {address}, filter_chains: [{{filters: [{manager}]{chain}}}]}}\n"
        )
    };
    let listeners =
        listener("http", &http, "") + &listener("https", &https, &format!(", transport_socket: {tls}"));
    format!(
        "static_resources:\n  listeners:\n{listeners}  clusters:\n  - {{name: web, connect_timeout: 5s, \
         load_assignment: {{cluster_name: web, endpoints: [{{lb_endpoints: \
         [{{endpoint: {{address: {backend}}}}}]}}]}}}}\n"
    )
}
