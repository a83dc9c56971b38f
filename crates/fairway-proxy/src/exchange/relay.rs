//! The answer's body on its way to the client, while the rest of the request may still be on its way to the endpoint.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::sides::{BodyStep, Channel, Failure, Upstream};
use super::{Connection, Scene, Turn};
use crate::clock::Instant;
use crate::fault::Fault;
use crate::transport::{Network, Transport};
use crate::wire::GATHER;

/// How far the answer is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Flowing,
    Finished,
}

/// Relays to the end of the answer, whose head came at `began`.
pub(crate) async fn relay<N: Network, S: Transport, U: Upstream>(
    turn: &mut Turn<'_, '_, N, S>,
    up: &mut U,
    began: Instant,
) -> Result<(), Fault> {
    let Turn { scene, connection, desk, record, body } = turn;
    let mut flow = Flow { stage: Stage::Flowing, moved: 0, seen: None, began };
    let mut deaf = false;
    let answered = poll_fn(|cx| {
        if !body.is_sent() && !deaf {
            // The endpoint may refuse the rest; its answer counts all the same.
            deaf =
                matches!(body.poll_send(cx, &mut connection.h1, up, &mut desk.replay), Poll::Ready(Err(_)));
        }
        if let Poll::Ready(done) = flow.poll(cx, up, &mut connection.h1) {
            return Poll::Ready(done);
        }
        flow.limit(scene, connection);
        ready!(connection.deadline.poll_passed(cx));
        Poll::Ready(Err(if connection.h1.queued() > 0 {
            Fault::ClientStalled
        } else {
            Fault::UpstreamTimeout
        }))
    })
    .await;
    record.body_bytes = flow.moved;
    answered
}

struct Flow {
    stage: Stage,
    moved: u64,
    /// What the last look saw: a change is progress.
    seen: Option<(u64, u64)>,
    began: Instant,
}

impl Flow {
    fn poll<D: Channel, U: Channel>(
        &mut self,
        cx: &mut Context<'_>,
        up: &mut U,
        down: &mut D,
    ) -> Poll<Result<(), Fault>> {
        loop {
            if self.stage == Stage::Finished {
                ready!(down.poll_flush(cx)).map_err(|_| Fault::ClientGone)?;
                return Poll::Ready(Ok(()));
            }
            if down.queued() > GATHER {
                ready!(down.poll_flush(cx)).map_err(|_| Fault::ClientGone)?;
            }
            let moved = &mut self.moved;
            let step = up.poll_body(cx, |cx, data| {
                *moved += data.len() as u64;
                down.send_data(cx, data).map_err(|_| Failure::Refused)
            });
            match step {
                Poll::Ready(Ok(BodyStep::More)) => {}
                Poll::Ready(Ok(BodyStep::End)) => {
                    down.finish(up.trailers()).map_err(|_| Fault::UpstreamTruncated)?;
                    self.stage = Stage::Finished;
                }
                Poll::Ready(Err(Failure::Refused)) => return Poll::Ready(Err(Fault::ClientGone)),
                Poll::Ready(Err(Failure::Closed)) => return Poll::Ready(Err(Fault::UpstreamTruncated)),
                Poll::Ready(Err(Failure::Malformed(rule))) => {
                    return Poll::Ready(Err(Fault::UpstreamMalformed(rule)));
                }
                Poll::Pending => {
                    // What is there leaves before more is waited for.
                    if let Poll::Ready(Err(_)) = down.poll_flush(cx) {
                        return Poll::Ready(Err(Fault::ClientGone));
                    }
                    return Poll::Pending;
                }
            }
        }
    }

    /// Moves the deadline when there was progress.
    fn limit<N: Network, S: Transport>(&mut self, scene: &Scene<'_, N>, connection: &mut Connection<S>) {
        let seen = Some((self.moved, connection.h1.wire.sent()));
        if self.seen != seen {
            // The first look comes right after the head: the clock was just read.
            let now = if self.seen.is_none() { self.began } else { Instant::now() };
            self.seen = seen;
            connection.deadline.set(now, self.patience(scene, connection));
        }
    }

    fn patience<N: Network, S: Transport>(
        &self,
        scene: &Scene<'_, N>,
        connection: &Connection<S>,
    ) -> Duration {
        if connection.h1.queued() > 0 {
            scene.adopted.settings().downstream.write_timeout
        } else {
            scene.rule.rule().policy.timeouts.read
        }
    }
}
