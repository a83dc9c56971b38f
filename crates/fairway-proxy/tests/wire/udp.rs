//! UDP forwarding, over real sockets.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::time::Duration;

use fairway_model::{
    DatagramSettings, Listener, ListenerProtocol, ProxyHeaderVersion, SessionHash, SessionKey, SessionPart,
};
use fairway_testkit::eventually;
use fairway_testkit::wait::{WAIT_TIMEOUT, free_port};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpStream, UdpSocket};

use crate::forwarding::{Forwarding, NAME, address, answering, greeting, publish};
use crate::support::{Running, TIMEOUT};

/// Version 2, PROXY, UDP over IPv4, from 192.0.2.7:5555 to 192.0.2.1:53.
const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x12\0\x0c\xc0\0\x02\x07\xc0\0\x02\x01\x15\xb3\0\x35";
/// The same in version 1, which does not support UDP.
const V1: &[u8] = b"PROXY TCP4 192.0.2.7 192.0.2.1 5555 53\r\n";

const OPENED: &str = "fairway_datagram_sessions_opened_total";
const OPEN: &str = "fairway_datagram_sessions_open";

fn forward_to(endpoints: &[SocketAddr]) -> Forwarding {
    Forwarding::to_endpoints(ListenerProtocol::Udp, endpoints)
}

/// With other settings.
fn set(mut it: Forwarding, edit: impl FnOnce(&mut DatagramSettings)) -> Forwarding {
    edit(&mut it.config.settings.streams.datagrams);
    it
}

fn dropped(reason: &str) -> String {
    format!("fairway_datagrams_dropped_total{{reason=\"{reason}\"}}")
}

fn ended(reason: &str) -> String {
    format!("fairway_datagram_sessions_ended_total{{reason=\"{reason}\"}}")
}

/// A client: one address and port.
struct Client {
    socket: UdpSocket,
    server: SocketAddr,
}

impl Client {
    async fn connect(proxy: &Running) -> Self {
        Self::from([127, 0, 0, 1], address(proxy)).await
    }

    /// A client with this address of the loopback network.
    async fn from(ip: [u8; 4], to: SocketAddr) -> Self {
        Self { socket: UdpSocket::bind((IpAddr::from(ip), 0)).await.unwrap(), server: to }
    }

    async fn send(&self, datagram: impl AsRef<[u8]>) {
        self.socket.send_to(datagram.as_ref(), self.server).await.unwrap();
    }

    async fn hear(&self) -> Vec<u8> {
        let mut bytes = vec![0; 65_536];
        let datagram = tokio::time::timeout(WAIT_TIMEOUT, self.socket.recv_from(&mut bytes)).await;
        let (count, from) = datagram.expect("an answer").unwrap();
        assert_eq!(from, self.server, "answers come from where the client sent to");
        bytes.truncate(count);
        bytes
    }

    async fn exchange(&self, datagram: impl AsRef<[u8]>) -> String {
        self.send(datagram).await;
        String::from_utf8(self.hear().await).unwrap()
    }

    /// The name of the endpoint that it reaches.
    async fn name(&self) -> String {
        self.exchange("?").await.strip_suffix(":?").unwrap().to_owned()
    }
}

#[tokio::test]
async fn each_client_gets_its_own_responses_from_one_endpoint() {
    let proxy = forward_to(&[answering("a").await, answering("b").await]).start();
    let mut clients = Vec::new();
    for _ in 0..6 {
        let client = Client::connect(&proxy).await;
        clients.push((client.name().await, client));
    }
    let names: BTreeSet<_> = clients.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(names.len(), 2, "sessions are balanced");
    for (name, client) in &clients {
        for number in 0..5 {
            assert_eq!(client.exchange(format!("{number}")).await, format!("{name}:{number}"));
        }
    }
    assert_eq!((proxy.metric(OPENED).await, proxy.metric(OPEN).await), (6, 6));
    proxy.expect_metric("fairway_datagrams_received_total", 36).await;
    proxy.expect_metric("fairway_datagrams_sent_total", 36).await;
    proxy.expect_metric("fairway_datagram_received_bytes_total", 36).await;
    proxy.expect_metric("fairway_datagram_sent_bytes_total", 108).await;
    assert_eq!(proxy.metric("fairway_connections_open").await, 0);
}

#[tokio::test]
async fn a_datagram_passes_whole_or_not_at_all() {
    let proxy = forward_to(&[answering("a").await]).start();
    let client = Client::connect(&proxy).await;
    for size in [0, 1, 1_500, 65_000] {
        let datagram = vec![b'x'; size];
        client.send(&datagram).await;
        assert_eq!(client.hear().await, [b"a:", &datagram[..]].concat(), "{size}");
    }
    // With the header it exceeds the maximum size of a datagram.
    let it = forward_to(&[answering("a").await]).policy(|it| it.proxy_header = Some(ProxyHeaderVersion::V2));
    let proxy = it.start();
    Client::connect(&proxy).await.send(vec![b'x'; 65_500]).await;
    proxy.expect_metric(&dropped("too_large"), 1).await;
}

/// An endpoint that responds as the test says, at an address where no other test binds.
async fn endpoint() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.78.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// Fairway's socket of the session whose datagram this endpoint gets next.
async fn session(endpoint: &UdpSocket) -> SocketAddr {
    let mut bytes = [0; 100];
    let got = tokio::time::timeout(WAIT_TIMEOUT, endpoint.recv_from(&mut bytes)).await;
    got.expect("a datagram").unwrap().1
}

#[tokio::test]
async fn datagrams_of_others_to_a_session_socket_never_reach_its_client() {
    let (endpoint, at) = endpoint().await;
    let proxy = forward_to(&[at]).start();
    let client = Client::connect(&proxy).await;
    client.send("?").await;
    let session = session(&endpoint).await;
    // From another port of the endpoint, and from the endpoint's port of another address.
    for (round, from) in [SocketAddr::new(at.ip(), 0), ([127, 78, 0, 2], at.port()).into()].iter().enumerate()
    {
        let stranger = UdpSocket::bind(from).await.unwrap();
        stranger.send_to(b"forged", session).await.unwrap();
        let payload = format!("{round}");
        endpoint.send_to(payload.as_bytes(), session).await.unwrap();
        assert_eq!(client.hear().await, payload.as_bytes());
    }
    proxy.expect_metric("fairway_datagrams_sent_total", 2).await;
    assert_eq!(proxy.metric(OPEN).await, 1, "the session goes on");
}

#[tokio::test]
async fn a_forged_source_address_gets_only_responses_of_the_endpoint() {
    let (endpoint, at) = endpoint().await;
    let proxy = forward_to(&[at]).start();
    let forger = Client::from([127, 78, 0, 3], address(&proxy)).await;
    let forged = forger.socket.local_addr().unwrap();
    forger.send("?").await;
    let session = session(&endpoint).await;
    drop(forger);
    // From here on the address belongs to a client that has sent nothing.
    let victim = Client { socket: UdpSocket::bind(forged).await.unwrap(), server: address(&proxy) };
    assert_eq!(proxy.metric("fairway_datagrams_sent_total").await, 0);
    for response in ["one", "two"] {
        endpoint.send_to(response.as_bytes(), session).await.unwrap();
        assert_eq!(victim.hear().await, response.as_bytes());
    }
    proxy.expect_metric("fairway_datagrams_sent_total", 2).await;
    let datagram = victim.socket.try_recv(&mut [0; 100]);
    assert_eq!(datagram.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[tokio::test]
async fn a_client_of_a_refusing_endpoint_gets_another_one() {
    // Bound briefly where no other test binds.
    let nobody = UdpSocket::bind("127.77.0.1:0").await.unwrap().local_addr().unwrap();
    let proxy = forward_to(&[nobody, answering("a").await]).start();
    let (one, other) = (Client::connect(&proxy).await, Client::connect(&proxy).await);
    one.send("lost").await;
    proxy.expect_metric(&ended("connect_failed"), 1).await;
    assert_eq!((one.name().await, other.name().await), ("a".to_owned(), "a".to_owned()));
    assert_eq!(proxy.metric("fairway_upstream_ejections_total").await, 1);
}

#[tokio::test]
async fn without_an_endpoint_datagrams_are_dropped() {
    let proxy = forward_to(&[]).start();
    Client::connect(&proxy).await.send("?").await;
    proxy.expect_metric(&dropped("no_endpoint"), 1).await;
    assert_eq!(proxy.metric(OPENED).await, 0);
}

#[tokio::test]
async fn the_endpoint_learns_the_client_with_the_first_datagram() {
    for version in [ProxyHeaderVersion::V1, ProxyHeaderVersion::V2] {
        let it = forward_to(&[answering("a").await]).policy(|it| it.proxy_header = Some(version));
        let proxy = it.start();
        let client = Client::connect(&proxy).await;
        client.send("first").await;
        let response = client.hear().await;
        let port = client.socket.local_addr().unwrap().port();
        let ports = [port.to_be_bytes(), 7_000_u16.to_be_bytes()].concat();
        let header = [&V2[..16], &[127, 0, 0, 1, 127, 0, 0, 1][..], &ports].concat();
        assert_eq!(response, [b"a:", &header[..], b"first"].concat(), "there is no version 1 of datagrams");
        assert_eq!(client.exchange("second").await, "a:second");
    }
}

#[tokio::test]
async fn a_proxy_header_of_either_version_names_the_client() {
    let it = forward_to(&[answering("a").await]).introduced_by(&["127.0.0.0/8"]);
    let proxy = it.clone().policy(|it| it.proxy_header = Some(ProxyHeaderVersion::V2)).start();
    for header in [V1, V2] {
        let client = Client::connect(&proxy).await;
        client.send([header, b"first"].concat()).await;
        assert_eq!(client.hear().await, [b"a:", V2, b"first"].concat());
        assert_eq!(client.exchange("second").await, "a:second", "the header comes once");
    }
    Client::connect(&proxy).await.send("no header").await;
    proxy.expect_metric(&dropped("no_proxy_header"), 1).await;
    let proxy = it.introduced_by(&["10.0.0.0/8"]).start();
    Client::connect(&proxy).await.send([V2, b"x"].concat()).await;
    proxy.expect_metric(&dropped("access_denied"), 1).await;
}

#[tokio::test]
async fn sessions_are_bounded_for_each_client_and_for_all_workers_together() {
    let mut it = set(forward_to(&[answering("a").await]), |settings| {
        (settings.sessions, settings.sessions_per_client) = (5, 3);
    });
    it.setup = it.setup.options(|options| options.workers = 2);
    let proxy = it.start();
    let mut served = Vec::new();
    for (ip, sessions) in [([127, 0, 0, 1], 3), ([127, 0, 0, 2], 2)] {
        for _ in 0..sessions {
            let client = Client::from(ip, address(&proxy)).await;
            assert_eq!(client.name().await, "a");
            served.push(client);
        }
        if sessions == 3 {
            Client::from(ip, address(&proxy)).await.send("one more").await;
            proxy.expect_metric(&dropped("client_sessions"), 1).await;
        }
    }
    Client::from([127, 0, 0, 3], address(&proxy)).await.send("one more").await;
    proxy.expect_metric(&dropped("listener_sessions"), 1).await;
    for client in &served {
        assert_eq!(client.name().await, "a", "those that there are go on");
    }
    assert_eq!((proxy.metric(OPENED).await, proxy.metric(OPEN).await), (5, 5));
}

#[tokio::test]
async fn a_listener_may_have_fewer_sessions_and_keep_them_for_less_time() {
    let it = forward_to(&[answering("a").await]).listener(|listener| {
        listener.clients.connections = NonZeroU32::new(1);
        listener.clients.idle_timeout = Some(TIMEOUT);
    });
    let proxy = it.start();
    let (one, other) = (Client::connect(&proxy).await, Client::connect(&proxy).await);
    eventually("only one has a session", WAIT_TIMEOUT, || async {
        one.send("?").await;
        other.send("?").await;
        proxy.metric(&dropped("listener_sessions")).await > 0
    })
    .await;
    eventually("one ends and makes room", WAIT_TIMEOUT, || async { proxy.metric(&ended("idle")).await > 0 })
        .await;
}

#[tokio::test]
async fn a_flood_of_clients_takes_no_more_than_the_bounds_and_leaves_sessions_alone() {
    const BOUND: u64 = 50;
    const FLOOD: u64 = 500;
    let it = set(forward_to(&[answering("a").await]), |settings| {
        (settings.sessions, settings.sessions_per_client) = (u32::MAX, 50);
    });
    let proxy = it.start();
    let honest = Client::from([127, 0, 0, 9], address(&proxy)).await;
    assert_eq!(honest.name().await, "a");
    // Kept open: the port of a closed socket may be reused by a later one, which would then have its session.
    let mut flood = Vec::new();
    for number in 0..FLOOD {
        let client = Client::connect(&proxy).await;
        client.send("?").await;
        flood.push(client);
        if number % 50 == 0 {
            assert_eq!(honest.name().await, "a");
        }
    }
    eventually("all came", WAIT_TIMEOUT, || async {
        proxy.metric(OPENED).await - 1 + proxy.metric(&dropped("client_sessions")).await == FLOOD
    })
    .await;
    assert_eq!(proxy.metric(OPEN).await, BOUND + 1);
    assert_eq!(Client::from([127, 0, 0, 8], address(&proxy)).await.name().await, "a");
}

#[tokio::test]
async fn sessions_take_descriptors_and_none_begins_where_there_is_none_left() {
    let mut it = forward_to(&[answering("a").await]);
    it.setup = it.setup.options(|options| options.limits.descriptors = Some(64));
    let proxy = it.start();
    let first = Client::connect(&proxy).await;
    assert_eq!(first.name().await, "a");
    let mut others = Vec::new();
    while proxy.metric(&dropped("local_shortage")).await == 0 {
        let client = Client::connect(&proxy).await;
        client.send("?").await;
        others.push(client);
        assert!(others.len() < 64);
    }
    assert_eq!(first.name().await, "a", "those that there are go on");
}

#[tokio::test]
async fn an_idle_session_ends_and_the_next_datagram_starts_another() {
    let it = forward_to(&[answering("a").await]).policy(|it| it.idle_timeout = Some(TIMEOUT));
    let proxy = it.start();
    let client = Client::connect(&proxy).await;
    for round in 1..=2 {
        assert_eq!(client.name().await, "a");
        proxy.expect_metric(&ended("idle"), round).await;
        assert_eq!((proxy.metric(OPENED).await, proxy.metric(OPEN).await), (round, 0));
    }
}

#[tokio::test]
async fn sessions_follow_endpoints_that_come_and_go() {
    let mut all = Vec::new();
    for name in ["1", "2", "3", "4", "5", "6", "7"] {
        all.push(answering(name).await);
    }
    let it = forward_to(&all[..5]);
    let mut proxy = it.start();
    let mut clients = Vec::new();
    for _ in 0..10 {
        let client = Client::connect(&proxy).await;
        clients.push((client.name().await, client));
    }
    publish(&mut proxy, &it.clone().endpoints(&all).config).await;
    for (name, client) in &clients {
        assert_eq!(client.name().await, *name, "no session moves because an endpoint comes");
    }
    publish(&mut proxy, &it.clone().endpoints(&all[2..]).config).await;
    for (name, client) in &clients {
        let now = client.name().await;
        let leaves = ["1", "2"].contains(&&**name);
        assert!(if leaves { !["1", "2"].contains(&&*now) } else { now == *name }, "{name} {now}");
        assert_eq!(client.name().await, now);
    }
    assert_eq!(proxy.metric(&ended("endpoint_left")).await, 4);
}

#[tokio::test]
async fn clients_stay_with_one_endpoint_if_the_backend_says_so() {
    let mut endpoints = Vec::new();
    for name in ["1", "2", "3", "4"] {
        endpoints.push(answering(name).await);
    }
    let key = SessionKey::Hash(SessionHash { parts: vec![SessionPart::Address], spread: None });
    let proxy = forward_to(&endpoints).backend(|backend| backend.session = Some(key)).start();
    let mut names = BTreeSet::new();
    for host in 1..=20 {
        let name = Client::from([127, 0, 0, host], address(&proxy)).await.name().await;
        for _ in 0..3 {
            assert_eq!(Client::from([127, 0, 0, host], address(&proxy)).await.name().await, name);
        }
        names.insert(name);
    }
    assert!(names.len() > 1, "{names:?}");
}

#[tokio::test]
async fn a_number_may_be_a_port_of_both_transports() {
    // An address where no other test receives datagrams.
    let port = SocketAddr::from(([127, 63, 0, 1], free_port()));
    let mut it = forward_to(&[answering("udp").await]).listener(|listener| listener.bind = vec![port]);
    let stream = Forwarding::to_endpoints(ListenerProtocol::Tcp, &[greeting("t").await]);
    it.insert(Listener {
        bind: vec![port],
        ..Listener::new("stream", ListenerProtocol::Tcp, 7_000, "stream")
    });
    let mut route = (**stream.config.streams.values().next().unwrap()).clone();
    let mut backend = (**stream.config.backends.values().next().unwrap()).clone();
    (route.key.table, backend.key) = ("stream".into(), "stream".into());
    route.backends[0].backend = backend.key.clone();
    it.config.backends.insert(backend.key.clone(), backend.into());
    it.config.streams.insert(route.key.clone(), route.into());
    let mut proxy = it.start();
    let client = Client::connect(&proxy).await;
    assert_eq!((client.server, client.name().await), (port, "udp".to_owned()));
    let mut name = [0; 2];
    TcpStream::connect(port).await.unwrap().read_exact(&mut name).await.unwrap();
    assert_eq!(&name, b"t:");
    it.config.listeners.remove("stream");
    publish(&mut proxy, &it.config).await;
    assert_eq!(client.name().await, "udp", "one goes without the other");
}

#[tokio::test]
async fn sessions_of_a_removed_listener_continue_and_no_other_starts() {
    let mut it = forward_to(&[answering("a").await]);
    it.setup = it.setup.options(|options| options.drain.timeout = Duration::from_secs(60));
    let mut proxy = it.start();
    let (old, new) = (Client::connect(&proxy).await, Client::connect(&proxy).await);
    assert_eq!(old.name().await, "a");
    let mut without = it.config.clone();
    without.listeners.remove(NAME);
    publish(&mut proxy, &without).await;
    new.send("?").await;
    proxy.expect_metric(&dropped("no_listener"), 1).await;
    assert_eq!(old.name().await, "a");
    assert_eq!(proxy.metric(OPENED).await, 1);
}

#[tokio::test]
async fn a_returning_listener_gets_its_port_from_remaining_sessions() {
    // An address where no other test receives datagrams.
    let port = SocketAddr::from(([127, 63, 0, 2], free_port()));
    let mut it = forward_to(&[answering("a").await]).listener(|listener| listener.bind = vec![port]);
    it.setup = it.setup.options(|options| options.drain.timeout = Duration::from_secs(600));
    let mut proxy = it.start();
    let client = Client::connect(&proxy).await;
    assert_eq!(client.name().await, "a");
    let mut without = it.config.clone();
    without.listeners.remove(NAME);
    publish(&mut proxy, &without).await;
    assert_eq!(client.name().await, "a");
    let (version, _) = proxy.publish_config(&it.config);
    proxy.publisher.wait_until_adopted(version).await;
    eventually("it is bound", WAIT_TIMEOUT, || async {
        drop(proxy.publisher.retry_binds());
        proxy.publisher.is_bound()
    })
    .await;
    eventually("it is served", WAIT_TIMEOUT, || async {
        client.send("?").await;
        tokio::time::timeout(TIMEOUT, client.hear()).await.is_ok()
    })
    .await;
    assert_eq!(proxy.metric(OPENED).await, 2);
}

#[tokio::test]
async fn sessions_go_on_while_the_process_drains_and_hold_it_until_then() {
    let mut it = forward_to(&[answering("a").await]);
    it.setup = it.setup.options(|options| options.drain.timeout = Duration::from_secs(3));
    let proxy = it.start();
    let old = Client::connect(&proxy).await;
    assert_eq!(old.name().await, "a");
    proxy.handle.drain();
    eventually("no session begins", WAIT_TIMEOUT, || async {
        Client::connect(&proxy).await.send("?").await;
        proxy.metric(&dropped("drained")).await > 0
    })
    .await;
    assert_eq!(old.name().await, "a");
    proxy.join().await.unwrap();
}
