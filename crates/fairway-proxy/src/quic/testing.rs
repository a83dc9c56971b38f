//! Fixtures of QUIC tests: a `quinn_proto` client driven by the test over a real socket, and workers that serve
//! real sockets. Everything waits for a condition; a timeout only ends hanging tests.

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
use fairway_net::spread::ConnectionSpread;
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
use crate::downstream::http3_client::Http3Conversation;
use crate::guards::Logouts;
use crate::inspection::ClientProtocol;
use crate::listener::PortId;
use crate::listening::PortSocket;
use crate::metrics::ScrapeText;
use crate::options::{AccessLogFormat, ProxyOptions, StartupSockets};
use crate::publish::{Published, Publisher};
use crate::quic::keys::SharedEndpoints;
use crate::testing::{
    MAX_DISK_BYTES, ScriptedConnect, ScriptedNetwork, config_with_phases, options, serve_ok,
};
use crate::tls::{ServerTls, SessionTickets, Stapling};
use crate::worker::{Neighbours, SharedGuards, Worker, WorkerShared};

/// Metric names.
pub(super) const HANDED_OVER: &str = "fairway_quic_datagrams_handed_over_total";
pub(super) const RESETS_METRIC: &str = "fairway_quic_stateless_resets_total";

/// Timeout for hanging tests.
pub(super) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A configuration with an HTTP/3 listener for each of these names at one free address.
pub(super) fn config(names: &[&str], edit: impl Fn(&mut Listener)) -> Config {
    let address = fairway_testkit::wait::free_address();
    let mut config = config_with_phases(1, Vec::new());
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

/// Workers of one process serving a configuration, each at its own socket.
pub(super) struct Process {
    pub(super) workers: Vec<Rc<Worker<ScriptedNetwork>>>,
    /// Address of each worker's socket.
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) tasks: Vec<JoinHandle<()>>,
    pub(super) shared: SharedEndpoints,
    /// Dropping these closes the port.
    pub(super) open: Vec<oneshot::Sender<Infallible>>,
    publisher: Publisher,
    port: PortId,
    logged: mpsc::Receiver<Vec<u8>>,
}

impl Process {
    /// With this many workers; endpoints respond `ok`.
    pub(super) async fn start(workers: usize, config: &Config) -> Self {
        Self::start_with_script(workers, config, |_| ScriptedConnect::served_by(serve_ok)).await
    }

    /// With scripted endpoints.
    pub(super) async fn start_with_script(
        workers: usize,
        config: &Config,
        script: impl Fn(SocketAddr) -> ScriptedConnect + Clone + 'static,
    ) -> Self {
        let tls = ServerTls::new(&options().fallback_certificate, SessionTickets::default()).unwrap();
        let tls = tls.with_stapling(Stapling::new(|_| Ok(())));
        let (publisher, _) = Publisher::new(
            tls,
            fairway_routing::compile(config, None).snapshot,
            1,
            8,
            StartupSockets::default(),
        );
        let published = latest(&publisher);
        let quic =
            |port: &&crate::listening::OpenPort| matches!(port.carries, fairway_routing::Port::Quic(_));
        let port = published.listening.ports().iter().find(quic).expect("a port of QUIC");
        let id = port.sockets.id;
        let (log, logged) = mpsc::sync_channel(64);
        // The first worker has the configured address.
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
        for (neighbours, _) in Neighbours::for_workers(&ConnectionSpread::new(workers)) {
            let socket = match socket.take() {
                Some(first) => first,
                None => UdpSocket::bind("127.0.0.1:0").await.unwrap(),
            };
            let shared = WorkerShared {
                memory: Arc::new(Memory::unwatched(1)),
                guards: guards.clone(),
                disk: Disk::inline(&std::env::temp_dir(), MAX_DISK_BYTES).unwrap(),
                quic: process.shared.clone(),
                checks: fairway_connection::upstream::HealthChecks::default(),
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
        // Wait until all are registered.
        for worker in 0..u16::try_from(workers).unwrap() {
            while process.shared.sender_to(id, worker).is_none() {
                tokio::task::yield_now().await;
            }
        }
        process
    }

    /// Publishes a configuration, and closes the port if it is removed.
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

    /// Whether every address of the configuration is bound, after another try.
    pub(super) fn is_bound(&self) -> bool {
        self.publisher.retry_binds();
        self.publisher.is_bound()
    }

    /// Access log lines since the last call.
    pub(super) fn log_lines(&self) -> String {
        self.workers.iter().for_each(|worker| worker.log.flush());
        self.logged.try_iter().map(|lines| String::from_utf8(lines).unwrap()).collect()
    }

    /// HTTP/3 connections of a listener at the first worker.
    pub(super) fn http3_connections(&self, listener: &str) -> u64 {
        let open = self.workers[0].open_connections();
        let line_of = |((name, protocol), count): (&(Arc<str>, ClientProtocol), &u64)| {
            (**name == *listener && *protocol == ClientProtocol::Http3).then_some(*count)
        };
        open.clients.iter().find_map(line_of).unwrap_or(0)
    }

    /// The value of a metric series of a worker; 0 if absent.
    pub(super) fn metric_value(&self, worker: usize, series: &str) -> u64 {
        let text: String = ScrapeText::new(self.workers[worker].sample(), "").collect();
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse().expect("a whole number"))
    }
}

fn latest(publisher: &Publisher) -> Arc<Published> {
    Arc::clone(&publisher.subscribe().borrow())
}

/// Waits until this holds.
pub(super) async fn wait_until(holds: impl Fn() -> bool) {
    let stream = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, stream).await.expect("the condition comes true");
}

/// A client with any number of connections from one socket.
pub(super) struct Client {
    endpoint: Endpoint,
    socket: UdpSocket,
    tls: Arc<rustls::ClientConfig>,
    pub(super) connections: HashMap<ConnectionHandle, ClientConnection>,
    /// Overrides the destination of all datagrams.
    pub(super) sink_address: Cell<Option<SocketAddr>>,
    /// Whether it only reads Retry packets.
    pub(super) reads_only_retries: bool,
}

/// One of them.
pub(super) struct ClientConnection {
    pub(super) quic: Connection,
    pub(super) is_connected: bool,
    pub(super) connection_error: Option<ConnectionError>,
    pub(super) conversation: Http3Conversation,
}

/// TLS of a client with these ALPN protocols.
pub(super) fn client_tls(protocols: &[&str]) -> rustls::ClientConfig {
    let mut tls = fairway_testkit::certificates::unverified_client_config();
    tls.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    tls
}

impl Client {
    pub(super) async fn new(tls: rustls::ClientConfig) -> Self {
        let socket = socket_at(1).await;
        let endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, false, None);
        let (tls, connections) = (Arc::new(tls), HashMap::new());
        Self { endpoint, socket, tls, connections, sink_address: Cell::new(None), reads_only_retries: false }
    }

    /// Moves the client to this loopback address and another port.
    pub(super) async fn move_to(&mut self, last: u8) {
        self.socket = socket_at(last).await;
    }

    /// Starts a connection; nothing is sent yet.
    pub(super) fn connect(&mut self, to: SocketAddr, name: &str) -> ConnectionHandle {
        let crypto = QuicClientConfig::try_from(Arc::clone(&self.tls)).unwrap();
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.version(1);
        let (handle, quic) = self.endpoint.connect(Instant::now(), config, to, name).unwrap();
        let conversation = Http3Conversation::new();
        self.connections.insert(
            handle,
            ClientConnection { quic, is_connected: false, connection_error: None, conversation },
        );
        handle
    }

    /// Requests `/` of a host; returns the stream number.
    pub(super) fn request(&mut self, handle: ConnectionHandle, host: &str) -> u64 {
        let connection = self.connections.get_mut(&handle).unwrap();
        let pseudo = [(":method", "GET"), (":scheme", "https"), (":authority", host), (":path", "/")];
        connection.conversation.request(&mut connection.quic, &pseudo, &[], true)
    }

    /// Runs until the response is complete; returns the status.
    pub(super) async fn response_status(&mut self, handle: ConnectionHandle, number: u64) -> u64 {
        self.run_until(|client| client.connections[&handle].conversation.responses[&number].is_finished())
            .await;
        self.connections[&handle].conversation.responses[&number].status
    }

    /// Runs until the connection is closed; returns the reason.
    pub(super) async fn wait_for_close(&mut self, handle: ConnectionHandle) -> ConnectionError {
        self.run_until(|client| client.connections[&handle].connection_error.is_some()).await;
        self.connections[&handle].connection_error.clone().unwrap()
    }

    /// Runs until this holds.
    pub(super) async fn run_until(&mut self, holds: impl Fn(&Self) -> bool) {
        let stream = async {
            loop {
                self.send().await;
                if holds(self) {
                    return;
                }
                self.receive().await;
            }
        };
        tokio::time::timeout(TEST_TIMEOUT, stream).await.expect("the condition comes true");
    }

    /// Runs until the handshake completes or fails; returns the error if it failed.
    pub(super) async fn finish_handshake(&mut self, handle: ConnectionHandle) -> Option<ConnectionError> {
        let is_over = |client: &Self| {
            let connection = &client.connections[&handle];
            connection.is_connected || connection.connection_error.is_some()
        };
        self.run_until(is_over).await;
        self.connections[&handle].connection_error.clone()
    }

    /// Sends pending output.
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
                        Http3Conversation::open_control_stream(quic);
                    }
                    Event::ConnectionLost { reason } => connection.connection_error = Some(reason.clone()),
                    _ => {}
                }
                connection.conversation.handle(event, quic);
            }
            connection.conversation.exchange_data(quic);
            loop {
                output.clear();
                let Some(transmit) = quic.poll_transmit(now, 1, &mut output) else { break };
                let Transmit { destination, size, .. } = transmit;
                let to = self.sink_address.get().unwrap_or(destination);
                self.socket.send_to(&output[..size], to).await.unwrap();
            }
            while let Some(event) = quic.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(*handle, event) {
                    quic.handle_event(event);
                }
            }
        }
    }

    /// Waits for the next datagram or deadline.
    async fn receive(&mut self) {
        let timeouts = self.connections.values_mut().filter_map(|connection| connection.quic.poll_timeout());
        // The condition of the test may come true without a datagram.
        let look = Instant::now() + Duration::from_millis(10);
        let next = timeouts.min().map_or(look, |next| next.min(look));
        let mut datagram = vec![0; 2048];
        tokio::select! {
            received = self.socket.recv_from(&mut datagram) => {
                let (length, from) = received.unwrap();
                // A long header of type 3 (RFC 9000 §17.2.5).
                if self.reads_only_retries && datagram[0] & 0xf0 != 0xf0 {
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

/// Id of the QUIC port of a process.
pub(super) fn quic_port(worker: &Worker<ScriptedNetwork>) -> PortId {
    let adopted = worker.adopted();
    let mut ports = adopted.listening().ports().iter();
    let port = ports.find(|port| matches!(port.carries, fairway_routing::Port::Quic(_)));
    port.expect("a port of QUIC").sockets.id
}
