//! How a guard that waits for somebody ends without letting the request pass, and the waiting itself.

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
use crate::filter::{Made, Verdict};
use crate::network::Network;

/// Why a credential lets nobody in.
pub(super) enum Refused {
    /// Something is wrong with it, or there is none.
    Denied(Denial),
    /// It cannot be verified.
    Failed(Fault),
}

impl From<Denial> for Refused {
    fn from(denial: Denial) -> Self {
        Self::Denied(denial)
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self::Denied(Denial::Token(refusal))
    }
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault)
    }
}

/// Waits for something for as long as the client, its request's time and `patience` last.
pub(super) async fn wait<N: Network, D: Downstream, T>(
    exchange: &mut Exchange<'_, '_, N, D>,
    awaited: impl Future<Output = T>,
    patience: Duration,
) -> Result<T, Fault> {
    let Exchange { env, client_side, .. } = exchange;
    let mut awaited = pin!(awaited);
    let ClientSide { down, deadline, .. } = &mut **client_side;
    env.arm(deadline, Instant::now(), patience);
    poll_fn(|cx| match awaited.as_mut().poll(cx) {
        Poll::Ready(outcome) => Poll::Ready(Ok(outcome)),
        Poll::Pending if down.poll_gone(cx).is_ready() => Poll::Ready(Err(Fault::ClientGone)),
        Poll::Pending => deadline.poll_passed(cx).map(|()| Err(env.overdue())),
    })
    .await
}

/// The answer that keeps the request out stands in the buffers.
pub(super) fn keep_out<'r, N: Network, D>(
    exchange: &mut Exchange<'_, '_, N, D>,
    denial: Denial,
) -> Verdict<'r> {
    exchange.record.fault = Some(Fault::Credential(denial));
    match respond::replacing(&exchange.env, denial.status()) {
        Some(_) => Verdict::Refused(Fault::Credential(denial)),
        None => Verdict::Answered(Made::ByRule),
    }
}
