//! The admin server over sockets: clients that hold connections keep no probe out.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::iter;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fairway_control::admin::{Admin, Audience, Healthz, Identity, Pages, Pieces, Readiness, Scrapes};
use fairway_control::{Freshness, Pipeline};
use fairway_translate::Options;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

/// The kubelet's.
const NODE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Of a pod that attacks.
const POD: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
/// The `timeoutSeconds` of the probes in the chart are no less.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// A server that is ready, and what its pages need to live. Its metrics are a text without an end.
fn server() -> (SocketAddr, Pipeline) {
    let pipeline = Pipeline::start(Options::default(), Box::new(drop)).unwrap();
    let pages = Pages {
        viewer: pipeline.viewer(),
        readiness: Box::new(|| Readiness::Ready { adopted: 1, freshness: Freshness::Current }),
        healthz: Healthz::Alive,
        adopted: Box::new(|| 1),
        bound: Box::new(|_| false),
        identity: Identity::new("c", ("n", "p"), "r"),
        metrics: Box::new(|| Box::pin(async { Box::new(iter::repeat("a 1\n".repeat(1_000))) as Pieces })),
        scrapes: Scrapes::default(),
    };
    let admin = Admin::bind(SocketAddr::new(NODE, 0)).unwrap();
    let address = admin.address().unwrap();
    admin.serve(Arc::new(pages), Audience::Probes).unwrap();
    (address, pipeline)
}

async fn connect(from: IpAddr, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(from, 0)).unwrap();
    socket.connect(to).await.unwrap()
}

/// The first bytes of the answer to a request on a connection of its own.
async fn ask(from: IpAddr, to: SocketAddr, path: &str) -> String {
    let mut stream = connect(from, to).await;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").as_bytes()).await.unwrap();
    let mut bytes = [0; 1_024];
    let read = stream.read(&mut bytes).await.unwrap();
    String::from_utf8_lossy(&bytes[..read]).into_owned()
}

async fn is_answered(from: IpAddr, to: SocketAddr, path: &str) {
    let answer = timeout(PROBE_TIMEOUT, ask(from, to, path)).await;
    let answer = answer.unwrap_or_else(|_| panic!("{path} is answered within {PROBE_TIMEOUT:?}"));
    assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
}

/// Connections of the pod, each of which sends these bytes and then nothing.
async fn hold(count: usize, to: SocketAddr, bytes: &str) -> Vec<TcpStream> {
    let mut held = Vec::new();
    for _ in 0..count {
        let mut stream = connect(POD, to).await;
        stream.write_all(bytes.as_bytes()).await.unwrap();
        held.push(stream);
    }
    held
}

#[tokio::test]
async fn probes_are_answered_while_other_clients_hold_connections() {
    let (address, _pipeline) = server();
    for (what, bytes) in [
        ("send nothing", ""),
        ("never end their head", "GET /readyz HTTP/1.1\r\nHost: a"),
        ("had an answer and stay", "GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("never read their answer", "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"),
    ] {
        let held = hold(250, address, bytes).await;
        println!("{} clients {what}", held.len());
        for path in ["/healthz", "/readyz", "/served", "/metrics"] {
            if path != "/served" {
                is_answered(NODE, address, path).await;
            }
            // It may be the kubelet's own address, where the node hides those of pods.
            is_answered(POD, address, "/readyz").await;
        }
    }
}

#[tokio::test]
async fn probes_are_answered_while_a_pod_connects_without_a_pause() {
    let (address, _pipeline) = server();
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
