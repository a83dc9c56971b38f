//! The state that all steps of an exchange share.

use std::num::{NonZeroU16, NonZeroU64};
use std::rc::Rc;
use std::time::Duration;

use fairway_http::Head;
use fairway_model::smaller_limit;
use fairway_net::clock::{Deadline, Instant};
use fairway_routing::CompiledRule;

use crate::buffers::Buffers;
use crate::fault::Fault;
use crate::filter::Sources;
use crate::metrics::record::ExchangeRecord;
use crate::network::Network;
use crate::peer::Peer;
use crate::request::body::BodyBounds;
use crate::request::client::Client;
use crate::request::validation::Intake;
use crate::worker::{Adopted, EndpointHop, Worker};

/// The client's side of one exchange: its connection, or its stream of a shared connection.
pub(crate) struct ClientSide<D> {
    pub(crate) down: D,
    pub(crate) deadline: Deadline,
    pub(crate) peer: Peer,
    /// Requests of the connection before this one; saturates.
    pub(crate) served_requests: u32,
    /// Responses that Fairway made itself since the client last waited for one.
    pub(crate) own_responses: u16,
}

impl<D> ClientSide<D> {
    /// The side of a new connection or stream.
    pub(crate) fn new(down: D, peer: Peer) -> Self {
        Self { down, deadline: Deadline::unset(), peer, served_requests: 0, own_responses: 0 }
    }
}

/// What happens to the connection after the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It waits for the next request.
    KeepAlive,
    /// It is closed after the client had time to receive the response.
    Linger,
    /// It is closed at once; the client sees an error.
    Abort,
    /// Both sides have finished with it.
    Finished,
}

/// The request and its rule, as all steps of an exchange see them.
pub(crate) struct Environment<'a, N: Network> {
    pub(crate) worker: &'a Rc<Worker<N>>,
    pub(crate) adopted: &'a Rc<Adopted<EndpointHop<N>>>,
    /// The rule that matched.
    matched: &'a CompiledRule,
    /// Whether Fairway makes this request itself and reads the response.
    pub(crate) is_for_fairway: bool,
    /// Whether an extension service sees the response before the client.
    pub(crate) is_extended: bool,
    /// The rule of the chosen share, if shares have rules of their own. It replaces the matched rule.
    share: Option<&'a CompiledRule>,
    pub(crate) intake: Intake,
    pub(crate) client: Client,
    /// The public port of the listener to which plain HTTP requests are redirected.
    pub(crate) https_port: u16,
    /// The public port of its listener, if that also serves HTTP/3.
    pub(crate) http3_port: Option<NonZeroU16>,
    /// The deadline of the exchange: from the rule, the client of a gRPC call, or the exchange that made this subrequest.
    deadline: Option<CompactDeadline>,
    /// The deadline of the current attempt, if the rule limits attempts.
    attempt_deadline: Option<CompactDeadline>,
}

/// A deadline in microseconds since the worker started, rounded up, plus one. It is half the size of an [`Instant`], and every
/// waiting exchange has two.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct CompactDeadline(NonZeroU64);

impl CompactDeadline {
    fn at(instant: Instant, started_at: Instant) -> Option<Self> {
        let micros = instant.saturating_duration_since(started_at).as_nanos().div_ceil(1000);
        NonZeroU64::new(u64::try_from(micros).ok()?.saturating_add(1)).map(Self)
    }

    fn instant(self, began: Instant) -> Instant {
        began + Duration::from_micros(self.0.get() - 1)
    }
}

/// An exchange with a rule.
pub(crate) struct Exchange<'t, 'a, N: Network, D> {
    pub(crate) env: Environment<'a, N>,
    pub(crate) client_side: &'t mut ClientSide<D>,
    pub(crate) buffers: &'t mut Buffers,
    pub(crate) record: &'t mut ExchangeRecord<'a>,
}

/// The deadline that the client of a gRPC call set.
pub(super) fn grpc_deadline(request: &Head, began: Instant) -> Option<Instant> {
    let timeout = request.named(b"grpc-timeout").and_then(fairway_http::grpc::timeout)?;
    began.checked_add(timeout)
}

/// The deadline that a rule sets for an exchange that began at `began`.
pub(super) fn rule_deadline(rule: &CompiledRule, began: Instant) -> Option<Instant> {
    rule.rule().policy.timeouts.request.and_then(|timeout| began.checked_add(timeout))
}

/// The earlier of two optional values.
#[inline]
pub(super) fn earlier<T: Ord>(left: Option<T>, right: Option<T>) -> Option<T> {
    match (left, right) {
        (Some(one), Some(right)) => Some(one.min(right)),
        (one, None) => one,
        (None, right) => right,
    }
}

/// A request without a rule.
pub(crate) enum Unroutable {
    /// It is malformed, or there are no resources for it: the connection is closed.
    Rejected(Fault),
    /// No rule serves it, or none on this connection.
    Unserved(Intake, Fault),
}

impl<'a, N: Network> Environment<'a, N> {
    /// The environment of an exchange with this rule, without a deadline.
    pub(super) fn for_rule(
        worker: &'a Rc<Worker<N>>,
        adopted: &'a Rc<Adopted<EndpointHop<N>>>,
        rule: &'a CompiledRule,
        intake: Intake,
        client: Client,
    ) -> Self {
        Self {
            worker,
            adopted,
            matched: rule,
            share: None,
            is_for_fairway: false,
            is_extended: false,
            intake,
            client,
            https_port: 0,
            http3_port: None,
            deadline: None,
            attempt_deadline: None,
        }
    }

    /// The rule that applies now: that of the share if one was chosen, else the one that matched.
    #[inline]
    pub(super) fn rule(&self) -> &'a CompiledRule {
        self.share.unwrap_or(self.matched)
    }

    /// Makes the rule of a share the current one.
    pub(super) fn enter_share(&mut self, rule: &'a CompiledRule) {
        self.share = Some(rule);
    }

    /// The maximum size of the request body in bytes; both the rule and the listener may limit it.
    #[inline]
    pub(super) fn max_body(&self, peer: &Peer) -> Option<u64> {
        smaller_limit(self.rule().rule().policy.max_body, self.adopted.client_limits(peer.listener).max_body)
    }

    /// The bounds of a request body with this maximum size.
    pub(super) fn body_bounds(&self, max_bytes: Option<u64>) -> BodyBounds {
        let limits = &self.worker.options.limits;
        // A stream of messages has no minimum rate.
        let rate = if self.intake.dialect.is_grpc() { 0 } else { limits.body_rate };
        BodyBounds { max_bytes, max_replay_bytes: limits.replay_bytes, rate }
    }

    /// The values that templates refer to.
    pub(super) fn sources(&self) -> Sources<'_> {
        Sources { intake: &self.intake, client: &self.client, labels: &self.rule().rule().labels }
    }

    /// A random ID for a request.
    pub(super) fn new_request_id(&self) -> u128 {
        self.worker.random(|random| random.u128(..))
    }

    /// Sets the deadline of an attempt that begins now, if the rule limits attempts.
    #[inline]
    pub(super) fn begin_attempt(&mut self, now: Instant) {
        let timeout = self.rule().rule().policy.timeouts.backend_request;
        let limit = timeout.and_then(|timeout| now.checked_add(timeout));
        self.attempt_deadline = limit.and_then(|limit| CompactDeadline::at(limit, self.worker.started_at));
    }

    /// Clears the deadline of the attempt.
    #[inline]
    pub(super) fn end_attempt(&mut self) {
        self.attempt_deadline = None;
    }

    /// The earlier deadline of the exchange and the attempt.
    #[inline]
    fn nearest_deadline(&self) -> Option<Instant> {
        earlier(self.deadline, self.attempt_deadline).map(|limit| limit.instant(self.worker.started_at))
    }

    /// The deadline of the exchange, if it has one.
    pub(super) fn limit(&self) -> Option<Instant> {
        self.deadline.map(|limit| limit.instant(self.worker.started_at))
    }

    /// Sets the deadline of the exchange.
    pub(super) fn set_deadline(&mut self, limit: Option<Instant>) {
        self.deadline = limit.and_then(|limit| CompactDeadline::at(limit, self.worker.started_at));
    }

    /// Arms the timer for the next step: `step_timeout` from `since`, but not beyond the deadline.
    pub(super) fn arm(&self, deadline: &mut Deadline, since: Instant, step_timeout: Duration) {
        let time_left = self.nearest_deadline().map(|limit| limit.saturating_duration_since(since));
        deadline.set(since, time_left.map_or(step_timeout, |left| left.min(step_timeout)));
    }

    /// Whether the deadline of the exchange or the attempt has passed.
    pub(super) fn is_overdue(&self) -> bool {
        self.nearest_deadline().is_some_and(|limit| limit <= Instant::now())
    }

    /// The fault for a passed deadline: gRPC calls have their own.
    pub(super) fn overdue_fault(&self) -> Fault {
        if self.intake.dialect.is_grpc() { Fault::DeadlineExceeded } else { Fault::RequestTimeout }
    }

    /// Whether the deadline explains this fault: gRPC servers enforce the deadline of a call, too, and may end the response a
    /// moment before the timer here.
    pub(super) fn is_cut_by_deadline(&self, fault: Fault) -> bool {
        matches!(fault, Fault::UpstreamClosed | Fault::UpstreamTruncated) && self.is_overdue()
    }
}
