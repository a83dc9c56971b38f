//! The admin server over sockets: clients that hold connections cannot block probes, and no page contains a secret.

use std::io::{ErrorKind, Read};
use std::iter;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fairway_control::admin::{
    Admin, Audience, Healthz, Identity, Pages, Readiness, ScrapeLimits, TextChunks,
};
use fairway_control::directory::{DirectoryUpdate, WatchedDirectory};
use fairway_control::{ChangeBatch, Freshness, Pipeline};
use fairway_objects::object::ObjectKey;
use fairway_objects::options::Options;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::dashboard::dashboard;

/// The kubelet's address.
const NODE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// The address of an attacking pod.
const POD: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
/// Timeout of a probe. Shorter than the 50 s after which the server closes any connection.
const HANGS: Duration = Duration::from_secs(30);

/// The server's connection limit.
const PLACES: usize = 64;

/// How often a probe is repeated if the held connections have timed out meanwhile: the machine was busy, and the response proves
/// nothing.
const TRIES: usize = 10;

/// A ready server, and what its pages depend on. Its metrics are an endless text.
fn server(audience: Audience) -> (SocketAddr, Pipeline) {
    let options = Options { configmap: Some(ObjectKey::new("edge", "fairway")), ..Options::default() };
    let pipeline = Pipeline::start(options, Box::new(drop)).unwrap();
    let pages = Pages {
        viewer: pipeline.viewer(),
        readiness: Arc::new(|| Readiness::Ready { adopted: 1, freshness: Freshness::Current }),
        healthz: Healthz::Alive,
        adopted: Box::new(|| 1),
        bound: Box::new(|_| false),
        answer_replica: Box::new(|ask| (ask == b"a replica").then(|| b"lent".to_vec())),
        identity: Identity::new("c", "n", "p", "r"),
        metrics: Box::new(|| Box::pin(async { Box::new(iter::repeat("a 1\n".repeat(1_000))) as TextChunks })),
        scrapes: ScrapeLimits::default(),
        dashboard: dashboard(),
    };
    let admin = Admin::bind(SocketAddr::new(NODE, 0)).unwrap();
    let address = admin.address().unwrap();
    admin.serve(Arc::new(pages), audience).unwrap();
    (address, pipeline)
}

async fn connect(from: IpAddr, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(from, 0)).unwrap();
    socket.connect(to).await.unwrap()
}

/// The first bytes of the response to a request on its own connection.
async fn send_request(from: IpAddr, to: SocketAddr, path: &str) -> String {
    let mut stream = connect(from, to).await;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").as_bytes()).await.unwrap();
    let mut bytes = [0; 1_024];
    let read = stream.read(&mut bytes).await.unwrap();
    String::from_utf8_lossy(&bytes[..read]).into_owned()
}

async fn is_answered(from: IpAddr, to: SocketAddr, path: &str) {
    let response = timeout(HANGS, send_request(from, to, path)).await;
    let response = response.unwrap_or_else(|_| panic!("{path} is answered within {HANGS:?}"));
    assert!(response.starts_with("HTTP/1.1 200 "), "{path}: {response}");
}

/// Connections of the pod, each of which sends these bytes and then stops. The responses soon exceed its receive buffer.
async fn hold(count: usize, to: SocketAddr, bytes: &str) -> Vec<TcpStream> {
    let mut connections = Vec::new();
    for _ in 0..count {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        socket.bind(SocketAddr::new(POD, 0)).unwrap();
        let mut stream = socket.connect(to).await.unwrap();
        stream.write_all(bytes.as_bytes()).await.unwrap();
        connections.push(stream);
    }
    connections
}

/// Whether the server has not closed a connection, as far as can be seen: not after a response longer than the receive buffer.
fn is_open(stream: TcpStream) -> bool {
    // The kernel knows at once, and the runtime only after polling.
    let mut stream = stream.into_std().unwrap();
    let mut bytes = [0; 4096];
    for _ in 0..16 {
        match stream.read(&mut bytes) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
    true
}

/// Probes while other connections, each of which has sent these bytes, occupy all slots: they still do when the response arrives,
/// except for the one that was closed.
async fn is_answered_nevertheless(from: IpAddr, to: SocketAddr, path: &str, bytes: &str) {
    for _ in 0..TRIES {
        let held_connection = hold(PLACES, to, bytes).await;
        is_answered(from, to, path).await;
        if held_connection.into_iter().map(is_open).filter(|is_open| *is_open).count() >= PLACES - 1 {
            return;
        }
    }
    panic!("the connections that others held were closed in {TRIES} probes of {path}");
}

#[tokio::test]
async fn probes_succeed_while_other_clients_hold_connections() {
    let (address, _pipeline) = server(Audience::Probes);
    for (what, bytes) in [
        ("send nothing", ""),
        ("never end their head", "GET /readyz HTTP/1.1\r\nHost: a"),
        ("had an answer and stay", "GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("never read their answer", "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"),
    ] {
        println!("clients that {what}");
        for path in ["/healthz", "/readyz", "/metrics"] {
            is_answered_nevertheless(NODE, address, path, bytes).await;
            // It may be the kubelet's own address, if the node masquerades pods.
            is_answered_nevertheless(POD, address, "/readyz", bytes).await;
        }
    }
}

#[tokio::test]
async fn probes_succeed_while_a_pod_connects_continuously() {
    let (address, _pipeline) = server(Audience::Probes);
    let flood = tokio::spawn(async move {
        loop {
            drop(hold(32, address, "GET /rea").await);
        }
    });
    for _ in 0..20 {
        is_answered(NODE, address, "/readyz").await;
    }
    assert!(!flood.is_finished(), "connections were made all the time");
    flood.abort();
}

/// The response to a request with this `Host`.
async fn page(to: SocketAddr, host: &str, path: &str) -> String {
    let mut stream = connect(NODE, to).await;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn web_sites_are_refused_and_probes_accepted_with_any_host() {
    let (operators, _pipeline) = server(Audience::Operators);
    for path in ["/", "/config", "/served", "/healthz"] {
        let response = page(operators, "evil.example:10254", path).await;
        assert!(
            response.starts_with("HTTP/1.1 421 ") && response.contains("use an address"),
            "{path}: {response}"
        );
    }
    for host in ["localhost:10254", "127.0.0.1", "fairway.fairway-system.svc"] {
        assert!(page(operators, host, "/healthz").await.starts_with("HTTP/1.1 200 "), "{host}");
    }
    let (probes, _pipeline) = server(Audience::Probes);
    assert!(page(probes, "metrics.example.com", "/healthz").await.starts_with("HTTP/1.1 200 "));
}

const SITE: &str = r#"
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: fairway}
spec: {controller: fairway.dev/ingress-controller}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: fairway, namespace: edge}
data: {proxy-set-headers: edge/headers}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: headers, namespace: edge}
data: {X-Key: "hunter2-of-the-map"}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {ports: [{port: 80}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: web
  namespace: shop
  annotations:
    fairway.dev/request-headers: '{"set": {"Authorization": "hunter2-of-the-annotation"}}'
spec:
  ingressClassName: fairway
  rules: [{host: a.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: other
  namespace: shop
  annotations: {nginx.ingress.kubernetes.io/auth-url: "http://alice:hunter2@auth.test/"}
spec:
  ingressClassName: fairway
  rules: [{host: b.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
"#;

#[tokio::test]
async fn the_configuration_page_has_no_secrets_of_annotations_and_config_maps() {
    let (address, pipeline) = server(Audience::Operators);
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("site.yaml"), SITE).unwrap();
    let inlet = pipeline.inlet();
    let tell = move |DirectoryUpdate { changes, diagnostics, received_at: heard }| {
        inlet.send(ChangeBatch { changes, diagnostics, received_at: heard, written: None });
    };
    let _directory = WatchedDirectory::start(directory.path(), tell).unwrap();
    pipeline.wait_for_first(Duration::from_secs(10)).unwrap();
    let shown = page(address, "localhost", "/config").await;
    for name in ["X-Key", "Authorization", "auth.test", "<hidden>"] {
        assert!(shown.contains(name), "{name}: {shown}");
    }
    assert!(!shown.contains("hunter2"), "{shown}");
}

/// The complete response to a request with a body, on its own connection.
async fn post(to: SocketAddr, path: &str, length: usize, body: &[u8]) -> String {
    let mut stream = connect(POD, to).await;
    let head = format!("POST {path} HTTP/1.0\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(&[head.as_bytes(), body].concat()).await.unwrap();
    let mut response = Vec::new();
    timeout(HANGS, stream.read_to_end(&mut response)).await.expect("an answer").unwrap();
    String::from_utf8_lossy(&response).into_owned()
}

#[tokio::test]
async fn lease_requests_are_served_only_to_replicas_on_the_probe_port() {
    let (probe, _pipeline) = server(Audience::Probes);
    let response = post(probe, "/leases", 9, b"a replica").await;
    assert!(response.starts_with("HTTP/1.0 200") && response.ends_with("\r\n\r\nlent"), "{response}");
    let refused = post(probe, "/elsewhere", 9, b"a replica").await;
    assert!(refused.starts_with("HTTP/1.0 405"), "{refused}");
    let status = |response: &str| response.lines().next().map(str::to_owned);
    for (length, body) in [(9, &b"a strange"[..]), (0, b""), (9_000, &[b'a'; 9_000]), (10, b"a replica")] {
        let response = post(probe, "/leases", length, body).await;
        assert_eq!(status(&response), status(&refused), "{length} bytes");
        assert_eq!(response.split("\r\n\r\n").nth(1), refused.split("\r\n\r\n").nth(1));
    }
    let (operators, _pipeline) = server(Audience::Operators);
    let response = post(operators, "/leases", 9, b"a replica").await;
    assert!(!response.starts_with("HTTP/1.0 200"), "{response}");
}
