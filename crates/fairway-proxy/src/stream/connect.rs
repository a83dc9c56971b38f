//! Picks a backend for a forwarded connection and connects to one of its endpoints: another is tried when a
//! connect fails, or concurrently when one is slow (docs/design/0018-hedged-connects.md). No byte of the client
//! is sent before that; its input is kept, and the search ends when the client leaves.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use fairway_model::{ListenerProtocol, ProxyHeaderVersion, Retry, RetrySource, StreamPolicy, Timeouts};
use fairway_net::clock::{Deadline, Instant};
use fairway_net::proxy_header::{Addresses, MOST_OF_V2, Payload, write_v1, write_v2};
use fairway_net::transport::{Transport, UpstreamStream};
use fairway_net::wire::{PeerState, Wire};
use fairway_routing::session::{Affinity, Session};
use fairway_routing::{BackendSlot, CompiledStream};

use super::end_reason::StreamEnd;
use super::peer::StreamPeer;
use crate::fault::Fault;
use crate::l4::race::{Event, Race, Racer};
use crate::log::StreamUpstream;
use crate::metrics::{Hedges, increment};
use crate::network::Network;
use crate::upstream::blame::{record_connect_failure, unpicked_fault};
use crate::upstream::{ConnectionPermit, Group, PickReason, PickedEndpoint, RequestPermit, TriedMembers};
use crate::worker::{Adopted, EndpointHop, StopPhase, Worker};

/// Endpoints tried for one connection, unless the backend sets a number.
const DEFAULT_MAX_TRIES: u8 = 8;
/// Concurrent connects per connection.
const MAX_CONCURRENT_CONNECTS: usize = 3;
/// Delay before asking the hedge budget again after it refused.
const HEDGE_RETRY_DELAY: Duration = Duration::from_millis(25);
/// If the route sets a connect timeout, endpoints are tried for at least this many times that timeout.
const MIN_CONNECT_TIMEOUTS: u32 = 3;

type Hop<N> = EndpointHop<N>;
type Stream<N> = UpstreamStream<<N as Network>::Stream>;

/// A connected endpoint.
pub(super) struct ConnectedEndpoint<N: Network> {
    pub(super) picked: PickedEndpoint<Hop<N>>,
    pub(super) group: Rc<Group<Hop<N>>>,
    pub(super) wire: Wire<Stream<N>>,
    /// Duration of the connect.
    pub(super) connect_time: Duration,
    pub(super) policy: StreamPolicy,
    attempts: u8,
    _permits: LimitPermits,
}

/// What counts the client's connection and the upstream connection against the limits of the backend.
type LimitPermits = (Option<RequestPermit>, Option<Rc<ConnectionPermit>>);

impl<N: Network> ConnectedEndpoint<N> {
    /// The endpoint for the access log.
    pub(super) fn upstream(&self) -> StreamUpstream {
        StreamUpstream { endpoint: self.picked.endpoint.identity.address, attempts: self.attempts }
    }
}

/// No endpoint could be connected.
#[derive(Debug)]
pub(super) struct ConnectFailure {
    pub(super) end: StreamEnd,
    /// The last endpoint tried, for the access log.
    pub(super) upstream: Option<StreamUpstream>,
}

impl From<Fault> for ConnectFailure {
    fn from(fault: Fault) -> Self {
        Self { end: StreamEnd::Failed(fault), upstream: None }
    }
}

/// Connects to an endpoint for a client, whose input is kept meanwhile.
///
/// # Errors
/// No route or backend serves it, no endpoint can be reached, or the connection was abandoned.
pub(super) async fn connect<N: Network, S: Transport>(
    worker: &Rc<Worker<N>>,
    peer: &StreamPeer,
    client: &mut Wire<S>,
) -> Result<ConnectedEndpoint<N>, ConnectFailure> {
    let adopted = worker.adopted();
    let stream = adopted.stream_route(peer.listener, peer.name.as_deref())?;
    let group =
        adopted.group(pick_backend(worker, stream)?, &worker.groups).ok_or(Fault::MissingReference)?;
    let policy = stream.policy();
    let mut retry = *group.retry(&Retry { tries: DEFAULT_MAX_TRIES, ..Retry::default() });
    let min_total = policy.connect_timeout.unwrap_or_default().saturating_mul(MIN_CONNECT_TIMEOUTS);
    retry.connect_total = retry.connect_total.max(min_total);
    let model = adopted.listening().model(peer.listener).ok_or(Fault::NoListener)?;
    let ahead = policy
        .proxy_header
        .map(|version| proxy_header(version, peer.addresses(client.local(), model.public_port)));
    let mut search = Search {
        worker,
        adopted: &adopted,
        group: &group,
        affinity: Session::of_address(group.backend().session.as_ref(), peer.client.ip()),
        is_decrypted: model.protocol == ListenerProtocol::Tls,
        prefix: ahead.unwrap_or_default().into(),
        connect_timeout: policy.connect_timeout.unwrap_or(Timeouts::default().connect),
        retry,
        request_permit: group.begin_forwarding().map_err(Fault::BackendFull)?,
        race: Race::default(),
        tried: TriedMembers::default(),
        attempts: 0,
        started_at: Instant::now(),
    };
    let drain_deadline = Deadline::unset();
    let passes_tls = matches!(model.protocol, ListenerProtocol::TlsPassthrough | ListenerProtocol::Https);
    let mut waiting = WaitingClient { worker, peer, client, passes_tls, drain_deadline };
    worker.budgets.retries.earn();
    if let Some(budget) = group.retry_budget() {
        budget.earn();
    }
    search.connect_next()?;
    loop {
        let event = waiting.unless_abandoned(search.race.event()).await.map_err(|end| search.abandon(end))?;
        match event {
            Event::Connected(attempt, stream, connect_time) => {
                let (picked, attempts, _permits) = search.on_connected(attempt, connect_time);
                let wire = Wire::new(stream);
                return Ok(ConnectedEndpoint {
                    picked,
                    group: Rc::clone(&group),
                    wire,
                    connect_time,
                    policy,
                    attempts,
                    _permits,
                });
            }
            Event::Failed(runner, fault) => {
                let tries_another = search.on_failed(&runner, fault)?;
                drop(runner);
                if tries_another {
                    if !retry.backoff.is_zero() {
                        let pause = tokio::time::sleep(retry.backoff);
                        waiting.unless_abandoned(pause).await.map_err(|end| search.abandon(end))?;
                    }
                    search.connect_next()?;
                }
            }
            Event::Late => search.hedge(),
        }
    }
}

/// Picks a backend of the route by weight.
pub(super) fn pick_backend<N: Network>(
    worker: &Worker<N>,
    stream: &CompiledStream,
) -> Result<BackendSlot, Fault> {
    let slot = stream.targets().pick(worker.random(|random| random.u32(..)));
    slot.copied().flatten().ok_or(Fault::NoBackend)
}

/// Phase for a connection: it also drains once its listener is gone or its SNI is no longer passed through.
/// Looked up once per snapshot.
pub(super) fn phase<N: Network>(worker: &Worker<N>, peer: &StreamPeer) -> StopPhase {
    let adopted = worker.adopted();
    let version = adopted.snapshot().version();
    if peer.last_forwarding_version.get() != version {
        if !adopted.still_forwards(peer.listener, peer.name.as_deref()) {
            return StopPhase::Draining;
        }
        peer.last_forwarding_version.set(version);
    }
    worker.phase()
}

/// The PROXY protocol header for an endpoint.
fn proxy_header(version: ProxyHeaderVersion, addresses: Addresses) -> Vec<u8> {
    match version {
        ProxyHeaderVersion::V1 => write_v1(addresses),
        ProxyHeaderVersion::V2 => write_v2(addresses, Payload::Stream, &mut [0; MOST_OF_V2]).to_vec(),
    }
}

/// The client while no endpoint is connected.
struct WaitingClient<'c, N: Network, S> {
    worker: &'c Rc<Worker<N>>,
    peer: &'c StreamPeer,
    client: &'c mut Wire<S>,
    /// Whether an endpoint terminates its TLS.
    passes_tls: bool,
    /// Drain deadline; unset while its listener stays.
    drain_deadline: Deadline,
}

impl<N: Network, S: Transport> WaitingClient<'_, N, S> {
    /// Waits for `event`, unless the connection is abandoned first.
    async fn unless_abandoned<T>(&mut self, event: impl Future<Output = T>) -> Result<T, StreamEnd> {
        tokio::select! {
            biased;
            event = event => Ok(event),
            end = poll_fn(|cx| self.poll_abandoned(cx)) => Err(end),
        }
    }

    fn poll_abandoned(&mut self, cx: &mut Context<'_>) -> Poll<StreamEnd> {
        let has_left = match self.client.poll_ahead(cx, &self.worker.reuse.workspace) {
            PeerState::Open => false,
            PeerState::Broken => true,
            // A client may send its request, end its direction and wait for the response; during a TLS
            // handshake it cannot.
            PeerState::Ended => self.client.residue() == 0 || self.passes_tls,
        };
        if has_left {
            return Poll::Ready(StreamEnd::Failed(Fault::ClientGone));
        }
        if phase(self.worker, self.peer) >= StopPhase::Draining {
            self.drain_deadline.set_once(self.worker.options.drain.timeout);
        }
        self.drain_deadline.poll_passed(cx).map(|()| StreamEnd::Drained)
    }
}

/// The search for an endpoint.
struct Search<'a, N: Network> {
    worker: &'a Rc<Worker<N>>,
    adopted: &'a Adopted<Hop<N>>,
    group: &'a Rc<Group<Hop<N>>>,
    affinity: Affinity,
    /// Whether TLS of the client was terminated here.
    is_decrypted: bool,
    /// Sent to the endpoint before anything else.
    prefix: Rc<[u8]>,
    /// Timeout of one connect.
    connect_timeout: Duration,
    /// How often and how long endpoints are tried.
    retry: Retry,
    /// Counts the client's connection, if the backend limits them.
    request_permit: Option<RequestPermit>,
    race: Race<Attempt<N>, Stream<N>, Fault>,
    tried: TriedMembers,
    attempts: u8,
    started_at: Instant,
}

/// A connect in progress.
struct Attempt<N: Network> {
    endpoint_choice: PickedEndpoint<Hop<N>>,
    cost: HedgeCost,
    /// Counts the connect, if the backend limits connections.
    permit: Option<Rc<ConnectionPermit>>,
}

/// How a connect was paid for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HedgeCost {
    /// The first connect, or the replacement of one.
    Free,
    /// Paid from the hedge budget.
    Budgeted,
}

impl<'a, N: Network> Search<'a, N> {
    /// Connects to the next endpoint.
    fn connect_next(&mut self) -> Result<(), Fault> {
        let (group, tried, now) = (self.group, &self.tried, Instant::now());
        let picked = self.worker.random(|random| group.pick(tried, self.affinity, random, now));
        let permit = group.begin_connection().map_err(Fault::BackendFull)?;
        self.start_connect(picked.ok_or_else(|| unpicked_fault(group))?, permit, HedgeCost::Free);
        Ok(())
    }

    fn start_connect(
        &mut self,
        endpoint_choice: PickedEndpoint<Hop<N>>,
        permit: Option<Rc<ConnectionPermit>>,
        cost: HedgeCost,
    ) {
        self.worker.budgets.hedges.earn();
        self.tried.insert(endpoint_choice.index);
        self.attempts = self.attempts.saturating_add(1);
        let limit =
            self.connect_timeout.min(self.retry.connect_total.saturating_sub(self.started_at.elapsed()));
        let (to, identities) = (&endpoint_choice.endpoint.identity, self.adopted.identities());
        let connecting = self.worker.connector.stream(to, identities, self.is_decrypted, &self.prefix, limit);
        let hedge = self.group.backend().traffic().hedge;
        let late_after =
            endpoint_choice.endpoint.hedge_after(hedge.unwrap_or(self.worker.options.limits.connect_hedge));
        let late_after = late_after.filter(|_| self.race.racers().len() + 1 < MAX_CONCURRENT_CONNECTS);
        self.race.enter(Attempt { endpoint_choice, cost, permit }, connecting, late_after);
    }

    /// The latest connect is slow: starts one to another endpoint.
    fn hedge(&mut self) {
        let Some(rival) = self.worker.random(|random| self.group.rival(&self.tried, random)) else { return };
        let hedges = self.hedges();
        if let Some(redundant) = self.race.take(Attempt::is_redundant_probe) {
            increment(&hedges.switched);
            self.start_connect(rival, redundant.permit, redundant.cost);
        } else if let Ok(permit) = self.group.begin_connection()
            && self.worker.budgets.hedges.spend(Instant::now())
        {
            self.start_connect(rival, permit, HedgeCost::Budgeted);
        } else {
            increment(&hedges.refused);
            self.race.set_late_timer(Some(HEDGE_RETRY_DELAY));
        }
    }

    /// Handles a failed connect. Returns whether another endpoint is tried, which only happens when no connect
    /// is left.
    fn on_failed(&mut self, attempt: &Attempt<N>, fault: Fault) -> Result<bool, ConnectFailure> {
        attempt.count_lost(self.hedges());
        record_connect_failure(self.worker, self.group, &attempt.endpoint_choice.endpoint, fault);
        if !self.race.racers().is_empty() {
            return Ok(false);
        }
        let (worker, retry) = (self.worker, &self.retry);
        let can_retry =
            fault.blames_endpoint() && self.attempts < retry.tries && self.group.has_untried(&self.tried);
        // Past the deadline, the next endpoint would be blamed for the lack of time.
        let is_in_time = self.started_at.elapsed().saturating_add(retry.backoff) < retry.connect_total;
        let is_granted = || {
            let is_within_budget = match self.group.retry_budget() {
                Some(budget) => budget.spend(Instant::now()),
                None => retry.by == RetrySource::Route || worker.budgets.retries.spend(Instant::now()),
            };
            is_within_budget && self.request_permit.as_ref().is_none_or(RequestPermit::begin_retry)
        };
        if !(can_retry && is_in_time && is_granted()) {
            let endpoint = attempt.endpoint_choice.endpoint.identity.address;
            let upstream = Some(StreamUpstream { endpoint, attempts: self.attempts });
            return Err(ConnectFailure { end: StreamEnd::Failed(fault), upstream });
        }
        increment(&worker.counters.attempts.retried);
        Ok(true)
    }

    /// Abandons the search.
    fn abandon(&self, end: StreamEnd) -> ConnectFailure {
        let racers = self.race.racers();
        racers.iter().for_each(|racer| racer.token.count_lost(self.hedges()));
        let last = racers.last().map(|racer| racer.token.endpoint_choice.endpoint.identity.address);
        let upstream = last.map(|endpoint| StreamUpstream { endpoint, attempts: self.attempts });
        ConnectFailure { end, upstream }
    }

    /// Handles a completed connect. Others continue without the client, to learn the health of their endpoints.
    fn on_connected(
        self,
        attempt: Attempt<N>,
        connect_time: Duration,
    ) -> (PickedEndpoint<Hop<N>>, u8, LimitPermits) {
        let (worker, now) = (self.worker, Instant::now());
        let hedges = self.hedges();
        if attempt.cost == HedgeCost::Budgeted {
            increment(&hedges.won);
        }
        record_connected(worker, &attempt.endpoint_choice, connect_time);
        for mut left in self.race.into_racers() {
            left.token.count_lost(hedges);
            if !left.token.is_redundant_probe() {
                left.token.endpoint_choice.endpoint.lost_race(now);
                left.token.endpoint_choice.reason = PickReason::Probe;
                tokio::task::spawn_local(finish_probe(left, Rc::clone(worker), Rc::clone(self.group)));
            }
        }
        (attempt.endpoint_choice, self.attempts, (self.request_permit, attempt.permit))
    }

    fn hedges(&self) -> &'a Hedges {
        &self.worker.counters.attempts.hedges
    }
}

impl<N: Network> Attempt<N> {
    /// Whether its endpoint is suspect and another connect already probes it.
    fn is_redundant_probe(&self) -> bool {
        self.endpoint_choice.endpoint.health().is_suspect()
            && self.endpoint_choice.reason != PickReason::Probe
    }

    /// Counts a connect that lost the race.
    fn count_lost(&self, hedges: &Hedges) {
        if self.cost == HedgeCost::Budgeted {
            increment(&hedges.lost);
        }
    }
}

/// Completes a connect without a client, to learn the health of its endpoint.
async fn finish_probe<N: Network>(
    remaining: Racer<Attempt<N>, Stream<N>, Fault>,
    worker: Rc<Worker<N>>,
    group: Rc<Group<Hop<N>>>,
) {
    let Racer { token: Attempt { endpoint_choice, permit: _place, .. }, connecting, started_at } = remaining;
    match connecting.await {
        Ok(_) => record_connected(&worker, &endpoint_choice, started_at.elapsed()),
        Err(fault) => record_connect_failure(&worker, &group, &endpoint_choice.endpoint, fault),
    }
}

/// Records a completed connect.
fn record_connected<N: Network>(worker: &Worker<N>, picked: &PickedEndpoint<Hop<N>>, connect_time: Duration) {
    picked.endpoint.connected(connect_time);
    increment(&worker.counters.attempts.connected);
}
