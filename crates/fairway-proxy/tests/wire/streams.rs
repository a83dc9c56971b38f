//! TCP and TLS forwarding over real sockets: TLS passthrough, TLS termination, and both on one port with HTTP.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use fairway_model::{
    BackendKey, ClientCertificateMode, ClientVerification, Config, HostPattern, Listener, ListenerProtocol,
    ListenerTls, Origin, StreamKey, StreamPolicy, StreamRoute, WeightedBackend, WildcardSpan,
};
use fairway_testkit::certificates::unverified_client_config;
use fairway_testkit::client::TlsOffer;
use fairway_testkit::wait::{WAIT_TIMEOUT, free_address};
use fairway_testkit::{Authority, Backend, BackendResponse, Behaviour, Client, Leaf, Request, ScriptStep};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::support::{Running, Setup, TIMEOUT, certificate};

const PASSED: &str = "pass.test";
const INNER: &str = "inner.test";
const WEB: &str = "web.test";

/// One port: HTTP for all names, TLS termination for one, and TLS passthrough for another.
struct MixedPort {
    address: SocketAddr,
    setup: Setup,
    config: Config,
    web: Backend,
    /// Ends TLS itself.
    passed: Backend,
    authority: Authority,
}

impl MixedPort {
    async fn new() -> Self {
        Self::with_inner(Backend::http(|_| BackendResponse::ok("inner")).await).await
    }

    async fn with_inner(inner: Backend) -> Self {
        let authority = Authority::new("servers");
        let web = Backend::http(|_| BackendResponse::ok("web")).await;
        let endpoint_config = Authority::new("pods").leaf(&[PASSED]).server_config(&["http/1.1"]);
        let passed = Backend::https(endpoint_config, |_| BackendResponse::ok("passed")).await;
        let (setup, address) = (Setup::to(&[web.address()]), free_address());
        let mut config = setup.config();
        config
            .listeners
            .insert("https".into(), Arc::new(listener("https", ListenerProtocol::Https, address, "")));
        let leaf = authority.leaf(&[INNER, WEB]);
        let cert = certificate("default/servers", &leaf);
        config.default_certificate = Some(cert.key.clone());
        config.certificates.insert(cert.key.clone(), Arc::new(cert));
        for (name, protocol, host, backend) in [
            ("passing", ListenerProtocol::TlsPassthrough, PASSED, passed.address()),
            ("inner", ListenerProtocol::Tls, INNER, inner.address()),
        ] {
            let listener = listener(name, protocol, address, host);
            config.listeners.insert(name.into(), Arc::new(listener));
            route(&mut config, name, &[(backend, 1)]);
        }
        // The inner backend must live as long as the test.
        std::mem::forget(inner);
        Self { address, setup, config, web, passed, authority }
    }

    fn start(&self) -> Running {
        self.setup.start_by(&self.config)
    }

    async fn exchange(&self, name: &str) -> io::Result<(String, Vec<u8>)> {
        connect_and_exchange(self.address, &TlsOffer::new(unverified_client_config(), name)).await
    }
}

fn listener(name: &str, protocol: ListenerProtocol, address: SocketAddr, host: &str) -> Listener {
    let table = if protocol == ListenerProtocol::Https { "ingress" } else { name };
    Listener {
        bind: vec![address],
        host: HostPattern::parse(host, WildcardSpan::ManyLabels).unwrap(),
        ..Listener::new(name, protocol, 443, table)
    }
}

/// Routes all connections of the table to these endpoints by weight; each is a backend of its own.
fn route(config: &mut Config, table: &str, endpoints: &[(SocketAddr, u32)]) {
    let mut backends = Vec::new();
    for (number, (address, weight)) in endpoints.iter().enumerate() {
        let setup = Setup::to(&[*address]).config();
        let mut backend = (**setup.backends.values().next().unwrap()).clone();
        backend.key = format!("{table}-{number}").as_str().into();
        backends.push(WeightedBackend::new(backend.key.clone(), *weight));
        config.backends.insert(backend.key.clone(), Arc::new(backend));
    }
    let key = StreamKey { table: table.into(), host: HostPattern::Any };
    let route = StreamRoute {
        key: key.clone(),
        origin: Origin::object("TLSRoute", "shop", table),
        backends,
        policy: StreamPolicy::default(),
    };
    config.streams.insert(key, Arc::new(route));
}

/// The backend that responds, and its certificate.
async fn connect_and_exchange(address: SocketAddr, offer: &TlsOffer) -> io::Result<(String, Vec<u8>)> {
    let mut client = Client::connect_tls(address, offer).await?;
    let response = client.exchange(&Request::get(&offer.server_name, "/")).await?;
    Ok((response.text(), client.tls().unwrap().chain[0].to_vec()))
}

fn ended(reason: &str) -> String {
    format!("fairway_streams_ended_total{{reason=\"{reason}\"}}")
}

#[tokio::test]
async fn one_port_serves_http_and_ends_tls_and_passes_it_through() {
    let site = MixedPort::new().await;
    let proxy = site.start();
    let (web, own) = site.exchange(WEB).await.unwrap();
    let (inner, same) = site.exchange(INNER).await.unwrap();
    let (passed, other) = site.exchange(PASSED).await.unwrap();
    assert_eq!((&*web, &*inner, &*passed), ("web", "inner", "passed"));
    assert!(own == same && own != other, "the endpoint shows its own certificate");
    proxy.expect_metric("fairway_streams_opened_total", 2).await;
    proxy.expect_metric("fairway_streams_open", 0).await;
    proxy.expect_metric("fairway_connections_open", 0).await;
    // Clients send a TLS alert and close the connection without reading more.
    let without = TlsOffer::new(unverified_client_config(), WEB).without_sni();
    assert_eq!(connect_and_exchange(site.address, &without).await.unwrap().0, "web", "a client without SNI");
    assert!(proxy.metric("fairway_stream_received_bytes_total").await > 200);
    assert!(proxy.metric("fairway_stream_sent_bytes_total").await > 200);
}

/// Sends one byte at a time until the first read.
struct Trickle {
    stream: TcpStream,
    was_read: bool,
}

impl AsyncRead for Trickle {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, into);
        self.was_read |= read.is_ready();
        read
    }
}

impl AsyncWrite for Trickle {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let limit = if self.was_read { data.len() } else { data.len().min(1) };
        Pin::new(&mut self.stream).poll_write(cx, &data[..limit])
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[tokio::test]
async fn a_hello_in_small_segments_and_small_records_is_understood() {
    let site = MixedPort::new().await;
    let _proxy = site.start();
    for (name, says) in [(PASSED, "passed"), (INNER, "inner"), (WEB, "web")] {
        for size in [None, Some(40)] {
            let mut config = unverified_client_config();
            config.max_fragment_size = size;
            let socket = TcpStream::connect(site.address).await.unwrap();
            socket.set_nodelay(true).unwrap();
            let server = ServerName::try_from(name.to_owned()).unwrap();
            let connector = TlsConnector::from(Arc::new(config));
            let mut stream =
                connector.connect(server, Trickle { stream: socket, was_read: false }).await.unwrap();
            let request = format!("GET / HTTP/1.1\r\nHost: {name}\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut response = Vec::new();
            while !response.ends_with(says.as_bytes()) {
                let read = tokio::time::timeout(WAIT_TIMEOUT, stream.read_buf(&mut response)).await;
                assert!(read.unwrap().unwrap() > 0, "{name} {size:?}");
            }
        }
    }
}

#[tokio::test]
async fn other_bytes_than_a_hello_on_a_shared_port_are_closed_and_counted() {
    let site = MixedPort::new().await;
    let setup = site.setup.clone().settings(|settings| {
        settings.downstream.handshake_timeout = TIMEOUT;
    });
    let config = Config { settings: setup.settings.clone(), ..site.config.clone() };
    let proxy = setup.start_by(&config);
    let mut client = Client::connect(site.address).await.unwrap();
    client.send(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    client.expect_closed().await;
    proxy.expect_refused("handshake_failed", 1).await;
    let mut silent = Client::connect(site.address).await.unwrap();
    silent.send([22, 3, 1]).await.unwrap();
    silent.expect_closed().await;
    proxy.expect_refused("handshake_timeout", 1).await;
    proxy.expect_metric("fairway_streams_opened_total", 0).await;
}

#[tokio::test]
async fn a_request_for_a_passthrough_host_is_misdirected_elsewhere() {
    let site = MixedPort::new().await;
    let proxy = site.start();
    let offer = TlsOffer::new(unverified_client_config(), WEB);
    let mut client = Client::connect_tls(site.address, &offer).await.unwrap();
    for (host, status) in [(WEB, 200), (PASSED, 421), ("other.test", 200)] {
        assert_eq!(client.exchange(&Request::get(host, "/")).await.unwrap().status, status, "{host}");
    }
    proxy.expect_fault("misdirected", 1).await;
    assert_eq!((site.web.request_count(), site.passed.request_count()), (2, 0));
}

#[tokio::test]
async fn inner_bytes_are_forwarded_unchanged_and_each_side_ends_its_direction() {
    let script = [
        ScriptStep::Expect(b"hello".to_vec()),
        ScriptStep::Send(b"you are".to_vec()),
        ScriptStep::Wait,
        ScriptStep::Send(b" welcome".to_vec()),
        ScriptStep::Close,
    ];
    let site = MixedPort::with_inner(Backend::scripted(Vec::from(script.clone())).await).await;
    let inner = Backend::scripted(Vec::from(script)).await;
    let mut config = site.config.clone();
    route(&mut config, "inner", &[(inner.address(), 1)]);
    let proxy = site.setup.start_by(&config);
    // Fairway does not answer the client's inner protocol offer for the endpoint.
    let offer = TlsOffer::new(unverified_client_config(), INNER).alpn(&["mqtt"]);
    let mut client = Client::connect_tls(site.address, &offer).await.unwrap();
    assert_eq!(client.tls().unwrap().alpn, None);
    client.send(b"hello").await.unwrap();
    assert_eq!(client.read_bytes(7).await.unwrap(), b"you are");
    client.half_close().await.unwrap();
    inner.wait_until("the response is held", |inner| inner.waiting_count() == 1).await;
    inner.release();
    assert_eq!(client.read_to_end().await.unwrap(), b" welcome");
    proxy.expect_metric(&ended("closed"), 1).await;
    proxy.expect_metric("fairway_stream_received_bytes_total", 5).await;
    proxy.expect_metric("fairway_stream_sent_bytes_total", 15).await;
}

#[tokio::test]
async fn a_reset_of_one_side_resets_the_other() {
    let site = MixedPort::with_inner(
        Backend::scripted([ScriptStep::Expect(b"die".to_vec()), ScriptStep::Reset]).await,
    )
    .await;
    let proxy = site.start();
    let offer = TlsOffer::new(unverified_client_config(), INNER).alpn(&[]);
    let mut client = Client::connect_tls(site.address, &offer).await.unwrap();
    client.send(b"die").await.unwrap();
    assert!(client.read_to_end().await.is_err(), "no clean end");
    proxy.expect_metric(&ended("upstream_closed"), 1).await;
    let client = Client::connect_tls(site.address, &offer).await.unwrap();
    proxy.expect_metric("fairway_streams_open", 1).await;
    client.reset().unwrap();
    proxy.expect_metric(&ended("client_gone"), 1).await;
    proxy.expect_metric("fairway_connections_open", 0).await;
}

#[tokio::test]
async fn weights_choose_the_backend_and_where_there_is_none_the_connection_ends() {
    let site = MixedPort::new().await;
    let mut config = site.config.clone();
    let other = Authority::new("pods").leaf(&[PASSED]).server_config(&["http/1.1"]);
    let other = Backend::https(other, |_| BackendResponse::ok("other")).await;
    route(&mut config, "passing", &[(site.passed.address(), 0), (other.address(), 1)]);
    let mut proxy = site.setup.start_by(&config);
    for _ in 0..4 {
        assert_eq!(site.exchange(PASSED).await.unwrap().0, "other");
    }
    for (table, name) in [("passing", PASSED), ("inner", INNER)] {
        route(&mut config, table, &[(other.address(), 0)]);
        let (version, _) = proxy.publish_config(&config);
        proxy.publisher.wait_until_adopted(version).await;
        let refused = site.exchange(name).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::UnexpectedEof, "before the handshake: {refused}");
    }
    proxy.expect_metric(&ended("no_backend"), 1).await;
    proxy.expect_refused("no_backend", 1).await;
    config.streams.clear();
    let (version, _) = proxy.publish_config(&config);
    proxy.publisher.wait_until_adopted(version).await;
    assert!(site.exchange(PASSED).await.is_err() && site.exchange(INNER).await.is_err());
    proxy.expect_metric(&ended("no_route"), 1).await;
    proxy.expect_refused("no_route", 1).await;
    assert_eq!(site.exchange(WEB).await.unwrap().0, "web");
}

#[tokio::test]
async fn an_endpoint_that_refuses_is_passed_over() {
    let site = MixedPort::new().await;
    let mut config = site.config.clone();
    let gone = Backend::http(|_| BackendResponse::ok("gone")).await;
    gone.refuse().await;
    let key: BackendKey = "passing-0".into();
    let mut backend = (**config.backends.get(&key).unwrap()).clone();
    backend.endpoints.insert(0, fairway_model::Endpoint::at(gone.address()));
    config.backends.insert(backend.key.clone(), Arc::new(backend));
    let proxy = site.setup.start_by(&config);
    for _ in 0..6 {
        assert_eq!(site.exchange(PASSED).await.unwrap().0, "passed");
    }
    assert_eq!(proxy.metric("fairway_upstream_ejections_total").await, 1);
}

#[tokio::test]
async fn a_stream_of_a_removed_listener_continues_and_no_other_starts() {
    let site = MixedPort::new().await;
    let mut proxy = site
        .setup
        .clone()
        .options(|options| options.drain.timeout = Duration::from_secs(60))
        .start_by(&site.config);
    let offer = TlsOffer::new(unverified_client_config(), PASSED);
    let mut client = Client::connect_tls(site.address, &offer).await.unwrap();
    let mut config = site.config.clone();
    config.listeners.remove("passing");
    let (version, _) = proxy.publish_config(&config);
    proxy.publisher.wait_until_adopted(version).await;
    assert_eq!(client.exchange(&Request::get(PASSED, "/")).await.unwrap().text(), "passed");
    assert_eq!(
        site.exchange(PASSED).await.unwrap().0,
        "web",
        "the listener for every name serves the host now"
    );
}

#[tokio::test]
async fn a_stream_ends_with_the_drain_of_the_process() {
    let site = MixedPort::new().await;
    let setup = site.setup.clone().options(|options| options.drain.timeout = TIMEOUT);
    let proxy = setup.start_by(&site.config);
    let offer = TlsOffer::new(unverified_client_config(), PASSED);
    let mut client = Client::connect_tls(site.address, &offer).await.unwrap();
    assert_eq!(client.exchange(&Request::get(PASSED, "/")).await.unwrap().text(), "passed");
    proxy.handle.drain();
    client.expect_closed().await;
    proxy.join().await.unwrap();
}

fn verifying(authority: &Authority, demand: ClientCertificateMode) -> ClientVerification {
    ClientVerification { roots: authority.pem().into(), revoked: "".into(), depth: None, demand }
}

/// Whether a client is served, as tested by Gateway API's conformance tests: it may believe that its handshake succeeded.
async fn is_served(address: SocketAddr, name: &str, client: ClientConfig) -> bool {
    connect_and_exchange(address, &TlsOffer::new(client, name)).await.is_ok()
}

#[tokio::test]
async fn listeners_verify_their_clients_in_the_handshake() {
    let site = MixedPort::new().await;
    let clients = Authority::new("clients");
    let (good, other) = (clients.leaf(&["good"]), Authority::new("others").leaf(&["other"]));
    let showing = |leaf: &Leaf| leaf.add_client_certificate(unverified_client_config());
    for (demand, without, with_other) in [
        (ClientCertificateMode::Required, false, false),
        (ClientCertificateMode::Optional, true, false),
        (ClientCertificateMode::Unverified, true, true),
    ] {
        let mut config = site.config.clone();
        for name in ["https", "inner"] {
            let mut listener = (**config.listeners.get(name).unwrap()).clone();
            listener.tls = ListenerTls { clients: Some(verifying(&clients, demand)), ..listener.tls };
            config.listeners.insert(name.into(), Arc::new(listener));
        }
        let proxy = site.setup.start_by(&config);
        for name in [WEB, INNER] {
            assert!(is_served(site.address, name, showing(&good)).await, "{demand:?} {name}");
            assert_eq!(
                is_served(site.address, name, unverified_client_config()).await,
                without,
                "{demand:?} {name}"
            );
            assert_eq!(is_served(site.address, name, showing(&other)).await, with_other, "{demand:?} {name}");
        }
        assert!(is_served(site.address, PASSED, unverified_client_config()).await, "the endpoint's affair");
        let refused = 2 * (u64::from(!without) + u64::from(!with_other));
        proxy.expect_refused("handshake_failed", refused).await;
        proxy.handle.drain();
        proxy.join().await.unwrap();
    }
}

#[tokio::test]
async fn a_session_of_a_listener_without_client_certificates_resumes_at_no_other() {
    let site = MixedPort::new().await;
    let clients = Authority::new("clients");
    let mut config = site.config.clone();
    let guarded = free_address();
    let tls = ListenerTls {
        clients: Some(verifying(&clients, ClientCertificateMode::Required)),
        ..ListenerTls::default()
    };
    let listener = Listener { tls, ..listener("guarded", ListenerProtocol::Https, guarded, "") };
    config.listeners.insert("guarded".into(), Arc::new(listener));
    let _proxy = site.setup.start_by(&config);
    // One session store for both ports.
    let offer = TlsOffer::new(unverified_client_config(), WEB);
    for resumed in [false, true] {
        let mut client = Client::connect_tls(site.address, &offer).await.unwrap();
        assert_eq!(client.exchange(&Request::get(WEB, "/")).await.unwrap().text(), "web");
        assert_eq!(client.tls().unwrap().resumed, resumed);
    }
    assert!(connect_and_exchange(guarded, &offer).await.is_err());
    let showing =
        TlsOffer::new(clients.leaf(&["good"]).add_client_certificate(unverified_client_config()), WEB);
    for _ in 0..2 {
        let mut client = Client::connect_tls(guarded, &showing).await.unwrap();
        assert_eq!(client.exchange(&Request::get(WEB, "/")).await.unwrap().text(), "web");
        assert!(!client.tls().unwrap().resumed);
    }
}

#[tokio::test]
async fn a_listener_with_unreadable_authorities_serves_no_client() {
    let site = MixedPort::new().await;
    let mut config = site.config.clone();
    let rules = ClientVerification {
        roots: "none".into(),
        ..verifying(&site.authority, ClientCertificateMode::Required)
    };
    let mut https = (**config.listeners.get("https").unwrap()).clone();
    https.tls.clients = Some(rules);
    config.listeners.insert("https".into(), Arc::new(https));
    let mut proxy = site.start();
    let (version, problems) = proxy.publish_config(&config);
    proxy.publisher.wait_until_adopted(version).await;
    let [problem] = &problems[..] else { panic!("{problems:?}") };
    assert!(problem.starts_with("the listener https cannot verify its clients: "), "{problem}");
    assert!(site.exchange(WEB).await.is_err());
    proxy.expect_refused("protection_unavailable", 1).await;
    assert_eq!(site.exchange(INNER).await.unwrap().0, "inner");
    let (_, problems) = proxy.publish_config(&config);
    assert_eq!(problems, Vec::<String>::new(), "no problem is reported twice");
}

#[tokio::test]
async fn much_passes_through_in_both_directions() {
    const EACH: usize = 4 * 1024 * 1024;
    let bytes: Vec<u8> = (0..EACH).map(|at| (at % 251) as u8).collect();
    let script = vec![ScriptStep::Expect(bytes.clone()), ScriptStep::Send(bytes.clone()), ScriptStep::Close];
    let endpoint_config = Authority::new("pods").leaf(&[PASSED]).server_config(&[]);
    let ip = [127, 0, 0, 1].into();
    let pod = Backend::start(ip, Behaviour::Scripts(vec![script]), Some(endpoint_config)).await.unwrap();
    let site = MixedPort::new().await;
    let mut config = site.config.clone();
    route(&mut config, "passing", &[(pod.address(), 1)]);
    let proxy = site.setup.start_by(&config);
    let offer = TlsOffer::new(unverified_client_config(), PASSED).alpn(&[]);
    let mut client = Client::connect_tls(site.address, &offer).await.unwrap();
    client.send(&bytes).await.unwrap();
    assert!(client.read_bytes(EACH).await.unwrap() == bytes);
    client.expect_closed().await;
    drop(client);
    proxy.expect_metric("fairway_streams_open", 0).await;
    assert!(proxy.metric("fairway_stream_sent_bytes_total").await > EACH as u64);
}
