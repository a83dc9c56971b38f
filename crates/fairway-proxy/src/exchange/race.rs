//! A connection for an attempt: an idle one, or the winner of a race of connects.
//!
//! A connect carries no byte of the request, so racing is safe for every method. A connect that is late is raced with
//! one to another endpoint; the first to complete is used, the other goes on in the background, into its endpoint's pool
//! or its health. What races cost is bounded by a budget (docs/design/0018-hedged-connects.md).

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use fairway_connection::sides::{Downstream, Hop};
use fairway_net::clock::Instant;
use tokio::time::Sleep;

use super::attempt::{Attempts, Connection, Failure};
use super::environment::{ClientSide, Environment, Exchange};
use super::idle::{at_hand, idle};
use super::places::{self, Found};
use crate::fault::Fault;
use crate::metrics::record::Micros;
use crate::metrics::{Hedges, count};
use crate::network::Network;
use crate::upstream::blame::note_connect_failure;
use crate::upstream::{
    Chosen, Connected, Connecting, ConnectionPlace, Endpoint, Errand, Group, Lease, Opened, Underway,
};
use crate::worker::{ToEndpoint, Worker};

/// The most connects of one attempt at a time.
const MOST_RACERS: usize = 3;
/// How long an endpoint that has been silent may take to say that it is there, before a new connection is made.
const PROOF: Duration = Duration::from_millis(250);
/// When a race found no budget, it asks again after this.
const AGAIN: Duration = Duration::from_millis(25);

type To<N> = ToEndpoint<N>;

/// An idle connection to the chosen endpoint, or a new one to it or to whoever is faster.
///
/// # Errors
/// With the endpoint of the last connect that failed.
pub(super) fn connect<'e, N: Network, D: Downstream>(
    exchange: &'e mut Exchange<'_, '_, N, D>,
    attempts: &'e mut Attempts<'_, N>,
    chosen: Chosen<To<N>>,
) -> impl Future<Output = Result<Connection<To<N>>, Failure>> {
    let found = at_hand(chosen, attempts);
    async move {
        let Exchange { env, client_side, record, .. } = exchange;
        let chosen = match found {
            Ok(mut idle) => {
                if !idle.lease.up().is_silent(attempts.now) {
                    return Ok(idle);
                }
                match Box::pin(prove(idle, attempts, &mut client_side.down)).await? {
                    Ok(proven) => return Ok(proven),
                    Err(chosen) => chosen,
                }
            }
            Err(chosen) => chosen,
        };
        let (chosen, hedged) = if chosen.endpoint.is_opening() {
            let began = record.forwarding_began();
            match Box::pin(share(env, began, attempts, chosen, client_side)).await? {
                Shared::Connection(connection) => return Ok(connection),
                Shared::Nothing { chosen, hedged } => (chosen, hedged),
            }
        } else {
            (chosen, false)
        };
        let (chosen, place) = match attempts.group.begin_connection() {
            Ok(place) => (chosen, place),
            Err(full) => {
                let began = record.forwarding_began();
                let waiting = places::wait_for_connection(env, began, attempts, chosen, client_side, full);
                match Box::pin(waiting).await? {
                    Found::Idle(connection) => return Ok(connection),
                    Found::Place(chosen, place) => (chosen, place),
                }
            }
        };
        let race = Race::begin(env, record.forwarding_began(), attempts, chosen, place, hedged);
        // Boxed: connecting is rare and large, and every connection's task would carry room for it.
        let won = Box::pin(race.run(client_side)).await;
        match won {
            Ok(Won { connection, handshake }) => {
                if handshake != Micros::ZERO {
                    exchange.buffers.forms.note_handshake(handshake);
                }
                Ok(connection)
            }
            Err((chosen, fault)) => Err(Failure::before_sending(fault, false, chosen.index)),
        }
    }
}

/// Asks the endpoint of a connection that has been silent whether it is there. Gives the choice back where it does not say
/// so in time.
///
/// # Errors
/// The client has gone.
async fn prove<N: Network, D: Downstream>(
    mut idle: Connection<To<N>>,
    attempts: &mut Attempts<'_, N>,
    client: &mut D,
) -> Result<Result<Connection<To<N>>, Chosen<To<N>>>, Failure> {
    let lease = &mut idle.lease;
    let proven = poll_fn(|cx| match lease.up().poll_proven(cx) {
        Poll::Pending => client.poll_gone(cx).map(|()| None),
        proven => proven.map(Some),
    });
    let proven = tokio::time::timeout(PROOF, proven).await;
    attempts.now = Instant::now();
    match proven {
        Ok(Some(true)) => Ok(Ok(idle)),
        Ok(None) => Err(Failure::before_sending(Fault::ClientGone, true, idle.lease.index())),
        Ok(Some(false)) | Err(_) => Ok(Err(idle.lease.distrust())),
    }
}

/// What came of waiting for a connect that exchanges share.
enum Shared<H: Hop> {
    Connection(Connection<H>),
    /// No connection: one to this endpoint is to be made.
    Nothing {
        chosen: Chosen<H>,
        hedged: bool,
    },
}

/// Waits for a connection that is under way and can be shared. When none comes, or not before the connect is late, the exchange
/// moves to another endpoint. It needs no budget for that: it gives up a connect, and a hundred exchanges begin one elsewhere.
///
/// # Errors
/// The client has gone, or the time for connecting is over.
async fn share<N: Network, D: Downstream>(
    env: &Environment<'_, N>,
    began: Instant,
    attempts: &mut Attempts<'_, N>,
    mut chosen: Chosen<To<N>>,
    client_side: &mut ClientSide<D>,
) -> Result<Shared<To<N>>, Failure> {
    let group = attempts.group;
    let ClientSide { down, deadline, .. } = client_side;
    let (mut hedged, mut has_waited) = (false, false);
    let mut late = timer(patience(env, group, &chosen.endpoint));
    while let Some(since) = chosen.endpoint.await_opened(has_waited) {
        has_waited = true;
        let now = Instant::now();
        env.arm(deadline, now, attempts.connect_limit(env, now.saturating_duration_since(began)));
        let opened = poll_fn(|cx| match chosen.endpoint.poll_opened(cx, since) {
            Poll::Ready(opened) => Poll::Ready(Ok(opened)),
            Poll::Pending if down.poll_gone(cx).is_ready() => Poll::Ready(Err(Fault::ClientGone)),
            Poll::Pending if has_passed(&mut late, cx) => Poll::Ready(Ok(Opened::Nothing)),
            Poll::Pending => deadline.poll_passed(cx).map(|()| Err(out_of_time(env))),
        });
        let opened = opened.await.map_err(|fault| Failure::before_sending(fault, false, chosen.index))?;
        attempts.now = Instant::now();
        if opened == Opened::Nothing {
            attempts.tried.insert(chosen.index);
            let rival = env.worker.random(|random| attempts.rival(random));
            // Without another endpoint, this one's next connection is waited for, or made.
            let Some(rival) = rival else { continue };
            count(&env.worker.counters.attempts.hedges.moved);
            (chosen, hedged, has_waited) = (rival, true, false);
            late = timer(patience(env, group, &chosen.endpoint));
        }
        chosen = match at_hand(chosen, attempts) {
            Ok(idle) => return Ok(Shared::Connection(Connection { hedged, ..idle })),
            Err(chosen) => chosen,
        };
    }
    Ok(Shared::Nothing { chosen, hedged })
}

/// When a connect is late: none where nothing may race it.
type Late = Option<Pin<Box<Sleep>>>;

fn timer(patience: Option<Duration>) -> Late {
    patience.map(|patience| Box::pin(tokio::time::sleep(patience)))
}

/// Says so once.
fn has_passed(late: &mut Late, cx: &mut Context<'_>) -> bool {
    let has_passed = late.as_mut().is_some_and(|late| late.as_mut().poll(cx).is_ready());
    if has_passed {
        *late = None;
    }
    has_passed
}

/// How long a connect to the endpoint may take before another endpoint is tried as well.
fn patience<N: Network>(
    env: &Environment<'_, N>,
    group: &Group<To<N>>,
    endpoint: &Endpoint<To<N>>,
) -> Option<Duration> {
    let most = group.backend().traffic().hedge.unwrap_or(env.worker.options.limits.connect_hedge);
    endpoint.hedge_after(most)
}

/// Which time is over: that of the exchange, or that of all its connects.
fn out_of_time<N: Network>(env: &Environment<'_, N>) -> Fault {
    if env.is_overdue() { env.overdue() } else { Fault::ConnectTimeout }
}

/// Connects for one attempt.
struct Race<'a, 's, 'g, N: Network> {
    env: &'a Environment<'s, N>,
    /// When forwarding began.
    begun: Instant,
    attempts: &'a mut Attempts<'g, N>,
    racers: Vec<Racer<N>>,
    /// When the youngest racer is late.
    late: Late,
    /// Whether another endpoint was looked at as well.
    hedged: bool,
}

struct Racer<N: Network> {
    chosen: Chosen<To<N>>,
    connecting: Connecting<Connected<N::Hop>>,
    began: Instant,
    entry: Entry,
    /// Where the backend limits connections.
    place: Option<Rc<ConnectionPlace>>,
    /// Others may wait for it.
    _underway: Option<Underway<To<N>>>,
}

/// How a connect came into the race.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    /// It is the attempt's first, or took the place of one.
    Free,
    /// From the budget.
    Paid,
}

/// What came of a race.
struct Won<H: Hop> {
    connection: Connection<H>,
    /// What TLS took of its connect.
    handshake: Micros,
}

/// What happened in a race.
enum Event<H> {
    Connected(usize, Connected<H>),
    Failed(usize, Fault),
    Late,
    /// The client has gone, or its time for the call is over.
    Deserted(Fault),
}

impl<'a, 's, 'g, N: Network> Race<'a, 's, 'g, N> {
    fn begin(
        env: &'a Environment<'s, N>,
        begun: Instant,
        attempts: &'a mut Attempts<'g, N>,
        chosen: Chosen<To<N>>,
        place: Option<Rc<ConnectionPlace>>,
        hedged: bool,
    ) -> Self {
        let mut race = Self { env, begun, attempts, racers: Vec::new(), late: None, hedged };
        race.enter(chosen, place, Entry::Free);
        race
    }

    async fn run<D: Downstream>(
        mut self,
        client_side: &mut ClientSide<D>,
    ) -> Result<Won<To<N>>, (Chosen<To<N>>, Fault)> {
        loop {
            let event = poll_fn(|cx| match self.poll_event(cx) {
                Poll::Pending => self.poll_deserted(cx, client_side).map(Event::Deserted),
                event => event,
            });
            match event.await {
                Event::Deserted(fault) => {
                    self.racers.iter().for_each(|racer| racer.lost(self.hedges()));
                    let racer = self.racers.swap_remove(0);
                    return Err((racer.chosen, fault));
                }
                Event::Connected(which, connected) => return Ok(self.won(which, connected)),
                Event::Failed(which, fault) => {
                    let racer = self.racers.swap_remove(which);
                    racer.lost(self.hedges());
                    note_connect_failure(self.env.worker, self.attempts.group, &racer.chosen.endpoint, fault);
                    if self.racers.is_empty() {
                        return Err((racer.chosen, fault));
                    }
                }
                Event::Late => {
                    if let Some(connection) = self.hedge() {
                        return Ok(Won { connection, handshake: Micros::ZERO });
                    }
                }
            }
        }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Event<To<N>>> {
        for (which, racer) in self.racers.iter_mut().enumerate() {
            match racer.connecting.as_mut().poll(cx) {
                Poll::Ready(Ok(connected)) => return Poll::Ready(Event::Connected(which, connected)),
                Poll::Ready(Err(fault)) => return Poll::Ready(Event::Failed(which, fault)),
                Poll::Pending => {}
            }
        }
        match &mut self.late {
            Some(late) => late.as_mut().poll(cx).map(|()| Event::Late),
            None => Poll::Pending,
        }
    }

    /// Ready when nobody waits for the connection any more.
    fn poll_deserted<D: Downstream>(
        &self,
        cx: &mut Context<'_>,
        client_side: &mut ClientSide<D>,
    ) -> Poll<Fault> {
        if client_side.down.poll_gone(cx).is_ready() {
            return Poll::Ready(Fault::ClientGone);
        }
        if self.env.limit().is_none() {
            return Poll::Pending;
        }
        self.env.arm(&mut client_side.deadline, Instant::now(), Duration::MAX);
        client_side.deadline.poll_passed(cx).map(|()| self.env.overdue())
    }

    /// Begins a connect.
    fn enter(&mut self, chosen: Chosen<To<N>>, place: Option<Rc<ConnectionPlace>>, entry: Entry) {
        let env = self.env;
        let worker = env.worker;
        worker.budgets.hedges.earn();
        let now = Instant::now();
        let limit = env
            .rule()
            .rule()
            .policy
            .timeouts
            .connect
            .min(self.attempts.connect_limit(env, now.saturating_duration_since(self.begun)));
        let connecting = worker.connector.start(&chosen.endpoint.identity, env.adopted.identities(), limit);
        self.attempts.tried.insert(chosen.index);
        let patience = patience(env, self.attempts.group, &chosen.endpoint);
        let _underway = chosen.endpoint.begin_connect();
        self.racers.push(Racer { chosen, connecting, began: now, entry, place, _underway });
        self.late = timer(patience.filter(|_| self.racers.len() < MOST_RACERS));
    }

    /// The youngest connect is late: uses another endpoint's idle connection, or begins a connect there.
    fn hedge(&mut self) -> Option<Connection<To<N>>> {
        self.late = None;
        self.attempts.now = Instant::now();
        let hedges = self.hedges();
        let rival = self.env.worker.random(|random| self.attempts.rival(random))?;
        let rival = match idle(rival, self.attempts) {
            Ok(lease) => {
                count(&hedges.reused);
                self.attempts.tried.insert(lease.index());
                self.leave_behind();
                return Some(Connection { hedged: true, ..Connection::reused(lease) });
            }
            Err(rival) => rival,
        };
        if let Some(which) = self.racers.iter().position(Racer::is_superfluous) {
            count(&hedges.moved);
            self.hedged = true;
            let Racer { entry, place, .. } = self.racers.swap_remove(which);
            self.enter(rival, place, entry);
        } else if let Ok(place) = self.attempts.group.begin_connection()
            && self.env.worker.budgets.hedges.spend(Instant::now())
        {
            self.hedged = true;
            self.enter(rival, place, Entry::Paid);
        } else {
            count(&hedges.refused);
            self.late = timer(Some(AGAIN));
        }
        None
    }

    fn won(mut self, which: usize, connected: Connected<To<N>>) -> Won<To<N>> {
        let Connected { hop, handshake } = connected;
        let Racer { chosen, began, entry, place, _underway, .. } = self.racers.swap_remove(which);
        if entry == Entry::Paid {
            count(&self.hedges().won);
        }
        let connect = began.elapsed();
        self.attempts.now = began + connect;
        let lease = welcome(self.env.worker, chosen, hop, place, connect);
        self.leave_behind();
        let connection = Connection { lease, reused: false, connect: connect.into(), hedged: self.hedged };
        Won { connection, handshake }
    }

    /// What is still on its way goes on without this exchange.
    fn leave_behind(&mut self) {
        let now = Instant::now();
        for mut racer in std::mem::take(&mut self.racers) {
            racer.lost(self.hedges());
            if racer.is_superfluous() {
                continue;
            }
            racer.chosen.endpoint.lost_race(now);
            racer.chosen.errand = Errand::Probe;
            let (worker, group) = (Rc::clone(self.env.worker), Rc::clone(self.attempts.group));
            tokio::task::spawn_local(racer.finish(worker, group));
        }
    }

    fn hedges(&self) -> &'s Hedges {
        &self.env.worker.counters.attempts.hedges
    }
}

impl<N: Network> Racer<N> {
    /// Whether its endpoint is suspect, and another connect is the one probe that may go there.
    fn is_superfluous(&self) -> bool {
        self.chosen.endpoint.health().is_suspect() && self.chosen.errand != Errand::Probe
    }

    /// It was not the first.
    fn lost(&self, hedges: &Hedges) {
        if self.entry == Entry::Paid {
            count(&hedges.lost);
        }
    }

    /// Goes on to the end: the connection is pooled, or its failure noted.
    async fn finish(self, worker: Rc<Worker<N>>, group: Rc<Group<To<N>>>) {
        let Self { chosen, connecting, began, place, _underway, .. } = self;
        match connecting.await {
            Ok(connected) => {
                let lease = welcome(&worker, chosen, connected.hop, place, began.elapsed());
                lease.give_back_unused(&worker.pool_limits());
            }
            Err(fault) => note_connect_failure(&worker, &group, &chosen.endpoint, fault),
        }
    }
}

/// A connection that was just made.
fn welcome<N: Network>(
    worker: &Worker<N>,
    chosen: Chosen<To<N>>,
    hop: To<N>,
    place: Option<Rc<ConnectionPlace>>,
    took: Duration,
) -> Lease<To<N>> {
    count(&worker.counters.attempts.connected);
    Lease::of_new(chosen, hop, place, took)
}
