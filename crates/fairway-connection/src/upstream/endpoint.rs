//! One endpoint as one worker knows it: its health, its load and its idle connections.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fairway_model::{Backend, BackendProtocol, PortProtocol, UpstreamTls};
use fairway_net::clock::Instant;

use crate::sides::{Hop, Share};
use crate::upstream::circuit::{Breaker, ConnectionPlace};
use crate::upstream::health::{Blame, Ejecting, Health};
use crate::upstream::high_water::HighWater;
use crate::upstream::state::EndpointState;

/// A non-idempotent request may go on a reused connection only when that answered within this time.
const PROVEN: Duration = Duration::from_secs(1);

/// How much a new latency weighs in the moving average: 1/8.
const EWMA_SHIFT: u32 = 3;

/// A connect is late when it takes so many times as long as usual.
const LATE: u32 = 4;
/// No connect is late before.
const EARLIEST_HEDGE: Duration = Duration::from_millis(50);

/// Everything that makes two connections alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EndpointIdentity {
    /// Where it is.
    pub address: SocketAddr,
    /// What carries it: what TCP says of an endpoint says nothing of UDP.
    pub transport: PortProtocol,
    /// What is spoken to it.
    pub protocol: BackendProtocol,
    /// TLS towards it, if any.
    pub tls: Option<Arc<UpstreamTls>>,
}

impl EndpointIdentity {
    /// Of a backend's endpoint.
    #[must_use]
    pub fn of(backend: &Backend, address: SocketAddr, transport: PortProtocol) -> Self {
        Self { address, transport, protocol: backend.protocol, tls: backend.tls.clone() }
    }
}

/// An endpoint.
pub struct Endpoint<H> {
    /// What it is known by.
    pub identity: EndpointIdentity,
    idle: RefCell<Vec<Box<Pooled<H>>>>,
    /// Boxes of parts that were given back, for the next ones.
    boxes: RefCell<Vec<Box<Pooled<H>>>>,
    /// How many idle connections the worker has to all endpoints.
    idle_of_all: Rc<Cell<usize>>,
    health: Cell<Health>,
    /// Datagrams of the last probe went out.
    probed: Cell<bool>,
    in_flight: Cell<u32>,
    high_water: HighWater,
    /// From a request to its response head.
    latency: PeakEwma,
    /// From the beginning of a connect to its end, TLS included.
    connect: PeakEwma,
    /// How many groups have it.
    memberships: Cell<u32>,
    /// When it joined a group that had others; `None` where it was there from the beginning.
    began: Option<Instant>,
    opening: Opening,
}

/// Connections on their way that several exchanges will share, and the exchanges that wait for one.
#[derive(Default)]
struct Opening {
    under_way: Cell<usize>,
    /// Connections that came.
    opened: Cell<u32>,
    /// How often something became of one: it came, failed, was given up or lost a race.
    news: Cell<u32>,
    waiting: RefCell<Vec<Waker>>,
}

impl Opening {
    /// All that wait look for themselves what became of the connect.
    fn tell(&self) {
        self.news.set(self.news.get().wrapping_add(1));
        self.waiting.borrow_mut().drain(..).for_each(Waker::wake);
    }
}

/// What was known of connects when an exchange began to wait for one.
#[derive(Clone, Copy)]
pub struct Awaited {
    opened: u32,
    news: u32,
}

/// What became of a connect that was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// A connection came.
    Connection,
    /// None came, or another endpoint's was there first.
    Nothing,
}

/// Exchanges that wait for one connection before another one is begun.
const SHARERS: usize = 100;

/// A connect that others wait for, until this is dropped.
pub struct Underway<H>(Rc<Endpoint<H>>);

impl<H> Drop for Underway<H> {
    fn drop(&mut self) {
        let opening = &self.0.opening;
        opening.under_way.set(opening.under_way.get() - 1);
        opening.tell();
    }
}

/// Boxes of parts that an endpoint keeps.
const BOXES: usize = 128;

/// A connection to an endpoint, or a part of one. Boxed wherever it goes: it passes through several hands in every
/// exchange.
pub(crate) struct Pooled<H> {
    /// None in a box that waits for a part.
    hop: Option<H>,
    /// Whether the connection itself stays in the pool.
    is_part: bool,
    /// Exchanges it has carried.
    pub(crate) served: u64,
    /// When its last answer came, or a part of it was lent.
    pub(crate) answered: Instant,
    /// Where its backend limits connections.
    place: Option<Rc<ConnectionPlace>>,
}

impl<H> Pooled<H> {
    /// What carries the exchanges.
    #[inline]
    pub(crate) fn hop(&mut self) -> &mut H {
        self.hop.as_mut().expect("only boxes that wait for a part have no hop")
    }

    /// A part of it for one exchange, in this box if there is one.
    fn part(&mut self, hop: H, spare: Option<Box<Self>>) -> Box<Self> {
        self.served += 1;
        let (served, answered, place) = (self.served, self.answered, self.place.clone());
        let part = Self { hop: Some(hop), is_part: true, served, answered, place };
        match spare {
            Some(mut spare) => {
                *spare = part;
                spare
            }
            None => Box::new(part),
        }
    }
}

/// What of its pool an endpoint keeps.
#[derive(Clone, Copy)]
pub struct PoolLimits {
    /// How many idle connections.
    pub idle_connections: IdleLimit,
    /// How long one may be idle.
    pub idle_timeout: Duration,
    /// Exchanges that a connection carries in all.
    pub requests: u64,
}

/// How many idle connections an endpoint keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleLimit {
    /// At most this many; one more is closed after its exchange.
    AtMost(usize),
    /// As many as were in use at once within the last minute or two, and at least 320. With a fixed number, load
    /// that needs more connections than that closes and opens one with nearly every request.
    AsNeeded,
}

/// Idle connections to an endpoint that are kept whatever it needed. They end by their age.
const KEPT_AT_LEAST: usize = 320;

impl<H: Hop> Endpoint<H> {
    /// Healthy, without connections, which will be part of `idle_of_all`.
    pub(crate) fn new(
        identity: EndpointIdentity,
        idle_of_all: Rc<Cell<usize>>,
        began: Option<Instant>,
    ) -> Self {
        Self {
            identity,
            idle: RefCell::new(Vec::new()),
            boxes: RefCell::new(Vec::new()),
            idle_of_all,
            health: Cell::new(Health::default()),
            probed: Cell::new(false),
            in_flight: Cell::new(0),
            high_water: HighWater::new(Instant::now()),
            latency: PeakEwma::default(),
            connect: PeakEwma::default(),
            memberships: Cell::new(0),
            began,
            opening: Opening::default(),
        }
    }

    /// When it joined a group that had others; `None` where it was there from the beginning.
    pub(crate) fn began(&self) -> Option<Instant> {
        self.began
    }

    /// A connection, or a part of one, that has room for an exchange and shows no event since its last answer; the youngest
    /// first, so that its memory is warm and the others can time out. `proven` asks for one that answered within the last
    /// second.
    pub(crate) fn checkout(&self, proven: bool, now: Instant) -> Option<Box<Pooled<H>>> {
        self.change_idle(|idle| {
            let mut at = idle.len();
            while at > 0 {
                at -= 1;
                let connection = &mut idle[at];
                let age = now.saturating_duration_since(connection.answered);
                if proven && age > PROVEN && !connection.hop().is_proven() {
                    return None;
                }
                if !connection.hop().is_quiet() {
                    idle.remove(at);
                    continue;
                }
                match connection.hop().share() {
                    Share::Whole => return Some(idle.remove(at)),
                    Share::Part(hop) => {
                        connection.answered = now;
                        let spare = self.boxes.borrow_mut().pop();
                        return Some(connection.part(hop, spare));
                    }
                    Share::Full => {}
                }
            }
            None
        })
    }

    /// Keeps a connection that was just made, where it carries several exchanges; gives what is to be lent of it.
    pub(crate) fn open(&self, hop: H, place: Option<Rc<ConnectionPlace>>) -> Box<Pooled<H>> {
        self.opening.opened.set(self.opening.opened.get().wrapping_add(1));
        let (hop, answered) = (Some(hop), Instant::now());
        let mut connection = Box::new(Pooled { hop, is_part: false, served: 0, answered, place });
        let Share::Part(hop) = connection.hop().share() else { return connection };
        let part = connection.part(hop, None);
        // Of an endpoint that no group has any more, nothing is kept: it ends with what was lent.
        if self.memberships.get() > 0 {
            self.change_idle(|idle| idle.push(connection));
        }
        part
    }

    /// Takes a connection back after an exchange that left it clean.
    pub(crate) fn check_in(&self, mut connection: Box<Pooled<H>>, limits: &PoolLimits) {
        if connection.is_part {
            connection.hop = None;
            if let Some(place) = connection.place.take() {
                place.has_room();
            }
            let mut boxes = self.boxes.borrow_mut();
            if boxes.len() < BOXES {
                boxes.push(connection);
            }
            return;
        }
        if self.memberships.get() == 0 || connection.served >= limits.requests {
            return;
        }
        let most = self.idle_limit(limits);
        let stays = connection.place.as_ref().is_none_or(|place| place.rests());
        self.change_idle(|idle| {
            if stays && idle.len() < most {
                connection.hop().rest();
                idle.push(connection);
            }
        });
    }

    /// Closes up to `count` idle connections, the oldest first. Says how many.
    pub(crate) fn close_idle(&self, count: usize) -> usize {
        self.change_idle(|idle| idle.drain(..count.min(idle.len())).len())
    }

    /// Closes a connection that carries nothing and counts for this backend. Says whether there was one.
    pub(crate) fn close_unused(&self, breaker: &Breaker) -> bool {
        self.change_idle(|idle| {
            let at = idle.iter().position(|connection| {
                connection.place.as_ref().is_some_and(|place| place.is_of(breaker))
                    && connection.hop.as_ref().is_none_or(|hop| hop.parts_lent() == 0)
            });
            at.map(|at| idle.remove(at)).is_some()
        })
    }

    fn idle_limit(&self, limits: &PoolLimits) -> usize {
        match limits.idle_connections {
            IdleLimit::AtMost(most) => most,
            IdleLimit::AsNeeded => self.high_water.mark().max(KEPT_AT_LEAST),
        }
    }

    /// Closes idle connections that are too old, whose peer closed them, or that are no longer needed, the oldest first.
    pub(crate) fn sweep(&self, limits: &PoolLimits, now: Instant) {
        self.high_water.sweep(self.in_flight(), now);
        let most = match limits.idle_connections {
            // It is kept to when connections come back. Those that carry several exchanges are in the pool while in use.
            IdleLimit::AtMost(_) => usize::MAX,
            IdleLimit::AsNeeded => self.idle_limit(limits),
        };
        self.change_idle(|idle| {
            idle.drain(..idle.len().saturating_sub(most));
            idle.retain_mut(|connection| {
                now.saturating_duration_since(connection.answered) < limits.idle_timeout
                    && connection.served < limits.requests
                    && connection.hop().is_quiet()
            });
            // What a burst left room for is not kept for the next one.
            idle.shrink_to(2 * idle.len());
        });
        let mut boxes = self.boxes.borrow_mut();
        boxes.truncate(self.in_flight() as usize);
        boxes.shrink_to(2 * self.in_flight() as usize);
    }

    /// After one reused connection was found dead, the others are looked at.
    pub fn check_siblings(&self) {
        self.change_idle(|idle| idle.retain_mut(|connection| connection.hop().is_quiet()));
    }

    /// Closes the idle connections: nothing acknowledges what is written to the endpoint.
    pub fn drop_idle(&self) {
        self.change_idle(Vec::clear);
    }

    /// A connect begins. `None` where its connection will carry one exchange at a time.
    pub fn begin_connect(self: &Rc<Self>) -> Option<Underway<H>> {
        self.shares_connections().then(|| {
            self.opening.under_way.set(self.opening.under_way.get() + 1);
            Underway(Rc::clone(self))
        })
    }

    /// Begins to wait for a connection to share. `None` where none is under way that has room for one exchange more; one that
    /// has waited before keeps its room.
    pub fn await_opened(&self, has_waited: bool) -> Option<Awaited> {
        let Opening { under_way, opened, news, waiting } = &self.opening;
        let under_way = under_way.get();
        if under_way == 0 || (!has_waited && waiting.borrow().len() >= under_way * SHARERS) {
            return None;
        }
        Some(Awaited { opened: opened.get(), news: news.get() })
    }

    /// Ready when something became of a connect since.
    pub fn poll_opened(&self, cx: &Context<'_>, since: Awaited) -> Poll<Opened> {
        let Opening { opened, news, waiting, .. } = &self.opening;
        if opened.get() != since.opened {
            return Poll::Ready(Opened::Connection);
        }
        if news.get() != since.news {
            return Poll::Ready(Opened::Nothing);
        }
        let mut waiting = waiting.borrow_mut();
        if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Whether a connection to share is under way.
    pub fn is_opening(&self) -> bool {
        self.opening.under_way.get() > 0
    }

    /// A group has it.
    pub(crate) fn join(&self) {
        self.memberships.set(self.memberships.get() + 1);
    }

    /// Whether each connection carries several exchanges. Of [`BackendProtocol::Auto`] only the handshake tells.
    fn shares_connections(&self) -> bool {
        matches!(self.identity.protocol, BackendProtocol::H2c | BackendProtocol::Http2)
    }

    /// Idle connections to it.
    pub(crate) fn idle(&self) -> usize {
        self.idle.borrow().len()
    }

    /// What this worker knows of it.
    pub(crate) fn state(&self, now: Instant) -> EndpointState {
        let pool = self.idle.borrow();
        let lent = pool.iter().map(|pooled| pooled.hop.as_ref().map_or(0, H::parts_lent));
        let (shared, parts) = lent.fold((0, 0), |(shared, parts), lent| match lent {
            0 => (shared, parts),
            _ => (shared + 1, parts + lent),
        });
        let others = match self.shares_connections() {
            true => self.opening.under_way.get(),
            // Each has a connection of its own, or is making one.
            false => (self.in_flight() as usize).saturating_sub(parts),
        };
        let known = |of: &PeakEwma| (of.micros() > 0).then(|| Duration::from_micros(of.micros().into()));
        EndpointState {
            under_way: self.in_flight(),
            idle: pool.len() - shared,
            busy: shared + others,
            latency: known(&self.latency),
            connect_time: known(&self.connect),
            ..EndpointState::of_health(self.health.get(), now)
        }
    }
}

impl<H> Endpoint<H> {
    /// A group has it no more. After the last one idle connections close now, busy ones after their exchange.
    pub(crate) fn leave(&self) {
        self.memberships.set(self.memberships.get().saturating_sub(1));
        if self.memberships.get() == 0 {
            self.change_idle(Vec::clear);
        }
    }

    /// Every change of the pool goes through here, so that the sum over all pools holds.
    fn change_idle<T>(&self, change: impl FnOnce(&mut Vec<Box<Pooled<H>>>) -> T) -> T {
        let mut idle = self.idle.borrow_mut();
        let before = idle.len();
        let changed = change(&mut idle);
        let others = self.idle_of_all.get().saturating_sub(before);
        self.idle_of_all.set(others + idle.len());
        changed
    }
}

impl<H: Hop> Endpoint<H> {
    /// What is known of it.
    #[inline]
    pub fn health(&self) -> Health {
        self.health.get()
    }

    /// This request is the probe of an endpoint that is not in use. False where the endpoint needs none any more: datagrams may
    /// never be answered, so one that got those of its last probe and has not refused them is back.
    pub(crate) fn begin_probe(&self, now: Instant) -> bool {
        let was_asked = self.probed.take() && matches!(self.health.get(), Health::Probing { .. });
        self.health.set(if was_asked { Health::default() } else { self.health.get().probing(now) });
        !was_asked
    }

    /// The first datagram of a session that is the probe went out.
    pub fn probe_sent(&self) {
        self.probed.set(self.identity.transport == PortProtocol::Udp);
    }

    /// The probe ended without a verdict.
    fn abandon_probe(&self) {
        self.health.set(self.health.get().probe_abandoned(Instant::now()));
    }

    /// Another endpoint's connect was there first: those that wait for one here look elsewhere.
    pub fn lost_race(&self, now: Instant) {
        self.health.set(self.health.get().lost_race(now));
        self.opening.tell();
    }

    /// A connect completed after `took`.
    pub fn connected(&self, took: Duration) {
        self.health.set(self.health.get().connected());
        self.connect.note(took);
    }

    /// How long a connect may take before another endpoint is tried as well: four times the usual, within 50 ms and
    /// `most`. `None` when `most` is zero: never.
    pub fn hedge_after(&self, most: Duration) -> Option<Duration> {
        let late = match self.connect.micros() {
            0 => most,
            usual => Duration::from_micros(u64::from(usual.saturating_mul(LATE))),
        };
        (!most.is_zero()).then(|| late.max(EARLIEST_HEDGE).min(most))
    }

    /// How long written bytes may stay unacknowledged before the endpoint is looked at: `least`, and more where the
    /// way is long.
    pub fn acknowledges_within(&self, least: Duration) -> Duration {
        least.max(Duration::from_micros(u64::from(self.connect.micros().saturating_mul(LATE))))
    }

    /// Attempts that are under way there, connects and those that wait for one included.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.in_flight.get()
    }

    /// A connection that was the probe stays, though nothing may ever be answered on it.
    pub fn stayed(&self) {
        if matches!(self.health.get(), Health::Probing { .. }) {
            self.health.set(Health::default());
        }
    }

    /// A response head came after `latency`: peak EWMA, which follows a rise at once and a fall slowly.
    pub fn succeeded(&self, latency: Duration) {
        if !matches!(self.health.get(), Health::Good { failures: 0 }) {
            self.health.set(self.health.get().succeeded());
        }
        self.latency.note(latency);
    }

    /// It is not used for so long, because it is slow.
    pub(crate) fn eject(&self, length: Duration, now: Instant) {
        self.health.set(Health::Ejected { until: now + length, length });
    }

    /// Latency times load: what power of two choices compares.
    pub(crate) fn cost(&self) -> u64 {
        u64::from(self.latency.micros().max(1)) * u64::from(self.in_flight.get() + 1)
    }

    /// It failed; `may_eject` says whether enough others are left. Nothing ejects it where `ejecting` is `None`. Returns
    /// whether this ejected it.
    pub(crate) fn failed(
        &self,
        blame: Blame,
        ejecting: Option<&Ejecting>,
        may_eject: bool,
        now: Instant,
    ) -> bool {
        let before = self.health.get();
        let after = match ejecting {
            Some(ejecting) => before.failed(blame, ejecting, may_eject, now),
            None => before.failed_for_good(blame, now),
        };
        self.health.set(after);
        !before.is_ejected() && after.is_ejected()
    }
}

/// A moving average that follows a rise at once and a fall slowly.
#[derive(Default)]
struct PeakEwma(Cell<u32>);

impl PeakEwma {
    fn note(&self, time: Duration) {
        let sample = u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        let mean = self.0.get();
        self.0.set(if sample > mean { sample } else { mean - ((mean - sample) >> EWMA_SHIFT) });
    }

    /// 0 before the first.
    fn micros(&self) -> u32 {
        self.0.get()
    }
}

/// An endpoint that was chosen for an attempt. While this lives, the attempt counts as in flight there; a probe that
/// ends without a verdict makes room for the next one.
pub struct Chosen<H: Hop> {
    /// Its place in the group.
    pub index: u32,
    /// The endpoint.
    pub endpoint: Rc<Endpoint<H>>,
    /// Why it was chosen.
    pub errand: Errand,
}

/// Why the endpoint was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errand {
    /// It is its turn.
    Regular,
    /// To find out whether it is back.
    Probe,
}

impl<H: Hop> Chosen<H> {
    pub(crate) fn new(index: u32, endpoint: &Rc<Endpoint<H>>, errand: Errand) -> Self {
        endpoint.in_flight.set(endpoint.in_flight.get() + 1);
        endpoint.high_water.rise(endpoint.in_flight.get());
        Self { index, endpoint: Rc::clone(endpoint), errand }
    }
}

impl<H: Hop> Drop for Chosen<H> {
    fn drop(&mut self) {
        self.endpoint.in_flight.set(self.endpoint.in_flight.get().saturating_sub(1));
        if self.errand == Errand::Probe {
            self.endpoint.abandon_probe();
        }
    }
}
