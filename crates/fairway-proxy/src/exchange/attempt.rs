//! The attempts for one request: each picks an endpoint, gets a connection (`race`), sends the request and waits for the
//! response head. Owns the results of earlier attempts, the blame for failures, and the decision whether another attempt may
//! follow.
//!
//! Another attempt is safe if no byte of a response has arrived, and either the endpoint saw nothing of the request, or
//! repeating it does no harm (RFC 9110 §9.2.2) and its body is still buffered.

use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fairway_connection::sides::{
    BodyStep, Channel, Downstream, Hop, RequestPlan, ResponseMeta, Upgrade, Upstream,
};
use fairway_model::{ConnectionHeader, Http1Options, Http1Version, Retry, RetrySource};
use fairway_net::clock::Instant;
use fairway_routing::session::Affinity;

use super::environment::{Environment, Exchange};
use super::transact::transact;
use crate::buffers::{Buffers, Picked};
use crate::fault::Fault;
use crate::metrics::increment;
use crate::metrics::record::{AttemptOutcome, Microseconds, UpstreamRecord};
use crate::network::Network;
use crate::request::body::RequestBody;
use crate::upstream::blame::{blame, record_success, unpicked_fault};
use crate::upstream::health::Blame;
use crate::upstream::{Group, Lease, LimitReached, PickedEndpoint, Picks, RequestPermit, TriedMembers};
use crate::worker::EndpointHop;

/// How long an endpoint may leave a request unacknowledged before another endpoint is tried: longer than a delayed
/// acknowledgement (200 ms at most) and than one lost segment takes to be repeated.
const ACKNOWLEDGEMENT_TIMEOUT: Duration = Duration::from_millis(250);

/// To keep a connection, at most this many bytes of a discarded response are read.
const MAX_DRAINED_RESPONSE_BYTES: usize = 64 * 1024;

/// The status for a request that the server refuses in early data (RFC 8470 §5.2).
const STATUS_TOO_EARLY: u16 = 425;

/// The first status that counts as a server error.
const FIRST_SERVER_ERROR_STATUS: u16 = 500;

/// Random addition to a backoff, in percent.
const MAX_BACKOFF_JITTER_PERCENT: u32 = 25;

/// The attempts for one request.
pub(super) struct Attempts<'g, N: Network> {
    /// The endpoints; the same group for all attempts.
    pub(super) group: &'g Rc<Group<EndpointHop<N>>>,
    /// When the attempt began; once it has a connection, when its request is sent.
    pub(super) now: Instant,
    pub(super) reuse: Reuse,
    pub(super) tried: TriedMembers,
    /// The endpoints that a service picked, if one did.
    picks: Option<Box<Picks>>,
    /// Whether the request is bound to certain endpoints.
    is_bound: bool,
    /// The request's place, if the backend limits requests.
    pub(super) request: Option<RequestPermit>,
    attempts_made: u8,
}

/// Which connections may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reuse {
    /// Any idle one.
    Any,
    /// Only one that got a response within the last second: the request must not be sent twice.
    Proven,
    /// None: a stale one was found already.
    Never,
}

/// A connection for an attempt.
pub(super) struct Connection<H: Hop> {
    pub(super) lease: Lease<H>,
    /// Whether it carried an exchange before.
    pub(super) reused: bool,
    /// The time to connect; zero for an idle connection.
    pub(super) connect: Microseconds,
    /// Whether a late connect made the attempt try another endpoint as well.
    pub(super) hedged: bool,
}

/// A response of an endpoint: its head is in the buffers, its body is still to be read.
pub(super) struct EndpointResponse<H: Hop> {
    pub(super) lease: Lease<H>,
    pub(super) reply: ResponseMeta,
    pub(super) connect: Microseconds,
    pub(super) hedged: bool,
    /// When sending of the request began.
    pub(super) sent: Instant,
    /// When the head had arrived.
    pub(super) head_received_at: Instant,
    /// The number of attempts.
    pub(super) attempts: u8,
}

/// An attempt without a response.
#[derive(Clone, Copy, Debug)]
pub(super) struct AttemptFailure {
    pub(super) fault: Fault,
    pub(super) progress: Progress,
    /// Whether the connection carried an exchange before.
    pub(super) reused: bool,
    /// The index of the endpoint in its group.
    pub(super) endpoint: u32,
}

/// How far an attempt got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The endpoint cannot have seen any of the request.
    Nothing,
    /// The endpoint may have seen all or part of the request.
    Written,
    /// A byte of a response arrived: no other attempt follows (design: Retries).
    Responded,
}

impl<'g, N: Network> Attempts<'g, N> {
    pub(super) fn start<D>(exchange: &Exchange<'_, '_, N, D>, group: &'g Rc<Group<EndpointHop<N>>>) -> Self {
        let reuse = if exchange.env.intake.method.is_idempotent() { Reuse::Any } else { Reuse::Proven };
        let now = exchange.record.forwarding_started_at();
        let extras = exchange.buffers.extras.read();
        let picks = extras.picked_endpoints.as_ref().and_then(|picked| picks(group, picked));
        let is_bound = picks.is_some() || extras.session.belongs != Affinity::Anywhere;
        if let Some(budget) = group.retry_budget() {
            budget.earn();
        }
        Self {
            group,
            now,
            reuse,
            tried: TriedMembers::default(),
            picks,
            is_bound,
            request: None,
            attempts_made: 0,
        }
    }

    /// Takes a place for the request, if the backend limits requests.
    ///
    /// # Errors
    /// No place is free.
    #[inline]
    pub(super) fn begin_request(&mut self) -> Result<(), LimitReached> {
        self.request = self.group.begin_request()?;
        Ok(())
    }

    /// Picks the endpoint for the next attempt.
    ///
    /// # Errors
    /// The deadline has passed, or no endpoint is left: the request gets no response.
    pub(super) fn pick<D>(
        &mut self,
        exchange: &Exchange<'_, '_, N, D>,
    ) -> Result<PickedEndpoint<EndpointHop<N>>, Fault> {
        let Exchange { env, buffers, .. } = exchange;
        if env.is_overdue() {
            return Err(env.overdue_fault());
        }
        let belongs = buffers.extras.read().session.belongs;
        let picked = match &self.picks {
            None => env.worker.random(|random| self.group.pick(&self.tried, belongs, random, self.now)),
            Some(picks) => self.group.pick_among(picks, &self.tried, self.now),
        };
        let Some(chosen) = picked else {
            self.end_without_response(env);
            let is_unknown = self.picks.as_ref().is_some_and(|picks| picks.is_empty());
            return Err(if is_unknown { Fault::NoEndpoint } else { unpicked_fault(self.group) });
        };
        self.attempts_made = self.attempts_made.saturating_add(1);
        Ok(chosen)
    }

    /// Sends the request on the connection, and waits for the response head.
    ///
    /// Not an `async fn`: its future would hold the arguments twice for the whole attempt.
    pub(super) fn send<'e, D: Downstream>(
        &'e self,
        exchange: &'e mut Exchange<'_, '_, N, D>,
        connection: Connection<EndpointHop<N>>,
    ) -> impl Future<Output = Result<EndpointResponse<EndpointHop<N>>, AttemptFailure>> {
        let Connection { mut lease, reused, connect, hedged } = connection;
        increment(&exchange.env.worker.counters.attempts.sent);
        exchange.env.begin_attempt(self.now);
        if let Some(request) = &self.request {
            request.record_sent(self.now);
        }
        if exchange.record.is_traced {
            propagate(exchange.buffers, self.attempts_made);
        }
        let before = (lease.upstream().sent(), lease.upstream().received());
        let buffers = &*exchange.buffers;
        let rewritten = &buffers.extras.read().target;
        let target = if rewritten.is_empty() { exchange.env.intake.received(buffers) } else { rewritten };
        let asks = exchange.env.rule().rule().policy.websocket;
        let upgrade = if asks { exchange.env.intake.upgrade } else { Upgrade::None };
        let Http1Options { version, connection } = exchange.env.rule().steps().forwarding.hop;
        let (http10, connection) = (version == Http1Version::Http10, connection_option(connection));
        let body = buffers.body.size(exchange.env.intake.body);
        let plan = RequestPlan { target, body, upgrade, http10, connection };
        lease.upstream().send_request(&buffers.request, &plan);
        async move {
            let acknowledgement_timeout = lease.endpoint().acknowledgement_timeout(ACKNOWLEDGEMENT_TIMEOUT);
            let fault = match transact(exchange, lease.upstream(), self.now, acknowledgement_timeout).await {
                Ok(reply) => {
                    let (sent, head_received_at, attempts) = (self.now, Instant::now(), self.attempts_made);
                    return Ok(EndpointResponse {
                        lease,
                        reply,
                        connect,
                        hedged,
                        sent,
                        head_received_at,
                        attempts,
                    });
                }
                Err(fault) => attempt_fault(exchange, fault),
            };
            let progress =
                match (lease.upstream().sent() == before.0, lease.upstream().received() == before.1) {
                    (_, false) => Progress::Responded,
                    (false, true) => Progress::Written,
                    (true, true) => Progress::Nothing,
                };
            // A reset stream on a connection that goes on does not mean that the connection was dead already.
            let reused = reused && !lease.upstream().is_reusable_now();
            // Otherwise a client that resets its requests could exhaust local ports: each closed one is kept for a minute.
            lease.upstream().abandon();
            Err(AttemptFailure { fault, progress, reused, endpoint: lease.index() })
        }
    }

    /// Blames the endpoint for a failure after the connect, as far as that is certain before another endpoint was tried.
    pub(super) fn blame(&self, env: &Environment<'_, N>, failure: &AttemptFailure) {
        let endpoint = self.group.member(failure.endpoint);
        if failure.is_stale() {
            increment(&env.worker.counters.attempts.stale);
        } else if failure.fault == Fault::UpstreamUnreachable {
            endpoint.drop_idle();
            blame(env.worker, self.group, endpoint, Blame::Connect);
        } else if !failure.fault.blames_endpoint() {
            return;
        }
        endpoint.check_siblings();
    }

    /// Records a response. The endpoints that failed before are blamed: the request itself was not the cause.
    pub(super) fn record_endpoint_response(
        &self,
        env: &Environment<'_, N>,
        response: &EndpointResponse<EndpointHop<N>>,
        status: u16,
    ) {
        if let Some(request) = &self.request {
            request.record_response(response.head_received_at, status < FIRST_SERVER_ERROR_STATUS);
        }
        record_success(
            env.worker,
            self.group,
            response.lease.index(),
            response.head_received_at - response.sent,
            response.head_received_at,
        );
        for accused in self.tried.accused().filter(|accused| *accused != response.lease.index()) {
            blame(env.worker, self.group, self.group.member(accused), Blame::BeforeHead);
        }
    }

    /// Ends the attempts without a response. If several endpoints failed alike, the request is the likely cause and none is
    /// blamed.
    fn end_without_response(&self, env: &Environment<'_, N>) {
        let mut accused = self.tried.accused();
        if let (Some(only), None) = (accused.next(), accused.next()) {
            blame(env.worker, self.group, self.group.member(only), Blame::Unconfirmed);
        }
    }

    /// Records a failure. Returns its fault if no other attempt follows.
    pub(super) fn prepare_retry<D>(
        &mut self,
        exchange: &mut Exchange<'_, '_, N, D>,
        failure: &AttemptFailure,
    ) -> Result<(), Fault> {
        if matches!(failure.fault, Fault::BackendFull(_)) {
            self.end_without_response(&exchange.env);
            return Err(failure.fault);
        }
        let Exchange { env, buffers, record, .. } = exchange;
        self.now = Instant::now();
        if let Some(request) = &self.request {
            request.record_failure(self.now);
        }
        if failure.is_stale() {
            self.reuse = Reuse::Never;
        } else if failure.may_be_caused_by_request() {
            self.tried.accuse(failure.endpoint);
        } else {
            self.tried.insert(failure.endpoint);
        }
        let took = self.now.saturating_duration_since(record.forwarding_started_at());
        let address = self.group.member(failure.endpoint).identity.address;
        record.upstream = Some(UpstreamRecord::failed(address, self.attempts_made, took));
        let outcome = AttemptOutcome::Fault(failure.fault);
        buffers.extras.record_failed_attempt(address, outcome, took.into());
        if self.may_retry(env, &buffers.body, failure) && !self.is_connect_time_over(env, took) {
            increment(&env.worker.counters.attempts.retried);
            return Ok(());
        }
        let idempotent = env.intake.method.is_idempotent();
        if failure.progress != Progress::Nothing && !idempotent && failure.fault.blames_endpoint() {
            increment(&env.worker.counters.attempts.lost);
        }
        self.end_without_response(env);
        Err(failure.fault)
    }

    /// Whether another attempt may follow this failure.
    fn may_retry(&self, env: &Environment<'_, N>, body: &RequestBody, failure: &AttemptFailure) -> bool {
        if !failure.fault.blames_endpoint() || !body.is_replayable() {
            return false;
        }
        match failure.progress {
            Progress::Nothing => {}
            Progress::Written if env.intake.method.is_idempotent() => {}
            Progress::Written | Progress::Responded => return false,
        }
        // If no endpoint has room, this failure is more informative than that.
        if !self.has_room() {
            return false;
        }
        // A stale connection does not count as an attempt: it costs no endpoint anything and happens at most once.
        failure.is_stale() || self.is_retry_allowed(env)
    }

    /// Whether this response is retried: its status is in the rule's list, the request may be repeated, and an endpoint is left
    /// that was not tried; the retries of a route may use any endpoint.
    pub(super) fn should_retry_response<D>(
        &mut self,
        exchange: &mut Exchange<'_, '_, N, D>,
        response: &EndpointResponse<EndpointHop<N>>,
    ) -> bool {
        let Exchange { env, buffers, record, .. } = exchange;
        let status = buffers.response.status();
        // 425 is for the client, which repeats the request after its handshake (RFC 8470 §5.2).
        if env.rule().steps().forwarding.retried.binary_search(&status).is_err() || status == STATUS_TOO_EARLY
        {
            return false;
        }
        self.now = response.head_received_at;
        let took = response.head_received_at.saturating_duration_since(record.forwarding_started_at());
        self.tried.insert(response.lease.index());
        let may = env.intake.method.is_idempotent()
            && buffers.body.is_replayable()
            && (self.retry(env).by == RetrySource::Route || self.has_untried())
            && self.is_retry_allowed(env)
            && !self.is_connect_time_over(env, took);
        if may {
            let address = response.lease.endpoint().identity.address;
            let upstream = UpstreamRecord::failed(address, self.attempts_made, took);
            record.upstream = Some(UpstreamRecord { status, ..upstream });
            buffers.extras.record_failed_attempt(address, AttemptOutcome::Status(status), took.into());
            increment(&env.worker.counters.attempts.retried);
        }
        may
    }

    /// Another endpoint, to race one whose connect is late.
    pub(super) fn pick_hedge_endpoint(
        &self,
        random: &mut fastrand::Rng,
    ) -> Option<PickedEndpoint<EndpointHop<N>>> {
        match &self.picks {
            None => self.group.rival(&self.tried, random),
            Some(picks) => self.group.rival_among(picks, &self.tried),
        }
    }

    /// An endpoint with an idle connection, if the request may go to any endpoint.
    pub(super) fn pick_with_idle_connection(&self) -> Option<PickedEndpoint<EndpointHop<N>>> {
        if self.is_bound { None } else { self.group.pick_with_idle_connection(&self.tried, self.now) }
    }

    fn has_room(&self) -> bool {
        match &self.picks {
            None => self.group.has_room(&self.tried),
            Some(picks) => self.group.has_room_among(picks, &self.tried),
        }
    }

    fn has_untried(&self) -> bool {
        match &self.picks {
            None => self.group.has_untried(&self.tried),
            Some(picks) => self.group.has_untried_among(picks, &self.tried),
        }
    }

    /// Whether one more attempt is allowed. Retries that the route configures need only the backend's budget.
    fn is_retry_allowed(&self, env: &Environment<'_, N>) -> bool {
        let retry = self.retry(env);
        if self.max_tries() >= retry.tries {
            return false;
        }
        let is_within_budget = match self.group.retry_budget() {
            Some(budget) => budget.spend(Instant::now()),
            None => retry.by == RetrySource::Route || env.worker.budgets.retries.spend(Instant::now()),
        };
        let refused = if !is_within_budget {
            "budget"
        } else if self.request.as_ref().is_some_and(|request| !request.begin_retry()) {
            "limit"
        } else {
            return true;
        };
        env.worker.counters.count_refused_retry(refused);
        false
    }

    /// Attempts that count. A stale connection, which happens at most once, says nothing about an endpoint; while two endpoints
    /// shut down, a request may meet it and then both of them.
    fn max_tries(&self) -> u8 {
        self.attempts_made.saturating_sub(u8::from(self.reuse == Reuse::Never))
    }

    /// The delay before the next attempt, if the rule or the backend sets one: up to a quarter longer, so that requests that
    /// failed together are not repeated together.
    #[inline]
    pub(super) fn backoff(&self, env: &Environment<'_, N>) -> Option<Duration> {
        if self.max_tries() == 0 {
            return None;
        }
        let least = self.retry(env).backoff;
        if least.is_zero() {
            return None;
        }
        let jitter = env.worker.random(|random| random.u32(0..=MAX_BACKOFF_JITTER_PERCENT));
        Some(least.saturating_add(least / 100 * jitter))
    }

    /// The time left for connecting, over all attempts.
    pub(super) fn connect_time_left(&self, env: &Environment<'_, N>, spent: Duration) -> Duration {
        self.retry(env).connect_total.saturating_sub(spent)
    }

    fn is_connect_time_over(&self, env: &Environment<'_, N>, spent: Duration) -> bool {
        self.connect_time_left(env, spent).is_zero()
    }

    /// The retry settings: the backend's, else the rule's.
    fn retry<'r>(&'r self, env: &'r Environment<'_, N>) -> &'r Retry {
        self.group.retry(&env.rule().rule().policy.retry)
    }
}

impl<H: Hop> EndpointResponse<H> {
    /// Discards the response. The part of its body that has arrived is dropped; if that is all of it, the connection can be
    /// reused.
    pub(super) fn discard<N: Network<Hop = H>, D>(mut self, exchange: &Exchange<'_, '_, N, D>) {
        let mut cx = Context::from_waker(Waker::noop());
        let mut remaining = MAX_DRAINED_RESPONSE_BYTES;
        while remaining > 0 {
            let step = self.lease.upstream().poll_body(&mut cx, remaining, |_, data| {
                remaining = remaining.saturating_sub(data.len());
                Ok(())
            });
            match step {
                Poll::Ready(Ok(BodyStep::More)) => {}
                Poll::Ready(Ok(BodyStep::End)) => {
                    if exchange.buffers.body.is_sent() && self.lease.upstream().is_reusable() {
                        self.lease.give_back(self.head_received_at, &exchange.env.worker.pool_limits());
                    }
                    return;
                }
                Poll::Ready(Err(_)) | Poll::Pending => return,
            }
        }
    }
}

impl AttemptFailure {
    /// A failure before anything was sent to the endpoint.
    pub(super) fn before_sending(fault: Fault, reused: bool, endpoint: u32) -> Self {
        Self { fault, progress: Progress::Nothing, reused, endpoint }
    }

    /// Whether the endpoint had already closed a reused connection: that says nothing about its health.
    fn is_stale(&self) -> bool {
        self.reused && self.fault == Fault::UpstreamClosed && self.progress != Progress::Responded
    }

    /// Whether the request may be the cause: the endpoint accepted the connection but did not respond.
    fn may_be_caused_by_request(&self) -> bool {
        use Fault::{UpstreamClosed, UpstreamMalformed, UpstreamTimeout};
        matches!(self.fault, UpstreamClosed | UpstreamTimeout | UpstreamMalformed(_))
    }
}

/// The endpoints of the group that a service picked; `None` if the group's own balancing chooses.
#[cold]
fn picks<H: Hop>(group: &Group<H>, picked: &Picked) -> Option<Box<Picks>> {
    let picks = Picks::from_addresses(group, &picked.addresses);
    (picked.is_required || !picks.is_empty()).then(|| Box::new(picks))
}

/// The fault of an attempt: if only its own deadline has passed, another attempt may still have time.
fn attempt_fault<N: Network, D>(exchange: &mut Exchange<'_, '_, N, D>, fault: Fault) -> Fault {
    exchange.env.end_attempt();
    match fault {
        Fault::DeadlineExceeded | Fault::RequestTimeout if !exchange.env.is_overdue() => {
            Fault::UpstreamTimeout
        }
        fault => fault,
    }
}

/// Writes the trace context for the endpoint of an attempt, counted from 1, if the exchange is sampled.
#[inline(never)]
fn propagate(buffers: &mut Buffers, attempt: u8) {
    let Buffers { request, extras, .. } = buffers;
    if let Some(sampled) = &extras.read().sampled {
        sampled.propagate_attempt(request, attempt);
    }
}

/// The `Connection` header for the endpoint.
fn connection_option(connection: ConnectionHeader) -> Option<&'static [u8]> {
    match connection {
        ConnectionHeader::Unsaid => None,
        ConnectionHeader::Close => Some(b"close"),
        ConnectionHeader::KeepAlive => Some(b"keep-alive"),
    }
}
