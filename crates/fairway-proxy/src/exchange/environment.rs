//! What every step of an exchange knows and works on.

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
use crate::metrics::record::Record;
use crate::network::Network;
use crate::peer::Peer;
use crate::request::body::BodyBounds;
use crate::request::client::Client;
use crate::request::intake::Intake;
use crate::worker::{Adopted, ToEndpoint, Worker};

/// The client's side of one exchange: its connection, or a part of one that other exchanges share.
pub(crate) struct ClientSide<D> {
    pub(crate) down: D,
    pub(crate) deadline: Deadline,
    pub(crate) peer: Peer,
    /// Requests of the connection before this one; no more are counted than there is room for.
    pub(crate) served: u32,
    /// Answers that Fairway made since the client last waited for one.
    pub(crate) own_answers: u16,
}

impl<D> ClientSide<D> {
    /// Of a connection, or a part of one, that begins.
    pub(crate) fn new(down: D, peer: Peer) -> Self {
        Self { down, deadline: Deadline::unset(), peer, served: 0, own_answers: 0 }
    }
}

/// What becomes of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It waits for the next request.
    Again,
    /// It is closed so that the answer is received.
    Linger,
    /// It is closed at once; the client sees a failure.
    Abort,
    /// Both sides are done with it.
    Finished,
}

/// What every step of an exchange knows.
pub(crate) struct Environment<'a, N: Network> {
    pub(crate) worker: &'a Rc<Worker<N>>,
    pub(crate) adopted: &'a Rc<Adopted<ToEndpoint<N>>>,
    /// The rule that matched.
    matched: &'a CompiledRule,
    /// Whether Fairway itself asks, and reads the answer.
    pub(crate) is_for_fairway: bool,
    /// Whether a service sees the response before the client does.
    pub(crate) is_extended: bool,
    /// The rule of the share that was chosen, where shares have rules of their own; the exchange goes on under it.
    share: Option<&'a CompiledRule>,
    pub(crate) intake: Intake,
    pub(crate) client: Client,
    /// The public port of the listener to which requests in the clear are redirected.
    pub(crate) https_port: u16,
    /// The public port of its listener, where that serves HTTP/3 as well.
    pub(crate) http3_port: Option<NonZeroU16>,
    /// When the time for the exchange is over, which the rule, the client of a call or whoever asks gave it.
    limit: Option<Limit>,
    /// When the time for the attempt that is under way is over, where the rule gives each attempt its own.
    attempt_limit: Option<Limit>,
}

/// A limit in time, in microseconds since the worker began, rounded up, and one more: half as large as an [`Instant`], of which every
/// exchange that waits would have two.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Limit(NonZeroU64);

impl Limit {
    fn at(instant: Instant, began: Instant) -> Option<Self> {
        let micros = instant.saturating_duration_since(began).as_nanos().div_ceil(1000);
        NonZeroU64::new(u64::try_from(micros).ok()?.saturating_add(1)).map(Self)
    }

    fn instant(self, began: Instant) -> Instant {
        began + Duration::from_micros(self.0.get() - 1)
    }
}

/// An exchange that has a rule.
pub(crate) struct Exchange<'t, 'a, N: Network, D> {
    pub(crate) env: Environment<'a, N>,
    pub(crate) client_side: &'t mut ClientSide<D>,
    pub(crate) buffers: &'t mut Buffers,
    pub(crate) record: &'t mut Record<'a>,
}

/// When the client's own time for its call is over.
pub(super) fn limit_of_call(request: &Head, began: Instant) -> Option<Instant> {
    let timeout = request.named(b"grpc-timeout").and_then(fairway_http::grpc::timeout)?;
    began.checked_add(timeout)
}

/// When the time is over that a rule gives an exchange which began then.
pub(super) fn limit_of_rule(rule: &CompiledRule, began: Instant) -> Option<Instant> {
    rule.rule().policy.timeouts.request.and_then(|most| began.checked_add(most))
}

/// The earlier of two limits, of those that there are.
#[inline]
pub(super) fn earlier<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, None) => one,
        (None, other) => other,
    }
}

/// A request that has none.
pub(crate) enum Unroutable {
    /// It breaks a rule, or there is no room for it: the connection ends with it.
    Broken(Fault),
    /// Nobody serves it, or nobody at this connection.
    Unserved(Intake, Fault),
}

impl<'a, N: Network> Environment<'a, N> {
    /// Of an exchange that Fairway begins under a rule: without a limit.
    pub(super) fn under(
        worker: &'a Rc<Worker<N>>,
        adopted: &'a Rc<Adopted<ToEndpoint<N>>>,
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
            limit: None,
            attempt_limit: None,
        }
    }

    /// The rule that the exchange is under.
    #[inline]
    pub(super) fn rule(&self) -> &'a CompiledRule {
        self.share.unwrap_or(self.matched)
    }

    /// The rule of its share was chosen.
    pub(super) fn enter_share(&mut self, rule: &'a CompiledRule) {
        self.share = Some(rule);
    }

    /// The most bytes that the request's body may have: its rule and its listener may both say so.
    #[inline]
    pub(super) fn max_body(&self, peer: &Peer) -> Option<u64> {
        smaller_limit(self.rule().rule().policy.max_body, self.adopted.clients(peer.listener).max_body)
    }

    /// The bounds of a body that may have so many bytes.
    pub(super) fn body_bounds(&self, most: Option<u64>) -> BodyBounds {
        let limits = &self.worker.options.limits;
        // A stream of messages may be as slow as it likes.
        let rate = if self.intake.dialect.is_grpc() { 0 } else { limits.body_rate };
        BodyBounds { most, replay: limits.replay_bytes, rate }
    }

    /// What texts with parts of the request are made of.
    pub(super) fn sources(&self) -> Sources<'_> {
        Sources { intake: &self.intake, client: &self.client, labels: &self.rule().rule().labels }
    }

    /// A number for a request.
    pub(super) fn number(&self) -> u128 {
        self.worker.random(|random| random.u128(..))
    }

    /// Gives the attempt that begins now the time that the rule gives each, if it gives one.
    #[inline]
    pub(super) fn begin_attempt(&mut self, now: Instant) {
        let most = self.rule().rule().policy.timeouts.backend_request;
        let limit = most.and_then(|most| now.checked_add(most));
        self.attempt_limit = limit.and_then(|limit| Limit::at(limit, self.worker.began));
    }

    /// The attempt is over, and with it its time.
    #[inline]
    pub(super) fn end_attempt(&mut self) {
        self.attempt_limit = None;
    }

    /// That of the exchange or that of the attempt.
    #[inline]
    fn nearest_limit(&self) -> Option<Instant> {
        earlier(self.limit, self.attempt_limit).map(|limit| limit.instant(self.worker.began))
    }

    /// When the time for the exchange is over, if it ever is.
    pub(super) fn limit(&self) -> Option<Instant> {
        self.limit.map(|limit| limit.instant(self.worker.began))
    }

    /// The exchange has no more time than that.
    pub(super) fn set_limit(&mut self, limit: Option<Instant>) {
        self.limit = limit.and_then(|limit| Limit::at(limit, self.worker.began));
    }

    /// Gives the next step `patience` from `since`, and never more than there is for all of them.
    pub(super) fn arm(&self, deadline: &mut Deadline, since: Instant, patience: Duration) {
        let left = self.nearest_limit().map(|limit| limit.saturating_duration_since(since));
        deadline.set(since, left.map_or(patience, |left| left.min(patience)));
    }

    /// Whether the time for the exchange, or the attempt, is over.
    pub(super) fn is_overdue(&self) -> bool {
        self.nearest_limit().is_some_and(|limit| limit <= Instant::now())
    }

    /// What it is that is over: a call has the time that its client gave it, all else what the rule did.
    pub(super) fn overdue(&self) -> Fault {
        if self.intake.dialect.is_grpc() { Fault::DeadlineExceeded } else { Fault::RequestTimeout }
    }

    /// Whether it is only the time that ended the endpoint's answer: servers of gRPC keep that of a call, too, and may be a moment
    /// earlier than the timer here.
    pub(super) fn is_cut_in_time(&self, fault: Fault) -> bool {
        matches!(fault, Fault::UpstreamClosed | Fault::UpstreamTruncated) && self.is_overdue()
    }
}
