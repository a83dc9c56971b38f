//! A downstream HTTP/3 connection: takes what came over QUIC, runs one exchange per request, and sends once for
//! all of them.
//!
//! ```text
//!               ┌──────────────────────────────── turn ────────────────────────────────┐
//! datagrams ──► │ QUIC ─► events of the codec ─► poll exchanges that are ready ─► QUIC │ ──► datagrams
//!               └──────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Bodies wait in QUIC: those of requests until an exchange reads them, those of responses until the client has
//! acknowledged them. A stream reset by the client is only marked: its exchange sees that at its next step,
//! ends, is logged, and frees its slot. Until then the stream counts as open, which bounds how fast a client
//! can open and reset streams.
//!
//! The connection shuts down in steps (RFC 9114 §5.2): a GOAWAY that still accepts every request; after a round
//! trip the final GOAWAY; once nothing is open, CONNECTION_CLOSE with H3_NO_ERROR. `closed` answers late
//! datagrams after that.

use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use fairway_connection::h3::{H3Downstream, SharedStreams, Streams};
use fairway_connection::sides::RequestMeta;
use fairway_http::{Malformed, Version};
use fairway_http2::fields::Limits;
use fairway_http3::{Code, Config, Event};
use fairway_net::clock::{Deadline, Instant};
use fairway_net::slots::{ExchangeSlots, MAX_SLOTS};
use fairway_net::yielding::go_on_later;
use quinn_proto::{Connection as Quic, VarInt};

use super::accounting::Http3Ledger;
use super::closed::linger;
use super::datagram_transport::Carrier;
use super::exchanges::{self, Exchanges};
use super::request_head::{read_arrival, upgrade_connect};
use crate::exchange::{Request, exchange};
use crate::fault::Fault;
use crate::inspection::ClientProtocol;
use crate::listener::PortId;
use crate::metrics::increment;
use crate::network::Network;
use crate::peer::Peer;
use crate::quic::early::PendingHandshake;
use crate::quic::endpoint::QuicConnection;
use crate::worker::{OpenConnection, StopPhase, Worker};

/// Polls of exchanges and codec events per turn of the task; then other connections get their turn.
const MAX_POLLS_PER_TURN: usize = 256;

/// How long a connection without streams keeps its memory.
const MEMORY_RELEASE_DELAY: Duration = Duration::from_secs(1);

/// How long the client has to receive a GOAWAY: two round trips within these bounds.
const MIN_GOAWAY_GRACE: Duration = Duration::from_millis(20);
const MAX_GOAWAY_GRACE: Duration = Duration::from_secs(1);

/// How long requests on their way are rejected after the final GOAWAY, so that clients send them again
/// elsewhere: closing the connection would leave their fate unknown. Most clients close it themselves, at once.
const REJECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How often a client with open requests is pinged within the idle timeout.
const PINGS_PER_IDLE_TIMEOUT: u32 = 3;

/// Reason for ending a request whose head is incomplete, and a connection that has no other.
const HEAD_TIMEOUT: &str = "head_timeout";

/// The result of an exchange.
type FinishedExchange = exchanges::FinishedExchange<H3Downstream>;

/// Serves requests until the connection ends.
pub(crate) fn serve<N: Network>(
    open: OpenConnection<N>,
    peer: Peer,
    connecting: QuicConnection,
    pending_handshake: Option<PendingHandshake>,
) -> impl Future<Output = ()> {
    let QuicConnection { port, link, quic } = connecting;
    serve_with_carrier(open, peer, quic, link, AcceptInfo { port: Some(port), unfinished: pending_handshake })
}

/// How a connection was accepted.
#[derive(Default)]
pub(super) struct AcceptInfo {
    /// The port, if known: requests are accepted while the listener serves HTTP/3 there.
    port: Option<PortId>,
    /// The rest of its handshake.
    unfinished: Option<PendingHandshake>,
}

/// Serves over any carrier.
pub(super) fn serve_with_carrier<N: Network, C: Carrier>(
    mut open: OpenConnection<N>,
    peer: Peer,
    quic: Box<Quic>,
    carrier: C,
    AcceptInfo { port, unfinished }: AcceptInfo,
) -> impl Future<Output = ()> {
    open.set_listener(peer.listener, ClientProtocol::Http3);
    let frames = open.reuse.frames.pool_for(exchange::<N, H3Downstream>);
    let slots = ExchangeSlots::new(frames);
    let mut connection = Connection::new(&open, peer, quic, carrier, slots);
    connection.port = port;
    connection.streams.borrow_mut().is_early_data = unfinished.is_some();
    connection.pending_handshake = unfinished.map(Box::new);
    // Turns are bounded here; tokio's cooperative budget would end within a turn and leave exchanges unpolled.
    tokio::task::unconstrained(run(open, Box::new(connection), exchange::<N, H3Downstream>))
}

async fn run<N: Network, C: Carrier, F: Future<Output = FinishedExchange>>(
    open: OpenConnection<N>,
    mut connection: Box<Connection<N, C, F>>,
    run_exchange: impl Fn(Request<N, H3Downstream>) -> F,
) {
    {
        let worker = &*open;
        let _registered = poll_fn(|cx| Poll::Ready(worker.register(cx.waker()))).await;
        poll_fn(|cx| connection.poll(cx, worker, &run_exchange)).await;
    }
    let closed = connection.into_closed().filter(|_| !open.is_shedding());
    // A lingering connection does not count as open, except while the worker drains: the worker waits for
    // these, because nothing answers after it has ended.
    let _counted = (open.phase() >= StopPhase::Draining).then_some(open);
    if let Some((carrier, quic)) = closed {
        linger(carrier, quic).await;
    }
}

/// Stage of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionStage {
    Open,
    /// The first GOAWAY was sent; requests on their way are accepted until this time.
    GoingAway(Instant),
    /// The final GOAWAY was sent; requests are rejected until this time.
    Rejecting(Instant),
    /// The connection is closed: exchanges end.
    Closed,
}

/// A connection.
struct Connection<N: Network, C, F> {
    carrier: C,
    streams: SharedStreams,
    exchanges: Exchanges<N, H3Downstream, F>,
    ledger: Http3Ledger,
    /// The port that accepted it.
    port: Option<PortId>,
    /// The rest of its handshake, if the client sent early data.
    pending_handshake: Option<Box<PendingHandshake>>,
    /// Whether its listener served HTTP/3 there in the snapshot of this version.
    http3_served_in_version: (u64, bool),
    /// The client's address at the last check.
    remote: IpAddr,
    stage: ConnectionStage,
    clock: Clock,
}

/// Deadlines of a connection.
struct Clock {
    /// When a stream was last open. Frames without a stream keep no connection open.
    last_active: Instant,
    /// Number of streams at the last update.
    last_stream_count: u64,
    /// Whether no stream was open then.
    was_idle: bool,
    /// Number of streams when memory was released.
    released_after: u64,
    /// When the client was last pinged because requests were open.
    last_ping: Instant,
    deadline: Deadline,
}

impl Clock {
    fn new(now: Instant) -> Self {
        Self {
            last_active: now,
            last_stream_count: 0,
            was_idle: true,
            released_after: 0,
            last_ping: now,
            deadline: Deadline::unset(),
        }
    }

    /// Records how many streams there have been, and whether none is open.
    fn update(&mut self, now: Instant, streams: u64, is_idle: bool) {
        if !is_idle || !self.was_idle || self.last_stream_count != streams {
            (self.last_active, self.last_stream_count, self.was_idle) = (now, streams, is_idle);
        }
    }
}

impl<N: Network, C: Carrier, F: Future<Output = FinishedExchange>> Connection<N, C, F> {
    fn new(worker: &Rc<Worker<N>>, peer: Peer, quic: Box<Quic>, carrier: C, slots: ExchangeSlots<F>) -> Self {
        let head = worker.options.limits.head();
        let limits = Limits { list_bytes: head.head_bytes, fields: u32::from(head.fields) };
        let streams =
            worker.client_limit(peer.listener, |clients| clients.streams).clamp(1, MAX_SLOTS as u32);
        let config = Config { streams, limits, extended_connect: true, ..Config::default() };
        Self {
            carrier,
            port: None,
            pending_handshake: None,
            http3_served_in_version: (0, true),
            remote: quic.remote_address().ip(),
            streams: Streams::new(config, quic, &worker.reuse.workspace),
            ledger: Http3Ledger::new(&worker.counters.http3, peer.client),
            exchanges: Exchanges::new(slots, peer),
            stage: ConnectionStage::Open,
            clock: Clock::new(Instant::now()),
        }
    }

    /// Ready when the connection is closed.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        worker: &Rc<Worker<N>>,
        begin: &impl Fn(Request<N, H3Downstream>) -> F,
    ) -> Poll<()> {
        self.exchanges.slots.listen(cx);
        // Once a turn: when the drain deadline has passed, this wakes every exchange.
        let must_go_away = self.exchanges.must_go_away(worker) || !self.is_still_served(worker);
        let mut polled = 0;
        loop {
            let now = Instant::now();
            self.receive(cx, now);
            if let Some(unfinished) = self.pending_handshake.take() {
                self.pending_handshake = self.poll_handshake(worker, unfinished, now);
            }
            loop {
                let count = self.handle_events(worker, begin, now) + self.poll_exchanges(worker);
                polled += count;
                if count == 0 || polled > MAX_POLLS_PER_TURN {
                    break;
                }
            }
            // The endpoint closes connections when it gives up its socket, which is no event of QUIC.
            if self.streams.borrow().quic.is_closed() && self.stage != ConnectionStage::Closed {
                self.end();
            }
            self.check_deadlines(worker, now);
            self.advance_shutdown(worker, must_go_away, now);
            self.send(cx, now);
            if polled > MAX_POLLS_PER_TURN {
                go_on_later(cx);
                break;
            }
            if self.exchanges.slots.is_idle() {
                break;
            }
        }
        self.exchanges.lease = None;
        {
            let mut streams = self.streams.borrow_mut();
            let open = streams.open_streams();
            self.ledger.update(&worker.counters.http3, &mut streams.codec, open);
        }
        self.poll_deadline(cx, worker)
    }

    /// Whether the listener still serves HTTP/3 at the port of the connection.
    fn is_still_served(&mut self, worker: &Worker<N>) -> bool {
        let Some(port) = self.port else { return true };
        let adopted = worker.adopted();
        if self.http3_served_in_version.0 != adopted.version() {
            self.http3_served_in_version =
                (adopted.version(), adopted.serves_at(self.exchanges.peer.listener, port));
        }
        self.http3_served_in_version.1
    }

    /// Processes received datagrams and expired QUIC timers. A client that migrated is known by its new address
    /// from its next request on (RFC 9000 §9): address rules must not apply to an old one.
    fn receive(&mut self, cx: &mut Context<'_>, now: Instant) {
        let (mut streams, now) = (self.streams.borrow_mut(), now.into_std());
        self.carrier.poll_input(cx, &mut streams.quic, now);
        if streams.quic.poll_timeout().is_some_and(|at| at <= now) {
            streams.quic.handle_timeout(now);
        }
        let remote = streams.quic.remote_address().ip();
        if remote != self.remote {
            self.remote = remote;
            self.exchanges.client_moved(remote.to_canonical());
        }
    }

    /// Starts requests that waited for the handshake once it is complete. Returns the pending handshake
    /// otherwise.
    fn poll_handshake(
        &mut self,
        worker: &Worker<N>,
        unfinished: Box<PendingHandshake>,
        now: Instant,
    ) -> Option<Box<PendingHandshake>> {
        let mut streams = self.streams.borrow_mut();
        let fault = match (streams.quic.is_closed(), streams.quic.is_handshaking()) {
            (true, _) => Fault::ClientGone,
            (false, true) if unfinished.deadline > now => return Some(unfinished),
            (false, true) => {
                streams.quic.close(now.into_std(), VarInt::from_u32(0), Bytes::new());
                Fault::ClientTimeout
            }
            (false, false) => {
                worker.counters.count_handshake(unfinished.started_at.elapsed(), true);
                streams.is_early_data = false;
                self.exchanges.slots.ring_all();
                return None;
            }
        };
        worker.counters.count_failed_handshake(fault);
        None
    }

    fn send(&mut self, cx: &mut Context<'_>, now: Instant) {
        self.carrier.poll_output(cx, &mut self.streams.borrow_mut().quic, now.into_std());
    }

    fn poll_exchanges(&mut self, worker: &Worker<N>) -> usize {
        let Self { exchanges, streams, .. } = self;
        let waiting = streams.borrow().awaiting_response();
        exchanges.poll(worker, waiting, |slot| streams.borrow_mut().close(slot))
    }

    /// Handles events of the codec; returns how many.
    fn handle_events(
        &mut self,
        worker: &Rc<Worker<N>>,
        begin: &impl Fn(Request<N, H3Downstream>) -> F,
        now: Instant,
    ) -> usize {
        let mut handled = 0;
        while handled < MAX_POLLS_PER_TURN && self.stage != ConnectionStage::Closed {
            let lease = self.exchanges.lease.get_or_insert_with(|| worker.lend_buffers());
            let mut streams = self.streams.borrow_mut();
            let Streams { codec, quic, .. } = &mut *streams;
            let Some(event) = codec.poll(now.into_std(), quic, &mut lease.request) else { break };
            handled += 1;
            match event {
                Event::Head { stream, end, length, protocol, head_bytes } => {
                    let head = &mut lease.request;
                    let mut arrival = read_arrival(head, Version::Http3, head_bytes, end, length);
                    if let Some(protocol) = protocol {
                        let nonce = worker.random(|random| random.u128(..));
                        upgrade_connect(head, &mut arrival, protocol, length, nonce);
                    }
                    let slot = streams.open(stream, end);
                    drop(streams);
                    self.start_exchange(worker, slot, Ok(arrival), begin);
                }
                Event::HeadTooLarge { stream, end } => {
                    let slot = streams.open(stream, end);
                    drop(streams);
                    self.start_exchange(worker, slot, Err(Malformed::HeadTooLarge), begin);
                }
                Event::Readable { stream } | Event::Writable { stream } => {
                    if let Some(slot) = streams.slot(stream) {
                        self.exchanges.slots.ring(slot);
                    }
                }
                Event::Reset { stream, .. } => {
                    if let Some(slot) = streams.slot(stream) {
                        streams.fail(slot);
                        self.exchanges.release_cancelled(slot);
                        self.exchanges.slots.ring(slot);
                    }
                }
                Event::Priority { .. } | Event::GoAway => {}
                Event::Closed(_) => {
                    drop(streams);
                    self.end();
                }
                Event::Lost(error) => {
                    drop(streams);
                    self.ledger.record_loss(&worker.counters.http3, &error);
                    self.end();
                }
            }
        }
        handled
    }

    fn start_exchange(
        &mut self,
        worker: &Rc<Worker<N>>,
        slot: usize,
        arrival: Result<RequestMeta, Malformed>,
        begin: &impl Fn(Request<N, H3Downstream>) -> F,
    ) {
        let Self { streams, exchanges, .. } = self;
        let mut side = exchanges.take_side(slot, || H3Downstream::new(streams, slot));
        side.down.reset();
        exchanges.start(worker, slot, side, arrival, begin);
        if exchanges.hold_if_untrusted(worker, slot, streams.borrow().awaiting_response()) {
            increment(&worker.counters.http3.held_requests);
        }
    }

    /// Advances the shutdown if the connection is to end.
    fn advance_shutdown(&mut self, worker: &Worker<N>, is_to_go: bool, now: Instant) {
        let is_cut = worker.phase() == StopPhase::Cutting;
        if is_to_go && self.stage == ConnectionStage::Open {
            self.go_away(now);
        }
        let mut streams = self.streams.borrow_mut();
        let is_idle = streams.open_streams() == 0;
        let Streams { codec, quic, .. } = &mut *streams;
        if let ConnectionStage::GoingAway(until) = self.stage
            && (until <= now || is_cut)
        {
            codec.finish_go_away(quic);
            self.stage = ConnectionStage::Rejecting(now + REJECT_TIMEOUT);
        }
        let ConnectionStage::Rejecting(until) = self.stage else { return };
        // Data not acknowledged within the write timeout is abandoned.
        let write_timeout = worker.adopted().settings().downstream.write_timeout;
        let is_over = until <= now && (codec.is_done() || self.clock.last_active + write_timeout <= now);
        if is_idle && (is_over || is_cut) {
            codec.close(quic, now.into_std(), Code::NoError, "");
            drop(streams);
            self.end();
        }
    }

    /// Sends the first GOAWAY.
    fn go_away(&mut self, now: Instant) {
        let mut streams = self.streams.borrow_mut();
        let Streams { codec, quic, .. } = &mut *streams;
        codec.go_away(quic);
        self.stage = ConnectionStage::GoingAway(now + goaway_grace(quic));
    }

    /// Closes the connection.
    fn end(&mut self) {
        self.stage = ConnectionStage::Closed;
        self.exchanges.release_all();
        for slot in self.streams.borrow_mut().fail_all() {
            self.exchanges.slots.ring(slot);
        }
    }

    /// Handles expired deadlines.
    fn check_deadlines(&mut self, worker: &Worker<N>, now: Instant) {
        let served = self.exchanges.trust_level.requests_served;
        let is_idle = self.streams.borrow().open_streams() == 0;
        self.clock.update(now, served, is_idle);
        if self.stage == ConnectionStage::Closed {
            return;
        }
        let idle_at = self.idle_deadline(worker);
        if idle_at.is_some_and(|at| at <= now) {
            if self.clock.released_after != served {
                self.clock.released_after = served;
                self.exchanges.release_memory();
                self.streams.borrow_mut().release_memory();
            } else if self.stage == ConnectionStage::Open {
                self.go_away(now);
            }
        }
        if self.ping_deadline(worker).is_some_and(|at| at <= now) {
            self.clock.last_ping = now;
            self.streams.borrow_mut().quic.ping();
        }
        while self.stage != ConnectionStage::Closed && self.head_deadline(worker).is_some_and(|at| at <= now)
        {
            self.reject_late_head(worker, now);
        }
    }

    /// Rejects the oldest request with an incomplete head; it was not processed (`H3_REQUEST_REJECTED`, RFC
    /// 9114 §4.1.1). A connection without other requests ends with it.
    fn reject_late_head(&mut self, worker: &Worker<N>, now: Instant) {
        let mut streams = self.streams.borrow_mut();
        let is_alone = streams.open_streams() == 0;
        let Streams { codec, quic, .. } = &mut *streams;
        let Some(stream) = codec.incomplete_head() else { return };
        if !is_alone {
            self.ledger.record_rejection(&worker.counters.http3, HEAD_TIMEOUT);
            return codec.reset(quic, stream, Code::RequestRejected);
        }
        self.ledger.record_timeout(&worker.counters.http3, HEAD_TIMEOUT);
        codec.close(quic, now.into_std(), Code::ExcessiveLoad, HEAD_TIMEOUT);
        drop(streams);
        self.end();
    }

    /// When an idle connection releases its memory, or ends.
    fn idle_deadline(&self, worker: &Worker<N>) -> Option<Instant> {
        let timeout = worker.client_limit(self.exchanges.peer.listener, |clients| clients.idle_timeout);
        let rests = self.clock.released_after == self.exchanges.trust_level.requests_served;
        let limit = match (rests, self.stage) {
            (false, _) => MEMORY_RELEASE_DELAY.min(timeout),
            (true, ConnectionStage::Open) => timeout,
            (true, _) => return None,
        };
        self.clock.was_idle.then(|| self.clock.last_active + limit)
    }

    /// When to ping the client: QUIC closes a connection on which nothing arrives for the idle timeout (RFC
    /// 9000 §10.1), even while a response takes its time.
    fn ping_deadline(&self, worker: &Worker<N>) -> Option<Instant> {
        let timeout = worker.client_limit(self.exchanges.peer.listener, |clients| clients.idle_timeout);
        (!self.clock.was_idle).then(|| self.clock.last_ping + timeout / PINGS_PER_IDLE_TIMEOUT)
    }

    /// Deadline of the oldest incomplete request head.
    fn head_deadline(&self, worker: &Worker<N>) -> Option<Instant> {
        let arrived = {
            let streams = self.streams.borrow();
            streams.codec.arrived_at(streams.codec.incomplete_head()?)?
        };
        Some(
            Instant::from_std(arrived)
                + worker.client_limit(self.exchanges.peer.listener, |clients| clients.head_timeout),
        )
    }

    /// When the current stage ends.
    fn stage_deadline(&self, worker: &Worker<N>, now: Instant) -> Option<Instant> {
        match self.stage {
            ConnectionStage::Open | ConnectionStage::Closed => None,
            ConnectionStage::GoingAway(until) => Some(until),
            ConnectionStage::Rejecting(_) if !self.clock.was_idle => None,
            ConnectionStage::Rejecting(until) if until > now => Some(until),
            ConnectionStage::Rejecting(_) => {
                Some(self.clock.last_active + worker.adopted().settings().downstream.write_timeout)
            }
        }
    }

    /// Waits for the next deadline; ready if the connection is done.
    fn poll_deadline(&mut self, cx: &mut Context<'_>, worker: &Rc<Worker<N>>) -> Poll<()> {
        let now = Instant::now();
        let quic = {
            let mut streams = self.streams.borrow_mut();
            if self.stage == ConnectionStage::Closed && streams.open_streams() == 0 {
                return Poll::Ready(());
            }
            streams.quic.poll_timeout().map(Instant::from_std)
        };
        let (held, stage) = (self.exchanges.trust_level.due(), self.stage_deadline(worker, now));
        let unfinished = self.pending_handshake.as_ref().map(|unfinished| unfinished.deadline);
        let stage_deadline = match self.stage {
            ConnectionStage::Closed => None,
            _ => [
                self.idle_deadline(worker),
                self.head_deadline(worker),
                self.ping_deadline(worker),
                unfinished,
            ]
            .into_iter()
            .flatten()
            .min(),
        };
        let Some(next) = [quic, held, stage, stage_deadline].into_iter().flatten().min() else {
            return Poll::Pending;
        };
        self.clock.deadline.set(now, next.saturating_duration_since(now));
        if self.clock.deadline.poll_passed(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// The carrier and the QUIC state of a closed connection.
    fn into_closed(self) -> Option<(C, Box<Quic>)> {
        let Self { carrier, streams, exchanges, .. } = self;
        // Exchanges hold references to the streams.
        drop(exchanges);
        Some((carrier, Rc::into_inner(streams)?.into_inner().quic))
    }
}

/// How long the client has to receive a GOAWAY.
fn goaway_grace(quic: &Quic) -> Duration {
    (2 * quic.rtt()).clamp(MIN_GOAWAY_GRACE, MAX_GOAWAY_GRACE)
}
