//! A client's HTTP/3 connection: takes what came over QUIC, runs an exchange for each request, and sends once for all of them.
//!
//! ```text
//!               ┌──────────────────────────────── turn ────────────────────────────────┐
//! datagrams ──► │ QUIC ─► events of the codec ─► poll exchanges that are ready ─► QUIC │ ──► datagrams
//!               └──────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Bodies wait in QUIC: those of requests until an exchange reads them, those of responses until the client has acknowledged
//! them. A stream that the client resets is only marked: its exchange sees that at its next step, ends, is logged, and frees
//! its slot. Until then the stream counts as open, which bounds how fast a client can open and reset streams.
//!
//! The connection ends in steps (RFC 9114 §5.2): a GOAWAY that still takes every request; after a round trip the last GOAWAY;
//! once nothing is open, CONNECTION_CLOSE with H3_NO_ERROR. What is left then is in `closed`.

use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use fairway_connection::h3::{H3Side, SharedStreams, Streams};
use fairway_connection::sides::Arrival;
use fairway_http::{Malformed, Version};
use fairway_http2::fields::Limits;
use fairway_http3::{Code, Config, Event};
use fairway_net::clock::{Deadline, Instant};
use fairway_net::slots::{MOST, Slots};
use fairway_net::turns::go_on_later;
use quinn_proto::{Connection as Quic, VarInt};

use super::arrival::{arrival, switch};
use super::carrier::Carrier;
use super::closed::linger;
use super::exchanges::{self, Exchanges};
use super::ledger::Http3Ledger;
use crate::exchange::{Request, exchange};
use crate::fault::Fault;
use crate::inspection::ClientProtocol;
use crate::listener::PortId;
use crate::metrics::count;
use crate::network::Network;
use crate::peer::Peer;
use crate::quic::early::Unfinished;
use crate::quic::endpoint::Connecting;
use crate::worker::{Open, Phase, Worker};

/// Polls of exchanges and events of the codec in one turn of the task: other connections come first then.
const TURN: usize = 256;

/// A connection without streams keeps its memory so long.
const REST: Duration = Duration::from_secs(1);

/// How long the client has to hear of a GOAWAY: two round trips within these bounds.
const MIN_GRACE: Duration = Duration::from_millis(20);
const MAX_GRACE: Duration = Duration::from_secs(1);

/// After the last GOAWAY: requests that are still on their way are rejected in that time, so that clients send them again elsewhere,
/// where the end of the connection would leave open what became of them. Most clients end it themselves, at once.
const REJECTING: Duration = Duration::from_secs(2);

/// How often a client with open requests is asked for a sign of life before its connection would count as idle.
const PINGS_PER_IDLE_TIMEOUT: u32 = 3;

/// Why a request ends whose client does not complete its head, and a connection that has no other.
const HEAD_TIMEOUT: &str = "head_timeout";

/// What an exchange gives back.
type Over = exchanges::Over<H3Side>;

/// Serves requests until the connection ends.
pub(crate) fn serve<N: Network>(
    open: Open<N>,
    peer: Peer,
    connecting: Connecting,
    unfinished: Option<Unfinished>,
) -> impl Future<Output = ()> {
    let Connecting { port, link, quic } = connecting;
    serve_over(open, peer, quic, link, Accepted { port: Some(port), unfinished })
}

/// How a connection was accepted.
#[derive(Default)]
pub(super) struct Accepted {
    /// Requests are taken as long as the listener serves HTTP/3 there, where that is known.
    port: Option<PortId>,
    /// What is left of its handshake.
    unfinished: Option<Unfinished>,
}

/// The same over any carrier.
pub(super) fn serve_over<N: Network, C: Carrier>(
    mut open: Open<N>,
    peer: Peer,
    quic: Box<Quic>,
    carrier: C,
    Accepted { port, unfinished }: Accepted,
) -> impl Future<Output = ()> {
    open.served_by(peer.listener, ClientProtocol::Http3);
    let frames = open.reuse.frames.of(exchange::<N, H3Side>);
    let slots = Slots::new(frames);
    let mut connection = Connection::new(&open, peer, quic, carrier, slots);
    connection.port = port;
    connection.streams.borrow_mut().is_early = unfinished.is_some();
    connection.unfinished = unfinished.map(Box::new);
    // Its own turns are bounded; a budget of the runtime would end within one, and leave exchanges that were not asked.
    tokio::task::unconstrained(run(open, Box::new(connection), exchange::<N, H3Side>))
}

async fn run<N: Network, C: Carrier, F: Future<Output = Over>>(
    open: Open<N>,
    mut connection: Box<Connection<N, C, F>>,
    begin: impl Fn(Request<N, H3Side>) -> F,
) {
    {
        let worker = &*open;
        let _registered = poll_fn(|cx| Poll::Ready(worker.register(cx.waker()))).await;
        poll_fn(|cx| connection.poll(cx, worker, &begin)).await;
    }
    let closed = connection.into_closed().filter(|_| !open.is_shedding());
    // It has no place among the open connections any more, but while the worker drains: the worker waits for these, and after it
    // nobody would answer.
    let _counted = (open.phase() >= Phase::Draining).then_some(open);
    if let Some((carrier, quic)) = closed {
        linger(carrier, quic).await;
    }
}

/// How far the connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Open,
    /// The client knows that the connection ends; requests that are on their way are taken until this time.
    Leaving(Instant),
    /// No more requests are taken. Until then they are rejected.
    Left(Instant),
    /// The connection is over: exchanges end.
    Closed,
}

/// A connection.
struct Connection<N: Network, C, F> {
    carrier: C,
    streams: SharedStreams,
    exchanges: Exchanges<N, H3Side, F>,
    ledger: Http3Ledger,
    /// Where it was accepted.
    port: Option<PortId>,
    /// What is left of its handshake, where the client sent early data.
    unfinished: Option<Box<Unfinished>>,
    /// Whether its listener served HTTP/3 there in the snapshot of this version.
    served: (u64, bool),
    /// The client's address when it was last looked at.
    remote: IpAddr,
    stage: Stage,
    clock: Clock,
}

/// The times of a connection.
struct Clock {
    /// When a stream was open last. Frames without one keep no connection open.
    used: Instant,
    /// How many streams there had been at the last look.
    seen_streams: u64,
    /// Whether none was open then.
    was_idle: bool,
    /// How many streams there had been when memory was given back.
    rested_after: u64,
    /// When the client was last asked for a sign of life because requests were open.
    pinged: Instant,
    deadline: Deadline,
}

impl Clock {
    fn new(now: Instant) -> Self {
        Self {
            used: now,
            seen_streams: 0,
            was_idle: true,
            rested_after: 0,
            pinged: now,
            deadline: Deadline::unset(),
        }
    }

    /// Notes how many streams there have been, and whether none is open.
    fn look(&mut self, now: Instant, streams: u64, is_idle: bool) {
        if !is_idle || !self.was_idle || self.seen_streams != streams {
            (self.used, self.seen_streams, self.was_idle) = (now, streams, is_idle);
        }
    }
}

impl<N: Network, C: Carrier, F: Future<Output = Over>> Connection<N, C, F> {
    fn new(worker: &Rc<Worker<N>>, peer: Peer, quic: Box<Quic>, carrier: C, slots: Slots<F>) -> Self {
        let head = worker.options.limits.head();
        let limits = Limits { list_bytes: head.head_bytes, fields: u32::from(head.fields) };
        let streams = worker.clients(peer.listener, |clients| clients.streams).clamp(1, MOST as u32);
        let config = Config { streams, limits, extended_connect: true, ..Config::default() };
        Self {
            carrier,
            port: None,
            unfinished: None,
            served: (0, true),
            remote: quic.remote_address().ip(),
            streams: Streams::begin(config, quic, &worker.reuse.workspace),
            ledger: Http3Ledger::new(&worker.counters.http3, peer.client),
            exchanges: Exchanges::new(slots, peer),
            stage: Stage::Open,
            clock: Clock::new(Instant::now()),
        }
    }

    /// Ready when the connection is over.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        worker: &Rc<Worker<N>>,
        begin: &impl Fn(Request<N, H3Side>) -> F,
    ) -> Poll<()> {
        self.exchanges.slots.listen(cx);
        // Once a turn: where time is over, it has every exchange look.
        let is_to_go = self.exchanges.is_to_go(worker) || !self.is_served(worker);
        let mut polled = 0;
        loop {
            let now = Instant::now();
            self.receive(cx, now);
            if let Some(unfinished) = self.unfinished.take() {
                self.unfinished = self.look_at_handshake(worker, unfinished, now);
            }
            loop {
                let count = self.take_events(worker, begin, now) + self.poll_exchanges(worker);
                polled += count;
                if count == 0 || polled > TURN {
                    break;
                }
            }
            // The endpoint closes connections whose socket it gives up, which is no event of QUIC.
            if self.streams.borrow().quic.is_closed() && self.stage != Stage::Closed {
                self.end();
            }
            self.look_at_clock(worker, now);
            self.leave(worker, is_to_go, now);
            self.send(cx, now);
            if polled > TURN {
                go_on_later(cx);
                break;
            }
            if self.exchanges.slots.rest() {
                break;
            }
        }
        self.exchanges.loan = None;
        {
            let mut streams = self.streams.borrow_mut();
            let open = streams.open_streams();
            self.ledger.look(&worker.counters.http3, &mut streams.codec, open);
        }
        self.wait(cx, worker)
    }

    /// Whether the listener still serves HTTP/3 where the connection was accepted.
    fn is_served(&mut self, worker: &Worker<N>) -> bool {
        let Some(port) = self.port else { return true };
        let adopted = worker.adopted();
        if self.served.0 != adopted.version() {
            self.served = (adopted.version(), adopted.serves_at(self.exchanges.peer.listener, port));
        }
        self.served.1
    }

    /// Takes what came, and what the time brings. A client that has moved is known by its new address from its next request on (RFC
    /// 9000 §9): rules for addresses must not go by an old one.
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

    /// Lets requests begin that waited for the handshake, once it is complete. Gives back what is left of it.
    fn look_at_handshake(
        &mut self,
        worker: &Worker<N>,
        unfinished: Box<Unfinished>,
        now: Instant,
    ) -> Option<Box<Unfinished>> {
        let mut streams = self.streams.borrow_mut();
        let fault = match (streams.quic.is_closed(), streams.quic.is_handshaking()) {
            (true, _) => Fault::ClientGone,
            (false, true) if unfinished.until > now => return Some(unfinished),
            (false, true) => {
                streams.quic.close(now.into_std(), VarInt::from_u32(0), Bytes::new());
                Fault::ClientTimeout
            }
            (false, false) => {
                worker.counters.shook_hands(unfinished.began.elapsed(), true);
                streams.is_early = false;
                self.exchanges.slots.ring_all();
                return None;
            }
        };
        worker.counters.handshake_failed(fault);
        None
    }

    fn send(&mut self, cx: &mut Context<'_>, now: Instant) {
        self.carrier.poll_output(cx, &mut self.streams.borrow_mut().quic, now.into_std());
    }

    fn poll_exchanges(&mut self, worker: &Worker<N>) -> usize {
        let Self { exchanges, streams, .. } = self;
        let waiting = streams.borrow().unanswered();
        exchanges.poll(worker, waiting, |slot| streams.borrow_mut().close(slot))
    }

    /// Acts on what the codec has to say; gives how many events that were.
    fn take_events(
        &mut self,
        worker: &Rc<Worker<N>>,
        begin: &impl Fn(Request<N, H3Side>) -> F,
        now: Instant,
    ) -> usize {
        let mut taken = 0;
        while taken < TURN && self.stage != Stage::Closed {
            let loan = self.exchanges.loan.get_or_insert_with(|| worker.lend_buffers());
            let mut streams = self.streams.borrow_mut();
            let Streams { codec, quic, .. } = &mut *streams;
            let Some(event) = codec.poll(now.into_std(), quic, &mut loan.request) else { break };
            taken += 1;
            match event {
                Event::Head { stream, end, length, protocol, head_bytes } => {
                    let head = &mut loan.request;
                    let mut arrival = arrival(head, Version::Http3, head_bytes, end, length);
                    if let Some(protocol) = protocol {
                        let nonce = worker.random(|random| random.u128(..));
                        switch(head, &mut arrival, protocol, length, nonce);
                    }
                    let slot = streams.open(stream, end);
                    drop(streams);
                    self.begin(worker, slot, Ok(arrival), begin);
                }
                Event::HeadTooLarge { stream, end } => {
                    let slot = streams.open(stream, end);
                    drop(streams);
                    self.begin(worker, slot, Err(Malformed::HeadTooLarge), begin);
                }
                Event::Readable { stream } | Event::Writable { stream } => {
                    if let Some(slot) = streams.slot(stream) {
                        self.exchanges.slots.ring(slot);
                    }
                }
                Event::Reset { stream, .. } => {
                    if let Some(slot) = streams.slot(stream) {
                        streams.broke(slot);
                        self.exchanges.let_go(slot);
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
                    self.ledger.lost(&worker.counters.http3, &error);
                    self.end();
                }
            }
        }
        taken
    }

    fn begin(
        &mut self,
        worker: &Rc<Worker<N>>,
        slot: usize,
        arrival: Result<Arrival, Malformed>,
        begin: &impl Fn(Request<N, H3Side>) -> F,
    ) {
        let Self { streams, exchanges, .. } = self;
        let mut side = exchanges.side(slot, || H3Side::new(streams, slot));
        side.down.renew();
        exchanges.begin(worker, slot, side, arrival, begin);
        if exchanges.hold_back(worker, slot, streams.borrow().unanswered()) {
            count(&worker.counters.http3.held);
        }
    }

    /// Ends the connection step by step where it is to end.
    fn leave(&mut self, worker: &Worker<N>, is_to_go: bool, now: Instant) {
        let is_cut = worker.phase() == Phase::Cutting;
        if is_to_go && self.stage == Stage::Open {
            self.go_away(now);
        }
        let mut streams = self.streams.borrow_mut();
        let is_idle = streams.open_streams() == 0;
        let Streams { codec, quic, .. } = &mut *streams;
        if let Stage::Leaving(until) = self.stage
            && (until <= now || is_cut)
        {
            codec.finish_going(quic);
            self.stage = Stage::Left(now + REJECTING);
        }
        let Stage::Left(until) = self.stage else { return };
        // What the client does not acknowledge in time it does not get.
        let patience = worker.adopted().settings().downstream.write_timeout;
        let is_over = until <= now && (codec.is_done() || self.clock.used + patience <= now);
        if is_idle && (is_over || is_cut) {
            codec.close(quic, now.into_std(), Code::NoError, "");
            drop(streams);
            self.end();
        }
    }

    /// Tells the client that the connection ends.
    fn go_away(&mut self, now: Instant) {
        let mut streams = self.streams.borrow_mut();
        let Streams { codec, quic, .. } = &mut *streams;
        codec.go_away(quic);
        self.stage = Stage::Leaving(now + grace(quic));
    }

    /// The connection is over.
    fn end(&mut self) {
        self.stage = Stage::Closed;
        self.exchanges.let_all_go();
        for slot in self.streams.borrow_mut().lost() {
            self.exchanges.slots.ring(slot);
        }
    }

    /// Sees to what is late.
    fn look_at_clock(&mut self, worker: &Worker<N>, now: Instant) {
        let served = self.exchanges.conduct.served;
        let is_idle = self.streams.borrow().open_streams() == 0;
        self.clock.look(now, served, is_idle);
        if self.stage == Stage::Closed {
            return;
        }
        let idle_at = self.idle_at(worker);
        if idle_at.is_some_and(|at| at <= now) {
            if self.clock.rested_after != served {
                self.clock.rested_after = served;
                self.exchanges.rest();
                self.streams.borrow_mut().rest();
            } else if self.stage == Stage::Open {
                self.go_away(now);
            }
        }
        if self.ping_at(worker).is_some_and(|at| at <= now) {
            self.clock.pinged = now;
            self.streams.borrow_mut().quic.ping();
        }
        while self.stage != Stage::Closed && self.head_is_late_at(worker).is_some_and(|at| at <= now) {
            self.give_up_head(worker, now);
        }
    }

    /// Ends the oldest request whose head is not whole. Nothing was done with it (`H3_REQUEST_REJECTED`, RFC 9114 §4.1.1). A connection
    /// without other requests ends with it.
    fn give_up_head(&mut self, worker: &Worker<N>, now: Instant) {
        let mut streams = self.streams.borrow_mut();
        let is_alone = streams.open_streams() == 0;
        let Streams { codec, quic, .. } = &mut *streams;
        let Some(stream) = codec.incomplete_head() else { return };
        if !is_alone {
            self.ledger.rejected(&worker.counters.http3, HEAD_TIMEOUT);
            return codec.reset(quic, stream, Code::RequestRejected);
        }
        self.ledger.gave_up(&worker.counters.http3, HEAD_TIMEOUT);
        codec.close(quic, now.into_std(), Code::ExcessiveLoad, HEAD_TIMEOUT);
        drop(streams);
        self.end();
    }

    /// When a connection without streams gives its memory back, or ends.
    fn idle_at(&self, worker: &Worker<N>) -> Option<Instant> {
        let timeout = worker.clients(self.exchanges.peer.listener, |clients| clients.idle_timeout);
        let rests = self.clock.rested_after == self.exchanges.conduct.served;
        let limit = match (rests, self.stage) {
            (false, _) => REST.min(timeout),
            (true, Stage::Open) => timeout,
            (true, _) => return None,
        };
        self.clock.was_idle.then(|| self.clock.used + limit)
    }

    /// When the client is asked for a sign of life: QUIC ends a connection on which nothing arrives for the idle timeout (RFC 9000
    /// §10.1), also while a response takes its time.
    fn ping_at(&self, worker: &Worker<N>) -> Option<Instant> {
        let timeout = worker.clients(self.exchanges.peer.listener, |clients| clients.idle_timeout);
        (!self.clock.was_idle).then(|| self.clock.pinged + timeout / PINGS_PER_IDLE_TIMEOUT)
    }

    /// When a request whose head is not whole has taken too long.
    fn head_is_late_at(&self, worker: &Worker<N>) -> Option<Instant> {
        let arrived = {
            let streams = self.streams.borrow();
            streams.codec.arrived_at(streams.codec.incomplete_head()?)?
        };
        Some(
            Instant::from_std(arrived)
                + worker.clients(self.exchanges.peer.listener, |clients| clients.head_timeout),
        )
    }

    /// When the stage ends.
    fn stage_ends_at(&self, worker: &Worker<N>, now: Instant) -> Option<Instant> {
        match self.stage {
            Stage::Open | Stage::Closed => None,
            Stage::Leaving(until) => Some(until),
            Stage::Left(_) if !self.clock.was_idle => None,
            Stage::Left(until) if until > now => Some(until),
            Stage::Left(_) => Some(self.clock.used + worker.adopted().settings().downstream.write_timeout),
        }
    }

    /// Waits for what is next; ready where that is nothing.
    fn wait(&mut self, cx: &mut Context<'_>, worker: &Rc<Worker<N>>) -> Poll<()> {
        let now = Instant::now();
        let quic = {
            let mut streams = self.streams.borrow_mut();
            if self.stage == Stage::Closed && streams.open_streams() == 0 {
                return Poll::Ready(());
            }
            streams.quic.poll_timeout().map(Instant::from_std)
        };
        let (held, stage) = (self.exchanges.conduct.due(), self.stage_ends_at(worker, now));
        let unfinished = self.unfinished.as_ref().map(|unfinished| unfinished.until);
        let own = match self.stage {
            Stage::Closed => None,
            _ => [self.idle_at(worker), self.head_is_late_at(worker), self.ping_at(worker), unfinished]
                .into_iter()
                .flatten()
                .min(),
        };
        let Some(next) = [quic, held, stage, own].into_iter().flatten().min() else { return Poll::Pending };
        self.clock.deadline.set(now, next.saturating_duration_since(now));
        if self.clock.deadline.poll_passed(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// What is left of a connection that is over.
    fn into_closed(self) -> Option<(C, Box<Quic>)> {
        let Self { carrier, streams, exchanges, .. } = self;
        // They know the streams.
        drop(exchanges);
        Some((carrier, Rc::into_inner(streams)?.into_inner().quic))
    }
}

/// How long the client has to hear of a GOAWAY.
fn grace(quic: &Quic) -> Duration {
    (2 * quic.rtt()).clamp(MIN_GRACE, MAX_GRACE)
}
