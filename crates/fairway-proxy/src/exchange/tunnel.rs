//! After `101 Switching Protocols`: bytes in both directions, whatever they mean.
//!
//! Nothing passes before the endpoint has switched, and what the client sent too early waits in its residue until now
//! (robustness: the Upgrade rules).

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::Connection;
use super::vigil::{Sight, Vigil};
use crate::clock::Instant;
use crate::h1::H1;
use crate::transport::Transport;
use crate::wire::{Input, Wire, Workspace};

/// What waits in one direction before the other end must take it.
const HIGH: usize = 64 * 1024;

/// How far one direction is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Open,
    Closing,
    Closed,
}

/// Pumps until both directions are closed, one fails, nothing moves for `idle`, or the endpoint is gone. Returns the
/// bytes that went to the client.
pub(crate) async fn tunnel<S: Transport, T: Transport>(
    connection: &mut Connection<S>,
    up: &mut H1<T>,
    (idle, mut vigil): (Duration, Vigil<'_>),
) -> u64 {
    let Connection { h1, deadline, .. } = connection;
    let workspace = Rc::clone(h1.workspace());
    let mut request = Direction::Open;
    let mut answer = Direction::Open;
    let began = h1.wire.sent();
    let mut seen = None;
    // Bytes that the endpoint was seen to have.
    let mut delivered = up.wire.sent();
    poll_fn(|cx| {
        let forth = poll_direction(cx, &workspace, &mut request, (&mut h1.wire, &mut up.wire));
        let back = poll_direction(cx, &workspace, &mut answer, (&mut up.wire, &mut h1.wire));
        match (forth, back) {
            (Poll::Ready(Err(())), _) | (_, Poll::Ready(Err(()))) => return Poll::Ready(()),
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => return Poll::Ready(()),
            _ => {}
        }
        let moved = Some((h1.wire.sent(), up.wire.sent()));
        if seen != moved {
            seen = moved;
            deadline.set(Instant::now(), idle);
        }
        // A tunnel in which nothing is on its way to the endpoint is not woken.
        if up.wire.sent() != delivered {
            match vigil.look(cx, Vigil::soon, up) {
                Sight::NotYet => {}
                Sight::Silent => vigil.go_on(),
                Sight::Gone => return Poll::Ready(()),
                Sight::Present => {
                    delivered = up.wire.sent();
                    vigil.rest();
                }
            }
        }
        deadline.poll_passed(cx)
    })
    .await;
    h1.wire.sent() - began
}

fn poll_direction<A: Transport, B: Transport>(
    cx: &mut Context<'_>,
    workspace: &Workspace,
    state: &mut Direction,
    (from, to): (&mut Wire<A>, &mut Wire<B>),
) -> Poll<Result<(), ()>> {
    loop {
        if to.queued() > HIGH || *state != Direction::Open {
            ready!(to.poll_flush(cx)).map_err(|_| ())?;
        }
        match state {
            Direction::Closed => return Poll::Ready(Ok(())),
            Direction::Closing => {
                ready!(to.poll_shutdown(cx)).map_err(|_| ())?;
                *state = Direction::Closed;
            }
            Direction::Open => {
                let input =
                    from.poll_input(cx, workspace, |cx, bytes| (bytes.len(), to.send(cx, workspace, bytes)));
                match input {
                    Poll::Ready(Ok(Input::Taken(Ok(())))) => {}
                    Poll::Ready(Ok(Input::Eof)) => *state = Direction::Closing,
                    Poll::Ready(_) => return Poll::Ready(Err(())),
                    Poll::Pending => {
                        if let Poll::Ready(Err(_)) = to.poll_flush(cx) {
                            return Poll::Ready(Err(()));
                        }
                        return Poll::Pending;
                    }
                }
            }
        }
    }
}
