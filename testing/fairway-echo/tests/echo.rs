//! The echo backend over real sockets: the knobs of the conformance suite, those for load, and how it ends.

#![allow(
    clippy::unwrap_used,
    reason = "tests may panic; clippy does not know that helper functions belong to tests"
)]

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fairway_echo::{EchoOptions, EchoServer, EchoTls, Identity, OnSigterm, pattern};
use fairway_testkit::client::TlsOffer;
use fairway_testkit::wait::{WAIT_TIMEOUT, eventually};
use fairway_testkit::wire::Framing;
use fairway_testkit::{Authority, Client, RawResponse, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

struct Echo {
    address: SocketAddr,
    shutdown: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Echo {
    async fn start() -> Self {
        Self::ending(OnSigterm::Immediately).await
    }

    async fn ending(on_sigterm: OnSigterm) -> Self {
        let identity = Identity { namespace: "demo".into(), pod: "one".into(), ..Identity::default() };
        Self::with(EchoOptions { identity, on_sigterm, ..anywhere() }).await
    }

    async fn with(options: EchoOptions) -> Self {
        let server = EchoServer::bind(options).await.unwrap();
        let address = server.addresses().into_iter().chain(server.tls_addresses()).next().unwrap();
        let (shutdown, told) = oneshot::channel();
        let task = tokio::spawn(server.run(async move { told.await.unwrap_or(()) }));
        Self { address, shutdown, task }
    }

    async fn client(&self) -> Client {
        Client::connect(self.address).await.unwrap()
    }

    async fn send_request(&self, request: &Request) -> RawResponse {
        self.client().await.exchange(request).await.unwrap()
    }

    async fn get(&self, target: &str) -> RawResponse {
        self.send_request(&Request::get("a.test", target)).await
    }
}

fn anywhere() -> EchoOptions {
    EchoOptions { listen: vec!["127.0.0.1:0".parse().unwrap()], ..EchoOptions::default() }
}

#[tokio::test]
async fn a_request_is_echoed_as_json() {
    let echo = Echo::start().await;
    let request = Request::get("a.test:81", "/some%2fpath//x?y=%20")
        .header("x-MIXED-case", "1")
        .header("X-Mixed-Case", "2");
    let response = echo.send_request(&request).await;
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/json")));
    assert_eq!(response.header("x-content-type-options"), Some("nosniff"));
    let expected = serde_json::json!({
        "path": "/some%2fpath//x?y=%20", "host": "a.test:81", "method": "GET", "proto": "HTTP/1.1",
        "headers": {"X-Mixed-Case": ["1", "2"]}, "httpPort": echo.address.port().to_string(),
        "namespace": "demo", "service": "", "pod": "one",
    });
    assert_eq!(response.json(), expected);
    let sized = echo.send_request(&Request::post("a", "/", "four")).await.json();
    assert_eq!(sized["headers"], serde_json::json!({"Content-Length": ["4"]}));
    let chunked =
        echo.send_request(&Request::new("PATCH", "/").header("Host", "a").chunks(&["four"])).await.json();
    assert_eq!((&chunked["headers"], &chunked["method"]), (&serde_json::json!({}), &"PATCH".into()));
}

#[tokio::test]
async fn a_request_can_ask_for_another_response() {
    let echo = Echo::start().await;
    assert_eq!(echo.get("/health").await.text(), "OK");
    for (target, status) in [
        ("/status/503", 503),
        ("/status/204", 204),
        ("/status/20", 400),
        ("/status/100", 400),
        ("/?delay=soon", 400),
    ] {
        assert_eq!(echo.get(target).await.status, status, "{target}");
    }
    let before = Instant::now();
    assert_eq!(echo.get("/?delay=30ms").await.status, 200);
    assert!(before.elapsed() >= Duration::from_millis(30));
    let set = "X-One:1, X-Two: 2,x-one:3, Set-Cookie:a=b; Path=/, broken name:x";
    let response = echo.send_request(&Request::get("a", "/").header("X-Echo-Set-Header", set)).await;
    assert_eq!((response.header("x-one"), response.header("x-two")), (Some("1,3"), Some("2")));
    assert_eq!(response.header("set-cookie"), Some("a=b; Path=/"));
    let response = echo.get("/./foo/../bar").await;
    assert_eq!((response.status, response.header("location")), (307, Some("/bar")));
    assert_eq!(response.text(), "<a href=\"/bar\">Temporary Redirect</a>.\n\n");
}

#[tokio::test]
async fn bodies_for_load_have_the_requested_length() {
    let echo = Echo::start().await;
    let mut client = echo.client().await;
    for (target, length, framing) in [
        ("/bytes/0", 0, Framing::Length(0)),
        ("/bytes/1024", 1024, Framing::Length(1024)),
        ("/bytes/3000000", 3_000_000, Framing::Length(3_000_000)),
        ("/chunked/100000", 100_000, Framing::Chunked),
        ("/chunked/0", 0, Framing::Chunked),
    ] {
        let response = client.exchange(&Request::get("a", target)).await.unwrap();
        assert_eq!(
            (response.status, response.body.len(), response.framing),
            (200, length, framing),
            "{target}"
        );
        assert!(response.body.iter().enumerate().all(|(at, byte)| *byte == pattern(at)), "{target}");
        assert_eq!(response.header("content-type"), Some("application/octet-stream"));
    }
    let head = client.exchange(&Request::head("a", "/bytes/3000000")).await.unwrap();
    assert_eq!(head.header("content-length"), Some("3000000"));
    let sunk = client.exchange(&Request::post("a", "/sink", vec![0; 500_000])).await.unwrap();
    assert_eq!(sunk.json()["length"], 500_000);
    assert_eq!(client.exchange(&Request::get("a", "/health")).await.unwrap().status, 200);
}

#[tokio::test]
async fn every_delivery_of_a_numbered_request_is_written_down() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("numbers");
    for number in ["1", "2"] {
        let options = EchoOptions { number_file: Some(file.clone()), ..anywhere() };
        let echo = Echo::with(options).await;
        echo.send_request(&Request::post("a", "/bytes/1", "x").header("X-Request-Number", number)).await;
        echo.send_request(&Request::get("a", "/").header("X-Request-Number", "1")).await;
    }
    assert_eq!(std::fs::read_to_string(file).unwrap(), "POST 1\nGET 1\nPOST 2\nGET 1\n");
}

#[tokio::test]
async fn a_half_closed_client_still_gets_its_response() {
    let echo = Echo::start().await;
    let mut client = echo.client().await;
    client.send(Request::get("a", "/?delay=10ms").bytes()).await.unwrap();
    client.half_close().await.unwrap();
    assert_eq!(client.read_response().await.unwrap().status, 200);
}

async fn http2_json(
    stream: TokioIo<impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static>,
) -> serde_json::Value {
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    let driving = tokio::spawn(connection);
    let request = http::Request::post("http://h2.test/two?x").body(Full::new(Bytes::from("body"))).unwrap();
    let response = sender.send_request(request).await.unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    drop(sender);
    driving.await.unwrap().unwrap();
    serde_json::from_slice(&body).unwrap()
}

#[tokio::test]
async fn http2_is_recognised_by_its_preface() {
    let echo = Echo::start().await;
    let socket = TcpStream::connect(echo.address).await.unwrap();
    let json = http2_json(TokioIo::new(socket)).await;
    assert_eq!((&json["proto"], &json["path"]), (&"HTTP/2.0".into(), &"/two?x".into()));
    assert_eq!((&json["host"], &json["method"]), (&"h2.test".into(), &"POST".into()));
    assert_eq!(echo.get("/").await.json()["proto"], "HTTP/1.1");
}

#[tokio::test]
async fn both_versions_of_http_are_served_inside_tls_and_described() {
    let authority = Authority::new("Test");
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = authority.leaf(&["a.test"]).write_to(directory.path()).unwrap();
    let tls =
        EchoTls { listen: vec!["127.0.0.1:0".parse().unwrap()], certificate, key, client_authorities: None };
    let echo = Echo::with(EchoOptions { tls: Some(tls), ..EchoOptions::default() }).await;
    let offer = TlsOffer::new(authority.client_config(), "a.test");
    let mut client = Client::connect_tls(echo.address, &offer).await.unwrap();
    let json = client.exchange(&Request::get("a.test", "/")).await.unwrap().json();
    let expected =
        serde_json::json!({"version": "TLSv1.3", "serverName": "a.test", "negotiatedProtocol": "http/1.1"});
    assert_eq!(json["tls"], expected);
    let config = offer.alpn(&["h2", "http/1.1"]).config;
    let socket = TcpStream::connect(echo.address).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    let stream = connector.connect("a.test".try_into().unwrap(), socket).await.unwrap();
    let json = http2_json(TokioIo::new(stream)).await;
    assert_eq!((&json["proto"], &json["tls"]["negotiatedProtocol"]), (&"HTTP/2.0".into(), &"h2".into()));
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let echo = Echo::start().await;
    let options = EchoOptions { listen: vec![echo.address], ..EchoOptions::default() };
    let error = EchoServer::bind(options).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    assert!(error.to_string().contains(&echo.address.to_string()), "{error}");
}

async fn until_it_refuses(address: SocketAddr) {
    eventually("it refuses", WAIT_TIMEOUT, || async { TcpStream::connect(address).await.is_err() }).await;
}

/// Sends a head and waits until the backend asks for the body: it is answering from then on.
async fn begin_request(client: &mut Client) {
    let request = Request::post("a", "/sink", "body").header("Expect", "100-continue");
    client.send(request.head_bytes()).await.unwrap();
    assert_eq!(client.read_response().await.unwrap().status, 100);
}

#[tokio::test]
async fn with_immediate_shutdown_responses_are_dropped() {
    let Echo { address, shutdown, task } = Echo::ending(OnSigterm::Immediately).await;
    let mut client = Client::connect(address).await.unwrap();
    begin_request(&mut client).await;
    shutdown.send(()).unwrap();
    task.await.unwrap();
    assert!(client.read_response().await.is_err());
    until_it_refuses(address).await;
}

#[tokio::test]
async fn with_a_drain_responses_are_finished() {
    let Echo { address, shutdown, task } = Echo::ending(OnSigterm::Drain(WAIT_TIMEOUT)).await;
    let mut idle = Client::connect(address).await.unwrap();
    idle.exchange(&Request::get("a", "/bytes/1024")).await.unwrap();
    let mut busy = Client::connect(address).await.unwrap();
    begin_request(&mut busy).await;
    shutdown.send(()).unwrap();
    idle.expect_closed().await;
    until_it_refuses(address).await;
    busy.send("body").await.unwrap();
    let response = busy.read_response().await.unwrap();
    assert_eq!((response.status, response.header("connection")), (200, Some("close")));
    busy.expect_closed().await;
    task.await.unwrap();
}

#[tokio::test]
async fn draining_ends_when_its_time_is_over() {
    let Echo { address, shutdown, task } = Echo::ending(OnSigterm::Drain(Duration::from_secs(1))).await;
    let mut client = Client::connect(address).await.unwrap();
    begin_request(&mut client).await;
    shutdown.send(()).unwrap();
    task.await.unwrap();
    assert!(client.read_response().await.is_err());
}
