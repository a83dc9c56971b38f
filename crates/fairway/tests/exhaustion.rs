//! The real binary runs out of memory and descriptors, and recovers. A flood counts as over once its clients are gone; the speed
//! of the recovery is measured by hand (docs/limits.md).

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use fairway_echo::{EchoOptions, EchoServer};
use fairway_testkit::client::{Client, Request};
use fairway_testkit::manifests::{Ingress, Manifests, ingress_class, service_with_endpoints};
use fairway_testkit::process::Fairway;
use fairway_testkit::wait::{WAIT_TIMEOUT, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");

/// One worker, so that a flood meets a single share of every limit.
const ONE: &[&str] = &["--workers", "1", "--access-log", "off"];

async fn backend() -> SocketAddr {
    let options =
        EchoOptions { listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))], ..EchoOptions::default() };
    let backend = EchoServer::bind(options).await.unwrap();
    let address = backend.addresses()[0];
    tokio::spawn(backend.run(std::future::pending()));
    address
}

/// A working site: `http://good.test/`.
fn site(endpoints: &[SocketAddr]) -> Manifests {
    let manifests = Manifests::new();
    manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
    manifests.put("web.yaml", service_with_endpoints("demo", "web", 80, endpoints));
    manifests.put("good.yaml", route("good").yaml());
    manifests
}

fn route(name: &str) -> Ingress {
    Ingress::new("demo", name).class(Some("fairway")).route(&format!("{name}.test"), "/", ("web", 80))
}

/// The status of a request on a new connection; 0 without a response.
async fn status(fairway: &Fairway, host: &str) -> u16 {
    let Ok(mut client) = Client::connect(fairway.http).await else { return 0 };
    client.exchange(&Request::get(host, "/").close()).await.map_or(0, |response| response.status)
}

async fn until_served(fairway: &Fairway, host: &str) {
    eventually(&format!("{host} responds"), WAIT_TIMEOUT, || async { status(fairway, host).await == 200 })
        .await;
}

/// Resident memory of a process in megabytes.
fn resident(fairway: &mut Fairway) -> f64 {
    let status = fs::read_to_string(format!("/proc/{}/status", fairway.program().id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1024.0
}

/// A head of 28 KiB for an unknown host, in two pieces.
fn long_head() -> (String, String) {
    let mut head = "GET / HTTP/1.1\r\nHost: other.test\r\n".to_owned();
    for number in 0..8 {
        head += &format!("X-{number}: {}\r\n", "a".repeat(3_500));
    }
    let rest = head.split_off(16_000);
    (head, rest + "\r\n")
}

/// Many clients that each send a long head in two pieces, read the response and leave. Returns the number of responses per status.
async fn flood_of_heads(fairway: &Fairway, clients: usize) -> BTreeMap<u16, usize> {
    let (first, rest) = long_head();
    let mut all = Vec::new();
    for _ in 0..clients {
        let mut client = Client::connect(fairway.http).await.unwrap();
        // A client that was refused at once notices it below.
        _ = client.send(&first).await;
        all.push(client);
    }
    for client in &mut all {
        _ = client.send(&rest).await;
    }
    let mut received = BTreeMap::new();
    for client in &mut all {
        *received.entry(client.read_response().await.map_or(0, |response| response.status)).or_default() += 1;
    }
    received
}

/// Starts a process that may use `megabytes` more memory than at rest, and returns its memory at rest.
async fn short_of_memory(manifests: &Manifests, megabytes: u64) -> (Fairway, f64) {
    let start = async |budget: &str| {
        let arguments = [ONE, &["--max-memory", budget]].concat();
        let fairway = Fairway::ready(Path::new(BINARY), manifests.path(), &arguments).await;
        until_served(&fairway, "good.test").await;
        fairway
    };
    let at_rest = resident(&mut start("1024Gi").await);
    (start(&format!("{}MiB", at_rest as u64 + megabytes)).await, at_rest)
}

/// Waits until resident memory is close to that at rest.
async fn until_given_back(fairway: &mut Fairway, at_rest: f64) {
    eventually("Fairway has returned the memory of the flood", WAIT_TIMEOUT, || {
        let now = resident(fairway);
        async move { now < at_rest + 12.0 }
    })
    .await;
}

#[tokio::test]
async fn memory_that_a_flood_of_heads_took_is_given_back() {
    let manifests = site(&[backend().await]);
    let (mut fairway, at_rest) = short_of_memory(&manifests, 30).await;
    for clients in [100, 960, 100] {
        let received = flood_of_heads(&fairway, clients).await;
        // There is room for 100 requests, even with the 12 MB that the previous flood may still hold. How many of 960 are refused
        // depends on when the process samples its memory, which includes socket buffers.
        let may_refuse = clients > 100;
        let expected = |status: &u16| *status == 404 || (may_refuse && *status == 503);
        assert!(received.keys().all(expected), "{clients} clients: {received:?}");
        until_served(&fairway, "good.test").await;
        until_given_back(&mut fairway, at_rest).await;
        fairway.until_metric("fairway_shedding_workers", &[], |workers| workers == 0.0).await;
    }
}

#[tokio::test]
async fn a_replica_that_sheds_live_load_stays_ready_and_recovers() {
    let manifests = site(&[backend().await]);
    let (mut fairway, at_rest) = short_of_memory(&manifests, 20).await;
    let (first, _) = long_head();
    let mut connections = Vec::new();
    while fairway.metrics().await.sum("fairway_shedding_workers", &[]) == 0.0 {
        assert!(connections.len() < 10_000, "the budget does not limit the number of heads");
        for _ in 0..100 {
            let mut client = Client::connect(fairway.http).await.unwrap();
            _ = client.send(&first).await;
            connections.push(client);
        }
    }
    assert_eq!(status(&fairway, "good.test").await, 503);
    assert_eq!(fairway.admin("/readyz").await.unwrap().status, 200);
    fairway.line_with("above the memory budget").await;
    drop(connections);
    until_served(&fairway, "good.test").await;
    fairway.until_metric("fairway_shedding_workers", &[], |workers| workers == 0.0).await;
    until_given_back(&mut fairway, at_rest).await;
}

/// An endpoint that responds only once it is released.
async fn gated(open: watch::Receiver<bool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(answer_when(open.clone(), stream));
        }
    });
    address
}

async fn answer_when(mut open: watch::Receiver<bool>, mut stream: TcpStream) {
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {
        // After the test, nothing is opened any more.
        _ = open.wait_for(|open| *open).await;
        if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.is_err() {
            return;
        }
    }
}

/// Waits until connections were refused.
async fn until_full(fairway: &Fairway) {
    let refused = "fairway_refused_connections_total";
    fairway.until_metric(refused, &[("reason", "overloaded")], |count| count > 0.0).await;
}

async fn sum(fairway: &Fairway, metric: &str) -> f64 {
    fairway.metrics().await.sum(metric, &[])
}

#[tokio::test]
async fn a_process_without_descriptors_refuses_blames_no_endpoint_and_follows_its_configuration() {
    // More clients than half of the descriptors: some get none for their request.
    for (more, short) in [(&[][..], false), (&["--max-connections", "1000"], true)] {
        let (gate, open) = watch::channel(false);
        let manifests = site(&[gated(open.clone()).await, gated(open).await]);
        let folder = manifests.path().display().to_string();
        let arguments = [&["--manifests", &folder], ONE, more].concat();
        let fairway = Fairway::start_with_open_files(64, Path::new(BINARY), &arguments).until_ready().await;
        let mut clients = Vec::new();
        for _ in 0..100 {
            let mut client = Client::connect(fairway.http).await.unwrap();
            // A client that was refused at once may not be able to send it.
            _ = client.send("GET / HTTP/1.1\r\nHost: good.test\r\n\r\n").await;
            clients.push(client);
        }
        until_full(&fairway).await;

        // Everything except traffic keeps working.
        manifests.put("more.yaml", route("more").yaml());
        fairway.until_metric("fairway_snapshot_adoptions_total", &[], |count| count >= 1.0).await;
        assert_eq!(fairway.admin("/readyz").await.unwrap().status, 200);

        gate.send_replace(true);
        let mut received = BTreeMap::<u16, usize>::new();
        for mut client in clients {
            let response = client.read_response().await;
            if let Ok(response) = &response
                && response.status == 503
            {
                assert_eq!(response.header("Retry-After"), Some("1"));
            }
            *received.entry(response.map_or(0, |response| response.status)).or_default() += 1;
        }
        assert!(received.get(&200).is_some_and(|count| *count >= 4), "{arguments:?}: {received:?}");
        assert!(!received.contains_key(&502) && !received.contains_key(&504), "{arguments:?}: {received:?}");
        assert_eq!(sum(&fairway, "fairway_upstream_ejections_total").await, 0.0, "{arguments:?}");
        let shortages = fairway.metrics().await.sum("fairway_faults_total", &[("reason", "local_shortage")]);
        assert_eq!(shortages > 0.0, short, "{arguments:?}: {shortages}");
        until_served(&fairway, "good.test").await;
        until_served(&fairway, "more.test").await;
    }
}
