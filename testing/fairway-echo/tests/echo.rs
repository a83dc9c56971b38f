//! The echo backend over real sockets: the knobs of the conformance suite, those for load, and how it ends.

#![allow(
    clippy::unwrap_used,
    reason = "a test may; clippy does not see that functions beside tests are tests"
)]

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fairway_echo::{EchoOptions, EchoServer, EchoTls, Identity, OnSigterm, pattern};
use fairway_testkit::certificates::Validity;
use fairway_testkit::client::TlsOffer;
use fairway_testkit::wait::{PATIENCE, holds_within};
use fairway_testkit::wire::Framing;
use fairway_testkit::{Authority, Client, KeyKind, RawResponse, Request};
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
        let listen = vec!["127.0.0.1:0".parse().unwrap()];
        Self::with(EchoOptions { listen, identity, on_sigterm, ..EchoOptions::default() }).await
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

    async fn ask(&self, request: &Request) -> RawResponse {
        self.client().await.exchange(request).await.unwrap()
    }

    async fn get(&self, target: &str) -> RawResponse {
        self.ask(&Request::get("a.test", target)).await
    }
}

#[tokio::test]
async fn a_request_is_echoed_as_json() {
    let echo = Echo::start().await;
    let request = Request::get("a.test:81", "/some%2fpath//x?y=%20")
        .header("x-MIXED-case", "1")
        .header("X-Mixed-Case", "2");
    let answer = echo.ask(&request).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    let expected = serde_json::json!({
        "path": "/some%2fpath//x?y=%20", "host": "a.test:81", "method": "GET", "proto": "HTTP/1.1",
        "headers": {"X-Mixed-Case": ["1", "2"]}, "httpPort": echo.address.port().to_string(),
        "namespace": "demo", "ingress": "", "service": "", "pod": "one",
    });
    assert_eq!(answer.json(), expected);
    let sized = echo.ask(&Request::post("a", "/", "four")).await.json();
    assert_eq!(sized["headers"], serde_json::json!({"Content-Length": ["4"]}));
    let chunked = echo.ask(&Request::new("PATCH", "/").header("Host", "a").chunks(&["four"])).await.json();
    assert_eq!((&chunked["headers"], &chunked["method"]), (&serde_json::json!({}), &"PATCH".into()));
}

#[tokio::test]
async fn the_knobs_of_the_conformance_suite_work() {
    let echo = Echo::start().await;
    assert_eq!(echo.get("/health").await.text(), "OK");
    for (target, status) in [
        ("/status/503", 503),
        ("/status/204", 204),
        ("/status/20", 400),
        ("/status/404?x", 400),
        ("/status/100", 400),
    ] {
        assert_eq!(echo.get(target).await.status, status, "{target}");
    }
    let before = Instant::now();
    assert_eq!(echo.get("/?delay=30ms").await.status, 200);
    assert!(before.elapsed() >= Duration::from_millis(30));
    assert_eq!(echo.get("/?delay=soon").await.status, 500);
    let set = "X-One:1, X-Two: 2,x-one:3, Set-Cookie:a=b; Path=/, broken name:x";
    let answer = echo.ask(&Request::get("a", "/").header("X-Echo-Set-Header", set)).await;
    assert_eq!((answer.header("x-one"), answer.header("x-two")), (Some("1,3"), Some("2")));
    assert_eq!(answer.header("set-cookie"), Some("a=b; Path=/"));
}

#[tokio::test]
async fn dot_segments_are_redirected_as_by_the_original_router() {
    let echo = Echo::start().await;
    let answer = echo.get("/foo/../bar?x=1").await;
    assert_eq!((answer.status, answer.header("location")), (307, Some("/bar?x=1")));
    let answer = echo.get("/./foo").await;
    assert_eq!(answer.text(), "<a href=\"/foo\">Temporary Redirect</a>.\n\n");
    assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(echo.get("/status").await.header("location"), Some("/status/"));
    assert_eq!(echo.get("/foo//bar").await.status, 200);
}

#[tokio::test]
async fn a_retried_request_succeeds_after_as_many_failures_as_told() {
    let echo = Echo::start().await;
    let target = "/retry/?uuid=a&succeedAfter=2&responseCode=503";
    let statuses =
        [echo.get(target).await.status, echo.get(target).await.status, echo.get(target).await.status];
    assert_eq!(statuses, [503, 503, 200]);
    assert_eq!(echo.get("/retry/?uuid=a").await.status, 400);
    let reset = Request::get("a", "/retry/?uuid=b&succeedAfter=1");
    let error = echo.client().await.exchange(&reset).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!(echo.ask(&reset).await.json()["path"], "/retry/?uuid=b&succeedAfter=1");
}

#[tokio::test]
async fn bodies_for_load_have_the_length_asked_for() {
    let echo = Echo::start().await;
    let mut client = echo.client().await;
    for (target, length, framing) in [
        ("/bytes/0", 0, Framing::Length(0)),
        ("/1kb", 1024, Framing::Length(1024)),
        ("/1mb", 1 << 20, Framing::Length(1 << 20)),
        ("/bytes/3000000", 3_000_000, Framing::Length(3_000_000)),
        ("/any?size=77", 77, Framing::Length(77)),
        ("/chunked/100000", 100_000, Framing::Chunked),
        ("/chunked/0", 0, Framing::Chunked),
    ] {
        let answer = client.exchange(&Request::get("a", target)).await.unwrap();
        assert_eq!((answer.status, answer.body.len(), answer.framing), (200, length, framing), "{target}");
        assert!(answer.body.iter().enumerate().all(|(at, byte)| *byte == pattern(at)), "{target}");
        assert_eq!(answer.header("content-type"), Some("application/octet-stream"));
    }
    assert_eq!(
        client.exchange(&Request::head("a", "/1kb")).await.unwrap().header("content-length"),
        Some("1024")
    );
    let sunk = client.exchange(&Request::post("a", "/sink", vec![0; 500_000])).await.unwrap();
    assert_eq!(sunk.json()["length"], 500_000);
    assert_eq!(client.exchange(&Request::get("a", "/health")).await.unwrap().status, 200);
}

#[tokio::test]
async fn a_request_delivered_twice_is_seen() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("numbers");
    let listen = vec!["127.0.0.1:0".parse().unwrap()];
    let echo =
        Echo::with(EchoOptions { listen, number_file: Some(file.clone()), ..EchoOptions::default() }).await;
    for number in ["1", "2", "1"] {
        echo.ask(&Request::post("a", "/bytes/1", "x").header("X-Request-Number", number)).await;
    }
    echo.ask(&Request::get("a", "/").header("X-Request-Number", "3")).await;
    let seen = echo.get("/seen").await.json();
    assert_eq!(seen, serde_json::json!({"requests": 4, "distinct": 3, "duplicates": {"POST 1": 2}}));
    let gets = echo.get("/seen?method=GET&all").await.json();
    assert_eq!(
        gets,
        serde_json::json!({"requests": 1, "distinct": 1, "duplicates": {}, "all": {"GET 3": 1}})
    );
    assert_eq!(std::fs::read_to_string(file).unwrap(), "POST 1\nPOST 2\nPOST 1\nGET 3\n");
}

#[tokio::test]
async fn a_half_closed_client_still_gets_its_answer() {
    let echo = Echo::start().await;
    let mut client = echo.client().await;
    client.send(Request::get("a", "/?delay=10ms").bytes()).await.unwrap();
    client.half_close().await.unwrap();
    assert_eq!(client.read_response().await.unwrap().status, 200);
}

#[tokio::test]
async fn expect_continue_is_answered() {
    let echo = Echo::start().await;
    let mut client = echo.client().await;
    let request = Request::post("a", "/sink", "body").header("Expect", "100-continue");
    client.send(request.head_bytes()).await.unwrap();
    assert_eq!(client.read_response().await.unwrap().status, 100);
    client.send(request.body_bytes()).await.unwrap();
    assert_eq!(client.read_response().await.unwrap().json()["length"], 4);
}

#[tokio::test]
async fn a_websocket_gives_back_every_frame() {
    let echo = Echo::start().await;
    let mut client = echo.client().await;
    let opening = Request::get("a", "/ws")
        .header("Connection", "keep-alive, Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
    // The first frame is already on its way when the answer comes.
    client.send([opening.bytes(), b"\x81\x82\0\0\0\0hi".to_vec()].concat()).await.unwrap();
    let answer = client.read_response().await.unwrap();
    assert_eq!(
        (answer.status, answer.header("sec-websocket-accept")),
        (101, Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="))
    );
    assert_eq!(client.read_bytes(4).await.unwrap(), b"\x81\x02hi");
    client.send(b"\x88\x82\0\0\0\0\x03\xe8").await.unwrap();
    assert_eq!(client.read_to_end().await.unwrap(), b"\x88\x02\x03\xe8");
    assert_eq!(echo.get("/ws").await.status, 400);
}

async fn http2_json(
    stream: TokioIo<impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static>,
) -> serde_json::Value {
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    let driving = tokio::spawn(connection);
    let request = http::Request::post("http://h2.test/two?x").body(Full::new(Bytes::from("body"))).unwrap();
    let answer = sender.send_request(request).await.unwrap();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
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

async fn secure(authority: &Authority, kind: KeyKind) -> (Echo, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let leaf = authority.issue(&["a.test"], kind, Validity::Current);
    let (certificate, key) = leaf.write_to(directory.path()).unwrap();
    let tls =
        EchoTls { listen: vec!["127.0.0.1:0".parse().unwrap()], certificate, key, client_authorities: None };
    (Echo::with(EchoOptions { tls: Some(tls), ..EchoOptions::default() }).await, directory)
}

#[tokio::test]
async fn tls_is_served_and_described() {
    let authority = Authority::new("Test");
    for kind in [KeyKind::EcdsaP256, KeyKind::Rsa2048] {
        let (echo, _files) = secure(&authority, kind).await;
        let offer = TlsOffer::new(authority.client_config(), "a.test");
        let mut client = Client::connect_tls(echo.address, &offer).await.unwrap();
        let json = client.exchange(&Request::get("a.test", "/")).await.unwrap().json();
        assert_eq!(json["tls"]["version"], "TLSv1.3");
        assert_eq!(json["tls"]["serverName"], "a.test");
        assert_eq!(json["tls"]["negotiatedProtocol"], "http/1.1");
        assert!(json["tls"]["cipherSuite"].as_str().unwrap().starts_with("TLS_A"), "{json}");
    }
}

#[tokio::test]
async fn http2_is_negotiated_inside_tls() {
    let authority = Authority::new("Test");
    let (echo, _files) = secure(&authority, KeyKind::EcdsaP256).await;
    let mut config = authority.client_config();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
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

async fn refuses(address: SocketAddr) -> bool {
    holds_within(PATIENCE, || async { TcpStream::connect(address).await.is_err() }).await
}

/// Sends a head and waits until the backend asks for the body: it is answering from then on.
async fn begin_request(client: &mut Client) {
    let request = Request::post("a", "/sink", "body").header("Expect", "100-continue");
    client.send(request.head_bytes()).await.unwrap();
    assert_eq!(client.read_response().await.unwrap().status, 100);
}

#[tokio::test]
async fn told_to_end_at_once_it_drops_what_it_was_answering() {
    let Echo { address, shutdown, task } = Echo::ending(OnSigterm::Immediately).await;
    let mut client = Client::connect(address).await.unwrap();
    begin_request(&mut client).await;
    shutdown.send(()).unwrap();
    task.await.unwrap();
    assert!(client.read_response().await.is_err());
    assert!(refuses(address).await);
}

#[tokio::test]
async fn told_to_drain_it_finishes_what_it_was_answering() {
    let Echo { address, shutdown, task } = Echo::ending(OnSigterm::Drain(PATIENCE)).await;
    let mut idle = Client::connect(address).await.unwrap();
    idle.exchange(&Request::get("a", "/1kb")).await.unwrap();
    let mut busy = Client::connect(address).await.unwrap();
    begin_request(&mut busy).await;
    shutdown.send(()).unwrap();
    idle.expect_closed().await;
    assert!(refuses(address).await);
    busy.send("body").await.unwrap();
    let answer = busy.read_response().await.unwrap();
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
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
