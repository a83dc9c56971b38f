//! What every step of an exchange knows and works on.

use std::rc::Rc;
use std::time::Duration;

use fairway_http::Head;
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
    pub(crate) rule: &'a CompiledRule,
    pub(crate) intake: Intake,
    pub(crate) client: Client,
    /// Bytes of the path that the matched prefix covers.
    pub(crate) prefix: usize,
    /// The public port of the listener to which requests in the clear are redirected.
    pub(crate) https_port: u16,
    /// When the time for the exchange is over, which the rule or the client of a call gave it; while an attempt has less
    /// time than that, when the attempt's is.
    pub(crate) limit: Option<Instant>,
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

/// The earlier of two limits, of those that there are.
#[inline]
pub(super) fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
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

impl<N: Network> Environment<'_, N> {
    pub(super) fn body_bounds(&self) -> BodyBounds {
        let limits = &self.worker.options.limits;
        let most = self.rule.rule().policy.max_body;
        // A stream of messages may be as slow as it likes.
        let rate = if self.intake.dialect.is_grpc() { 0 } else { limits.body_rate };
        BodyBounds { most, replay: limits.replay_bytes, rate }
    }

    /// What texts with parts of the request are made of.
    pub(super) fn sources(&self) -> Sources<'_> {
        Sources { intake: &self.intake, client: &self.client, labels: &self.rule.rule().labels }
    }

    /// A number for a request.
    pub(super) fn number(&self) -> u128 {
        self.worker.random(|random| random.u128(..))
    }

    /// Gives the attempt that begins now the time that the rule gives each, if it gives one.
    #[inline]
    pub(super) fn begin_attempt(&mut self, now: Instant) {
        if let Some(most) = self.rule.rule().policy.timeouts.backend_request {
            self.limit = earlier(self.limit, now.checked_add(most));
        }
    }

    /// An attempt that had less time than the exchange is over: the limit is that of the exchange again.
    #[inline]
    pub(super) fn end_attempt(&mut self, began: Instant, buffers: &Buffers) {
        if self.rule.rule().policy.timeouts.backend_request.is_some() {
            self.limit = self.limit_of_exchange(began, buffers);
        }
    }

    /// When the time for an exchange that began then is over. A question has no more than what is left to its asker, and a call no
    /// more than its client gave it.
    #[cold]
    pub(super) fn limit_of_exchange(&self, began: Instant, buffers: &Buffers) -> Option<Instant> {
        let own = self.rule.rule().policy.timeouts.request.and_then(|most| began.checked_add(most));
        earlier(own, buffers.forms.read().limit)
    }

    /// Gives the next step `patience` from `since`, and never more than there is for all of them.
    pub(super) fn arm(&self, deadline: &mut Deadline, since: Instant, patience: Duration) {
        let left = self.limit.map(|limit| limit.saturating_duration_since(since));
        deadline.set(since, left.map_or(patience, |left| left.min(patience)));
    }

    /// Whether the time for the exchange, or the attempt, is over.
    pub(super) fn is_overdue(&self) -> bool {
        self.limit.is_some_and(|limit| limit <= Instant::now())
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
