//! The attempts for one request: each picks an endpoint, gets a connection (`race`), sends the request and waits for the head of an
//! answer. Owns what is known of the attempts before, who is to blame for them, and whether another may follow.
//!
//! Another is safe when no byte of an answer came, and either the endpoint saw nothing of the request, or repeating it does no harm
//! (RFC 9110 §9.2.2) and its body is still held.

use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fairway_connection::sides::{BodyStep, Channel, Downstream, Hop, Reply, RequestPlan, Upgrade, Upstream};
use fairway_model::{EndpointHop, HopConnection, HopVersion, Retry, RetryBy};
use fairway_net::clock::Instant;
use fairway_routing::session::Belongs;

use super::environment::{Environment, Exchange};
use super::transact::transact;
use crate::buffers::{Buffers, Picked};
use crate::fault::Fault;
use crate::metrics::count;
use crate::metrics::record::{AttemptOutcome, Micros, UpstreamRecord};
use crate::network::Network;
use crate::request::body::RequestBody;
use crate::upstream::blame::{blame, note_success, unpicked};
use crate::upstream::health::Blame;
use crate::upstream::{Chosen, Full, Group, Lease, Picks, RequestPlace, Tried};
use crate::worker::ToEndpoint;

/// How long an endpoint may leave a request unacknowledged before the request is given up for another endpoint: longer
/// than a delayed acknowledgement (200 ms at most) and than one lost segment takes to be repeated.
const ACKNOWLEDGED: Duration = Duration::from_millis(250);

/// Bytes of an answer that nobody gets which are read to keep its connection.
const WORTH_DRAINING: usize = 64 * 1024;

/// The status of a request that its server does not want in early data (RFC 8470 §5.2).
const TOO_EARLY: u16 = 425;

/// The first status of a server that failed.
const SERVER_ERRORS: u16 = 500;

/// Percent.
const MORE_BACKOFF: u32 = 25;

/// The attempts for one request.
pub(super) struct Attempts<'g, N: Network> {
    /// The endpoints, the same for all attempts.
    pub(super) group: &'g Rc<Group<ToEndpoint<N>>>,
    /// When the attempt begins; once it has a connection, when its request is sent.
    pub(super) now: Instant,
    pub(super) reuse: Reuse,
    pub(super) tried: Tried,
    /// The endpoints that a service picked, where one did.
    picks: Option<Box<Picks>>,
    /// Whether it may not go to any endpoint.
    is_bound: bool,
    /// The place of the request, where the backend limits them.
    pub(super) request: Option<RequestPlace>,
    made: u8,
}

/// Which connections may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reuse {
    /// Any idle one.
    Any,
    /// Only one that answered within the last second: the request must not be sent twice.
    Proven,
    /// None: a stale one was met already.
    Never,
}

/// A connection for an attempt.
pub(super) struct Connection<H: Hop> {
    pub(super) lease: Lease<H>,
    /// Whether it had carried an exchange before.
    pub(super) reused: bool,
    /// What connecting took; zero for an idle connection.
    pub(super) connect: Micros,
    /// Whether a late connect made the attempt look at another endpoint as well.
    pub(super) hedged: bool,
}

/// The head of an endpoint's answer stands in the buffers, and its body waits here.
pub(super) struct Answer<H: Hop> {
    pub(super) lease: Lease<H>,
    pub(super) reply: Reply,
    pub(super) connect: Micros,
    pub(super) hedged: bool,
    /// When the request began to be sent.
    pub(super) sent: Instant,
    /// When the head was there.
    pub(super) headed: Instant,
    /// How many attempts it took.
    pub(super) attempts: u8,
}

/// An attempt without an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failure {
    pub(super) fault: Fault,
    pub(super) progress: Progress,
    /// Whether the connection had carried an exchange before.
    pub(super) reused: bool,
    /// The endpoint, as its group counts.
    pub(super) endpoint: u32,
}

/// How far an attempt came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The endpoint cannot have seen any of the request.
    Nothing,
    /// The endpoint may have seen the request, or some of it.
    Written,
    /// A byte of an answer came: there is no other attempt (design: Retries).
    Answered,
}

impl<'g, N: Network> Attempts<'g, N> {
    pub(super) fn begin<D>(exchange: &Exchange<'_, '_, N, D>, group: &'g Rc<Group<ToEndpoint<N>>>) -> Self {
        let reuse = if exchange.env.intake.method.is_idempotent() { Reuse::Any } else { Reuse::Proven };
        let now = exchange.record.forwarding_began();
        let forms = exchange.buffers.forms.read();
        let picks = forms.picked.as_ref().and_then(|picked| picks(group, picked));
        let is_bound = picks.is_some() || forms.session.belongs != Belongs::Anywhere;
        if let Some(budget) = group.retry_budget() {
            budget.earn();
        }
        Self { group, now, reuse, tried: Tried::default(), picks, is_bound, request: None, made: 0 }
    }

    /// A place for the request, where the backend limits them.
    ///
    /// # Errors
    /// There is none.
    #[inline]
    pub(super) fn begin_request(&mut self) -> Result<(), Full> {
        self.request = self.group.begin_request()?;
        Ok(())
    }

    /// The endpoint for the attempt that begins.
    ///
    /// # Errors
    /// The time is over, or there is none: the request has no answer.
    pub(super) fn pick<D>(
        &mut self,
        exchange: &Exchange<'_, '_, N, D>,
    ) -> Result<Chosen<ToEndpoint<N>>, Fault> {
        let Exchange { env, buffers, .. } = exchange;
        if env.is_overdue() {
            return Err(env.overdue());
        }
        let belongs = buffers.forms.read().session.belongs;
        let chosen = match &self.picks {
            None => env.worker.random(|random| self.group.pick(&self.tried, belongs, random, self.now)),
            Some(picks) => self.group.pick_among(picks, &self.tried, self.now),
        };
        let Some(chosen) = chosen else {
            self.give_up(env);
            let is_unknown = self.picks.as_ref().is_some_and(|picks| picks.is_empty());
            return Err(if is_unknown { Fault::NoEndpoint } else { unpicked(self.group) });
        };
        self.made = self.made.saturating_add(1);
        Ok(chosen)
    }

    /// Sends the request on the connection, and waits for the head of the answer.
    ///
    /// Not an `async fn`: that would keep its arguments twice for as long as the attempt takes.
    pub(super) fn send<'e, D: Downstream>(
        &'e self,
        exchange: &'e mut Exchange<'_, '_, N, D>,
        connection: Connection<ToEndpoint<N>>,
    ) -> impl Future<Output = Result<Answer<ToEndpoint<N>>, Failure>> {
        let Connection { mut lease, reused, connect, hedged } = connection;
        count(&exchange.env.worker.counters.attempts.sent);
        exchange.env.begin_attempt(self.now);
        if let Some(request) = &self.request {
            request.note_sent(self.now);
        }
        if exchange.record.is_traced {
            propagate(exchange.buffers, self.made);
        }
        let before = (lease.up().sent(), lease.up().received());
        let buffers = &*exchange.buffers;
        let rewritten = &buffers.forms.read().target;
        let target = if rewritten.is_empty() { exchange.env.intake.received(buffers) } else { rewritten };
        let asks = exchange.env.rule().rule().policy.websocket;
        let upgrade = if asks { exchange.env.intake.upgrade } else { Upgrade::None };
        let EndpointHop { version, connection } = exchange.env.rule().steps().forwarding.hop;
        let (http10, connection) = (version == HopVersion::Http10, option(connection));
        let body = buffers.body.size(exchange.env.intake.body);
        let plan = RequestPlan { target, body, upgrade, http10, connection };
        lease.up().send_request(&buffers.request, &plan);
        async move {
            let patience = lease.endpoint().acknowledges_within(ACKNOWLEDGED);
            let fault = match transact(exchange, lease.up(), self.now, patience).await {
                Ok(reply) => {
                    let (sent, headed, attempts) = (self.now, Instant::now(), self.made);
                    return Ok(Answer { lease, reply, connect, hedged, sent, headed, attempts });
                }
                Err(fault) => fault_of_attempt(exchange, fault),
            };
            let progress = match (lease.up().sent() == before.0, lease.up().received() == before.1) {
                (_, false) => Progress::Answered,
                (false, true) => Progress::Written,
                (true, true) => Progress::Nothing,
            };
            // A stream that an endpoint resets on a connection that goes on is no sign of a connection that was dead already.
            let reused = reused && !lease.up().is_quiet();
            // A client that resets its requests would else have the system run out of ports: each closed here is kept a minute.
            lease.up().abandon();
            Err(Failure { fault, progress, reused, endpoint: lease.index() })
        }
    }

    /// Puts the blame for a failure after the connect, as far as it can be told before another endpoint was tried.
    pub(super) fn blame(&self, env: &Environment<'_, N>, failure: &Failure) {
        let endpoint = self.group.member(failure.endpoint);
        if failure.is_stale() {
            count(&env.worker.counters.attempts.stale);
        } else if failure.fault == Fault::UpstreamUnreachable {
            endpoint.drop_idle();
            blame(env.worker, self.group, endpoint, Blame::Connect);
        } else if !failure.fault.blames_endpoint() {
            return;
        }
        endpoint.check_siblings();
    }

    /// An endpoint answered the request: it was the others' fault that they did not.
    pub(super) fn confirm(&self, env: &Environment<'_, N>, answer: &Answer<ToEndpoint<N>>, status: u16) {
        if let Some(request) = &self.request {
            request.note_response(answer.headed, status < SERVER_ERRORS);
        }
        note_success(
            env.worker,
            self.group,
            answer.lease.index(),
            answer.headed - answer.sent,
            answer.headed,
        );
        for accused in self.tried.accused().filter(|accused| *accused != answer.lease.index()) {
            blame(env.worker, self.group, self.group.member(accused), Blame::BeforeHead);
        }
    }

    /// No endpoint answered. Several that fail alike are not at fault: the request is.
    fn give_up(&self, env: &Environment<'_, N>) {
        let mut accused = self.tried.accused();
        if let (Some(only), None) = (accused.next(), accused.next()) {
            blame(env.worker, self.group, self.group.member(only), Blame::Unconfirmed);
        }
    }

    /// Notes a failure. Gives its fault where there is no other attempt.
    pub(super) fn go_on_after<D>(
        &mut self,
        exchange: &mut Exchange<'_, '_, N, D>,
        failure: &Failure,
    ) -> Result<(), Fault> {
        if matches!(failure.fault, Fault::BackendFull(_)) {
            self.give_up(&exchange.env);
            return Err(failure.fault);
        }
        let Exchange { env, buffers, record, .. } = exchange;
        self.now = Instant::now();
        if let Some(request) = &self.request {
            request.note_failure(self.now);
        }
        if failure.is_stale() {
            self.reuse = Reuse::Never;
        } else if failure.is_of_doubtful_cause() {
            self.tried.accuse(failure.endpoint);
        } else {
            self.tried.insert(failure.endpoint);
        }
        let took = self.now.saturating_duration_since(record.forwarding_began());
        let address = self.group.member(failure.endpoint).identity.address;
        record.upstream = Some(UpstreamRecord::failed(address, self.made, took));
        let outcome = AttemptOutcome::Fault(failure.fault);
        buffers.forms.note_failed_attempt(address, outcome, took.into());
        if self.may_follow(env, &buffers.body, failure) && !self.is_late(env, took) {
            count(&env.worker.counters.attempts.retried);
            return Ok(());
        }
        let idempotent = env.intake.method.is_idempotent();
        if failure.progress != Progress::Nothing && !idempotent && failure.fault.blames_endpoint() {
            count(&env.worker.counters.attempts.lost);
        }
        self.give_up(env);
        Err(failure.fault)
    }

    /// Whether there may be another attempt after this one.
    fn may_follow(&self, env: &Environment<'_, N>, body: &RequestBody, failure: &Failure) -> bool {
        if !failure.fault.blames_endpoint() || !body.is_replayable() {
            return false;
        }
        match failure.progress {
            Progress::Nothing => {}
            Progress::Written if env.intake.method.is_idempotent() => {}
            Progress::Written | Progress::Answered => return false,
        }
        // Where no endpoint has room, the failure says more than that.
        if !self.has_room() {
            return false;
        }
        // A stale connection is no attempt on an endpoint: it costs nobody anything, and is met once at most.
        failure.is_stale() || self.is_granted(env)
    }

    /// Whether the answer's status asks for another endpoint, one is left, and the request may be repeated: on an endpoint that was
    /// not tried, or where the route says so, on any.
    pub(super) fn go_elsewhere<D>(
        &mut self,
        exchange: &mut Exchange<'_, '_, N, D>,
        answer: &Answer<ToEndpoint<N>>,
    ) -> bool {
        let Exchange { env, buffers, record, .. } = exchange;
        let status = buffers.answer.status();
        // 425 is for the client, who sends the request again when its handshake is complete (RFC 8470 §5.2).
        if env.rule().steps().forwarding.retried.binary_search(&status).is_err() || status == TOO_EARLY {
            return false;
        }
        self.now = answer.headed;
        let took = answer.headed.saturating_duration_since(record.forwarding_began());
        self.tried.insert(answer.lease.index());
        let may = env.intake.method.is_idempotent()
            && buffers.body.is_replayable()
            && (self.retry(env).by == RetryBy::Route || self.has_untried())
            && self.is_granted(env)
            && !self.is_late(env, took);
        if may {
            let address = answer.lease.endpoint().identity.address;
            let upstream = UpstreamRecord::failed(address, self.made, took);
            record.upstream = Some(UpstreamRecord { status, ..upstream });
            buffers.forms.note_failed_attempt(address, AttemptOutcome::Status(status), took.into());
            count(&env.worker.counters.attempts.retried);
        }
        may
    }

    /// An endpoint to race one whose connect is late.
    pub(super) fn rival(&self, random: &mut fastrand::Rng) -> Option<Chosen<ToEndpoint<N>>> {
        match &self.picks {
            None => self.group.rival(&self.tried, random),
            Some(picks) => self.group.rival_among(picks, &self.tried),
        }
    }

    /// An endpoint with an idle connection, if the request may go to any.
    pub(super) fn with_idle(&self) -> Option<Chosen<ToEndpoint<N>>> {
        if self.is_bound { None } else { self.group.with_idle(&self.tried, self.now) }
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

    /// Whether one more attempt is allowed: the route's own word needs no budget but the backend's.
    fn is_granted(&self, env: &Environment<'_, N>) -> bool {
        let retry = self.retry(env);
        if self.tries() >= retry.tries {
            return false;
        }
        let is_within_budget = match self.group.retry_budget() {
            Some(budget) => budget.spend(Instant::now()),
            None => retry.by == RetryBy::Route || env.worker.budgets.retries.spend(Instant::now()),
        };
        let refused = if !is_within_budget {
            "budget"
        } else if self.request.as_ref().is_some_and(|request| !request.begin_retry()) {
            "limit"
        } else {
            return true;
        };
        env.worker.counters.retry_refused(refused);
        false
    }

    /// Attempts that count: a stale connection, which is met once at most, says nothing about any endpoint. While two
    /// endpoints leave at once, a request may meet it and then both of them.
    fn tries(&self) -> u8 {
        self.made.saturating_sub(u8::from(self.reuse == Reuse::Never))
    }

    /// How long to wait before the next attempt, where the rule or the backend says so: up to a quarter longer, so that
    /// requests that failed together do not come back together.
    #[inline]
    pub(super) fn backoff(&self, env: &Environment<'_, N>) -> Option<Duration> {
        if self.tries() == 0 {
            return None;
        }
        let least = self.retry(env).backoff;
        if least.is_zero() {
            return None;
        }
        let more = env.worker.random(|random| random.u32(0..=MORE_BACKOFF));
        Some(least.saturating_add(least / 100 * more))
    }

    /// What is left for connecting, all attempts together.
    pub(super) fn connect_limit(&self, env: &Environment<'_, N>, spent: Duration) -> Duration {
        self.retry(env).connect_total.saturating_sub(spent)
    }

    fn is_late(&self, env: &Environment<'_, N>, spent: Duration) -> bool {
        self.connect_limit(env, spent).is_zero()
    }

    /// How failures are tried again: as the backend says, else as the rule does.
    fn retry<'r>(&'r self, env: &'r Environment<'_, N>) -> &'r Retry {
        self.group.retry(&env.rule().rule().policy.retry)
    }
}

impl<H: Hop> Answer<H> {
    /// Nobody gets it. What of its body is there already is dropped; when that is all of it, the connection can carry another
    /// exchange.
    pub(super) fn put_aside<N: Network<Hop = H>, D>(mut self, exchange: &Exchange<'_, '_, N, D>) {
        let mut cx = Context::from_waker(Waker::noop());
        let mut left = WORTH_DRAINING;
        while left > 0 {
            let step = self.lease.up().poll_body(&mut cx, left, |_, data| {
                left = left.saturating_sub(data.len());
                Ok(())
            });
            match step {
                Poll::Ready(Ok(BodyStep::More)) => {}
                Poll::Ready(Ok(BodyStep::End)) => {
                    if exchange.buffers.body.is_sent() && self.lease.up().is_reusable() {
                        self.lease.give_back(self.headed, &exchange.env.worker.pool_limits());
                    }
                    return;
                }
                Poll::Ready(Err(_)) | Poll::Pending => return,
            }
        }
    }
}

impl Failure {
    /// A failure on the way to an endpoint, which has seen nothing.
    pub(super) fn before_sending(fault: Fault, reused: bool, endpoint: u32) -> Self {
        Self { fault, progress: Progress::Nothing, reused, endpoint }
    }

    /// A reused connection that the endpoint had closed: says nothing about the endpoint.
    fn is_stale(&self) -> bool {
        self.reused && self.fault == Fault::UpstreamClosed && self.progress != Progress::Answered
    }

    /// Whether the request may be the cause: an endpoint that took the connection failed to answer it.
    fn is_of_doubtful_cause(&self) -> bool {
        use Fault::{UpstreamClosed, UpstreamMalformed, UpstreamTimeout};
        matches!(self.fault, UpstreamClosed | UpstreamTimeout | UpstreamMalformed(_))
    }
}

/// The endpoints of the group that were picked; `None` where its own balancing chooses.
#[cold]
fn picks<H: Hop>(group: &Group<H>, picked: &Picked) -> Option<Box<Picks>> {
    let picks = Picks::of(group, &picked.addresses);
    (picked.is_required || !picks.is_empty()).then(|| Box::new(picks))
}

/// Why an attempt failed: when its own time is over, there may be some left for another one.
fn fault_of_attempt<N: Network, D>(exchange: &mut Exchange<'_, '_, N, D>, fault: Fault) -> Fault {
    exchange.env.end_attempt();
    match fault {
        Fault::DeadlineExceeded | Fault::RequestTimeout if !exchange.env.is_overdue() => {
            Fault::UpstreamTimeout
        }
        fault => fault,
    }
}

/// Tells the endpoint of an attempt, counted from 1, which span is the parent of its own, where the exchange is sampled.
#[inline(never)]
fn propagate(buffers: &mut Buffers, attempt: u8) {
    let Buffers { request, forms, .. } = buffers;
    if let Some(sampled) = &forms.read().sampled {
        sampled.propagate_attempt(request, attempt);
    }
}

/// What the endpoint is told of the connection.
fn option(connection: HopConnection) -> Option<&'static [u8]> {
    match connection {
        HopConnection::Unsaid => None,
        HopConnection::Close => Some(b"close"),
        HopConnection::KeepAlive => Some(b"keep-alive"),
    }
}
