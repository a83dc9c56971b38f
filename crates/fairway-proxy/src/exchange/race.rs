//! A connection for an attempt: an idle one, or the winner of a race of connects.
//!
//! A connect carries no byte of the request, so racing is safe for every method. A late connect is raced with one to another
//! endpoint. The first to complete is used; the others continue in the background and end in their endpoint's pool or its
//! health. A budget limits the extra connects (docs/design/0018-hedged-connects.md).

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use fairway_connection::sides::{Downstream, Hop};
use fairway_net::clock::Instant;
use tokio::time::Sleep;

use super::attempt::{AttemptFailure, Attempts, Connection};
use super::backend_permit::{self, ConnectionFound};
use super::environment::{ClientSide, Environment, Exchange};
use super::idle::{lease_idle, take_idle};
use crate::fault::Fault;
use crate::metrics::record::Microseconds;
use crate::metrics::{Hedges, increment};
use crate::network::Network;
use crate::upstream::blame::record_connect_failure;
use crate::upstream::{
    ConnectInProgress, ConnectOutcome, Connected, Connecting, ConnectionPermit, Endpoint, Group, Lease,
    PickReason, PickedEndpoint,
};
use crate::worker::{EndpointHop, Worker};

/// Concurrent connects of one attempt.
const MAX_RACING_CONNECTS: usize = 3;
/// How long an endpoint may take to respond to a liveness check on an idle connection, before a new connection is made.
const PROBE_TIMEOUT: Duration = Duration::from_millis(250);
/// After this interval a race without budget tries again.
const HEDGE_RETRY_INTERVAL: Duration = Duration::from_millis(25);

type To<N> = EndpointHop<N>;

/// An idle connection to the chosen endpoint, or a new one to it or to a faster endpoint.
///
/// # Errors
/// The last connect that failed, with its endpoint.
pub(super) fn connect<'e, N: Network, D: Downstream>(
    exchange: &'e mut Exchange<'_, '_, N, D>,
    attempts: &'e mut Attempts<'_, N>,
    chosen: PickedEndpoint<To<N>>,
) -> impl Future<Output = Result<Connection<To<N>>, AttemptFailure>> {
    let found = take_idle(chosen, attempts);
    async move {
        let Exchange { env, client_side, record, .. } = exchange;
        let picked = match found {
            Ok(mut idle) => {
                if !idle.lease.upstream().needs_liveness_check(attempts.now) {
                    return Ok(idle);
                }
                match Box::pin(probe_idle(idle, attempts, &mut client_side.down)).await? {
                    Ok(proven) => return Ok(proven),
                    Err(chosen) => chosen,
                }
            }
            Err(chosen) => chosen,
        };
        let (chosen, hedged) = if picked.endpoint.is_connecting() {
            let began = record.forwarding_started_at();
            match Box::pin(await_shared_connect(env, began, attempts, picked, client_side)).await? {
                SharedConnect::Connection(connection) => return Ok(connection),
                SharedConnect::Nothing { picked: chosen, hedged } => (chosen, hedged),
            }
        } else {
            (picked, false)
        };
        let (chosen, place) = match attempts.group.begin_connection() {
            Ok(place) => (chosen, place),
            Err(full) => {
                let began = record.forwarding_started_at();
                let waiting =
                    backend_permit::wait_for_connection(env, began, attempts, chosen, client_side, full);
                match Box::pin(waiting).await? {
                    ConnectionFound::Idle(connection) => return Ok(connection),
                    ConnectionFound::Place(chosen, place) => (chosen, place),
                }
            }
        };
        let race = Race::start(env, record.forwarding_started_at(), attempts, chosen, place, hedged);
        // Boxed: connecting is rare and its future large, and every connection's task would reserve room for it.
        let won = Box::pin(race.run(client_side)).await;
        match won {
            Ok(RaceResult { connection, handshake }) => {
                if handshake != Microseconds::ZERO {
                    exchange.buffers.extras.record_handshake(handshake);
                }
                Ok(connection)
            }
            Err((chosen, fault)) => Err(AttemptFailure::before_sending(fault, false, chosen.index)),
        }
    }
}

/// Checks that the endpoint of an idle connection still responds. Returns the choice if it does not do so in time.
///
/// # Errors
/// The client has gone.
async fn probe_idle<N: Network, D: Downstream>(
    mut idle: Connection<To<N>>,
    attempts: &mut Attempts<'_, N>,
    client: &mut D,
) -> Result<Result<Connection<To<N>>, PickedEndpoint<To<N>>>, AttemptFailure> {
    let lease = &mut idle.lease;
    let proven = poll_fn(|cx| match lease.upstream().poll_alive(cx) {
        Poll::Pending => client.poll_client_gone(cx).map(|()| None),
        proven => proven.map(Some),
    });
    let proven = tokio::time::timeout(PROBE_TIMEOUT, proven).await;
    attempts.now = Instant::now();
    match proven {
        Ok(Some(true)) => Ok(Ok(idle)),
        Ok(None) => Err(AttemptFailure::before_sending(Fault::ClientGone, true, idle.lease.index())),
        Ok(Some(false)) | Err(_) => Ok(Err(idle.lease.discard_unresponsive())),
    }
}

/// The result of waiting for a connect that exchanges share.
enum SharedConnect<H: Hop> {
    Connection(Connection<H>),
    /// No connection: a new one to this endpoint is needed.
    Nothing {
        picked: PickedEndpoint<H>,
        hedged: bool,
    },
}

/// Waits for a connect in progress that can be shared. If it fails or is late, the exchange moves to another endpoint. That
/// needs no budget: it saves a connect, and a hundred exchanges start only one elsewhere.
///
/// # Errors
/// The client has gone, or the connect timeout is over.
async fn await_shared_connect<N: Network, D: Downstream>(
    env: &Environment<'_, N>,
    began: Instant,
    attempts: &mut Attempts<'_, N>,
    mut chosen: PickedEndpoint<To<N>>,
    client_side: &mut ClientSide<D>,
) -> Result<SharedConnect<To<N>>, AttemptFailure> {
    let group = attempts.group;
    let ClientSide { down, deadline, .. } = client_side;
    let (mut hedged, mut has_waited) = (false, false);
    let mut late = start_timer(hedge_delay(env, group, &chosen.endpoint));
    while let Some(since) = chosen.endpoint.await_connect(has_waited) {
        has_waited = true;
        let now = Instant::now();
        env.arm(deadline, now, attempts.connect_time_left(env, now.saturating_duration_since(began)));
        let opened = poll_fn(|cx| match chosen.endpoint.poll_connect(cx, since) {
            Poll::Ready(opened) => Poll::Ready(Ok(opened)),
            Poll::Pending if down.poll_client_gone(cx).is_ready() => Poll::Ready(Err(Fault::ClientGone)),
            Poll::Pending if has_passed(&mut late, cx) => Poll::Ready(Ok(ConnectOutcome::Nothing)),
            Poll::Pending => deadline.poll_passed(cx).map(|()| Err(connect_timeout_fault(env))),
        });
        let opened =
            opened.await.map_err(|fault| AttemptFailure::before_sending(fault, false, chosen.index))?;
        attempts.now = Instant::now();
        if opened == ConnectOutcome::Nothing {
            attempts.tried.insert(chosen.index);
            let rival = env.worker.random(|random| attempts.pick_hedge_endpoint(random));
            // Without another endpoint, this one's next connection is awaited or made.
            let Some(rival) = rival else { continue };
            increment(&env.worker.counters.attempts.hedges.switched);
            (chosen, hedged, has_waited) = (rival, true, false);
            late = start_timer(hedge_delay(env, group, &chosen.endpoint));
        }
        chosen = match take_idle(chosen, attempts) {
            Ok(idle) => return Ok(SharedConnect::Connection(Connection { hedged, ..idle })),
            Err(chosen) => chosen,
        };
    }
    Ok(SharedConnect::Nothing { picked: chosen, hedged })
}

/// The time at which a connect is late; `None` if nothing may race it.
type HedgeTimer = Option<Pin<Box<Sleep>>>;

fn start_timer(delay: Option<Duration>) -> HedgeTimer {
    delay.map(|delay| Box::pin(tokio::time::sleep(delay)))
}

/// Whether the timer has expired; true once.
fn has_passed(late: &mut HedgeTimer, cx: &mut Context<'_>) -> bool {
    let has_passed = late.as_mut().is_some_and(|late| late.as_mut().poll(cx).is_ready());
    if has_passed {
        *late = None;
    }
    has_passed
}

/// How long a connect may take before another endpoint is tried as well.
fn hedge_delay<N: Network>(
    env: &Environment<'_, N>,
    group: &Group<To<N>>,
    endpoint: &Endpoint<To<N>>,
) -> Option<Duration> {
    let max_delay = group.backend().traffic().hedge.unwrap_or(env.worker.options.limits.connect_hedge);
    endpoint.hedge_after(max_delay)
}

/// The fault of a passed deadline: the exchange's, or that of all its connects.
fn connect_timeout_fault<N: Network>(env: &Environment<'_, N>) -> Fault {
    if env.is_overdue() { env.overdue_fault() } else { Fault::ConnectTimeout }
}

/// The concurrent connects of one attempt.
struct Race<'a, 's, 'g, N: Network> {
    env: &'a Environment<'s, N>,
    /// When forwarding began.
    forwarding_began: Instant,
    attempts: &'a mut Attempts<'g, N>,
    racers: Vec<Racer<N>>,
    /// When the newest connect is late.
    hedge_timer: HedgeTimer,
    /// Whether another endpoint was tried as well.
    hedged: bool,
}

struct Racer<N: Network> {
    picked: PickedEndpoint<To<N>>,
    connecting: Connecting<Connected<N::Hop>>,
    began: Instant,
    entry: RacerEntry,
    /// Set if the backend limits connections.
    permit: Option<Rc<ConnectionPermit>>,
    /// Other exchanges may wait for this connect.
    _underway: Option<ConnectInProgress<To<N>>>,
}

/// Whether a connect was paid for by the budget.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RacerEntry {
    /// The first of the attempt, or the replacement of one.
    Free,
    /// Paid from the budget.
    Budgeted,
}

/// The connection that won a race.
struct RaceResult<H: Hop> {
    connection: Connection<H>,
    /// The part of the connect that TLS took.
    handshake: Microseconds,
}

/// An event of a race.
enum RaceEvent<H> {
    Connected(usize, Connected<H>),
    Failed(usize, Fault),
    Late,
    /// The client has gone, or the deadline has passed.
    Abandoned(Fault),
}

impl<'a, 's, 'g, N: Network> Race<'a, 's, 'g, N> {
    fn start(
        env: &'a Environment<'s, N>,
        forwarding_began: Instant,
        attempts: &'a mut Attempts<'g, N>,
        chosen: PickedEndpoint<To<N>>,
        place: Option<Rc<ConnectionPermit>>,
        hedged: bool,
    ) -> Self {
        let mut race =
            Self { env, forwarding_began, attempts, racers: Vec::new(), hedge_timer: None, hedged };
        race.start_connect(chosen, place, RacerEntry::Free);
        race
    }

    async fn run<D: Downstream>(
        mut self,
        client_side: &mut ClientSide<D>,
    ) -> Result<RaceResult<To<N>>, (PickedEndpoint<To<N>>, Fault)> {
        loop {
            let event = poll_fn(|cx| match self.poll_event(cx) {
                Poll::Pending => self.poll_abandoned(cx, client_side).map(RaceEvent::Abandoned),
                event => event,
            });
            match event.await {
                RaceEvent::Abandoned(fault) => {
                    self.racers.iter().for_each(|racer| racer.count_lost(self.hedges()));
                    let racer = self.racers.swap_remove(0);
                    return Err((racer.picked, fault));
                }
                RaceEvent::Connected(which, connected) => return Ok(self.finish_with(which, connected)),
                RaceEvent::Failed(which, fault) => {
                    let racer = self.racers.swap_remove(which);
                    racer.count_lost(self.hedges());
                    record_connect_failure(
                        self.env.worker,
                        self.attempts.group,
                        &racer.picked.endpoint,
                        fault,
                    );
                    if self.racers.is_empty() {
                        return Err((racer.picked, fault));
                    }
                }
                RaceEvent::Late => {
                    if let Some(connection) = self.hedge() {
                        return Ok(RaceResult { connection, handshake: Microseconds::ZERO });
                    }
                }
            }
        }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<RaceEvent<To<N>>> {
        for (which, racer) in self.racers.iter_mut().enumerate() {
            match racer.connecting.as_mut().poll(cx) {
                Poll::Ready(Ok(connected)) => return Poll::Ready(RaceEvent::Connected(which, connected)),
                Poll::Ready(Err(fault)) => return Poll::Ready(RaceEvent::Failed(which, fault)),
                Poll::Pending => {}
            }
        }
        match &mut self.hedge_timer {
            Some(late) => late.as_mut().poll(cx).map(|()| RaceEvent::Late),
            None => Poll::Pending,
        }
    }

    /// Ready when the exchange no longer needs the connection.
    fn poll_abandoned<D: Downstream>(
        &self,
        cx: &mut Context<'_>,
        client_side: &mut ClientSide<D>,
    ) -> Poll<Fault> {
        if client_side.down.poll_client_gone(cx).is_ready() {
            return Poll::Ready(Fault::ClientGone);
        }
        if self.env.limit().is_none() {
            return Poll::Pending;
        }
        self.env.arm(&mut client_side.deadline, Instant::now(), Duration::MAX);
        client_side.deadline.poll_passed(cx).map(|()| self.env.overdue_fault())
    }

    /// Starts a connect.
    fn start_connect(
        &mut self,
        chosen: PickedEndpoint<To<N>>,
        place: Option<Rc<ConnectionPermit>>,
        entry: RacerEntry,
    ) {
        let env = self.env;
        let worker = env.worker;
        worker.budgets.hedges.earn();
        let now = Instant::now();
        let limit =
            env.rule().rule().policy.timeouts.connect.min(
                self.attempts.connect_time_left(env, now.saturating_duration_since(self.forwarding_began)),
            );
        let connecting = worker.connector.start(&chosen.endpoint.identity, env.adopted.identities(), limit);
        self.attempts.tried.insert(chosen.index);
        let delay = hedge_delay(env, self.attempts.group, &chosen.endpoint);
        let _underway = chosen.endpoint.begin_connect();
        self.racers.push(Racer { picked: chosen, connecting, began: now, entry, permit: place, _underway });
        self.hedge_timer = start_timer(delay.filter(|_| self.racers.len() < MAX_RACING_CONNECTS));
    }

    /// Handles a late connect: uses an idle connection to another endpoint, or starts a connect to it.
    fn hedge(&mut self) -> Option<Connection<To<N>>> {
        self.hedge_timer = None;
        self.attempts.now = Instant::now();
        let hedges = self.hedges();
        let rival = self.env.worker.random(|random| self.attempts.pick_hedge_endpoint(random))?;
        let rival = match lease_idle(rival, self.attempts) {
            Ok(lease) => {
                increment(&hedges.reused);
                self.attempts.tried.insert(lease.index());
                self.detach_losers();
                return Some(Connection { hedged: true, ..Connection::reused(lease) });
            }
            Err(rival) => rival,
        };
        if let Some(which) = self.racers.iter().position(Racer::is_superfluous) {
            increment(&hedges.switched);
            self.hedged = true;
            let Racer { entry, permit: place, .. } = self.racers.swap_remove(which);
            self.start_connect(rival, place, entry);
        } else if let Ok(place) = self.attempts.group.begin_connection()
            && self.env.worker.budgets.hedges.spend(Instant::now())
        {
            self.hedged = true;
            self.start_connect(rival, place, RacerEntry::Budgeted);
        } else {
            increment(&hedges.refused);
            self.hedge_timer = start_timer(Some(HEDGE_RETRY_INTERVAL));
        }
        None
    }

    fn finish_with(mut self, index: usize, connected: Connected<To<N>>) -> RaceResult<To<N>> {
        let Connected { hop, handshake } = connected;
        let Racer { picked: chosen, began, entry, permit: place, _underway, .. } =
            self.racers.swap_remove(index);
        if entry == RacerEntry::Budgeted {
            increment(&self.hedges().won);
        }
        let connect = began.elapsed();
        self.attempts.now = began + connect;
        let lease = lease_new(self.env.worker, chosen, hop, place, connect);
        self.detach_losers();
        let connection = Connection { lease, reused: false, connect: connect.into(), hedged: self.hedged };
        RaceResult { connection, handshake }
    }

    /// Lets the remaining connects finish without this exchange.
    fn detach_losers(&mut self) {
        let now = Instant::now();
        for mut racer in std::mem::take(&mut self.racers) {
            racer.count_lost(self.hedges());
            if racer.is_superfluous() {
                continue;
            }
            racer.picked.endpoint.lost_race(now);
            racer.picked.reason = PickReason::Probe;
            let (worker, group) = (Rc::clone(self.env.worker), Rc::clone(self.attempts.group));
            tokio::task::spawn_local(racer.finish(worker, group));
        }
    }

    fn hedges(&self) -> &'s Hedges {
        &self.env.worker.counters.attempts.hedges
    }
}

impl<N: Network> Racer<N> {
    /// Whether its endpoint is suspect and another connect is already the one allowed probe.
    fn is_superfluous(&self) -> bool {
        self.picked.endpoint.health().is_suspect() && self.picked.reason != PickReason::Probe
    }

    /// Counts a paid connect that lost.
    fn count_lost(&self, hedges: &Hedges) {
        if self.entry == RacerEntry::Budgeted {
            increment(&hedges.lost);
        }
    }

    /// Finishes in the background: the connection is pooled, or its failure recorded.
    async fn finish(self, worker: Rc<Worker<N>>, group: Rc<Group<To<N>>>) {
        let Self { picked: chosen, connecting, began, permit: place, _underway, .. } = self;
        match connecting.await {
            Ok(connected) => {
                let lease = lease_new(&worker, chosen, connected.hop, place, began.elapsed());
                lease.give_back_unused(&worker.pool_limits());
            }
            Err(fault) => record_connect_failure(&worker, &group, &chosen.endpoint, fault),
        }
    }
}

/// Leases a connection that was just made.
fn lease_new<N: Network>(
    worker: &Worker<N>,
    chosen: PickedEndpoint<To<N>>,
    hop: To<N>,
    place: Option<Rc<ConnectionPermit>>,
    took: Duration,
) -> Lease<To<N>> {
    increment(&worker.counters.attempts.connected);
    Lease::from_new(chosen, hop, place, took)
}
