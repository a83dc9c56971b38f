//! Client settings of a listener apply only to it: timeouts, requests, streams, connections, trust.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{ClientTraffic, Config, ForwardedTrust, HostPattern, Listener, ListenerProtocol};
use fairway_testkit::certificates::unverified_client_config;
use fairway_testkit::client::TlsOffer;
use fairway_testkit::wait::{WAIT_TIMEOUT, free_address};
use fairway_testkit::{Backend, BackendResponse, Client, Request};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::spread::Browser;
use crate::support::{HOST, Running, Setup, TIMEOUT};

/// The configuration of `setup` with edited client settings of this listener.
fn config_with_traffic(setup: &Setup, listener: &str, edit: impl FnOnce(&mut ClientTraffic)) -> Config {
    let mut config = setup.config();
    let mut listener = Listener::clone(&config.listeners[listener]);
    edit(&mut listener.clients);
    config.listeners.insert(listener.name.clone(), Arc::new(listener));
    config
}

/// Two workers, and a listener with edited client settings.
async fn started(listener: &str, edit: impl FnOnce(&mut ClientTraffic)) -> (Backend, Running) {
    let backend = Backend::http(|_| BackendResponse::ok("ok")).await;
    let setup = Setup::to(&[backend.address()]).options(|options| options.workers = 2);
    let proxy = setup.start_by(&config_with_traffic(&setup, listener, edit));
    (backend, proxy)
}

async fn publish(proxy: &mut Running, config: &Config) {
    let (version, problems) = proxy.publish_config(config);
    assert_eq!(problems, Vec::<String>::new());
    proxy.publisher.wait_until_adopted(version).await;
}

async fn secure(proxy: &Running) -> std::io::Result<Client> {
    Client::connect_tls(proxy.https, &TlsOffer::new(unverified_client_config(), HOST)).await
}

async fn status(client: &mut Client) -> u16 {
    client.exchange(&Request::get(HOST, "/")).await.unwrap().status
}

#[tokio::test]
async fn the_listener_limits_the_time_of_a_head() {
    let (_backend, proxy) = started("http", |clients| clients.head_timeout = Some(TIMEOUT)).await;
    let (mut here, mut elsewhere) = (proxy.client().await, secure(&proxy).await.unwrap());
    for client in [&mut here, &mut elsewhere] {
        client.send("GET / HTTP/1.1\r\nHost: ").await.unwrap();
    }
    let late = here.read_response().await.unwrap();
    assert_eq!((late.status, late.header("Connection")), (408, Some("close")));
    here.expect_closed().await;
    elsewhere.send("example.com\r\n\r\n").await.unwrap();
    assert_eq!(elsewhere.read_response().await.unwrap().status, 200);
    proxy.expect_refused("client_timeout", 1).await;
}

#[tokio::test]
async fn the_listener_limits_the_time_of_idle_connections() {
    let backend = Backend::http(|_| BackendResponse::ok("ok")).await;
    let setup = Setup::to(&[backend.address()]);
    let mut proxy = setup.start();
    let (mut elsewhere, mut stays) = (secure(&proxy).await.unwrap(), Browser::secure(&proxy).await);
    let (mut http1, mut http2) = (proxy.client().await, Browser::clear(&proxy).await);
    assert_eq!((status(&mut elsewhere).await, stays.get("/").await.0), (200, 200));
    assert_eq!((status(&mut http1).await, http2.get("/").await.0), (200, 200));
    publish(&mut proxy, &config_with_traffic(&setup, "http", |clients| clients.idle_timeout = Some(TIMEOUT)))
        .await;
    assert_eq!(status(&mut http1).await, 200);
    http1.expect_closed().await;
    // Whether the client sees a GOAWAY in such a short time is up to the client.
    http2.closed().await;
    assert_eq!((status(&mut elsewhere).await, stays.get("/").await.0), (200, 200));
}

#[tokio::test]
async fn the_listener_limits_the_requests_of_a_connection() {
    let (_backend, proxy) = started("http", |clients| clients.requests_per_connection = Some(3)).await;
    let (mut here, mut elsewhere) = (proxy.client().await, secure(&proxy).await.unwrap());
    for ending in [None, None, Some("close")] {
        let response = here.exchange(&Request::get(HOST, "/")).await.unwrap();
        assert_eq!(response.header("Connection"), ending);
        assert_eq!(elsewhere.exchange(&Request::get(HOST, "/")).await.unwrap().header("Connection"), None);
    }
    here.expect_closed().await;
    let (mut http2, mut stays) = (Browser::clear(&proxy).await, Browser::secure(&proxy).await);
    for _ in 0..3 {
        assert_eq!((http2.get("/").await.0, stays.get("/").await.0), (200, 200));
    }
    assert!(http2.closed().await);
    assert_eq!((status(&mut elsewhere).await, stays.get("/").await.0), (200, 200));
}

#[tokio::test]
async fn the_listener_limits_the_streams_of_a_connection() {
    let (_backend, proxy) = started("http", |clients| clients.streams = NonZeroU32::new(3)).await;
    assert_eq!(Browser::clear(&proxy).await.streams_allowed().await, 3);
    assert_eq!(Browser::secure(&proxy).await.streams_allowed().await, 128);
}

#[tokio::test]
async fn the_listener_decides_whose_headers_are_trusted() {
    let trust = ForwardedTrust {
        ranges: vec!["127.0.0.0/8".parse().unwrap()],
        append: true,
        ..ForwardedTrust::default()
    };
    let (backend, proxy) = started("http", |clients| clients.forwarded = Some(trust)).await;
    let request = Request::get(HOST, "/").header("X-Forwarded-For", "192.0.2.7");
    for client in [&mut proxy.client().await, &mut secure(&proxy).await.unwrap()] {
        assert_eq!(client.exchange(&request).await.unwrap().status, 200);
    }
    let mut http2 = Browser::clear(&proxy).await;
    assert_eq!(http2.get_with("/", &[("X-Forwarded-For", "192.0.2.8")]).await.0, 200);
    let lines: Vec<_> =
        backend.requests().iter().map(|it| it.header_values("X-Forwarded-For").join("|")).collect();
    assert_eq!(lines, ["192.0.2.7, 127.0.0.1", "127.0.0.1", "192.0.2.8, 127.0.0.1"]);
}

/// Waits until this many connections are open.
async fn open(proxy: &Running, count: u64) {
    proxy.expect_metric("fairway_connections_open", count).await;
}

#[tokio::test]
async fn one_connection_too_many_for_its_listener_is_503_whichever_worker_has_it() {
    let (_backend, proxy) = started("http", |clients| clients.connections = NonZeroU32::new(2)).await;
    for round in 1..=10 {
        let (mut first, mut second) = (proxy.client().await, Browser::clear(&proxy).await);
        assert_eq!((status(&mut first).await, second.get("/").await.0), (200, 200));
        let mut third = proxy.client().await;
        let refused = third.read_response().await.unwrap();
        assert_eq!((refused.status, refused.header("Retry-After")), (503, Some("1")));
        third.expect_closed().await;
        proxy.expect_refused("listener_full", round).await;
        assert_eq!(status(&mut secure(&proxy).await.unwrap()).await, 200, "another listener has its own");
        drop((first, second));
        open(&proxy, 0).await;
    }
}

#[tokio::test]
async fn one_connection_too_many_over_tls_is_closed() {
    let (_backend, proxy) = started("https", |clients| clients.connections = NonZeroU32::new(1)).await;
    for round in 1..=10 {
        let mut first = Browser::secure(&proxy).await;
        assert_eq!(first.get("/").await.0, 200);
        assert!(secure(&proxy).await.is_err());
        proxy.expect_refused("listener_full", round).await;
        assert_eq!(status(&mut proxy.client().await).await, 200);
        drop(first);
        open(&proxy, 0).await;
        assert_eq!(status(&mut secure(&proxy).await.unwrap()).await, 200);
        open(&proxy, 0).await;
    }
}

#[tokio::test]
async fn a_limit_that_changes_counts_the_connections_that_are_there() {
    let backend = Backend::http(|_| BackendResponse::ok("ok")).await;
    let setup = Setup::to(&[backend.address()]);
    let limited =
        |most| config_with_traffic(&setup, "http", |clients| clients.connections = NonZeroU32::new(most));
    let mut proxy = setup.start_by(&limited(3));
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(proxy.client().await);
        assert_eq!(status(clients.last_mut().unwrap()).await, 200);
    }
    for (most, expected) in [(2, 503), (3, 503), (4, 200)] {
        publish(&mut proxy, &limited(most)).await;
        for client in &mut clients {
            assert_eq!(status(client).await, 200, "none of them is closed for it");
        }
        let mut one_more = proxy.client().await;
        // A refused connection is not read.
        let response = match expected {
            503 => one_more.read_response().await.unwrap().status,
            _ => status(&mut one_more).await,
        };
        assert_eq!(response, expected, "{most}");
        drop(one_more);
        open(&proxy, 3).await;
    }
}

/// Reads until the other end closes.
async fn ended(mut stream: TcpStream) {
    let mut rest = Vec::new();
    // A reset is an end, too.
    let _ = timeout(WAIT_TIMEOUT, stream.read_to_end(&mut rest)).await.expect("it is closed");
}

#[tokio::test]
async fn a_silent_client_has_the_time_of_a_handshake() {
    let (_backend, proxy) = started("https", |clients| clients.handshake_timeout = Some(TIMEOUT)).await;
    ended(TcpStream::connect(proxy.https).await.unwrap()).await;
    proxy.expect_refused("handshake_timeout", 1).await;
    assert_eq!(status(&mut proxy.client().await).await, 200);
}

/// The ClientHello of a client that asks for this name.
fn hello(name: &'static str) -> Vec<u8> {
    let (config, name) = (Arc::new(unverified_client_config()), ServerName::try_from(name).unwrap());
    let mut session = rustls::ClientConnection::new(config, name).unwrap();
    let mut hello = Vec::new();
    session.write_tls(&mut hello).unwrap();
    hello
}

fn sharing(name: &str, address: SocketAddr, host: HostPattern, handshake: Duration) -> Listener {
    let clients = ClientTraffic { handshake_timeout: Some(handshake), ..ClientTraffic::default() };
    let listener = Listener::new(name, ListenerProtocol::Https, 443, "ingress");
    Listener { bind: vec![address], host, clients, ..listener }
}

#[tokio::test]
async fn the_requested_listener_limits_the_time_of_its_handshake() {
    let backend = Backend::http(|_| BackendResponse::ok("ok")).await;
    let setup = Setup::to(&[backend.address()]);
    let (mut config, address) = (setup.config(), free_address());
    for (name, host, handshake) in [
        ("hasty", HostPattern::Exact("hasty.test".into()), TIMEOUT),
        ("patient", HostPattern::Any, Duration::from_secs(600)),
    ] {
        config.listeners.insert(name.into(), Arc::new(sharing(name, address, host, handshake)));
    }
    let proxy = setup.start_by(&config);
    let mut patient = TcpStream::connect(address).await.unwrap();
    patient.write_all(&hello("other.test")).await.unwrap();
    let mut hasty = TcpStream::connect(address).await.unwrap();
    hasty.write_all(&hello("hasty.test")).await.unwrap();
    ended(hasty).await;
    proxy.expect_refused("handshake_timeout", 1).await;
    open(&proxy, 1).await;
    drop(patient);
}

#[tokio::test]
async fn changed_client_limits_of_a_listener_apply_to_open_connections() {
    let backend = Backend::http(|_| BackendResponse::ok("ok")).await;
    let setup = Setup::to(&[backend.address()]);
    let mut proxy = setup.start();
    let (mut http1, mut http2) = (proxy.client().await, Browser::clear(&proxy).await);
    assert_eq!((status(&mut http1).await, http2.get("/").await.0), (200, 200));
    let config = config_with_traffic(&setup, "http", |clients| clients.requests_per_connection = Some(2));
    publish(&mut proxy, &config).await;
    let last = http1.exchange(&Request::get(HOST, "/")).await.unwrap();
    assert_eq!((last.status, last.header("Connection")), (200, Some("close")));
    http1.expect_closed().await;
    assert_eq!(http2.get("/").await.0, 200);
    assert!(http2.closed().await);
    let first = proxy.client().await.exchange(&Request::get(HOST, "/")).await.unwrap();
    assert_eq!(first.header("Connection"), None, "a new one has two requests");
}
