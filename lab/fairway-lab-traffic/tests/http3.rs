//! HTTP/3 of the generator against a server of `quinn` and `h3`, whose framing and QPACK share nothing with it: what is
//! counted, what is an error, and how connections end.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::{Buf, Bytes};
use fairway_lab_measure::results::Class;
use fairway_lab_traffic::load::{Outcome, Plan, Protocol, Reuse, Stream, TlsPlan, TlsVersion, Verify};
use http::{HeaderMap, HeaderValue, Request, Response};
use quinn::crypto::rustls::QuicServerConfig;
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::sync::oneshot;

/// The server's response to a request.
enum Reply {
    Whole(Response<Bytes>),
    /// With a field of the trailers.
    Trailed(Response<Bytes>, &'static str, &'static str),
    /// The head and the content, and then not the end of the stream but a reset, which may overtake them.
    Cut(Response<Bytes>),
    /// Nothing.
    Silence,
}

/// How a server differs from others.
#[derive(Clone, Copy)]
struct Manner {
    protocol: &'static [u8],
    /// Streams at a time on a connection.
    streams: u32,
    /// Requests until it leaves a connection.
    requests: usize,
}

const USUAL: Manner = Manner { protocol: b"h3", streams: 100, requests: usize::MAX };

struct Server {
    address: SocketAddr,
    authority: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(manner: Manner, handle: impl Fn(&Request<()>, &[u8]) -> Reply + Send + Sync + 'static) -> Self {
        let (config, authority) = server_config(manner);
        let (stop, stopped) = oneshot::channel();
        let (told, address) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let endpoint = quinn::Endpoint::server(config, (Ipv4Addr::LOCALHOST, 0).into()).unwrap();
                told.send(endpoint.local_addr().unwrap()).unwrap();
                tokio::select! {
                    _ = stopped => {}
                    () = accept(endpoint, manner, Arc::new(handle)) => {}
                }
            });
        });
        Self { address: address.recv().unwrap(), authority, stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().map(JoinHandle::join);
    }
}

fn server_config(manner: Manner) -> (quinn::ServerConfig, String) {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    let certificate = CertificateParams::new(vec!["a.test".to_owned()]).unwrap().self_signed(&key).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    tls.alpn_protocols = vec![manner.protocol.to_vec()];
    let crypto = QuicServerConfig::try_from(tls).unwrap();
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    let mut transport = quinn::TransportConfig::default();
    transport.max_concurrent_bidi_streams(manner.streams.into());
    config.transport_config(Arc::new(transport));
    (config, certificate.pem())
}

type Handler = Arc<dyn Fn(&Request<()>, &[u8]) -> Reply + Send + Sync>;

async fn accept(endpoint: quinn::Endpoint, manner: Manner, handle: Handler) {
    while let Some(incoming) = endpoint.accept().await {
        let handle = handle.clone();
        tokio::spawn(async move {
            let Ok(connection) = incoming.await else { return };
            let connection = h3_quinn::Connection::new(connection);
            // Tests cover connections that end early, so errors are expected.
            _ = serve(connection, manner, handle).await;
        });
    }
}

async fn serve(
    connection: h3_quinn::Connection,
    manner: Manner,
    handle: Handler,
) -> Result<(), h3::error::ConnectionError> {
    let mut connection = h3::server::Connection::<_, Bytes>::new(connection).await?;
    let mut accepted = 0;
    while let Some(request) = connection.accept().await? {
        accepted += 1;
        if accepted == manner.requests {
            // This one is the last.
            connection.shutdown(1).await?;
        }
        let handle = handle.clone();
        tokio::spawn(async move {
            let (request, mut stream) = request.resolve_request().await?;
            let mut content = Vec::new();
            while let Some(mut piece) = stream.recv_data().await? {
                content.extend_from_slice(&piece.copy_to_bytes(piece.remaining()));
            }
            match handle(&request, &content) {
                Reply::Silence => std::future::pending().await,
                Reply::Cut(response) => {
                    let (head, body) = response.into_parts();
                    stream.send_response(Response::from_parts(head, ())).await?;
                    stream.send_data(body).await?;
                    stream.stop_stream(h3::error::Code::H3_INTERNAL_ERROR);
                    Ok(())
                }
                Reply::Whole(response) => respond(&mut stream, response, None).await,
                Reply::Trailed(response, name, value) => {
                    let trailers =
                        HeaderMap::from_iter([(name.parse().unwrap(), HeaderValue::from_static(value))]);
                    respond(&mut stream, response, Some(trailers)).await
                }
            }
        });
    }
    Ok(())
}

async fn respond(
    stream: &mut h3::server::RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>,
    response: Response<Bytes>,
    trailers: Option<HeaderMap>,
) -> Result<(), h3::error::StreamError> {
    let (head, body) = response.into_parts();
    stream.send_response(Response::from_parts(head, ())).await?;
    if !body.is_empty() {
        stream.send_data(body).await?;
    }
    if let Some(trailers) = trailers {
        stream.send_trailers(trailers).await?;
    }
    stream.finish().await
}

fn ok(body: impl Into<Bytes>) -> Response<Bytes> {
    let body = body.into();
    Response::builder().header("content-length", body.len()).header("server", "tests").body(body).unwrap()
}

fn plan(address: SocketAddr, requests: u64, connections: usize, streams: usize) -> Plan {
    let mut plan = Plan::for_addresses("https://a.test/some", vec![address]).unwrap();
    plan.wire.protocol = Protocol::Http3;
    plan.bounds.requests = Some(requests);
    plan.bounds.duration = None;
    plan.bounds.timeout = Duration::from_secs(20);
    (plan.shape.connections, plan.shape.streams) = (connections, streams);
    plan
}

fn run(plan: Plan) -> Outcome {
    Stream::start(plan).unwrap().join().unwrap()
}

#[track_caller]
fn all_ok(outcome: &Outcome) {
    let load = &outcome.load;
    assert_eq!((load.counts.ok, load.errors.len()), (load.counts.requests, 0), "{:?}", load.examples);
}

/// The class of all errors, their number, and the text of the first.
#[track_caller]
fn errors(outcome: &Outcome) -> (Class, u64, String) {
    let load = &outcome.load;
    assert_eq!(load.errors.len(), 1, "{:?}", load.examples);
    let (class, count) = load.errors.iter().next().unwrap();
    (*class, *count, load.examples[0].text.clone())
}

#[test]
fn responses_are_counted_and_the_negotiated_tls_is_recorded() {
    let server = Server::start(USUAL, |request, content| {
        assert_eq!((request.method().as_str(), request.uri().path(), content), ("GET", "/some", &b""[..]));
        assert_eq!(request.uri().authority().map(|name| name.as_str()), Some("a.test"));
        assert_eq!(request.headers()["x-field"], "a value");
        Reply::Whole(ok("x".repeat(1024)))
    });
    let mut plan = plan(server.address, 60, 2, 4);
    plan.request.headers = vec![("x-field".to_owned(), "a value".to_owned())];
    plan.expect.header = Some(("Content-Length".to_owned(), "1024".to_owned()));
    plan.expect.content = Some("x".repeat(1024).into());
    plan.wire.tls = Some(TlsPlan {
        versions: vec![TlsVersion::Tls13],
        ciphers: vec!["TLS_AES_256_GCM_SHA384".to_owned()],
        groups: vec!["X25519".to_owned()],
        verify: Verify::Roots(server.authority.clone()),
        ..TlsPlan::default()
    });
    let outcome = run(plan);
    all_ok(&outcome);
    let (counts, tls) = (&outcome.load.counts, outcome.load.tls.as_ref().unwrap());
    assert_eq!((counts.ok, counts.connections, counts.full_handshakes), (60, 2, 2));
    assert!(counts.bytes > 60 * 1024, "{}", counts.bytes);
    assert_eq!((tls.version.as_str(), tls.protocol.as_str()), ("TLSv1.3", "h3"));
    assert_eq!((tls.cipher.as_str(), tls.group.as_deref()), ("TLS_AES_256_GCM_SHA384", Some("X25519")));
    assert_eq!((tls.key.as_deref(), outcome.open), (Some("ECDSA-P256"), 2));
}

#[test]
fn contents_of_megabytes_go_both_ways_and_every_request_has_its_id() {
    let received = Arc::new(Mutex::new(Vec::new()));
    let server = Server::start(USUAL, {
        let received = received.clone();
        move |request, content| {
            assert_eq!(request.headers()["content-length"], content.len().to_string());
            received.lock().unwrap().push(request.headers()["x-lab-id"].to_str().unwrap().to_owned());
            Reply::Whole(ok(content.to_vec()))
        }
    });
    let mut plan = plan(server.address, 8, 2, 2);
    "POST".clone_into(&mut plan.request.method);
    // More than the windows of the server.
    plan.request.body = vec![b'y'; 3 << 20].into();
    plan.request.ids = true;
    plan.expect.content = Some(plan.request.body.clone());
    all_ok(&run(plan));
    let mut received = received.lock().unwrap();
    received.sort();
    received.dedup();
    assert_eq!(received.len(), 8);
}

#[test]
fn a_server_that_takes_few_streams_is_given_no_more() {
    let server = Server::start(Manner { streams: 2, ..USUAL }, |_, _| Reply::Whole(ok("x")));
    // One more would end the connection with an error (RFC 9000 §4.6).
    let outcome = run(plan(server.address, 60, 1, 8));
    all_ok(&outcome);
    assert_eq!(outcome.load.counts.connections, 1);
}

#[test]
fn a_connection_that_a_server_leaves_is_replaced_and_no_request_is_lost() {
    let server = Server::start(Manner { requests: 3, ..USUAL }, |_, _| Reply::Whole(ok("x")));
    let outcome = run(plan(server.address, 10, 1, 1));
    all_ok(&outcome);
    assert_eq!(outcome.load.counts.connections, 4);
}

#[test]
fn each_request_may_have_its_own_connection() {
    let server = Server::start(USUAL, |_, _| Reply::Whole(ok("x")));
    let mut plan = plan(server.address, 10, 2, 1);
    plan.wire.reuse = Reuse::ConnectionPerRequest;
    let outcome = run(plan);
    all_ok(&outcome);
    assert_eq!(outcome.load.counts.full_handshakes, 10);
}

#[test]
fn wrong_responses_are_distinguished() {
    let length =
        |length: usize| Response::builder().header("content-length", length).body(Bytes::from("12345"));
    for (reply, class, part) in [
        (Reply::Whole(length(4).unwrap()), Class::Malformed, "more content than was announced"),
        (Reply::Whole(length(6).unwrap()), Class::Truncated, "HTTP/3 200, and the end"),
        (
            Reply::Trailed(length(5).unwrap(), "grpc-status", "14"),
            Class::WrongRoute,
            "without grpc-status: 0",
        ),
        (
            Reply::Whole(Response::builder().status(503).body(Bytes::new()).unwrap()),
            Class::Status(503),
            "HTTP/3 503",
        ),
    ] {
        let reply = Mutex::new(Some(reply));
        let server = Server::start(USUAL, move |_, _| reply.lock().unwrap().take().unwrap_or(Reply::Silence));
        let mut plan = plan(server.address, 1, 1, 1);
        if part.contains("grpc") {
            plan.expect.trailer = Some(("grpc-status".to_owned(), "0".to_owned()));
        }
        let (found, count, text) = errors(&run(plan));
        assert_eq!((found, count), (class, 1), "{text}");
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_reset_response_is_an_error_with_its_code() {
    let server = Server::start(USUAL, |_, _| Reply::Cut(ok("12345")));
    let (class, _, text) = errors(&run(plan(server.address, 1, 1, 1)));
    assert!(matches!(class, Class::Truncated | Class::ReadReset), "{class:?}");
    assert!(text.contains("its stream was reset with 0x102"), "{text}");
}

#[test]
fn expected_trailers_make_a_response_successful() {
    let server = Server::start(USUAL, |_, _| Reply::Trailed(ok("x"), "grpc-status", "0"));
    let mut plan = plan(server.address, 5, 1, 1);
    plan.expect.trailer = Some(("grpc-status".to_owned(), "0".to_owned()));
    all_ok(&run(plan));
}

#[test]
fn timed_out_requests_make_room_for_others_on_the_same_connection() {
    let number = AtomicUsize::new(0);
    let server = Server::start(USUAL, move |_, _| match number.fetch_add(1, Ordering::Relaxed) {
        0 | 1 => Reply::Silence,
        _ => Reply::Whole(ok("x")),
    });
    let mut plan = plan(server.address, 10, 1, 2);
    plan.bounds.timeout = Duration::from_secs(2);
    let outcome = run(plan);
    let (class, count, _) = errors(&outcome);
    assert_eq!((class, count, outcome.load.counts.connections), (Class::HeadTimeout, 2, 1));
    assert_eq!(outcome.load.counts.ok, 8);
}

#[test]
fn a_missing_server_or_another_protocol_is_a_connect_error() {
    // A socket connected to itself receives nothing and keeps the port occupied.
    let nobody = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = nobody.local_addr().unwrap();
    nobody.connect(address).unwrap();
    let (class, ..) = errors(&run(plan(address, 1, 1, 1)));
    assert_eq!(class, Class::ConnectRefused);
    let server = Server::start(Manner { protocol: b"doq", ..USUAL }, |_, _| Reply::Silence);
    let (class, _, text) = errors(&run(plan(server.address, 1, 1, 1)));
    assert_eq!((class, text.contains("ALPN")), (Class::Tls, true), "{text}");
}

#[test]
fn a_name_that_does_not_match_is_a_failure_of_tls() {
    let server = Server::start(USUAL, |_, _| Reply::Silence);
    let mut plan = plan(server.address, 1, 1, 1);
    "b.test".clone_into(&mut plan.target.name);
    plan.wire.tls = Some(TlsPlan { verify: Verify::Roots(server.authority.clone()), ..TlsPlan::default() });
    let (class, _, text) = errors(&run(plan));
    assert_eq!(class, Class::Tls);
    assert!(text.contains("b.test"), "{text}");
}

#[test]
fn a_plan_without_tls_13_is_refused() {
    let mut cleartext = plan((Ipv4Addr::LOCALHOST, 1).into(), 1, 1, 1);
    cleartext.wire.tls = None;
    assert!(Stream::start(cleartext).err().unwrap().to_string().contains("https"));
    let mut old = plan((Ipv4Addr::LOCALHOST, 1).into(), 1, 1, 1);
    old.wire.tls = Some(TlsPlan { versions: vec![TlsVersion::Tls12], ..TlsPlan::default() });
    assert!(Stream::start(old).err().unwrap().to_string().contains("TLS 1.3"));
}
