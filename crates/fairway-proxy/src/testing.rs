//! A test environment without sockets: one worker with scripted endpoints, clients on in-memory streams, and
//! tokio's paused clock, so that minutes pass in no time. Test-only.

use std::cell::{Cell, RefCell};
use std::future::{Future, pending};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use fairway_connection::hop::AnyHop;
use fairway_connection::sides::HopProtocol;
use fairway_connection::upstream::{Circuits, HealthChecks};
use fairway_http::HeadLimits;
use fairway_model::{
    Action, Backend, BackendProtocol, Balancing, Config, Endpoint, HostKey, HostPattern, Listener,
    ListenerProtocol, Match, Origin, PathForm, Phases, Policy, Route, Rule, RuleLabels, RuleOrder,
    ServiceName, Settings, VirtualHost, WeightedBackend,
};
use fairway_net::clock::Instant;
use fairway_net::memory::Memory;
use fairway_net::transport::{Transport, UpstreamStream};
use fairway_net::wire::Workspace;
use fairway_routing::Snapshot;
use fairway_testkit::{Authority, wire};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
use tokio::task::{LocalSet, spawn_local};

use crate::access_log::AccessLog;
use crate::buffering::Disk;
use crate::geoip::GeoIp;
use crate::guards::{FleetLimits, Logouts};
use crate::listener::ListenerId;
use crate::metrics::ScrapeText;
use crate::network::Network;
use crate::options::{
    AccessLogFormat, BufferOptions, DrainOptions, Limits, ProxyOptions, ProxyProtocol, RecorderOptions,
    StartupSockets,
};
use crate::peer::{ConnectionDetails, Peer, Scheme, Sender};
use crate::publish::{Published, Publisher};
use crate::quic::keys::SharedEndpoints;
use crate::thread::{check_waits, yield_idle_connections};
use crate::tls::{SelfSigned, ServerTls, SessionTickets, Stapling};
use crate::worker::{Neighbours, OpenConnection, SharedGuards, Worker, WorkerShared};

/// Disk limit of buffered bodies.
pub(crate) const MAX_DISK_BYTES: u64 = 4 << 20;

/// Capacity of an in-memory stream.
const PIPE_BYTES: usize = 64 * 1024;

/// The outcome of a connect to an endpoint.
pub(crate) enum ScriptedConnect {
    /// The connect is refused.
    Refused,
    /// The connect fails with this OS error.
    Error(i32),
    /// The connect never completes.
    Silence,
    /// The connect completes after a delay.
    Delayed(Duration, DuplexStream),
    /// A connection, served at its other end.
    Peer(DuplexStream),
    /// A connection whose other end vanishes silently once the flag is set.
    Vanishing(DuplexStream, Rc<Cell<bool>>),
    /// A connection whose other end may leave data unacknowledged.
    Unacknowledging(DuplexStream, UnacknowledgedFor),
}

/// For how long an endpoint has left data unacknowledged; `None` if it has not.
pub(crate) type UnacknowledgedFor = Rc<Cell<Option<Duration>>>;

/// A stream to an endpoint that may vanish: written data is then not acknowledged and nothing more arrives.
pub(crate) struct ScriptedStream {
    stream: DuplexStream,
    vanished: Option<Rc<Cell<bool>>>,
    unacknowledged_for: UnacknowledgedFor,
}

impl From<DuplexStream> for ScriptedStream {
    fn from(stream: DuplexStream) -> Self {
        Self { stream, vanished: None, unacknowledged_for: UnacknowledgedFor::default() }
    }
}

impl AsyncRead for ScriptedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.vanished.as_ref().is_some_and(|vanished| vanished.get()) {
            return Pin::new(&mut self.stream).poll_read(cx, into);
        }
        Poll::Pending
    }
}

impl AsyncWrite for ScriptedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl Transport for ScriptedStream {
    fn peer(&self) -> Option<std::net::IpAddr> {
        None
    }

    fn abort(&mut self) {}

    fn owes_acknowledgement(&self) -> Option<Duration> {
        let vanished = self.vanished.as_ref().is_some_and(|vanished| vanished.get());
        if vanished { Some(Duration::MAX) } else { self.unacknowledged_for.get() }
    }
}

impl ScriptedConnect {
    /// A connection served by `endpoint`.
    pub(crate) fn served_by<F: Future<Output = ()> + 'static>(
        endpoint: impl FnOnce(DuplexStream) -> F,
    ) -> Self {
        let (ours, theirs) = duplex(PIPE_BYTES);
        spawn_local(endpoint(theirs));
        Self::Peer(ours)
    }

    /// A connection served by `endpoint` after a delay.
    pub(crate) fn served_after<F: Future<Output = ()> + 'static>(
        after: Duration,
        endpoint: impl FnOnce(DuplexStream) -> F,
    ) -> Self {
        match Self::served_by(endpoint) {
            Self::Peer(stream) => Self::Delayed(after, stream),
            other => other,
        }
    }

    /// A connection served by `endpoint` until it vanishes.
    pub(crate) fn vanishing<F: Future<Output = ()> + 'static>(
        vanished: &Rc<Cell<bool>>,
        endpoint: impl FnOnce(DuplexStream) -> F,
    ) -> Self {
        match Self::served_by(endpoint) {
            Self::Peer(stream) => Self::Vanishing(stream, Rc::clone(vanished)),
            other => other,
        }
    }

    /// A connection served by `endpoint`, which leaves data unacknowledged as `owed` says.
    pub(crate) fn unacknowledging<F: Future<Output = ()> + 'static>(
        owed: &UnacknowledgedFor,
        endpoint: impl FnOnce(DuplexStream) -> F,
    ) -> Self {
        match Self::served_by(endpoint) {
            Self::Peer(stream) => Self::Unacknowledging(stream, Rc::clone(owed)),
            other => other,
        }
    }
}

/// Decides the outcome of every connect.
type Script = Rc<dyn Fn(SocketAddr) -> ScriptedConnect>;

/// A network without sockets.
pub(crate) struct ScriptedNetwork {
    script: Script,
    connects: Connects,
}

/// Time and address of every connect.
type Connects = Rc<RefCell<Vec<(Instant, SocketAddr)>>>;

impl ScriptedNetwork {
    pub(crate) fn new(script: impl Fn(SocketAddr) -> ScriptedConnect + 'static) -> (Self, Connects) {
        let connects = Rc::new(RefCell::new(Vec::new()));
        (Self { script: Rc::new(script), connects: Rc::clone(&connects) }, connects)
    }
}

impl Network for ScriptedNetwork {
    type Stream = ScriptedStream;
    type Hop = AnyHop<UpstreamStream<ScriptedStream>>;

    async fn connect(&self, to: SocketAddr) -> io::Result<ScriptedStream> {
        self.connects.borrow_mut().push((Instant::now(), to));
        match (self.script)(to) {
            ScriptedConnect::Refused => Err(io::ErrorKind::ConnectionRefused.into()),
            ScriptedConnect::Error(error) => Err(io::Error::from_raw_os_error(error)),
            ScriptedConnect::Silence => pending().await,
            ScriptedConnect::Delayed(after, stream) => {
                tokio::time::sleep(after).await;
                Ok(stream.into())
            }
            ScriptedConnect::Peer(stream) => Ok(stream.into()),
            ScriptedConnect::Vanishing(stream, vanished) => {
                Ok(ScriptedStream { vanished: Some(vanished), ..stream.into() })
            }
            ScriptedConnect::Unacknowledging(stream, unacknowledged_for) => {
                Ok(ScriptedStream { unacknowledged_for, ..stream.into() })
            }
        }
    }

    fn hop(
        &self,
        stream: UpstreamStream<ScriptedStream>,
        spoken: HopProtocol,
        workspace: &Rc<Workspace>,
        heads: HeadLimits,
    ) -> Self::Hop {
        AnyHop::new(stream, spoken, workspace, heads)
    }
}

/// A worker with one rule and one backend.
pub(crate) struct TestWorker {
    pub(crate) worker: Rc<Worker<ScriptedNetwork>>,
    connects: Connects,
}

impl TestWorker {
    /// With this many endpoints and default settings, changed by `edit`.
    pub(crate) fn new(
        endpoints: usize,
        edit: impl FnOnce(&mut Policy, &mut Settings),
        script: impl Fn(SocketAddr) -> ScriptedConnect + 'static,
    ) -> Self {
        Self::with_limits(Limits::default(), endpoints, edit, script)
    }

    /// With other process limits.
    pub(crate) fn with_limits(
        limits: Limits,
        endpoints: usize,
        edit: impl FnOnce(&mut Policy, &mut Settings),
        script: impl Fn(SocketAddr) -> ScriptedConnect + 'static,
    ) -> Self {
        let (network, connects) = ScriptedNetwork::new(script);
        Self { worker: worker_over(network, limits, endpoints, edit), connects }
    }

    /// With endpoints of this protocol.
    pub(crate) fn with_protocol(
        protocol: BackendProtocol,
        endpoints: usize,
        script: impl Fn(SocketAddr) -> ScriptedConnect + 'static,
    ) -> Self {
        Self::with_protocol_and_policy(Policy::default(), protocol, endpoints, script)
    }

    /// With endpoints of this protocol and a rule changed by `edit`.
    pub(crate) fn with_protocol_and_rule(
        protocol: BackendProtocol,
        endpoints: usize,
        edit: impl FnOnce(&mut Rule),
        script: impl Fn(SocketAddr) -> ScriptedConnect + 'static,
    ) -> Self {
        Self::with_protocol_and_config(protocol, config_with_rule(endpoints, edit), script)
    }

    /// With endpoints of this protocol and another policy.
    pub(crate) fn with_protocol_and_policy(
        policy: Policy,
        protocol: BackendProtocol,
        endpoints: usize,
        script: impl Fn(SocketAddr) -> ScriptedConnect + 'static,
    ) -> Self {
        Self::with_protocol_and_config(protocol, config(endpoints, policy, Settings::default()), script)
    }

    fn with_protocol_and_config(
        protocol: BackendProtocol,
        mut config: Config,
        script: impl Fn(SocketAddr) -> ScriptedConnect + 'static,
    ) -> Self {
        let backends: Vec<Backend> =
            config.backends.values().map(|backend| Backend::clone(backend)).collect();
        for backend in backends {
            let backend = Backend { protocol, ..backend };
            config.backends.insert(backend.key.clone(), Arc::new(backend));
        }
        let (network, connects) = ScriptedNetwork::new(script);
        Self { worker: worker_with_config(network, Limits::default(), &config), connects }
    }

    /// With a rule of these phases, which may name the backends `a`, `b` and `c`: their only endpoints have the
    /// numbers 100, 101 and 102.
    pub(crate) fn with_phases(
        endpoints: usize,
        phases: Vec<Phases>,
        script: impl Fn(SocketAddr) -> ScriptedConnect + 'static,
    ) -> Self {
        Self::with_rule(endpoints, |rule| rule.phases = Phases::from_iter(phases).shared(), script)
    }

    /// With a rule changed by `edit`.
    pub(crate) fn with_rule(
        endpoints: usize,
        edit: impl FnOnce(&mut Rule),
        script: impl Fn(SocketAddr) -> ScriptedConnect + 'static,
    ) -> Self {
        let mut config = config_with_rule(endpoints, edit);
        for (name, number) in [("a", 100), ("b", 101), ("c", 102)] {
            let template = config.backends.values().next().expect("one backend");
            let endpoints = vec![Endpoint::at(endpoint(number))];
            let backend = Backend { key: name.into(), endpoints, ..Backend::clone(template) };
            config.backends.insert(backend.key.clone(), Arc::new(backend));
        }
        let (network, connects) = ScriptedNetwork::new(script);
        Self { worker: worker_with_config(network, Limits::default(), &config), connects }
    }

    /// With this configuration.
    pub(crate) fn with_config(
        config: &Config,
        script: impl Fn(SocketAddr) -> ScriptedConnect + 'static,
    ) -> Self {
        Self::within_process(&Process::with_workers(1), config, script)
    }

    /// With process options changed by `edit`.
    pub(crate) fn with_options(
        edit: impl FnOnce(&mut ProxyOptions),
        config: &Config,
        script: impl Fn(SocketAddr) -> ScriptedConnect + 'static,
    ) -> Self {
        let (network, connects) = ScriptedNetwork::new(script);
        let mut options = options();
        edit(&mut options);
        Self { worker: worker_started_with(options, &Process::with_workers(1), network, config), connects }
    }

    /// Two workers of one process with this configuration.
    pub(crate) fn two_workers(
        config: &Config,
        script: impl Fn(SocketAddr) -> ScriptedConnect + Copy + 'static,
    ) -> [Self; 2] {
        let process = Process::with_workers(2);
        [0, 1].map(|_| Self::within_process(&process, config, script))
    }

    /// In a process of a fleet that shares these limits.
    pub(crate) fn in_fleet(
        fleet: FleetLimits,
        config: &Config,
        script: impl Fn(SocketAddr) -> ScriptedConnect + 'static,
    ) -> Self {
        let process = Process::with_workers(1);
        let process = Process { guards: process.guards.in_fleet(fleet), ..process };
        Self::within_process(&process, config, script)
    }

    fn within_process(
        process: &Process,
        config: &Config,
        script: impl Fn(SocketAddr) -> ScriptedConnect + 'static,
    ) -> Self {
        let (network, connects) = ScriptedNetwork::new(script);
        Self { worker: worker_in_process(process, network, Limits::default(), config), connects }
    }

    /// Publishes a new configuration.
    pub(crate) fn publish(&self, config: &Config) {
        let before = self.worker.adopted();
        self.worker.adopt(&published(config, Some(before.snapshot())));
    }

    /// A new client, served in its own task.
    pub(crate) fn client(&self) -> Client {
        let (client, serving) = self.unserved_client();
        spawn_local(serving);
        client
    }

    /// A new client with these connection details.
    pub(crate) fn client_with_details(&self, details: Option<Arc<ConnectionDetails>>) -> Client {
        let (client, serving) = self.unserved_client_with_details(details);
        spawn_local(serving);
        client
    }

    /// A new client, and the future that serves it.
    pub(crate) fn unserved_client(&self) -> (Client, impl Future<Output = ()> + 'static) {
        self.unserved_client_with_details(None)
    }

    fn unserved_client_with_details(
        &self,
        details: Option<Arc<ConnectionDetails>>,
    ) -> (Client, impl Future<Output = ()> + 'static) {
        let (ours, theirs) = duplex(PIPE_BYTES);
        let client = endpoint(9999).ip();
        let listener = ListenerId { slot: 0, generation: 1 };
        let peer = Peer { listener, scheme: Scheme::Http, client, sender: Sender::Client, details };
        let serving =
            crate::downstream::serve_http1(OpenConnection::new(&self.worker), peer, ours, Vec::new());
        (Client { stream: theirs, pending: Vec::new() }, serving)
    }

    /// Fails with a description if anything is still counted as in flight.
    pub(crate) fn check_idle(&self) -> Result<(), String> {
        check_worker_idle(&self.worker)
    }

    /// Every connect so far.
    pub(crate) fn connects(&self) -> Vec<(Instant, SocketAddr)> {
        self.connects.borrow().clone()
    }

    /// Whether the metrics contain this line.
    pub(crate) fn has_metric_line(&self, line: &str) -> bool {
        self.metrics().lines().any(|other| other == line)
    }

    /// The value of a metric series; 0 if absent.
    pub(crate) fn metric_value(&self, series: &str) -> u64 {
        let text = self.metrics();
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse().expect("a whole number"))
    }

    /// All metrics as text.
    pub(crate) fn metrics(&self) -> String {
        ScrapeText::new(self.worker.sample(), "").collect()
    }
}

/// A worker with one rule and one backend of this many endpoints.
pub(crate) fn worker_over<N: Network>(
    network: N,
    limits: Limits,
    endpoints: usize,
    edit: impl FnOnce(&mut Policy, &mut Settings),
) -> Rc<Worker<N>> {
    let (mut policy, mut settings) = (Policy::default(), Settings::default());
    edit(&mut policy, &mut settings);
    worker_with_config(network, limits, &config(endpoints, policy, settings))
}

/// A worker that serves `config`.
fn worker_with_config<N: Network>(network: N, limits: Limits, config: &Config) -> Rc<Worker<N>> {
    worker_in_process(&Process::with_workers(1), network, limits, config)
}

/// State shared by the workers of a process.
struct Process {
    guards: SharedGuards,
    circuits: Circuits,
}

impl Process {
    fn with_workers(workers: usize) -> Self {
        let guards = SharedGuards::new(workers, SessionTickets::default(), Logouts::default());
        Self { guards, circuits: Circuits::default() }
    }
}

/// A worker of this process.
fn worker_in_process<N: Network>(
    process: &Process,
    network: N,
    limits: Limits,
    config: &Config,
) -> Rc<Worker<N>> {
    worker_started_with(ProxyOptions { limits, ..options() }, process, network, config)
}

fn worker_started_with<N: Network>(
    options: ProxyOptions,
    process: &Process,
    network: N,
    config: &Config,
) -> Rc<Worker<N>> {
    let published = published(config, None);
    let log = AccessLog::new(AccessLogFormat::Off, fairway_net::output::OutputSender::none());
    let shared = WorkerShared {
        memory: Arc::new(Memory::unwatched(1)),
        guards: process.guards.clone(),
        disk: Disk::inline(&std::env::temp_dir(), MAX_DISK_BYTES).expect("a directory for files"),
        quic: SharedEndpoints::new(SessionTickets::default()),
        checks: HealthChecks::default(),
        circuits: process.circuits.clone(),
    };
    let worker =
        Rc::new(Worker::new(Arc::new(options), network, &published, log, shared, Neighbours::none()));
    spawn_local(check_waits(Rc::clone(&worker)));
    spawn_local(yield_idle_connections(Rc::clone(&worker)));
    worker
}

/// Fails with a description if anything of a worker is still counted as in flight.
pub(crate) fn check_worker_idle<N: Network>(worker: &Worker<N>) -> Result<(), String> {
    let groups = &worker.groups;
    let circuits = worker.circuits.totals();
    let counts = [
        ("open connections", worker.counters.open_connections()),
        ("exchanges", worker.exchanges() as u64),
        ("waits", worker.waits.count() as u64),
        ("streams", worker.counters.http2.streams().get() + worker.counters.http3.streams().get()),
        ("connections of HTTP/3", worker.counters.http3.connections.get()),
        ("what windows grew by", worker.budgets.window_growth.lent_bytes()),
        ("bytes of compressors", worker.compressor_memory.used_bytes()),
        ("copies", worker.copies() as u64),
        ("requests of limits", worker.guards.counts.in_flight()),
        ("registered connections", worker.registered() as u64),
        ("bytes of memory for bodies that are held", worker.body_memory.used_bytes()),
        ("bytes on disk of bodies that are held", worker.disk.used_bytes()),
        ("exchanges of endpoints", u64::from(worker.groups.in_flight())),
        ("requests of backends with limits", circuits.requests),
        ("retries of backends with limits", circuits.retries),
        ("requests that await a response of a backend with limits", circuits.awaiting),
        ("requests that wait for a backend with limits", circuits.pending),
        (
            "miscounted idle connections",
            groups.idle_connections().abs_diff(groups.count_idle_connections()) as u64,
        ),
    ];
    match counts.iter().find(|(_, count)| *count > 0) {
        None => Ok(()),
        Some((what, count)) => Err(format!("{count} {what}")),
    }
}

/// The client end of a connection.
pub(crate) struct Client {
    pub(crate) stream: DuplexStream,
    pending: Vec<u8>,
}

/// A response as received by a client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TestResponse {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.expect("the proxy reads");
    }

    /// The next response; `None` if the connection ends first.
    pub(crate) async fn response(&mut self) -> Option<TestResponse> {
        loop {
            if let Some((seen, used)) = parse(&self.pending) {
                self.pending.drain(..used);
                return Some(seen);
            }
            if self.stream.read_buf(&mut self.pending).await.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    /// The next response as text.
    pub(crate) async fn response_text(&mut self) -> String {
        loop {
            if let Some((_, used)) = parse(&self.pending) {
                return String::from_utf8(self.pending.drain(..used).collect()).expect("text");
            }
            let count = self.stream.read_buf(&mut self.pending).await.unwrap_or(0);
            assert!(count > 0, "a response: {:?}", String::from_utf8_lossy(&self.pending));
        }
    }

    pub(crate) async fn request(&mut self, request: impl AsRef<[u8]>) -> Option<TestResponse> {
        self.send(request).await;
        self.response().await
    }

    /// Reads to the end of the connection; returns what was received.
    pub(crate) async fn read_to_end(mut self) -> Vec<u8> {
        // A failure also ends it.
        let _ = self.stream.read_to_end(&mut self.pending).await;
        self.pending
    }
}

fn parse(bytes: &[u8]) -> Option<(TestResponse, usize)> {
    let head = wire::head(bytes).expect("a canonical response")?;
    let status = head.start.split(' ').nth(1)?.parse().expect("a status");
    let framing = wire::framing(&head.fields).expect("one framing").unwrap_or(wire::Framing::None);
    let rest = &bytes[head.length..];
    match framing {
        wire::Framing::Length(length) if rest.len() >= length => {
            Some((TestResponse { status, body: rest[..length].to_vec() }, head.length + length))
        }
        wire::Framing::Length(_) => None,
        wire::Framing::Chunked => {
            let body = wire::chunked(rest).expect("canonical chunks")?;
            Some((TestResponse { status, body: body.content }, head.length + body.length))
        }
        wire::Framing::None | wire::Framing::Close => {
            Some((TestResponse { status, body: Vec::new() }, head.length))
        }
    }
}

/// Runs a test in a local task set, with the same random numbers in every run.
pub(crate) async fn run_local(play: impl Future<Output = ()>) {
    fastrand::seed(1);
    LocalSet::new().run_until(play).await;
}

/// Reads one request head without a body; `false` at the end of the connection.
pub(crate) async fn read_head(stream: &mut DuplexStream) -> bool {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => bytes.push(byte),
            Err(_) => return false,
        }
    }
    true
}

/// Responds to every request with 200 and two bytes.
pub(crate) async fn serve_ok(mut stream: DuplexStream) {
    while read_head(&mut stream).await {
        if stream.write_all(OK_RESPONSE).await.is_err() {
            return;
        }
    }
}

/// The response of [`serve_ok`].
pub(crate) const OK_RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A request without a body.
pub(crate) const GET_REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

pub(crate) fn published(config: &Config, before: Option<&Snapshot>) -> Arc<Published> {
    let compiled = fairway_routing::compile(config, before);
    let tls = ServerTls::new(&options().fallback_certificate, SessionTickets::default())
        .expect("a certificate of the testkit");
    let (publisher, _) = Publisher::new(tls, compiled.snapshot, 1, 8, StartupSockets::default());
    Arc::clone(&publisher.subscribe().borrow())
}

/// Address of the n-th endpoint.
pub(crate) fn endpoint(number: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], number))
}

/// A snapshot with one catch-all rule of these phases.
pub(crate) fn snapshot(phases: Vec<Phases>) -> Arc<Snapshot> {
    fairway_routing::compile(&config_with_phases(1, phases), None).snapshot
}

/// A configuration with one catch-all rule of these phases.
pub(crate) fn config_with_phases(endpoints: usize, phases: Vec<Phases>) -> Config {
    config_with_rule(endpoints, |rule| rule.phases = Phases::from_iter(phases).shared())
}

/// A configuration with one catch-all rule, changed by `edit`.
fn config_with_rule(endpoints: usize, edit: impl FnOnce(&mut Rule)) -> Config {
    let mut config = config(endpoints, Policy::default(), Settings::default());
    let key = config.hosts.keys().next().expect("one host").clone();
    let mut host = VirtualHost::clone(&config.hosts[&key]);
    let mut route = Route::clone(&host.routes[0]);
    edit(&mut route.rules[0]);
    host.routes = vec![Arc::new(route)];
    config.hosts.insert(key, Arc::new(host));
    config
}

pub(crate) fn options() -> ProxyOptions {
    let leaf = Authority::new("stage").leaf(&["stage.invalid"]);
    ProxyOptions {
        workers: 1,
        access_log: AccessLogFormat::Off,
        access_log_copies: None,
        proxy_protocol: ProxyProtocol::default(),
        limits: Limits::default(),
        buffer: BufferOptions::default(),
        recorder: RecorderOptions::default(),
        tracing: None,
        traces: None,
        drain: DrainOptions::default(),
        tickets: SessionTickets::default(),
        logouts: Logouts::default(),
        geoip: GeoIp::default(),
        fleet: FleetLimits::default(),
        stapling: Stapling::default(),
        fallback_certificate: SelfSigned {
            chain: leaf.chain_der.iter().map(|der| der.to_vec()).collect(),
            private_key: leaf.key_der.secret_pkcs8_der().to_vec(),
        },
        location: fairway_model::ProxyLocation::default(),
        return_memory: |_| {},
    }
}

fn config(endpoints: usize, policy: Policy, settings: Settings) -> Config {
    let numbers = 0..u16::try_from(endpoints).expect("a few");
    let backend = Backend {
        key: "backend".into(),
        origin: Origin::object("Service", "default", "backend"),
        service: ServiceName::default(),
        endpoints: numbers.map(|number| Endpoint::at(endpoint(number))).collect(),
        protocol: BackendProtocol::Http1,
        tls: None,
        balancing: Balancing::RoundRobin,
        session: None,
        traffic: None,
    };
    let rule = Rule {
        origin: Origin::object("Ingress", "default", "test"),
        matches: vec![Match::default()],
        phases: Phases::none(),
        action: Action::Forward(vec![WeightedBackend::new("backend".into(), 1)]),
        policy: policy.shared(),
        labels: RuleLabels {
            namespace: "default".into(),
            ingress: "shop".into(),
            service: "web".into(),
            service_port: "80".into(),
            path: "/".into(),
        },
    };
    let host = VirtualHost {
        key: HostKey { table: "ingress".into(), host: HostPattern::Any },
        order: RuleOrder::Precedence,
        path_form: PathForm::Decoded,
        routes: vec![Arc::new(Route {
            origin: rule.origin.clone(),
            created: None,
            hostname_rank: 0,
            rules: vec![rule],
        })],
        certificate: None,
        clients: None,
        suites: None,
        falls_through: false,
    };
    let mut config = Config { settings, ..Config::default() };
    let listener = Listener::new("http", ListenerProtocol::Http, 80, "ingress");
    config.listeners.insert("http".into(), Arc::new(listener));
    config.hosts.insert(host.key.clone(), Arc::new(host));
    config.backends.insert("backend".into(), Arc::new(backend));
    config
}
