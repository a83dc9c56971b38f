//! One endpoint as one worker sees it: its health, its load and its idle connections.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fairway_model::{Backend, BackendProtocol, PortProtocol, UpstreamTls};
use fairway_net::clock::Instant;

use crate::sides::{Hop, Share};
use crate::upstream::circuit::{Breaker, ConnectionPermit};
use crate::upstream::health::{Blame, EjectionPolicy, Health};
use crate::upstream::high_water::HighWater;
use crate::upstream::state::EndpointState;

/// A non-idempotent request may reuse a connection only if its last response came within this time.
const PROVEN_WITHIN: Duration = Duration::from_secs(1);

/// The weight of a new latency in the moving average: 1/8.
const EWMA_SHIFT: u32 = 3;

/// A connect is late when it takes this many times as long as usual.
const LATE_CONNECT_FACTOR: u32 = 4;
/// No connect is late before this.
const MIN_HEDGE_DELAY: Duration = Duration::from_millis(50);

/// Everything that must be equal for two connections to be interchangeable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EndpointIdentity {
    /// Where it is.
    pub address: SocketAddr,
    /// The transport: TCP failures of an endpoint say nothing about UDP.
    pub transport: PortProtocol,
    /// The protocol spoken to it.
    pub protocol: BackendProtocol,
    /// The TLS settings, if any.
    pub tls: Option<Arc<UpstreamTls>>,
}

impl EndpointIdentity {
    /// The identity of a backend's endpoint.
    #[must_use]
    pub fn of_backend(backend: &Backend, address: SocketAddr, transport: PortProtocol) -> Self {
        Self { address, transport, protocol: backend.protocol, tls: backend.tls.clone() }
    }
}

/// An endpoint.
pub struct Endpoint<H> {
    /// What identifies it.
    pub identity: EndpointIdentity,
    idle: RefCell<Vec<Box<Pooled<H>>>>,
    /// Boxes of returned parts, for reuse.
    boxes: RefCell<Vec<Box<Pooled<H>>>>,
    /// The worker's idle connections to all endpoints.
    total_idle: Rc<Cell<usize>>,
    health: Cell<Health>,
    /// Whether the datagrams of the last probe were sent.
    is_probe_sent: Cell<bool>,
    in_flight: Cell<u32>,
    high_water: HighWater,
    /// Time from a request to its response head.
    latency: PeakEwma,
    /// Time to connect, TLS included.
    connect: PeakEwma,
    /// The number of groups with this endpoint.
    memberships: Cell<u32>,
    /// When it joined an existing group; `None` if it was there from the start.
    joined_at: Option<Instant>,
    pending_connects: PendingConnects,
}

/// Connects whose connections several exchanges will share, and the exchanges waiting for one.
#[derive(Default)]
struct PendingConnects {
    under_way: Cell<usize>,
    /// Connections that were opened.
    opened: Cell<u32>,
    /// How many connects ended: opened, failed, abandoned or lost a race.
    changes: Cell<u32>,
    waiting: RefCell<Vec<Waker>>,
}

impl PendingConnects {
    /// Wakes all waiting exchanges, which check the result themselves.
    fn wake_all(&self) {
        self.changes.set(self.changes.get().wrapping_add(1));
        self.waiting.borrow_mut().drain(..).for_each(Waker::wake);
    }
}

/// The state of connects when an exchange began to wait for one.
#[derive(Clone, Copy)]
pub struct ConnectTicket {
    opened: u32,
    changes: u32,
}

/// How an awaited connect ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectOutcome {
    /// A connection was opened.
    Connection,
    /// None was opened, or another endpoint's connect was faster.
    Nothing,
}

/// Exchanges that wait for one connect before another one is started.
const MAX_WAITING_PER_CONNECT: usize = 100;

/// A connect in progress that others wait for. Dropping it ends it.
pub struct ConnectInProgress<H>(Rc<Endpoint<H>>);

impl<H> Drop for ConnectInProgress<H> {
    fn drop(&mut self) {
        let opening = &self.0.pending_connects;
        opening.under_way.set(opening.under_way.get() - 1);
        opening.wake_all();
    }
}

/// Spare boxes that an endpoint keeps.
const MAX_SPARE_BOXES: usize = 128;

/// A connection to an endpoint, or a part of one. Boxed, because every exchange moves it several times.
pub(crate) struct Pooled<H> {
    /// `None` in a spare box.
    hop: Option<H>,
    /// Whether the connection itself stays in the pool.
    is_part: bool,
    /// Exchanges it has carried.
    pub(crate) served: u64,
    /// When its last response came, or a part of it was last lent.
    pub(crate) last_response_at: Instant,
    /// The permit, if the backend limits connections.
    permit: Option<Rc<ConnectionPermit>>,
}

impl<H> Pooled<H> {
    /// What carries the exchanges.
    #[inline]
    pub(crate) fn hop(&mut self) -> &mut H {
        self.hop.as_mut().expect("only spare boxes have no hop")
    }

    /// Wraps one exchange's part of it, in the spare box if there is one.
    fn split_off(&mut self, hop: H, spare: Option<Box<Self>>) -> Box<Self> {
        self.served += 1;
        let (served, answered, place) = (self.served, self.last_response_at, self.permit.clone());
        let part = Self { hop: Some(hop), is_part: true, served, last_response_at: answered, permit: place };
        match spare {
            Some(mut spare) => {
                *spare = part;
                spare
            }
            None => Box::new(part),
        }
    }
}

/// The limits of an endpoint's pool.
#[derive(Clone, Copy)]
pub struct PoolLimits {
    /// How many idle connections it keeps.
    pub idle_connections: IdleLimit,
    /// How long one may be idle.
    pub idle_timeout: Duration,
    /// Exchanges of one connection.
    pub requests: u64,
}

/// How many idle connections an endpoint keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleLimit {
    /// At most this many; further ones are closed after their exchange.
    AtMost(usize),
    /// As many as were in use at once within the last one or two minutes, and at least 320. With a fixed number, load
    /// that needs more connections would open and close one for nearly every request.
    AsNeeded,
}

/// Idle connections that are kept regardless of demand. They end by their age.
const MIN_IDLE_CONNECTIONS: usize = 320;

impl<H: Hop> Endpoint<H> {
    /// A healthy endpoint without connections. Its idle ones are added to `total_idle`.
    pub(crate) fn new(
        identity: EndpointIdentity,
        idle_of_all: Rc<Cell<usize>>,
        began: Option<Instant>,
    ) -> Self {
        Self {
            identity,
            idle: RefCell::new(Vec::new()),
            boxes: RefCell::new(Vec::new()),
            total_idle: idle_of_all,
            health: Cell::new(Health::default()),
            is_probe_sent: Cell::new(false),
            in_flight: Cell::new(0),
            high_water: HighWater::new(Instant::now()),
            latency: PeakEwma::default(),
            connect: PeakEwma::default(),
            memberships: Cell::new(0),
            joined_at: began,
            pending_connects: PendingConnects::default(),
        }
    }

    /// When it joined an existing group; `None` if it was there from the start.
    pub(crate) fn joined_at(&self) -> Option<Instant> {
        self.joined_at
    }

    /// A connection, or a part of one, that has room for an exchange and shows no event since its last response. The
    /// most recently used comes first: its memory is warm, and the others can time out. `proven` asks for one that
    /// responded within the last second.
    pub(crate) fn checkout(&self, proven: bool, now: Instant) -> Option<Box<Pooled<H>>> {
        self.change_idle(|idle| {
            let mut at = idle.len();
            while at > 0 {
                at -= 1;
                let connection = &mut idle[at];
                let age = now.saturating_duration_since(connection.last_response_at);
                if proven && age > PROVEN_WITHIN && !connection.hop().is_safe_for_non_idempotent() {
                    return None;
                }
                if !connection.hop().is_reusable_now() {
                    idle.remove(at);
                    continue;
                }
                match connection.hop().try_share() {
                    Share::Whole => return Some(idle.remove(at)),
                    Share::Part(hop) => {
                        connection.last_response_at = now;
                        let spare = self.boxes.borrow_mut().pop();
                        return Some(connection.split_off(hop, spare));
                    }
                    Share::Full => {}
                }
            }
            None
        })
    }

    /// Adds a new connection to the pool if it can be shared. Returns what to lend of it.
    pub(crate) fn open(&self, hop: H, permit: Option<Rc<ConnectionPermit>>) -> Box<Pooled<H>> {
        self.pending_connects.opened.set(self.pending_connects.opened.get().wrapping_add(1));
        let (hop, answered) = (Some(hop), Instant::now());
        let mut connection =
            Box::new(Pooled { hop, is_part: false, served: 0, last_response_at: answered, permit });
        let Share::Part(hop) = connection.hop().try_share() else { return connection };
        let part = connection.split_off(hop, None);
        // Nothing is pooled for an endpoint without groups: the connection ends with this exchange.
        if self.memberships.get() > 0 {
            self.change_idle(|idle| idle.push(connection));
        }
        part
    }

    /// Returns a connection after a clean exchange.
    pub(crate) fn check_in(&self, mut connection: Box<Pooled<H>>, limits: &PoolLimits) {
        if connection.is_part {
            connection.hop = None;
            if let Some(place) = connection.permit.take() {
                place.notify_room();
            }
            let mut boxes = self.boxes.borrow_mut();
            if boxes.len() < MAX_SPARE_BOXES {
                boxes.push(connection);
            }
            return;
        }
        if self.memberships.get() == 0 || connection.served >= limits.requests {
            return;
        }
        let limit = self.idle_limit(limits);
        let stays = connection.permit.as_ref().is_none_or(|place| place.stays_idle());
        self.change_idle(|idle| {
            if stays && idle.len() < limit {
                connection.hop().release_buffers();
                idle.push(connection);
            }
        });
    }

    /// Closes up to `count` idle connections, oldest first. Returns how many.
    pub(crate) fn close_idle(&self, count: usize) -> usize {
        self.change_idle(|idle| idle.drain(..count.min(idle.len())).len())
    }

    /// Closes an unused connection that counts for this backend. Returns whether there was one.
    pub(crate) fn close_unused(&self, breaker: &Breaker) -> bool {
        self.change_idle(|idle| {
            let at = idle.iter().position(|connection| {
                connection.permit.as_ref().is_some_and(|place| place.belongs_to(breaker))
                    && connection.hop.as_ref().is_none_or(|hop| hop.shared_exchanges() == 0)
            });
            at.map(|at| idle.remove(at)).is_some()
        })
    }

    fn idle_limit(&self, limits: &PoolLimits) -> usize {
        match limits.idle_connections {
            IdleLimit::AtMost(most) => most,
            IdleLimit::AsNeeded => self.high_water.mark().max(MIN_IDLE_CONNECTIONS),
        }
    }

    /// Closes idle connections that are too old, closed by the peer or no longer needed, oldest first.
    pub(crate) fn sweep(&self, limits: &PoolLimits, now: Instant) {
        self.high_water.sweep(self.in_flight(), now);
        let max = match limits.idle_connections {
            // The limit applies when connections are returned. Shared ones are in the pool while in use.
            IdleLimit::AtMost(_) => usize::MAX,
            IdleLimit::AsNeeded => self.idle_limit(limits),
        };
        self.change_idle(|idle| {
            idle.drain(..idle.len().saturating_sub(max));
            idle.retain_mut(|connection| {
                now.saturating_duration_since(connection.last_response_at) < limits.idle_timeout
                    && connection.served < limits.requests
                    && connection.hop().is_reusable_now()
            });
            // Releases the capacity that a burst needed.
            idle.shrink_to(2 * idle.len());
        });
        let mut boxes = self.boxes.borrow_mut();
        boxes.truncate(self.in_flight() as usize);
        boxes.shrink_to(2 * self.in_flight() as usize);
    }

    /// A reused connection was dead: checks the others.
    pub fn check_siblings(&self) {
        self.change_idle(|idle| idle.retain_mut(|connection| connection.hop().is_reusable_now()));
    }

    /// Closes the idle connections: the endpoint acknowledges nothing.
    pub fn drop_idle(&self) {
        self.change_idle(Vec::clear);
    }

    /// A connect begins. `None` if its connection will carry one exchange at a time.
    pub fn begin_connect(self: &Rc<Self>) -> Option<ConnectInProgress<H>> {
        self.shares_connections().then(|| {
            self.pending_connects.under_way.set(self.pending_connects.under_way.get() + 1);
            ConnectInProgress(Rc::clone(self))
        })
    }

    /// Begins to wait for a shared connection. `None` if no connect in progress has room for one more exchange; one
    /// that has waited before keeps its place.
    pub fn await_connect(&self, has_waited: bool) -> Option<ConnectTicket> {
        let PendingConnects { under_way, opened, changes: news, waiting } = &self.pending_connects;
        let under_way = under_way.get();
        if under_way == 0 || (!has_waited && waiting.borrow().len() >= under_way * MAX_WAITING_PER_CONNECT) {
            return None;
        }
        Some(ConnectTicket { opened: opened.get(), changes: news.get() })
    }

    /// Ready when a connect ended since then.
    pub fn poll_connect(&self, cx: &Context<'_>, since: ConnectTicket) -> Poll<ConnectOutcome> {
        let PendingConnects { opened, changes: news, waiting, .. } = &self.pending_connects;
        if opened.get() != since.opened {
            return Poll::Ready(ConnectOutcome::Connection);
        }
        if news.get() != since.changes {
            return Poll::Ready(ConnectOutcome::Nothing);
        }
        let mut waiting = waiting.borrow_mut();
        if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Whether a connect to a shared connection is in progress.
    pub fn is_connecting(&self) -> bool {
        self.pending_connects.under_way.get() > 0
    }

    /// Adds it to a group.
    pub(crate) fn join_group(&self) {
        self.memberships.set(self.memberships.get() + 1);
    }

    /// Whether connections are shared. For [`BackendProtocol::Auto`], only the handshake decides.
    fn shares_connections(&self) -> bool {
        matches!(self.identity.protocol, BackendProtocol::H2c | BackendProtocol::Http2)
    }

    /// The number of idle connections.
    pub(crate) fn idle(&self) -> usize {
        self.idle.borrow().len()
    }

    /// What this worker knows of it.
    pub(crate) fn state(&self, now: Instant) -> EndpointState {
        let pool = self.idle.borrow();
        let lent = pool.iter().map(|pooled| pooled.hop.as_ref().map_or(0, H::shared_exchanges));
        let (shared, parts) = lent.fold((0, 0), |(shared, parts), lent| match lent {
            0 => (shared, parts),
            _ => (shared + 1, parts + lent),
        });
        let others = match self.shares_connections() {
            true => self.pending_connects.under_way.get(),
            // Each attempt has its own connection, or is opening one.
            false => (self.in_flight() as usize).saturating_sub(parts),
        };
        let known = |average: &PeakEwma| {
            (average.micros() > 0).then(|| Duration::from_micros(average.micros().into()))
        };
        EndpointState {
            in_flight: self.in_flight(),
            idle: pool.len() - shared,
            busy: shared + others,
            latency: known(&self.latency),
            connect_time: known(&self.connect),
            ..EndpointState::from_health(self.health.get(), now)
        }
    }
}

impl<H> Endpoint<H> {
    /// Removes it from a group. After the last one, idle connections close now and busy ones after their exchange.
    pub(crate) fn leave_group(&self) {
        self.memberships.set(self.memberships.get().saturating_sub(1));
        if self.memberships.get() == 0 {
            self.change_idle(Vec::clear);
        }
    }

    /// Every change of the pool goes through here, to keep the total correct.
    fn change_idle<T>(&self, change: impl FnOnce(&mut Vec<Box<Pooled<H>>>) -> T) -> T {
        let mut idle = self.idle.borrow_mut();
        let before = idle.len();
        let changed = change(&mut idle);
        let others = self.total_idle.get().saturating_sub(before);
        self.total_idle.set(others + idle.len());
        changed
    }
}

impl<H: Hop> Endpoint<H> {
    /// Its health.
    #[inline]
    pub fn health(&self) -> Health {
        self.health.get()
    }

    /// Makes this request the probe of an endpoint that is not in use. `false` if it needs none any more: datagrams may
    /// never be answered, so an endpoint that received those of its last probe and did not refuse them is healthy.
    pub(crate) fn begin_probe(&self, now: Instant) -> bool {
        let was_asked = self.is_probe_sent.take() && matches!(self.health.get(), Health::Probing { .. });
        self.health.set(if was_asked { Health::default() } else { self.health.get().probing(now) });
        !was_asked
    }

    /// The first datagram of a probing session was sent.
    pub fn probe_sent(&self) {
        self.is_probe_sent.set(self.identity.transport == PortProtocol::Udp);
    }

    /// The probe ended without a result.
    fn abandon_probe(&self) {
        self.health.set(self.health.get().probe_abandoned(Instant::now()));
    }

    /// Another endpoint's connect was faster: exchanges waiting for this one look elsewhere.
    pub fn lost_race(&self, now: Instant) {
        self.health.set(self.health.get().lost_race(now));
        self.pending_connects.wake_all();
    }

    /// A connect succeeded after `took`.
    pub fn connected(&self, took: Duration) {
        self.health.set(self.health.get().connected());
        self.connect.record(took);
    }

    /// How long a connect may take before another endpoint is tried as well: four times the usual time, but at least 50
    /// ms and at most `most`. `None` if `most` is zero: never.
    pub fn hedge_after(&self, max_delay: Duration) -> Option<Duration> {
        let late = match self.connect.micros() {
            0 => max_delay,
            usual => Duration::from_micros(u64::from(usual.saturating_mul(LATE_CONNECT_FACTOR))),
        };
        (!max_delay.is_zero()).then(|| late.max(MIN_HEDGE_DELAY).min(max_delay))
    }

    /// How long sent data may stay unacknowledged before the endpoint is checked: `least`, and more for long round
    /// trips.
    pub fn acknowledgement_timeout(&self, min_timeout: Duration) -> Duration {
        min_timeout
            .max(Duration::from_micros(u64::from(self.connect.micros().saturating_mul(LATE_CONNECT_FACTOR))))
    }

    /// Attempts in flight, including connects and attempts waiting for one.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.in_flight.get()
    }

    /// A probing connection stayed open, though nothing may ever be received on it.
    pub fn probe_connection_stayed(&self) {
        if matches!(self.health.get(), Health::Probing { .. }) {
            self.health.set(Health::default());
        }
    }

    /// A response head came after `latency`: peak EWMA, which follows increases at once and decreases slowly.
    pub fn succeeded(&self, latency: Duration) {
        if !matches!(self.health.get(), Health::Good { failures: 0 }) {
            self.health.set(self.health.get().succeeded());
        }
        self.latency.record(latency);
    }

    /// Ejects it for `length`, because it is slow.
    pub(crate) fn eject(&self, length: Duration, now: Instant) {
        self.health.set(Health::Ejected { until: now + length, length });
    }

    /// Latency times load, which power of two choices compares.
    pub(crate) fn cost(&self) -> u64 {
        u64::from(self.latency.micros().max(1)) * u64::from(self.in_flight.get() + 1)
    }

    /// Records a failure; `may_eject` says whether enough others are left. With `ejecting: None`, nothing ejects it.
    /// Returns whether this ejected it.
    pub(crate) fn failed(
        &self,
        blame: Blame,
        ejecting: Option<&EjectionPolicy>,
        may_eject: bool,
        now: Instant,
    ) -> bool {
        let before = self.health.get();
        let after = match ejecting {
            Some(ejecting) => before.failed(blame, ejecting, may_eject, now),
            None => before.failed_without_ejection(blame, now),
        };
        self.health.set(after);
        !before.is_ejected() && after.is_ejected()
    }
}

/// A moving average that follows increases at once and decreases slowly.
#[derive(Default)]
struct PeakEwma(Cell<u32>);

impl PeakEwma {
    fn record(&self, time: Duration) {
        let sample = u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        let mean = self.0.get();
        self.0.set(if sample > mean { sample } else { mean - ((mean - sample) >> EWMA_SHIFT) });
    }

    /// 0 before the first value.
    fn micros(&self) -> u32 {
        self.0.get()
    }
}

/// An endpoint that was picked for an attempt. While this lives, the attempt counts as in flight; a probe that ends
/// without a result makes room for the next one.
pub struct PickedEndpoint<H: Hop> {
    /// Its index in the group.
    pub index: u32,
    /// The endpoint.
    pub endpoint: Rc<Endpoint<H>>,
    /// Why it was picked.
    pub reason: PickReason,
}

/// Why the endpoint was picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PickReason {
    /// By load balancing.
    Regular,
    /// To find out whether it has recovered.
    Probe,
}

impl<H: Hop> PickedEndpoint<H> {
    pub(crate) fn new(index: u32, endpoint: &Rc<Endpoint<H>>, errand: PickReason) -> Self {
        endpoint.in_flight.set(endpoint.in_flight.get() + 1);
        endpoint.high_water.rise(endpoint.in_flight.get());
        Self { index, endpoint: Rc::clone(endpoint), reason: errand }
    }
}

impl<H: Hop> Drop for PickedEndpoint<H> {
    fn drop(&mut self) {
        self.endpoint.in_flight.set(self.endpoint.in_flight.get().saturating_sub(1));
        if self.reason == PickReason::Probe {
            self.endpoint.abandon_probe();
        }
    }
}
