//! Requests in early data (0-RTT): they came before the handshake of their connection was complete, and could be copies (RFC 8470). A safe
//! request is served if its rule asks nothing of the client, and its endpoint learns that it is one; all others wait until the handshake
//! is complete.

use std::future::poll_fn;
use std::task::Poll;

use fairway_connection::sides::{Downstream, Upgrade};
use fairway_http::{BodySize, Head};
use fairway_net::clock::Instant;

use super::environment::{Environment, Exchange};
use crate::fault::Fault;
use crate::metrics::count;
use crate::network::Network;

/// Whether a request in early data is served at once.
pub(super) fn may_be_served<N: Network>(env: &Environment<'_, N>) -> bool {
    let intake = &env.intake;
    let is_safe = intake.method.is_safe() && intake.body == BodySize::None && intake.upgrade == Upgrade::None;
    is_safe && env.rule().takes_early_data()
}

/// Waits until the handshake is complete.
///
/// # Errors
/// The client has left.
pub(super) async fn wait<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
) -> Result<(), Fault> {
    count(&exchange.env.worker.counters.http3.early_delayed);
    let down = &exchange.client_side.down;
    let waited = poll_fn(|_| match (down.is_gone(), down.is_early()) {
        (true, _) => Poll::Ready(Err(Fault::ClientGone)),
        (false, true) => Poll::Pending,
        (false, false) => Poll::Ready(Ok(())),
    });
    waited.await?;
    // The endpoint is not late for what the handshake took.
    exchange.record.waited_until(Instant::now());
    Ok(())
}

/// Tells the endpoint that the request is in early data: it may answer 425, which goes to the client (RFC 8470 §5).
#[inline]
pub(super) fn mark(down: &impl Downstream, request: &mut Head) {
    if down.is_early() {
        request.set(b"Early-Data", b"1");
    }
}
