//! Which backend gets a connection, and a connection to one of its endpoints: another one is tried while connecting fails, or as
//! well when a connect is late (docs/design/0018-hedged-connects.md). No byte of the client goes out before that: what comes is kept,
//! and when the client leaves, the search is over.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use fairway_model::{ListenerProtocol, ProxyHeaderVersion, Retry, RetryBy, StreamPolicy, Timeouts};
use fairway_net::clock::{Deadline, Instant};
use fairway_net::proxy_header::{Addresses, Carries, MOST_OF_V2, write_v1, write_v2};
use fairway_net::transport::{Transport, UpstreamStream};
use fairway_net::wire::{Ahead, Wire};
use fairway_routing::session::{Belongs, Session};
use fairway_routing::{BackendSlot, CompiledStream};

use super::end::End;
use super::peer::StreamPeer;
use crate::fault::Fault;
use crate::l4::race::{Event, Race, Racer};
use crate::log::StreamUpstream;
use crate::metrics::{Hedges, count};
use crate::network::Network;
use crate::upstream::blame::{note_connect_failure, unpicked};
use crate::upstream::{Chosen, ConnectionPlace, Errand, Group, RequestPlace, Tried};
use crate::worker::{Adopted, Phase, ToEndpoint, Worker};

/// Endpoints that are tried for one connection, where their backend says nothing.
const MOST_TRIES: u8 = 8;
/// The most connects of one connection at a time.
const MOST_RACERS: usize = 3;
/// When a race found no budget, it asks again after this.
const AGAIN: Duration = Duration::from_millis(25);
/// Endpoints may be tried for so many times the time of one connect, where the route says that time.
const CONNECTS: u32 = 3;

type To<N> = ToEndpoint<N>;
type Stream<N> = UpstreamStream<<N as Network>::Stream>;

/// An endpoint that is connected with.
pub(super) struct Reached<N: Network> {
    pub(super) chosen: Chosen<To<N>>,
    pub(super) group: Rc<Group<To<N>>>,
    pub(super) wire: Wire<Stream<N>>,
    /// What the connect took.
    pub(super) took: Duration,
    pub(super) policy: StreamPolicy,
    attempts: u8,
    _places: Places,
}

/// The places of a connection of a client and of that to its endpoint, where the backend limits them.
type Places = (Option<RequestPlace>, Option<Rc<ConnectionPlace>>);

impl<N: Network> Reached<N> {
    /// As the log has it.
    pub(super) fn upstream(&self) -> StreamUpstream {
        StreamUpstream { endpoint: self.chosen.endpoint.identity.address, attempts: self.attempts }
    }
}

/// There is no endpoint for a connection.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) end: End,
    /// As the log has it, if an endpoint was tried.
    pub(super) upstream: Option<StreamUpstream>,
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self { end: End::Failed(fault), upstream: None }
    }
}

/// Connects with an endpoint for a client. What the client sends meanwhile is kept.
///
/// # Errors
/// Nothing serves it, no endpoint can be reached, or nobody waits for one any more.
pub(super) async fn connect<N: Network, S: Transport>(
    worker: &Rc<Worker<N>>,
    peer: &StreamPeer,
    client: &mut Wire<S>,
) -> Result<Reached<N>, Refused> {
    let adopted = worker.adopted();
    let stream = adopted.stream(peer.listener, peer.name.as_deref())?;
    let group = adopted.group(slot(worker, stream)?, &worker.groups).ok_or(Fault::MissingReference)?;
    let policy = stream.policy();
    let mut retry = *group.retry(&Retry { tries: MOST_TRIES, ..Retry::default() });
    let least = policy.connect_timeout.unwrap_or_default().saturating_mul(CONNECTS);
    retry.connect_total = retry.connect_total.max(least);
    let model = adopted.listening().model(peer.listener).ok_or(Fault::NoListener)?;
    let ahead =
        policy.introduce.map(|version| header(version, peer.addresses(client.local(), model.public_port)));
    let mut search = Search {
        worker,
        adopted: &adopted,
        group: &group,
        belongs: Session::of_address(group.backend().session.as_ref(), peer.client.ip()),
        inside: model.protocol == ListenerProtocol::Tls,
        ahead: ahead.unwrap_or_default().into(),
        connect: policy.connect_timeout.unwrap_or(Timeouts::default().connect),
        retry,
        request: group.begin_forwarding().map_err(Fault::BackendFull)?,
        race: Race::default(),
        tried: Tried::default(),
        attempts: 0,
        began: Instant::now(),
    };
    let drained = Deadline::unset();
    let passes_tls = matches!(model.protocol, ListenerProtocol::TlsPassthrough | ListenerProtocol::Https);
    let mut waiting = Waiting { worker, peer, client, passes_tls, drained };
    worker.budgets.retries.earn();
    if let Some(budget) = group.retry_budget() {
        budget.earn();
    }
    search.go_on()?;
    loop {
        let event = waiting.wait(search.race.event()).await.map_err(|end| search.given_up(end))?;
        match event {
            Event::Connected(racer, stream, took) => {
                let (chosen, attempts, _places) = search.won(racer, took);
                let wire = Wire::new(stream);
                return Ok(Reached {
                    chosen,
                    group: Rc::clone(&group),
                    wire,
                    took,
                    policy,
                    attempts,
                    _places,
                });
            }
            Event::Failed(runner, fault) => {
                let goes_on = search.failed(&runner, fault)?;
                drop(runner);
                if goes_on {
                    if !retry.backoff.is_zero() {
                        let pause = tokio::time::sleep(retry.backoff);
                        waiting.wait(pause).await.map_err(|end| search.given_up(end))?;
                    }
                    search.go_on()?;
                }
            }
            Event::Late => search.hedge(),
        }
    }
}

/// The backend whose turn it is.
pub(super) fn slot<N: Network>(worker: &Worker<N>, stream: &CompiledStream) -> Result<BackendSlot, Fault> {
    let slot = stream.targets().pick(worker.random(|random| random.u32(..)));
    slot.copied().flatten().ok_or(Fault::NoBackend)
}

/// How far the worker is with a connection: it drains as well once its listener is gone, or its name is no longer passed through.
/// That is looked up once for each snapshot.
pub(super) fn phase<N: Network>(worker: &Worker<N>, peer: &StreamPeer) -> Phase {
    let adopted = worker.adopted();
    let version = adopted.snapshot().version();
    if peer.forwarded_by.get() != version {
        if !adopted.forwards(peer.listener, peer.name.as_deref()) {
            return Phase::Draining;
        }
        peer.forwarded_by.set(version);
    }
    worker.phase()
}

/// What an endpoint of a stream gets first.
fn header(version: ProxyHeaderVersion, addresses: Addresses) -> Vec<u8> {
    match version {
        ProxyHeaderVersion::V1 => write_v1(addresses),
        ProxyHeaderVersion::V2 => write_v2(addresses, Carries::Stream, &mut [0; MOST_OF_V2]).to_vec(),
    }
}

/// The client while it has no endpoint.
struct Waiting<'c, N: Network, S> {
    worker: &'c Rc<Worker<N>>,
    peer: &'c StreamPeer,
    client: &'c mut Wire<S>,
    /// Whether an endpoint ends its TLS.
    passes_tls: bool,
    /// When it has to be over; unset while its listener stays.
    drained: Deadline,
}

impl<N: Network, S: Transport> Waiting<'_, N, S> {
    /// Waits for this; gives up when nobody needs an endpoint any more.
    async fn wait<T>(&mut self, event: impl Future<Output = T>) -> Result<T, End> {
        tokio::select! {
            biased;
            event = event => Ok(event),
            end = poll_fn(|cx| self.poll_over(cx)) => Err(end),
        }
    }

    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        let has_left = match self.client.poll_ahead(cx, &self.worker.reuse.workspace) {
            Ahead::Open => false,
            Ahead::Broken => true,
            // A client that has asked may end its direction and wait for the answer; within a handshake of TLS none can.
            Ahead::Ended => self.client.residue() == 0 || self.passes_tls,
        };
        if has_left {
            return Poll::Ready(End::Failed(Fault::ClientGone));
        }
        if phase(self.worker, self.peer) >= Phase::Draining {
            self.drained.set_once(self.worker.options.drain.timeout);
        }
        self.drained.poll_passed(cx).map(|()| End::Drained)
    }
}

/// The search for an endpoint.
struct Search<'a, N: Network> {
    worker: &'a Rc<Worker<N>>,
    adopted: &'a Adopted<To<N>>,
    group: &'a Rc<Group<To<N>>>,
    belongs: Belongs,
    /// Whether TLS of the client has ended.
    inside: bool,
    /// What goes ahead of everything else.
    ahead: Rc<[u8]>,
    /// One connect.
    connect: Duration,
    /// How often, and for how long, another endpoint is tried.
    retry: Retry,
    /// The place of the client's connection, where the backend limits them.
    request: Option<RequestPlace>,
    race: Race<Runner<N>, Stream<N>, Fault>,
    tried: Tried,
    attempts: u8,
    began: Instant,
}

/// A connect under way.
struct Runner<N: Network> {
    chosen: Chosen<To<N>>,
    entry: Entry,
    /// Where the backend limits connections.
    place: Option<Rc<ConnectionPlace>>,
}

/// How a connect came into the race.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    /// It is the first, or took the place of one.
    Free,
    /// From the budget.
    Paid,
}

impl<'a, N: Network> Search<'a, N> {
    /// Begins a connect to the endpoint whose turn it is.
    fn go_on(&mut self) -> Result<(), Fault> {
        let (group, tried, now) = (self.group, &self.tried, Instant::now());
        let chosen = self.worker.random(|random| group.pick(tried, self.belongs, random, now));
        let place = group.begin_connection().map_err(Fault::BackendFull)?;
        self.enter(chosen.ok_or_else(|| unpicked(group))?, place, Entry::Free);
        Ok(())
    }

    fn enter(&mut self, chosen: Chosen<To<N>>, place: Option<Rc<ConnectionPlace>>, entry: Entry) {
        self.worker.budgets.hedges.earn();
        self.tried.insert(chosen.index);
        self.attempts = self.attempts.saturating_add(1);
        let limit = self.connect.min(self.retry.connect_total.saturating_sub(self.began.elapsed()));
        let (to, identities) = (&chosen.endpoint.identity, self.adopted.identities());
        let connecting = self.worker.connector.stream(to, identities, self.inside, &self.ahead, limit);
        let hedge = self.group.backend().traffic().hedge;
        let patience = chosen.endpoint.hedge_after(hedge.unwrap_or(self.worker.options.limits.connect_hedge));
        let patience = patience.filter(|_| self.race.racers().len() + 1 < MOST_RACERS);
        self.race.enter(Runner { chosen, entry, place }, connecting, patience);
    }

    /// The youngest connect is late: begins one to another endpoint.
    fn hedge(&mut self) {
        let Some(rival) = self.worker.random(|random| self.group.rival(&self.tried, random)) else { return };
        let hedges = self.hedges();
        if let Some(superfluous) = self.race.take(Runner::is_superfluous) {
            count(&hedges.moved);
            self.enter(rival, superfluous.place, superfluous.entry);
        } else if let Ok(place) = self.group.begin_connection()
            && self.worker.budgets.hedges.spend(Instant::now())
        {
            self.enter(rival, place, Entry::Paid);
        } else {
            count(&hedges.refused);
            self.race.look_after(Some(AGAIN));
        }
    }

    /// One failed. Says whether another endpoint has its turn, which it has not while others are under way.
    fn failed(&mut self, runner: &Runner<N>, fault: Fault) -> Result<bool, Refused> {
        runner.lost(self.hedges());
        note_connect_failure(self.worker, self.group, &runner.chosen.endpoint, fault);
        if !self.race.racers().is_empty() {
            return Ok(false);
        }
        let (worker, retry) = (self.worker, &self.retry);
        let may =
            fault.blames_endpoint() && self.attempts < retry.tries && self.group.has_untried(&self.tried);
        // An endpoint whose turn comes when the time is over would be blamed for that.
        let is_in_time = self.began.elapsed().saturating_add(retry.backoff) < retry.connect_total;
        let is_granted = || {
            let is_within_budget = match self.group.retry_budget() {
                Some(budget) => budget.spend(Instant::now()),
                None => retry.by == RetryBy::Route || worker.budgets.retries.spend(Instant::now()),
            };
            is_within_budget && self.request.as_ref().is_none_or(RequestPlace::begin_retry)
        };
        if !(may && is_in_time && is_granted()) {
            let endpoint = runner.chosen.endpoint.identity.address;
            let upstream = Some(StreamUpstream { endpoint, attempts: self.attempts });
            return Err(Refused { end: End::Failed(fault), upstream });
        }
        count(&worker.counters.attempts.retried);
        Ok(true)
    }

    /// Nobody waits for an endpoint any more.
    fn given_up(&self, end: End) -> Refused {
        let racers = self.race.racers();
        racers.iter().for_each(|racer| racer.token.lost(self.hedges()));
        let last = racers.last().map(|racer| racer.token.chosen.endpoint.identity.address);
        let upstream = last.map(|endpoint| StreamUpstream { endpoint, attempts: self.attempts });
        Refused { end, upstream }
    }

    /// One is connected: what is still on its way goes on without the client, for the health of its endpoint.
    fn won(self, runner: Runner<N>, took: Duration) -> (Chosen<To<N>>, u8, Places) {
        let (worker, now) = (self.worker, Instant::now());
        let hedges = self.hedges();
        if runner.entry == Entry::Paid {
            count(&hedges.won);
        }
        welcome(worker, &runner.chosen, took);
        for mut left in self.race.leave() {
            left.token.lost(hedges);
            if !left.token.is_superfluous() {
                left.token.chosen.endpoint.lost_race(now);
                left.token.chosen.errand = Errand::Probe;
                tokio::task::spawn_local(finish(left, Rc::clone(worker), Rc::clone(self.group)));
            }
        }
        (runner.chosen, self.attempts, (self.request, runner.place))
    }

    fn hedges(&self) -> &'a Hedges {
        &self.worker.counters.attempts.hedges
    }
}

impl<N: Network> Runner<N> {
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
}

/// Nobody waits for it: it ends, and what is known of its endpoint stays.
async fn finish<N: Network>(
    left: Racer<Runner<N>, Stream<N>, Fault>,
    worker: Rc<Worker<N>>,
    group: Rc<Group<To<N>>>,
) {
    let Racer { token: Runner { chosen, place: _place, .. }, connecting, began } = left;
    match connecting.await {
        Ok(_) => welcome(&worker, &chosen, began.elapsed()),
        Err(fault) => note_connect_failure(&worker, &group, &chosen.endpoint, fault),
    }
}

/// A connect that is complete.
fn welcome<N: Network>(worker: &Worker<N>, chosen: &Chosen<To<N>>, took: Duration) {
    chosen.endpoint.connected(took);
    count(&worker.counters.attempts.connected);
}
