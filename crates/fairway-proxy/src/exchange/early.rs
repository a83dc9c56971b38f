//! Requests in early data (0-RTT): they arrived before the handshake was complete and could be replays (RFC 8470). A safe
//! request is served if its rule checks nothing about the client, and its endpoint learns that it is early; all others wait for
//! the handshake.

use std::future::poll_fn;
use std::task::Poll;

use fairway_connection::sides::{Downstream, Upgrade};
use fairway_http::{BodySize, Head};
use fairway_net::clock::Instant;

use super::environment::{Environment, Exchange};
use crate::fault::Fault;
use crate::metrics::increment;
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
/// The client has gone.
pub(super) async fn wait<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
) -> Result<(), Fault> {
    increment(&exchange.env.worker.counters.http3.early_delayed);
    let down = &exchange.client_side.down;
    let waited = poll_fn(|_| match (down.is_client_gone(), down.is_early_data()) {
        (true, _) => Poll::Ready(Err(Fault::ClientGone)),
        (false, true) => Poll::Pending,
        (false, false) => Poll::Ready(Ok(())),
    });
    waited.await?;
    // The time of the handshake does not count as the endpoint's.
    exchange.record.finish_waiting(Instant::now());
    Ok(())
}

/// Tells the endpoint that the request is in early data. It may respond 425, which is passed to the client (RFC 8470 §5).
#[inline]
pub(super) fn mark_early_data(down: &impl Downstream, request: &mut Head) {
    if down.is_early_data() {
        request.set(b"Early-Data", b"1");
    }
}
