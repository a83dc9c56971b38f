//! The stage for tests without sockets: one worker over scripted endpoints, clients on in-memory streams, and the
//! paused clock of tokio, so that minutes pass in no time. Nothing here is compiled into the proxy.

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
use fairway_connection::sides::Spoken;
use fairway_connection::upstream::{Checks, Circuits};
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
use crate::metrics::Text;
use crate::network::Network;
use crate::options::{
    AccessLogFormat, BufferOptions, DrainOptions, Limits, Opening, ProxyOptions, ProxyProtocol,
    RecorderOptions,
};
use crate::peer::{Facts, Peer, Scheme, Sender};
use crate::publish::{Published, Publisher};
use crate::quic::keys::SharedEndpoints;
use crate::thread::{give_way, look_at_waits};
use crate::tls::{SelfSigned, ServerTls, SessionTickets, Stapling};
use crate::worker::{Neighbours, Open, Shared, SharedGuards, Worker};

/// What all bodies that are held may have on disk.
pub(crate) const DISK: u64 = 4 << 20;

/// What an in-memory stream holds before its writer must wait.
const PIPE: usize = 64 * 1024;

/// What a connect to an endpoint meets.
pub(crate) enum Meeting {
    /// Nobody listens.
    Refused,
    /// The connect fails with this error of the system.
    Error(i32),
    /// Nothing comes back, ever.
    Silence,
    /// The same for a while, then a connection.
    Late(Duration, DuplexStream),
    /// A connection, whose other end somebody serves.
    Peer(DuplexStream),
    /// The same, until the other end vanishes without a word.
    Mortal(DuplexStream, Rc<Cell<bool>>),
    /// A connection whose other end lives, and may owe an acknowledgement.
    Owing(DuplexStream, Owed),
}

/// How long nothing came from an endpoint that owes an acknowledgement; none where it owes none.
pub(crate) type Owed = Rc<Cell<Option<Duration>>>;

/// A stream to an endpoint that may vanish: then what is written is not acknowledged, and nothing else is ever heard.
pub(crate) struct ScriptedStream {
    stream: DuplexStream,
    vanished: Option<Rc<Cell<bool>>>,
    owed: Owed,
}

impl From<DuplexStream> for ScriptedStream {
    fn from(stream: DuplexStream) -> Self {
        Self { stream, vanished: None, owed: Owed::default() }
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
        if vanished { Some(Duration::MAX) } else { self.owed.get() }
    }
}

impl Meeting {
    /// A connection that `endpoint` serves.
    pub(crate) fn with<F: Future<Output = ()> + 'static>(endpoint: impl FnOnce(DuplexStream) -> F) -> Self {
        let (ours, theirs) = duplex(PIPE);
        spawn_local(endpoint(theirs));
        Self::Peer(ours)
    }

    /// The same, after a while.
    pub(crate) fn after<F: Future<Output = ()> + 'static>(
        after: Duration,
        endpoint: impl FnOnce(DuplexStream) -> F,
    ) -> Self {
        match Self::with(endpoint) {
            Self::Peer(stream) => Self::Late(after, stream),
            other => other,
        }
    }

    /// The same, until it vanishes.
    pub(crate) fn mortal<F: Future<Output = ()> + 'static>(
        vanished: &Rc<Cell<bool>>,
        endpoint: impl FnOnce(DuplexStream) -> F,
    ) -> Self {
        match Self::with(endpoint) {
            Self::Peer(stream) => Self::Mortal(stream, Rc::clone(vanished)),
            other => other,
        }
    }

    /// The same, which lives and owes an acknowledgement as `owed` says.
    pub(crate) fn owing<F: Future<Output = ()> + 'static>(
        owed: &Owed,
        endpoint: impl FnOnce(DuplexStream) -> F,
    ) -> Self {
        match Self::with(endpoint) {
            Self::Peer(stream) => Self::Owing(stream, Rc::clone(owed)),
            other => other,
        }
    }
}

/// Decides about every connect.
type Script = Rc<dyn Fn(SocketAddr) -> Meeting>;

/// A network without sockets.
pub(crate) struct ScriptedNetwork {
    script: Script,
    connects: Connects,
}

/// Every connect, and when.
type Connects = Rc<RefCell<Vec<(Instant, SocketAddr)>>>;

impl ScriptedNetwork {
    pub(crate) fn new(script: impl Fn(SocketAddr) -> Meeting + 'static) -> (Self, Connects) {
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
            Meeting::Refused => Err(io::ErrorKind::ConnectionRefused.into()),
            Meeting::Error(error) => Err(io::Error::from_raw_os_error(error)),
            Meeting::Silence => pending().await,
            Meeting::Late(after, stream) => {
                tokio::time::sleep(after).await;
                Ok(stream.into())
            }
            Meeting::Peer(stream) => Ok(stream.into()),
            Meeting::Mortal(stream, vanished) => {
                Ok(ScriptedStream { vanished: Some(vanished), ..stream.into() })
            }
            Meeting::Owing(stream, owed) => Ok(ScriptedStream { owed, ..stream.into() }),
        }
    }

    fn hop(
        &self,
        stream: UpstreamStream<ScriptedStream>,
        spoken: Spoken,
        workspace: &Rc<Workspace>,
        heads: HeadLimits,
    ) -> Self::Hop {
        AnyHop::new(stream, spoken, workspace, heads)
    }
}

/// A worker with one rule over one backend.
pub(crate) struct Stage {
    pub(crate) worker: Rc<Worker<ScriptedNetwork>>,
    connects: Connects,
}

impl Stage {
    /// Over `endpoints`, with built-in values but for what `edit` changes.
    pub(crate) fn new(
        endpoints: usize,
        edit: impl FnOnce(&mut Policy, &mut Settings),
        script: impl Fn(SocketAddr) -> Meeting + 'static,
    ) -> Self {
        Self::within(Limits::default(), endpoints, edit, script)
    }

    /// The same within other limits.
    pub(crate) fn within(
        limits: Limits,
        endpoints: usize,
        edit: impl FnOnce(&mut Policy, &mut Settings),
        script: impl Fn(SocketAddr) -> Meeting + 'static,
    ) -> Self {
        let (network, connects) = ScriptedNetwork::new(script);
        Self { worker: worker_over(network, limits, endpoints, edit), connects }
    }

    /// Over `endpoints` that speak this protocol.
    pub(crate) fn speaking(
        protocol: BackendProtocol,
        endpoints: usize,
        script: impl Fn(SocketAddr) -> Meeting + 'static,
    ) -> Self {
        Self::speaking_under(Policy::default(), protocol, endpoints, script)
    }

    /// The same with a rule that is what `edit` makes of it.
    pub(crate) fn speaking_ruled(
        protocol: BackendProtocol,
        endpoints: usize,
        edit: impl FnOnce(&mut Rule),
        script: impl Fn(SocketAddr) -> Meeting + 'static,
    ) -> Self {
        Self::speaking_as(protocol, ruled(endpoints, edit), script)
    }

    /// The same under another policy.
    pub(crate) fn speaking_under(
        policy: Policy,
        protocol: BackendProtocol,
        endpoints: usize,
        script: impl Fn(SocketAddr) -> Meeting + 'static,
    ) -> Self {
        Self::speaking_as(protocol, config(endpoints, policy, Settings::default()), script)
    }

    fn speaking_as(
        protocol: BackendProtocol,
        mut config: Config,
        script: impl Fn(SocketAddr) -> Meeting + 'static,
    ) -> Self {
        let backends: Vec<Backend> = config.backends.values().map(|one| Backend::clone(one)).collect();
        for backend in backends {
            let backend = Backend { protocol, ..backend };
            config.backends.insert(backend.key.clone(), Arc::new(backend));
        }
        let (network, connects) = ScriptedNetwork::new(script);
        Self { worker: worker_of(network, Limits::default(), &config), connects }
    }

    /// Over `endpoints`, with a rule that does all of these, which may name the backends `a`, `b`, `c`: their only
    /// endpoints have the numbers 100, 101 and 102.
    pub(crate) fn filtered(
        endpoints: usize,
        phases: Vec<Phases>,
        script: impl Fn(SocketAddr) -> Meeting + 'static,
    ) -> Self {
        Self::ruled(endpoints, |rule| rule.phases = Phases::from_iter(phases).kept(), script)
    }

    /// The same with a rule that is what `edit` makes of it.
    pub(crate) fn ruled(
        endpoints: usize,
        edit: impl FnOnce(&mut Rule),
        script: impl Fn(SocketAddr) -> Meeting + 'static,
    ) -> Self {
        let mut config = ruled(endpoints, edit);
        for (name, number) in [("a", 100), ("b", 101), ("c", 102)] {
            let one = config.backends.values().next().expect("one backend");
            let endpoints = vec![Endpoint::at(endpoint(number))];
            let backend = Backend { key: name.into(), endpoints, ..Backend::clone(one) };
            config.backends.insert(backend.key.clone(), Arc::new(backend));
        }
        let (network, connects) = ScriptedNetwork::new(script);
        Self { worker: worker_of(network, Limits::default(), &config), connects }
    }

    /// Over what this configuration says.
    pub(crate) fn serving(config: &Config, script: impl Fn(SocketAddr) -> Meeting + 'static) -> Self {
        Self::within_process(&Process::of(1), config, script)
    }

    /// The same, started with options that are what `edit` makes of them.
    pub(crate) fn started_with(
        edit: impl FnOnce(&mut ProxyOptions),
        config: &Config,
        script: impl Fn(SocketAddr) -> Meeting + 'static,
    ) -> Self {
        let (network, connects) = ScriptedNetwork::new(script);
        let mut options = options();
        edit(&mut options);
        Self { worker: worker_started_with(options, &Process::of(1), network, config), connects }
    }

    /// Two workers of one process, over what this configuration says.
    pub(crate) fn two_workers(
        config: &Config,
        script: impl Fn(SocketAddr) -> Meeting + Copy + 'static,
    ) -> [Self; 2] {
        let process = Process::of(2);
        [0, 1].map(|_| Self::within_process(&process, config, script))
    }

    /// A process of a fleet, which shares these limits.
    pub(crate) fn in_fleet(
        fleet: FleetLimits,
        config: &Config,
        script: impl Fn(SocketAddr) -> Meeting + 'static,
    ) -> Self {
        let process = Process::of(1);
        let process = Process { guards: process.guards.in_fleet(fleet), ..process };
        Self::within_process(&process, config, script)
    }

    fn within_process(
        process: &Process,
        config: &Config,
        script: impl Fn(SocketAddr) -> Meeting + 'static,
    ) -> Self {
        let (network, connects) = ScriptedNetwork::new(script);
        Self { worker: worker_within(process, network, Limits::default(), config), connects }
    }

    /// Serves by this configuration from now on.
    pub(crate) fn publish(&self, config: &Config) {
        let before = self.worker.adopted();
        self.worker.adopt(&published(config, Some(before.snapshot())));
    }

    /// A client that has just connected.
    pub(crate) fn client(&self) -> Client {
        let (client, serving) = self.unserved();
        spawn_local(serving);
        client
    }

    /// The same, of whose connection this is known.
    pub(crate) fn client_with(&self, facts: Option<Arc<Facts>>) -> Client {
        let (client, serving) = self.unserved_with(facts);
        spawn_local(serving);
        client
    }

    /// A client that has just connected, with what must run to serve it.
    pub(crate) fn unserved(&self) -> (Client, impl Future<Output = ()> + 'static) {
        self.unserved_with(None)
    }

    fn unserved_with(&self, facts: Option<Arc<Facts>>) -> (Client, impl Future<Output = ()> + 'static) {
        let (ours, theirs) = duplex(PIPE);
        let client = endpoint(9999).ip();
        let listener = ListenerId { slot: 0, generation: 1 };
        let peer = Peer { listener, scheme: Scheme::Http, client, sender: Sender::Client, facts };
        let serving = crate::downstream::serve_http1(Open::new(&self.worker), peer, ours, Vec::new());
        (Client { stream: theirs, pending: Vec::new() }, serving)
    }

    /// Whether nothing is counted as being under way; else what is.
    pub(crate) fn at_rest(&self) -> Result<(), String> {
        at_rest(&self.worker)
    }

    /// Every connect so far.
    pub(crate) fn connects(&self) -> Vec<(Instant, SocketAddr)> {
        self.connects.borrow().clone()
    }

    /// Whether the metrics have this line.
    pub(crate) fn counts(&self, line: &str) -> bool {
        self.metrics().lines().any(|other| other == line)
    }

    /// The value of a series of the metrics; 0 when it is not there.
    pub(crate) fn value(&self, series: &str) -> u64 {
        let text = self.metrics();
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse().expect("a whole number"))
    }

    /// All metrics, as text.
    pub(crate) fn metrics(&self) -> String {
        Text::of(self.worker.sample(), "").collect()
    }
}

/// A worker over `network` with one rule over one backend of so many endpoints.
pub(crate) fn worker_over<N: Network>(
    network: N,
    limits: Limits,
    endpoints: usize,
    edit: impl FnOnce(&mut Policy, &mut Settings),
) -> Rc<Worker<N>> {
    let (mut policy, mut settings) = (Policy::default(), Settings::default());
    edit(&mut policy, &mut settings);
    worker_of(network, limits, &config(endpoints, policy, settings))
}

/// A worker over `network` that serves `config`.
fn worker_of<N: Network>(network: N, limits: Limits, config: &Config) -> Rc<Worker<N>> {
    worker_within(&Process::of(1), network, limits, config)
}

/// What the workers of a process share.
struct Process {
    guards: SharedGuards,
    circuits: Circuits,
}

impl Process {
    fn of(workers: usize) -> Self {
        let guards = SharedGuards::new(workers, SessionTickets::default(), Logouts::default());
        Self { guards, circuits: Circuits::default() }
    }
}

/// The same for a worker of this process.
fn worker_within<N: Network>(
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
    let shared = Shared {
        memory: Arc::new(Memory::unwatched(1)),
        guards: process.guards.clone(),
        disk: Disk::inline(&std::env::temp_dir(), DISK).expect("a directory for files"),
        quic: SharedEndpoints::new(SessionTickets::default()),
        checks: Checks::default(),
        circuits: process.circuits.clone(),
    };
    let worker =
        Rc::new(Worker::new(Arc::new(options), network, &published, log, shared, Neighbours::none()));
    spawn_local(look_at_waits(Rc::clone(&worker)));
    spawn_local(give_way(Rc::clone(&worker)));
    worker
}

/// Whether nothing is counted as being under way in a worker; else what is.
pub(crate) fn at_rest<N: Network>(worker: &Worker<N>) -> Result<(), String> {
    let groups = &worker.groups;
    let circuits = worker.circuits.under_way();
    let counts = [
        ("open connections", worker.counters.open_connections()),
        ("exchanges", worker.exchanges() as u64),
        ("waits", worker.waits.count() as u64),
        ("streams", worker.counters.http2.streams().get() + worker.counters.http3.streams().get()),
        ("connections of HTTP/3", worker.counters.http3.connections.get()),
        ("what windows grew by", worker.budgets.windows.lent()),
        ("bytes of compressors", worker.compressors.taken()),
        ("copies", worker.copies() as u64),
        ("requests of limits", worker.guards.counts.under_way()),
        ("registered connections", worker.registered() as u64),
        ("bytes of memory for bodies that are held", worker.held.taken()),
        ("bytes on disk of bodies that are held", worker.disk.used()),
        ("exchanges of endpoints", u64::from(worker.groups.in_flight())),
        ("requests of backends with limits", circuits.requests),
        ("retries of backends with limits", circuits.retries),
        ("requests that await a response of a backend with limits", circuits.awaiting),
        ("requests that wait for a backend with limits", circuits.pending),
        ("miscounted idle connections", groups.idle_connections().abs_diff(groups.idle_of_each()) as u64),
    ];
    match counts.iter().find(|(_, count)| *count > 0) {
        None => Ok(()),
        Some((what, count)) => Err(format!("{count} {what}")),
    }
}

/// A client's end.
pub(crate) struct Client {
    pub(crate) stream: DuplexStream,
    pending: Vec<u8>,
}

/// An answer as a client sees it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.expect("the proxy reads");
    }

    /// The next answer; none when the connection ends first.
    pub(crate) async fn answer(&mut self) -> Option<Seen> {
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

    /// Everything of the next answer up to the end of its head, and its body.
    pub(crate) async fn answer_text(&mut self) -> String {
        loop {
            if let Some((_, used)) = parse(&self.pending) {
                return String::from_utf8(self.pending.drain(..used).collect()).expect("text");
            }
            let more = self.stream.read_buf(&mut self.pending).await.unwrap_or(0);
            assert!(more > 0, "an answer: {:?}", String::from_utf8_lossy(&self.pending));
        }
    }

    pub(crate) async fn ask(&mut self, request: impl AsRef<[u8]>) -> Option<Seen> {
        self.send(request).await;
        self.answer().await
    }

    /// Waits for the end of the connection; gives what came before it.
    pub(crate) async fn rest(mut self) -> Vec<u8> {
        // A failure is an end too.
        let _ = self.stream.read_to_end(&mut self.pending).await;
        self.pending
    }
}

fn parse(bytes: &[u8]) -> Option<(Seen, usize)> {
    let head = wire::head(bytes).expect("a canonical answer")?;
    let status = head.start.split(' ').nth(1)?.parse().expect("a status");
    let framing = wire::framing(&head.fields).expect("one framing").unwrap_or(wire::Framing::None);
    let rest = &bytes[head.length..];
    match framing {
        wire::Framing::Length(length) if rest.len() >= length => {
            Some((Seen { status, body: rest[..length].to_vec() }, head.length + length))
        }
        wire::Framing::Length(_) => None,
        wire::Framing::Chunked => {
            let body = wire::chunked(rest).expect("canonical chunks")?;
            Some((Seen { status, body: body.content }, head.length + body.length))
        }
        wire::Framing::None | wire::Framing::Close => Some((Seen { status, body: Vec::new() }, head.length)),
    }
}

/// Runs `play` where streams and endpoints can be spawned, and where workers draw the same numbers in every run.
pub(crate) async fn on_stage(play: impl Future<Output = ()>) {
    fastrand::seed(1);
    LocalSet::new().run_until(play).await;
}

/// Reads one request head, without a body; `false` at the end of the connection.
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

/// Answers every request without a body with 200 and two bytes.
pub(crate) async fn answering(mut stream: DuplexStream) {
    while read_head(&mut stream).await {
        if stream.write_all(OK).await.is_err() {
            return;
        }
    }
}

/// What [`answering`] says.
pub(crate) const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A request without a body.
pub(crate) const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

pub(crate) fn published(config: &Config, before: Option<&Snapshot>) -> Arc<Published> {
    let compiled = fairway_routing::compile(config, before);
    let tls = ServerTls::new(&options().fallback_certificate, SessionTickets::default())
        .expect("a certificate of the testkit");
    let (publisher, _) = Publisher::new(tls, compiled.snapshot, 1, 8, Opening::default());
    Arc::clone(&publisher.subscribe().borrow())
}

/// The n-th endpoint's address.
pub(crate) fn endpoint(number: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], number))
}

/// A snapshot of one rule that takes everything and does all of these.
pub(crate) fn snapshot(phases: Vec<Phases>) -> Arc<Snapshot> {
    fairway_routing::compile(&filtered(1, phases), None).snapshot
}

/// The configuration of one rule that takes everything and does all of these.
pub(crate) fn filtered(endpoints: usize, phases: Vec<Phases>) -> Config {
    ruled(endpoints, |rule| rule.phases = Phases::from_iter(phases).kept())
}

/// The configuration of one rule that takes everything and is what `edit` makes of it.
fn ruled(endpoints: usize, edit: impl FnOnce(&mut Rule)) -> Config {
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
        location: fairway_model::Location::default(),
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
        policy: policy.kept(),
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
