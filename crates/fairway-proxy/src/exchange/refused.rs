//! The errors of guards that wait, and the waiting itself.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use fairway_connection::sides::Downstream;
use fairway_net::clock::Instant;
use fairway_token::Refusal;

use super::environment::{ClientSide, Exchange};
use super::respond;
use crate::fault::{Denial, Fault};
use crate::filter::{ResponseScope, Verdict};
use crate::network::Network;

/// Why a guard with credentials does not let a request pass.
pub(super) enum GuardError {
    /// The credential is missing or invalid.
    Denied(Denial),
    /// The credential could not be verified.
    Failed(Fault),
}

impl From<Denial> for GuardError {
    fn from(denial: Denial) -> Self {
        Self::Denied(denial)
    }
}

impl From<Refusal> for GuardError {
    fn from(refusal: Refusal) -> Self {
        Self::Denied(Denial::Token(refusal))
    }
}

impl From<Fault> for GuardError {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault)
    }
}

/// Waits for a future while the client is there, at most until the deadline or for `max_wait`.
pub(super) async fn wait<N: Network, D: Downstream, T>(
    exchange: &mut Exchange<'_, '_, N, D>,
    awaited: impl Future<Output = T>,
    max_wait: Duration,
) -> Result<T, Fault> {
    let Exchange { env, client_side, .. } = exchange;
    let mut awaited = pin!(awaited);
    let ClientSide { down, deadline, .. } = &mut **client_side;
    env.arm(deadline, Instant::now(), max_wait);
    poll_fn(|cx| match awaited.as_mut().poll(cx) {
        Poll::Ready(outcome) => Poll::Ready(Ok(outcome)),
        Poll::Pending if down.poll_client_gone(cx).is_ready() => Poll::Ready(Err(Fault::ClientGone)),
        Poll::Pending => deadline.poll_passed(cx).map(|()| Err(env.overdue_fault())),
    })
    .await
}

/// Refuses a request whose response is in the buffers, or with the rule's page for its status.
pub(super) fn refuse_credential<'r, N: Network, D>(
    exchange: &mut Exchange<'_, '_, N, D>,
    denial: Denial,
) -> Verdict<'r> {
    exchange.record.fault = Some(Fault::Credential(denial));
    match respond::replacement(&exchange.env, denial.status()) {
        Some(_) => Verdict::Refused(Fault::Credential(denial)),
        None => Verdict::Responded(ResponseScope::Rule),
    }
}
