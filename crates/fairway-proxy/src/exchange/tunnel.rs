//! Tunnels after `101 Switching Protocols`: copies bytes in both directions, without interpreting them.
//!
//! Nothing passes before the endpoint has switched protocols. What the client sent earlier waits in its residue (robustness:
//! the Upgrade rules).

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use fairway_connection::sides::{BodyStep, Channel, Downstream, Upstream};
use fairway_net::clock::Instant;

use super::environment::ClientSide;
use super::peer_watch::{PeerState, PeerWatch};
use crate::network::Network;
use crate::worker::Worker;

/// The state of one direction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Open,
    Closing,
    Closed,
}

/// Copies until both directions are closed, one fails, nothing moves for `idle`, or the endpoint is gone. Returns the bytes
/// sent to the client.
pub(crate) async fn tunnel<N: Network, D: Downstream, U: Upstream>(
    client_side: &mut ClientSide<D>,
    up: &mut U,
    idle: Duration,
    worker: &Worker<N>,
) -> u64 {
    let ClientSide { down, deadline, .. } = client_side;
    let mut watch = PeerWatch::default();
    down.open_tunnel();
    up.open_tunnel();
    let mut request = Direction::Open;
    let mut response = Direction::Open;
    let began = down.sent();
    let mut progress = None;
    // Bytes that the endpoint has acknowledged.
    let mut delivered = up.sent();
    poll_fn(|cx| {
        let forth = poll_direction(cx, &mut request, &mut *down, up);
        let back = poll_direction(cx, &mut response, up, &mut *down);
        match (forth, back) {
            (Poll::Ready(Err(())), _) | (_, Poll::Ready(Err(()))) => return Poll::Ready(()),
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => return Poll::Ready(()),
            _ => {}
        }
        let moved = Some((down.progress(), up.sent()));
        if progress != moved {
            progress = moved;
            deadline.set(Instant::now(), idle);
        }
        // The watch runs only while bytes to the endpoint are unacknowledged, so that an idle tunnel is not woken.
        if up.sent() != delivered {
            match watch.check(cx, PeerWatch::first_check_at, worker, up) {
                PeerState::NotYet => {}
                PeerState::Silent => watch.schedule_next_check(),
                PeerState::Gone => return Poll::Ready(()),
                PeerState::Present => {
                    delivered = up.sent();
                    watch.reset();
                }
            }
        }
        deadline.poll_passed(cx)
    })
    .await;
    down.sent() - began
}

fn poll_direction<A: Channel, B: Channel>(
    cx: &mut Context<'_>,
    state: &mut Direction,
    from: &mut A,
    to: &mut B,
) -> Poll<Result<(), ()>> {
    loop {
        let room = match *state {
            Direction::Open => ready!(to.poll_room(cx)).map_err(|_| ())?,
            Direction::Closing | Direction::Closed => {
                ready!(to.poll_flush(cx)).map_err(|_| ())?;
                0
            }
        };
        match state {
            Direction::Closed => return Poll::Ready(Ok(())),
            Direction::Closing => {
                ready!(to.poll_close(cx)).map_err(|_| ())?;
                *state = Direction::Closed;
            }
            Direction::Open => match from.poll_body(cx, room, |cx, bytes| to.send_data(cx, bytes)) {
                Poll::Ready(Ok(BodyStep::More)) => {}
                Poll::Ready(Ok(BodyStep::End)) => *state = Direction::Closing,
                Poll::Ready(Err(_)) => return Poll::Ready(Err(())),
                Poll::Pending => {
                    if let Poll::Ready(Err(_)) = to.poll_flush(cx) {
                        return Poll::Ready(Err(()));
                    }
                    return Poll::Pending;
                }
            },
        }
    }
}
