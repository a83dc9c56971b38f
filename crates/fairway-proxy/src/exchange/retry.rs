//! What a failed attempt leaves behind, and whether another one may follow.
//!
//! That is safe when no byte of an answer came, and either the endpoint saw nothing of the request, or repeating it does
//! no harm (RFC 9110 §9.2.2) and its body is still held.

use std::time::Duration;

use fairway_model::{Retry, RetryBy};
use fairway_net::clock::Instant;
use fairway_routing::session::Belongs;

use super::blame::{blame, unpicked};
use super::environment::Environment;
use crate::fault::Fault;
use crate::network::Network;
use crate::request::body::RequestBody;
use crate::upstream::health::Blame;
use crate::upstream::{Chosen, Group, Lease, Tried};
use crate::worker::{ToEndpoint, Worker};

/// An attempt that did not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed {
    pub(crate) fault: Fault,
    pub(crate) progress: Progress,
    pub(crate) age: Age,
    /// The endpoint, as its group counts.
    pub(crate) endpoint: u32,
}

/// How far it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The endpoint cannot have seen any of the request.
    Nothing,
    /// The endpoint may have seen the request, or some of it.
    Written,
    /// A byte of an answer came: there is no other attempt (design: Retries).
    Answered,
}

/// Whether the connection had carried an exchange before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Age {
    Fresh,
    Reused,
}

impl Failed {
    /// A reused connection that the endpoint had closed: says nothing about the endpoint.
    pub(crate) fn is_stale(&self) -> bool {
        self.age == Age::Reused && self.fault == Fault::UpstreamClosed && self.progress != Progress::Answered
    }

    /// Whether the request may be the cause: an endpoint that took the connection failed to answer it.
    pub(crate) fn is_of_doubtful_cause(&self) -> bool {
        use Fault::{UpstreamClosed, UpstreamMalformed, UpstreamTimeout};
        matches!(self.fault, UpstreamClosed | UpstreamTimeout | UpstreamMalformed(_))
    }
}

/// Which connections may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reuse {
    /// Any idle one.
    Any,
    /// Only one that answered within the last second: the request must not be sent twice.
    Proven,
    /// None: a stale one was met already.
    Never,
}

/// Percent.
const MORE_BACKOFF: u32 = 25;

/// Which endpoints were tried, and what the next attempt may do.
pub(crate) struct RetryState {
    /// When the attempt begins; once it has a connection, when its request is sent.
    pub(crate) now: Instant,
    pub(crate) reuse: Reuse,
    pub(crate) tried: Tried,
    pub(super) attempts: u8,
}

impl RetryState {
    pub(super) fn begin(now: Instant, idempotent: bool) -> Self {
        let reuse = if idempotent { Reuse::Any } else { Reuse::Proven };
        Self { now, reuse, tried: Tried::default(), attempts: 0 }
    }

    pub(super) fn next<N: Network>(
        &mut self,
        env: &Environment<'_, N>,
        (group, belongs): (&Group<ToEndpoint<N>>, Belongs),
    ) -> Result<Chosen<ToEndpoint<N>>, Fault> {
        let picked = env.worker.random(|random| group.pick(&self.tried, belongs, random, self.now));
        let chosen = picked.ok_or_else(|| unpicked(group))?;
        self.attempts = self.attempts.saturating_add(1);
        Ok(chosen)
    }

    pub(super) fn note(&mut self, failed: &Failed) {
        if failed.is_stale() {
            self.reuse = Reuse::Never;
            return;
        }
        if failed.is_of_doubtful_cause() {
            self.tried.accuse(failed.endpoint);
        } else {
            self.tried.insert(failed.endpoint);
        }
    }

    /// An endpoint answered the request: it was the others' fault that they did not.
    pub(super) fn confirm<N: Network>(
        &self,
        worker: &Worker<N>,
        group: &Group<ToEndpoint<N>>,
        answered: &Lease<ToEndpoint<N>>,
    ) {
        for accused in self.tried.accused().filter(|accused| *accused != answered.index()) {
            blame(worker, group, group.member(accused), Blame::BeforeHead);
        }
    }

    /// No endpoint answered. Several that fail alike are not at fault: the request is.
    pub(super) fn give_up<N: Network>(&self, worker: &Worker<N>, group: &Group<ToEndpoint<N>>) {
        let mut accused = self.tried.accused();
        if let (Some(only), None) = (accused.next(), accused.next()) {
            blame(worker, group, group.member(only), Blame::Unconfirmed);
        }
    }

    /// Attempts that count: a stale connection, which is met once at most, says nothing about any endpoint. While two
    /// endpoints leave at once, a request may meet it and then both of them.
    fn tries(&self) -> u8 {
        self.attempts.saturating_sub(u8::from(self.reuse == Reuse::Never))
    }

    /// How long to wait before the next attempt, where the rule or the backend says so: up to a quarter longer, so that
    /// requests that failed together do not come back together.
    #[inline]
    pub(super) fn backoff<N: Network>(
        &self,
        env: &Environment<'_, N>,
        group: &Group<ToEndpoint<N>>,
    ) -> Option<Duration> {
        if self.tries() == 0 {
            return None;
        }
        let least = retry(env, group).backoff;
        if least.is_zero() {
            return None;
        }
        let more = env.worker.random(|random| random.u32(0..=MORE_BACKOFF));
        Some(least.saturating_add(least / 100 * more))
    }

    /// What is left for connecting, all attempts together.
    pub(crate) fn connect_limit<N: Network>(
        env: &Environment<'_, N>,
        group: &Group<ToEndpoint<N>>,
        spent: Duration,
    ) -> Duration {
        retry(env, group).connect_total.saturating_sub(spent)
    }

    pub(super) fn is_late<N: Network>(
        env: &Environment<'_, N>,
        group: &Group<ToEndpoint<N>>,
        spent: Duration,
    ) -> bool {
        Self::connect_limit(env, group, spent).is_zero()
    }
}

/// How failures are tried again: as the backend says, else as the rule does.
fn retry<'a, N: Network>(env: &'a Environment<'_, N>, group: &'a Group<ToEndpoint<N>>) -> &'a Retry {
    group.retry(&env.rule().rule().policy.retry)
}

/// Whether there may be another attempt after this one.
pub(super) fn may_retry<N: Network>(
    env: &Environment<'_, N>,
    group: &Group<ToEndpoint<N>>,
    failed: &Failed,
    (retry_state, body): (&RetryState, &RequestBody),
) -> bool {
    if !failed.fault.blames_endpoint() || !body.is_replayable() {
        return false;
    }
    match failed.progress {
        Progress::Nothing => {}
        Progress::Written if env.intake.method.is_idempotent() => {}
        Progress::Written | Progress::Answered => return false,
    }
    // Where no endpoint has room, the failure says more than that.
    if !group.has_room(&retry_state.tried) {
        return false;
    }
    // A stale connection is no attempt on an endpoint: it costs nobody anything, and is met once at most.
    failed.is_stale() || is_granted(env, group, retry_state)
}

/// Whether one more attempt is allowed: the route's own word needs no budget.
fn is_granted<N: Network>(
    env: &Environment<'_, N>,
    group: &Group<ToEndpoint<N>>,
    retry_state: &RetryState,
) -> bool {
    let retry = retry(env, group);
    retry_state.tries() < retry.tries
        && (retry.by == RetryBy::Route || env.worker.budgets.retries.spend(Instant::now()))
}

/// Whether a request that was answered may be repeated: on an endpoint that was not tried, or where the route says so, on
/// any.
pub(super) fn may_repeat<N: Network>(
    env: &Environment<'_, N>,
    group: &Group<ToEndpoint<N>>,
    retry_state: &mut RetryState,
    (answered, body): (u32, &RequestBody),
) -> bool {
    retry_state.tried.insert(answered);
    env.intake.method.is_idempotent()
        && body.is_replayable()
        && (retry(env, group).by == RetryBy::Route || group.has_untried(&retry_state.tried))
        && is_granted(env, group, retry_state)
}
