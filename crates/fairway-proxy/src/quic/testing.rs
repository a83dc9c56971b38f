//! What tests of QUIC share: a client of `quinn_proto` that the test drives by hand over a real socket, and workers that serve real
//! sockets. Everything waits for a condition; a limit only ends what hangs.

use std::cell::Cell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use fairway_model::{Config, HostPattern, Listener, ListenerProtocol};
use fairway_net::memory::Memory;
use fairway_net::output::OutputSender;
use fairway_net::spread::Spread;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig,
    Event, Transmit,
};
use tokio::net::UdpSocket;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_local};

use super::serve_quic;
use crate::access_log::AccessLog;
use crate::buffering::Disk;
use crate::downstream::http3_client::Conversation;
use crate::guards::Logouts;
use crate::inspection::ClientProtocol;
use crate::listener::PortId;
use crate::listening::PortSocket;
use crate::metrics::Text;
use crate::options::{AccessLogFormat, Opening, ProxyOptions};
use crate::publish::{Published, Publisher};
use crate::quic::keys::SharedEndpoints;
use crate::testing::{DISK, Meeting, ScriptedNetwork, answering, filtered, options};
use crate::tls::{ServerTls, SessionTickets, Stapling};
use crate::worker::{Neighbours, Shared, SharedGuards, Worker};

/// Series of the metrics.
pub(super) const HANDED_OVER: &str = "fairway_quic_datagrams_handed_over_total";
pub(super) const RESETS: &str = "fairway_quic_stateless_resets_total";

/// What ends a test that hangs.
pub(super) const HANGS: Duration = Duration::from_secs(60);

/// A configuration with listeners of HTTP/3 at one free address, one for each of these names.
pub(super) fn config(names: &[&str], edit: impl Fn(&mut Listener)) -> Config {
    let address = fairway_testkit::wait::free_address();
    let mut config = filtered(1, Vec::new());
    for name in names {
        let mut listener = Listener::new(name, ListenerProtocol::Https, 443, "ingress");
        listener.bind = vec![address];
        listener.clients.http3 = Some(true);
        listener.host = HostPattern::Exact((*name).into());
        edit(&mut listener);
        config.listeners.insert(listener.name.clone(), Arc::new(listener));
    }
    config
}

/// Workers of one process that serve a configuration, each at a socket of its own.
pub(super) struct Process {
    pub(super) workers: Vec<Rc<Worker<ScriptedNetwork>>>,
    /// Where each of them receives.
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) tasks: Vec<JoinHandle<()>>,
    pub(super) shared: SharedEndpoints,
    /// Ports close when this is dropped.
    pub(super) open: Vec<oneshot::Sender<Infallible>>,
    publisher: Publisher,
    port: PortId,
    logged: mpsc::Receiver<Vec<u8>>,
}

impl Process {
    /// With so many workers. Endpoints answer `ok`.
    pub(super) async fn start(workers: usize, config: &Config) -> Self {
        Self::over(workers, config, |_| Meeting::with(answering)).await
    }

    /// The same over endpoints that do as `script` says.
    pub(super) async fn over(
        workers: usize,
        config: &Config,
        script: impl Fn(SocketAddr) -> Meeting + Clone + 'static,
    ) -> Self {
        let tls = ServerTls::new(&options().fallback_certificate, SessionTickets::default()).unwrap();
        let tls = tls.with_stapling(Stapling::new(|_| Ok(())));
        let (publisher, _) =
            Publisher::new(tls, fairway_routing::compile(config, None).snapshot, 1, 8, Opening::default());
        let published = latest(&publisher);
        let quic =
            |port: &&crate::listening::OpenPort| matches!(port.carries, fairway_routing::Port::Quic(_));
        let port = published.listening.ports().iter().find(quic).expect("a port of QUIC");
        let id = port.sockets.id;
        let (log, logged) = mpsc::sync_channel(64);
        // That of the first worker is the one of the configuration.
        let Some(PortSocket::Udp(socket)) = port.sockets.take(0) else { panic!("a UDP socket") };
        let shared = SharedEndpoints::new(SessionTickets::default());
        let guards = SharedGuards::new(workers, SessionTickets::default(), Logouts::default());
        let mut process = Self {
            workers: Vec::new(),
            addresses: Vec::new(),
            tasks: Vec::new(),
            shared,
            open: Vec::new(),
            publisher,
            port: id,
            logged,
        };
        let mut socket = Some(UdpSocket::from_std(socket).unwrap());
        for (neighbours, _) in Neighbours::all(&Spread::new(workers)) {
            let socket = match socket.take() {
                Some(first) => first,
                None => UdpSocket::bind("127.0.0.1:0").await.unwrap(),
            };
            let shared = Shared {
                memory: Arc::new(Memory::unwatched(1)),
                guards: guards.clone(),
                disk: Disk::inline(&std::env::temp_dir(), DISK).unwrap(),
                quic: process.shared.clone(),
                checks: fairway_connection::upstream::Checks::default(),
                circuits: fairway_connection::upstream::Circuits::default(),
            };
            let (network, _) = ScriptedNetwork::new(script.clone());
            let log = AccessLog::new(AccessLogFormat::Nginx, OutputSender::to(log.clone()));
            let options = Arc::new(ProxyOptions { workers, ..options() });
            let worker = Rc::new(Worker::new(options, network, &published, log, shared, neighbours));
            process.addresses.push(socket.local_addr().unwrap());
            let (open, closed) = oneshot::channel();
            process.tasks.push(spawn_local(serve_quic(Rc::clone(&worker), id, socket, closed)));
            process.workers.push(worker);
            process.open.push(open);
        }
        // All of them are there before the first datagram.
        for worker in 0..u16::try_from(workers).unwrap() {
            while process.shared.way(id, worker).is_none() {
                tokio::task::yield_now().await;
            }
        }
        process
    }

    /// Serves by this configuration from now on, and closes the port where that is gone.
    pub(super) fn publish(&mut self, config: &Config) {
        let before = self.workers[0].adopted();
        let compiled = fairway_routing::compile(config, Some(before.snapshot()));
        self.publisher.publish(compiled.snapshot);
        let published = latest(&self.publisher);
        self.workers.iter().for_each(|worker| worker.adopt(&published));
        if published.listening.port(self.port).is_none() {
            self.open.clear();
        }
    }

    /// Whether every address of the configuration is bound, now or after another try.
    pub(super) fn is_bound(&self) -> bool {
        self.publisher.bind_again();
        self.publisher.is_bound()
    }

    /// The lines of the access logs since the last call.
    pub(super) fn logged(&self) -> String {
        self.workers.iter().for_each(|worker| worker.log.flush());
        self.logged.try_iter().map(|lines| String::from_utf8(lines).unwrap()).collect()
    }

    /// The connections of HTTP/3 that a listener has at the first worker.
    pub(super) fn served(&self, listener: &str) -> u64 {
        let open = self.workers[0].open_connections();
        let of = |((name, protocol), count): (&(Arc<str>, ClientProtocol), &u64)| {
            (**name == *listener && *protocol == ClientProtocol::Http3).then_some(*count)
        };
        open.clients.iter().find_map(of).unwrap_or(0)
    }

    /// The value of a series of the metrics of a worker; 0 when it is not there.
    pub(super) fn value(&self, worker: usize, series: &str) -> u64 {
        let text: String = Text::of(self.workers[worker].sample(), "").collect();
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse().expect("a whole number"))
    }
}

fn latest(publisher: &Publisher) -> Arc<Published> {
    Arc::clone(&publisher.subscribe().borrow())
}

/// Waits until this holds.
pub(super) async fn until(holds: impl Fn() -> bool) {
    let held = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(HANGS, held).await.expect("it holds in the end");
}

/// A client with any number of connections from one socket.
pub(super) struct Client {
    endpoint: Endpoint,
    socket: UdpSocket,
    tls: Arc<rustls::ClientConfig>,
    pub(super) connections: HashMap<ConnectionHandle, ClientConnection>,
    /// Where datagrams go whatever address their connection has.
    pub(super) detour: Cell<Option<SocketAddr>>,
    /// Whether it takes nothing but Retry packets.
    pub(super) hears_only_retries: bool,
}

/// One of them.
pub(super) struct ClientConnection {
    pub(super) quic: Connection,
    pub(super) is_connected: bool,
    pub(super) lost: Option<ConnectionError>,
    pub(super) talk: Conversation,
}

/// TLS of a client that offers this protocol.
pub(super) fn offering(protocols: &[&str]) -> rustls::ClientConfig {
    let mut tls = fairway_testkit::certificates::trusting_anything();
    tls.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    tls
}

impl Client {
    pub(super) async fn new(tls: rustls::ClientConfig) -> Self {
        let socket = socket_at(1).await;
        let endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, false, None);
        let (tls, connections) = (Arc::new(tls), HashMap::new());
        Self { endpoint, socket, tls, connections, detour: Cell::new(None), hears_only_retries: false }
    }

    /// From now on datagrams come from this address of the loopback network, and another port.
    pub(super) async fn move_to(&mut self, last: u8) {
        self.socket = socket_at(last).await;
    }

    /// Begins a connection; nothing is sent yet.
    pub(super) fn connect(&mut self, to: SocketAddr, name: &str) -> ConnectionHandle {
        let crypto = QuicClientConfig::try_from(Arc::clone(&self.tls)).unwrap();
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.version(1);
        let (handle, quic) = self.endpoint.connect(Instant::now(), config, to, name).unwrap();
        let talk = Conversation::new();
        self.connections.insert(handle, ClientConnection { quic, is_connected: false, lost: None, talk });
        handle
    }

    /// Asks for `/` of a host; gives the number of the stream.
    pub(super) fn ask(&mut self, handle: ConnectionHandle, host: &str) -> u64 {
        let connection = self.connections.get_mut(&handle).unwrap();
        let pseudo = [(":method", "GET"), (":scheme", "https"), (":authority", host), (":path", "/")];
        connection.talk.ask(&mut connection.quic, &pseudo, &[], true)
    }

    /// Goes on until the request is answered; gives the status.
    pub(super) async fn answered(&mut self, handle: ConnectionHandle, number: u64) -> u64 {
        self.until(|client| client.connections[&handle].talk.answers[&number].is_over()).await;
        self.connections[&handle].talk.answers[&number].status
    }

    /// Goes on until the connection is over; gives why.
    pub(super) async fn over(&mut self, handle: ConnectionHandle) -> ConnectionError {
        self.until(|client| client.connections[&handle].lost.is_some()).await;
        self.connections[&handle].lost.clone().unwrap()
    }

    /// Goes on until this holds.
    pub(super) async fn until(&mut self, holds: impl Fn(&Self) -> bool) {
        let held = async {
            loop {
                self.send().await;
                if holds(self) {
                    return;
                }
                self.receive().await;
            }
        };
        tokio::time::timeout(HANGS, held).await.expect("it holds in the end");
    }

    /// Goes on until the connection has shaken hands or is lost; gives the error in the latter case.
    pub(super) async fn finish(&mut self, handle: ConnectionHandle) -> Option<ConnectionError> {
        let is_over = |client: &Self| {
            let connection = &client.connections[&handle];
            connection.is_connected || connection.lost.is_some()
        };
        self.until(is_over).await;
        self.connections[&handle].lost.clone()
    }

    /// Sends what there is to send.
    pub(super) async fn send(&mut self) {
        let (now, mut output) = (Instant::now(), Vec::new());
        for (handle, connection) in &mut self.connections {
            let quic = &mut connection.quic;
            if quic.poll_timeout().is_some_and(|at| at <= now) {
                quic.handle_timeout(now);
            }
            while let Some(event) = quic.poll() {
                match &event {
                    Event::Connected => {
                        connection.is_connected = true;
                        Conversation::greet(quic);
                    }
                    Event::ConnectionLost { reason } => connection.lost = Some(reason.clone()),
                    _ => {}
                }
                connection.talk.handle(event, quic);
            }
            connection.talk.go_on(quic);
            loop {
                output.clear();
                let Some(transmit) = quic.poll_transmit(now, 1, &mut output) else { break };
                let Transmit { destination, size, .. } = transmit;
                let to = self.detour.get().unwrap_or(destination);
                self.socket.send_to(&output[..size], to).await.unwrap();
            }
            while let Some(event) = quic.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(*handle, event) {
                    quic.handle_event(event);
                }
            }
        }
    }

    /// Waits for the next datagram, or for the time at which something is to be done.
    async fn receive(&mut self) {
        let timeouts = self.connections.values_mut().filter_map(|connection| connection.quic.poll_timeout());
        // The condition that the test waits for may hold without a datagram.
        let look = Instant::now() + Duration::from_millis(10);
        let next = timeouts.min().map_or(look, |next| next.min(look));
        let mut datagram = vec![0; 2048];
        tokio::select! {
            received = self.socket.recv_from(&mut datagram) => {
                let (length, from) = received.unwrap();
                // A long header of type 3 (RFC 9000 §17.2.5).
                if self.hears_only_retries && datagram[0] & 0xf0 != 0xf0 {
                    return;
                }
                let (mut output, datagram) = (Vec::new(), BytesMut::from(&datagram[..length]));
                let event = self.endpoint.handle(Instant::now(), from, None, None, datagram, &mut output);
                match event {
                    Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                        if let Some(connection) = self.connections.get_mut(&handle) {
                            connection.quic.handle_event(event);
                        }
                    }
                    Some(DatagramEvent::Response(Transmit { destination, size, .. })) => {
                        self.socket.send_to(&output[..size], destination).await.unwrap();
                    }
                    Some(DatagramEvent::NewConnection(_)) | None => {}
                }
            }
            () = tokio::time::sleep_until(next.into()) => {}
        }
    }
}

/// A socket at an address of the loopback network.
async fn socket_at(last: u8) -> UdpSocket {
    let address = IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
    UdpSocket::bind((address, 0)).await.unwrap()
}

/// The port of QUIC of a process, for whoever looks at its parts.
pub(super) fn quic_port(worker: &Worker<ScriptedNetwork>) -> PortId {
    let adopted = worker.adopted();
    let mut ports = adopted.listening().ports().iter();
    let port = ports.find(|port| matches!(port.carries, fairway_routing::Port::Quic(_)));
    port.expect("a port of QUIC").sockets.id
}
