//! TCP forwarding, over real sockets.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use fairway_model::{
    Listener, ListenerProtocol, ProxyHeaderVersion, ProxyProtocolMode, SessionHash, SessionKey, SessionPart,
};
use fairway_proxy::{DrainOptions, ProxyProtocolOn};
use fairway_testkit::wait::WAIT_TIMEOUT;
use fairway_testkit::{Backend, BackendResponse, Request, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::forwarding::{Forwarding, NAME, address, greeting, publish};
use crate::support::{HOST, Running, TIMEOUT};

/// Version 2, PROXY, TCP over IPv4, from 192.0.2.7:5555 to 192.0.2.1:80.
const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x07\xc0\0\x02\x01\x15\xb3\0\x50";
/// The same in version 1.
const V1: &[u8] = b"PROXY TCP4 192.0.2.7 192.0.2.1 5555 80\r\n";

fn forward_to(endpoints: &[SocketAddr]) -> Forwarding {
    Forwarding::to_endpoints(ListenerProtocol::Tcp, endpoints)
}

fn ended(reason: &str) -> String {
    format!("fairway_streams_ended_total{{reason=\"{reason}\"}}")
}

/// A connection of a client.
struct Client(TcpStream);

impl Client {
    async fn connect(proxy: &Running) -> Self {
        Self(TcpStream::connect(address(proxy)).await.unwrap())
    }

    /// A client with this address of the loopback network.
    async fn from(ip: [u8; 4], proxy: &Running) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((IpAddr::from(ip), 0).into()).unwrap();
        Self(socket.connect(address(proxy)).await.unwrap())
    }

    async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).await.unwrap();
    }

    async fn read(&mut self, count: usize) -> String {
        let mut bytes = vec![0; count];
        tokio::time::timeout(WAIT_TIMEOUT, self.0.read_exact(&mut bytes)).await.unwrap().unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// Everything received until the other side closes its direction.
    async fn read_to_end(&mut self) -> String {
        let mut bytes = Vec::new();
        tokio::time::timeout(WAIT_TIMEOUT, self.0.read_to_end(&mut bytes)).await.unwrap().unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// The name of the endpoint that it reaches.
    async fn name(&mut self) -> String {
        let name = self.read(2).await;
        name.strip_suffix(':').unwrap().to_owned()
    }

    async fn expect_echo(&mut self, text: &str) {
        self.send(text).await;
        assert_eq!(self.read(text.len()).await, text);
    }
}

#[tokio::test]
async fn bytes_pass_both_ways_whichever_side_speaks_first() {
    let proxy = forward_to(&[greeting("a").await]).start();
    let mut client = Client::connect(&proxy).await;
    assert_eq!(client.name().await, "a", "the endpoint speaks first");
    client.expect_echo("hello").await;
    client.0.shutdown().await.unwrap();
    assert_eq!(client.read_to_end().await, "!", "the endpoint goes on after the client's end");
    proxy.expect_metric(&ended("closed"), 1).await;
    proxy.expect_metric("fairway_stream_received_bytes_total", 5).await;
    proxy.expect_metric("fairway_stream_sent_bytes_total", 8).await;
    proxy.expect_metric("fairway_connections_open", 0).await;
}

#[tokio::test]
async fn an_endpoint_that_ends_its_direction_still_hears_the_client() {
    let backend = Backend::scripted([
        fairway_testkit::ScriptStep::Send(b"bye".to_vec()),
        fairway_testkit::ScriptStep::HalfClose,
        fairway_testkit::ScriptStep::Expect(b"still here".to_vec()),
        fairway_testkit::ScriptStep::Close,
    ])
    .await;
    let proxy = forward_to(&[backend.address()]).start();
    let mut client = Client::connect(&proxy).await;
    assert_eq!(client.read_to_end().await, "bye");
    client.send("still here").await;
    client.0.shutdown().await.unwrap();
    proxy.expect_metric(&ended("closed"), 1).await;
    proxy.expect_metric("fairway_stream_received_bytes_total", 10).await;
}

#[tokio::test]
async fn an_endpoint_that_refuses_is_passed_over_and_ejected() {
    let gone = Backend::http(|_| BackendResponse::ok("")).await;
    gone.refuse().await;
    let proxy = forward_to(&[gone.address(), greeting("a").await]).start();
    for _ in 0..6 {
        assert_eq!(Client::connect(&proxy).await.name().await, "a");
    }
    assert_eq!(proxy.metric("fairway_upstream_ejections_total").await, 1);
}

#[tokio::test]
async fn no_client_waits_for_the_connect_time_out_of_a_black_hole() {
    const NEVER: Duration = Duration::from_secs(600);
    let hole = Backend::http(|_| BackendResponse::ok("")).await;
    hole.vanish().await;
    let it = forward_to(&[hole.address(), greeting("a").await]).policy(|it| it.connect_timeout = Some(NEVER));
    let proxy = it.start();
    for _ in 0..6 {
        assert_eq!(Client::connect(&proxy).await.name().await, "a");
    }
    assert_eq!(proxy.metric("fairway_upstream_hedges_total{outcome=\"won\"}").await, 1, "then it is suspect");
    assert_eq!(proxy.metric("fairway_upstream_retries_total").await, 0);
}

#[tokio::test]
async fn without_an_endpoint_the_connection_ends_without_a_byte() {
    let proxy = forward_to(&[]).start();
    assert_eq!(Client::connect(&proxy).await.read_to_end().await, "");
    proxy.expect_metric(&ended("no_endpoint"), 1).await;
}

#[tokio::test]
async fn the_endpoint_learns_the_client_before_the_first_byte() {
    for (version, length) in [(ProxyHeaderVersion::V1, None), (ProxyHeaderVersion::V2, Some(28))] {
        let it = forward_to(&[greeting("a").await]).policy(|it| it.proxy_header = Some(version));
        let proxy = it.start();
        let mut client = Client::connect(&proxy).await;
        let from = client.0.local_addr().unwrap();
        let line = format!("PROXY TCP4 127.0.0.1 127.0.0.1 {} 7000\r\n", from.port());
        let mut header = vec![0; length.unwrap_or(line.len())];
        assert_eq!(client.name().await, "a");
        tokio::time::timeout(WAIT_TIMEOUT, client.0.read_exact(&mut header)).await.unwrap().unwrap();
        match version {
            ProxyHeaderVersion::V1 => assert_eq!(String::from_utf8(header).unwrap(), line),
            ProxyHeaderVersion::V2 => {
                assert_eq!((&header[..16], &header[16..24]), (&V2[..16], &[127, 0, 0, 1, 127, 0, 0, 1][..]));
                assert_eq!(header[24..], [from.port().to_be_bytes(), 7_000_u16.to_be_bytes()].concat());
            }
        }
        client.expect_echo("hello").await;
    }
}

#[tokio::test]
async fn the_introduced_client_is_passed_on() {
    let it = forward_to(&[greeting("a").await]).introduced_by(&["127.0.0.0/8"]);
    let proxy = it.policy(|it| it.proxy_header = Some(ProxyHeaderVersion::V1)).start();
    for header in [V1, V2] {
        let mut client = Client::connect(&proxy).await;
        client.send([header, b"hello"].concat()).await;
        assert_eq!(client.name().await, "a");
        assert_eq!(client.read(V1.len()).await.as_bytes(), V1);
        assert_eq!(client.read(5).await, "hello");
    }
}

#[tokio::test]
async fn untrusted_introductions_and_invalid_headers_are_refused() {
    let it = forward_to(&[greeting("a").await]);
    let proxy = it.clone().introduced_by(&["10.0.0.0/8"]).start();
    let mut client = Client::connect(&proxy).await;
    client.send(V1).await;
    assert!(client.0.read_to_end(&mut Vec::new()).await.unwrap_or(0) == 0);
    proxy.expect_refused("access_denied", 1).await;
    let proxy = it.introduced_by(&[]).start();
    let mut client = Client::connect(&proxy).await;
    client.send("hello, this is no header").await;
    assert!(client.0.read_to_end(&mut Vec::new()).await.unwrap_or(0) == 0);
    proxy.expect_refused("client_gone", 1).await;
    assert_eq!(proxy.metric("fairway_streams_opened_total").await, 0);
}

#[tokio::test]
async fn flags_do_not_apply_to_tcp_listeners_and_http_listeners_can_override_them() {
    let web =
        Backend::http(|request| BackendResponse::ok(request.header("X-Real-IP").unwrap_or_default())).await;
    let mut it = forward_to(&[web.address()]);
    it.setup = it.setup.options(|options| options.proxy_protocol.on = ProxyProtocolOn::Both);
    let http = (**it.config.listeners.get("http").unwrap()).clone();
    let bind = vec!["127.0.0.1:0".parse().unwrap()];
    let mut plain = Listener { name: "plain".into(), bind, ..http };
    plain.clients.proxy_protocol = Some(ProxyProtocolMode::None);
    it.insert(plain);
    let proxy = it.start();
    let http_request = Request::get(HOST, "/").bytes();
    for (listener, ahead, client) in [("http", V2, "192.0.2.7"), ("plain", b"", "127.0.0.1")] {
        let to = proxy.publisher.addresses(listener)[0];
        let mut connection = fairway_testkit::Client::connect(to).await.unwrap();
        connection.send([ahead, &http_request].concat()).await.unwrap();
        assert_eq!(connection.read_response().await.unwrap().text(), client, "{listener}");
    }
    let mut connection = fairway_testkit::Client::connect(address(&proxy)).await.unwrap();
    connection.send(&http_request).await.unwrap();
    assert_eq!(connection.read_response().await.unwrap().status, 200, "no header is expected here");
}

#[tokio::test]
async fn a_connection_of_a_removed_listener_continues_and_no_other_starts() {
    let mut it = forward_to(&[greeting("a").await]);
    it.setup = it.setup.options(|options| options.drain.timeout = Duration::from_secs(60));
    let mut proxy = it.start();
    let (to, mut client) = (address(&proxy), Client::connect(&proxy).await);
    assert_eq!(client.name().await, "a");
    let mut without = it.config.clone();
    without.listeners.remove(NAME);
    publish(&mut proxy, &without).await;
    client.expect_echo("still").await;
    eventually("nobody listens", WAIT_TIMEOUT, || async move { TcpStream::connect(to).await.is_err() }).await;
    client.expect_echo("here").await;
}

#[tokio::test]
async fn long_connections_outlive_endpoints_that_come_and_go() {
    let mut all = Vec::new();
    for name in ["1", "2", "3", "4", "5", "6", "7"] {
        all.push(greeting(name).await);
    }
    let it = forward_to(&all[..5]);
    let mut proxy = it.start();
    let (mut clients, mut names) = (Vec::new(), BTreeSet::new());
    for endpoints in [&all[..5], &all[..], &all[2..]] {
        publish(&mut proxy, &it.clone().endpoints(endpoints).config).await;
        for _ in 0..14 {
            let mut client = Client::connect(&proxy).await;
            names.insert(client.name().await);
            clients.push(client);
        }
        for client in &mut clients {
            client.expect_echo("still here").await;
        }
    }
    assert_eq!(names.len(), 7, "{names:?}");
    proxy.expect_metric("fairway_streams_open", clients.len() as u64).await;
    for endpoints in [&all[..2], &all[..5]] {
        publish(&mut proxy, &it.clone().endpoints(endpoints).config).await;
        for client in &mut clients {
            client.expect_echo("and still").await;
        }
    }
}

#[tokio::test]
async fn a_connection_that_outlives_the_time_of_a_drain_sees_a_reset_and_no_end() {
    let mut it = forward_to(&[greeting("a").await]);
    let (delay, timeout) = (Duration::ZERO, TIMEOUT);
    it.setup = it.setup.options(|options| options.drain = DrainOptions { delay, timeout });
    let proxy = it.start();
    let mut client = Client::connect(&proxy).await;
    assert_eq!(client.name().await, "a");
    proxy.handle.drain();
    proxy.join().await.unwrap();
    let end = client.0.read(&mut [0]).await;
    assert_eq!(end.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn clients_stay_with_one_endpoint_if_the_backend_says_so() {
    let mut endpoints = Vec::new();
    for name in ["1", "2", "3", "4"] {
        endpoints.push(greeting(name).await);
    }
    let key = SessionKey::Hash(SessionHash { parts: vec![SessionPart::Address], spread: None });
    let proxy = forward_to(&endpoints).backend(|backend| backend.session = Some(key)).start();
    let mut names = BTreeSet::new();
    for host in 1..=20 {
        let mut client = Client::from([127, 0, 0, host], &proxy).await;
        let name = client.name().await;
        for _ in 0..3 {
            assert_eq!(Client::from([127, 0, 0, host], &proxy).await.name().await, name);
        }
        names.insert(name);
    }
    assert!(names.len() > 1, "{names:?}");
}

/// As in nginx and HAProxy: "the receiver is free to [...] use the real endpoint addresses" (PROXY protocol, section 2.2).
#[tokio::test]
async fn a_balancer_that_cannot_say_who_its_client_is_stands_for_it() {
    let mut endpoints = Vec::new();
    for name in ["1", "2", "3", "4"] {
        endpoints.push(greeting(name).await);
    }
    let key = SessionKey::Hash(SessionHash { parts: vec![SessionPart::Address], spread: None });
    let it =
        forward_to(&endpoints).backend(|backend| backend.session = Some(key)).introduced_by(&["127.0.0.0/8"]);
    let proxy = it.policy(|it| it.proxy_header = Some(ProxyHeaderVersion::V1)).start();
    let mut names = BTreeSet::new();
    for balancer in 1..=20 {
        let mut responders = BTreeSet::new();
        for header in ["PROXY UNKNOWN\r\n", "PROXY UNKNOWN 192.0.2.7 192.0.2.1 5555 80\r\n"] {
            let mut client = Client::from([127, 0, 0, balancer], &proxy).await;
            let port = client.0.local_addr().unwrap().port();
            client.send(header).await;
            responders.insert(client.name().await);
            let line = format!("PROXY TCP4 127.0.0.{balancer} 127.0.0.1 {port} 7000\r\n");
            assert_eq!(client.read(line.len()).await, line);
        }
        assert_eq!(responders.len(), 1, "{responders:?}");
        names.extend(responders);
    }
    assert!(names.len() > 1, "{names:?}");
}

/// Whether the timer of TCP keep-alive runs for a connection to this address (proc(5), `/proc/net/tcp`: `tr` is 2).
fn has_keep_alive_timer(endpoint: SocketAddr) -> bool {
    let port = format!(":{:04X}", endpoint.port());
    let all = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    all.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).any(|fields| {
        let timer = fields.get(5).is_some_and(|timer| timer.starts_with("02:"));
        timer && fields.get(2).is_some_and(|remote| remote.ends_with(&port))
    })
}

#[tokio::test]
async fn a_long_connection_probes_a_silent_endpoint() {
    let endpoint = greeting("a").await;
    let proxy = forward_to(&[endpoint]).start();
    let mut client = Client::connect(&proxy).await;
    assert_eq!(client.name().await, "a");
    eventually("keep-alive", WAIT_TIMEOUT, || async { has_keep_alive_timer(endpoint) }).await;
}

#[tokio::test]
async fn a_route_limits_the_idle_time_of_connections() {
    let it = forward_to(&[greeting("a").await]).policy(|it| it.idle_timeout = Some(TIMEOUT));
    let proxy = it.start();
    let mut client = Client::connect(&proxy).await;
    assert_eq!(client.name().await, "a");
    let end = tokio::time::timeout(WAIT_TIMEOUT, client.0.read_to_end(&mut Vec::new())).await.unwrap();
    assert!(end.is_err(), "a reset, no clean end");
    proxy.expect_metric(&ended("idle"), 1).await;
}
