//! Sending a request and waiting for its answer's head, both at once: an endpoint may answer before it has read all.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use fairway_message::{Malformed, Version};

use super::body::{BodyFault, RequestBody};
use super::intake::Expectation;
use super::record::Micros;
use super::sides::{Downstream, HeadRead, Reply, Upgrade, Upstream};
use super::vigil::{Sight, Vigil};
use super::{Caller, Scene, Turn};
use crate::clock::Instant;
use crate::downstream::head_limits;
use crate::fault::Fault;
use crate::metrics::count;
use crate::transport::Network;
use crate::wire::GATHER;
use crate::worker::Desk;

/// Sends the request that waits in `up`, with its body, and waits for the answer's head.
///
/// Not an `async fn`: that would keep its arguments twice for as long as the endpoint takes.
pub(crate) fn transact<'e, N: Network, D: Downstream, U: Upstream>(
    turn: &'e mut Turn<'_, '_, N, D>,
    up: &'e mut U,
    (now, patience): (Instant, Duration),
) -> impl Future<Output = Result<Reply, Fault>> {
    let Turn { scene, caller, desk, .. } = turn;
    let (hearing, acknowledged_within, vigil) = (Hearing::Unasked, patience.into(), Vigil::default());
    let mut transaction =
        Transaction { scene, up, seen: (0, 0), since: now, hearing, acknowledged_within, vigil };
    desk.answer.clear();
    transaction.announce(caller, desk);
    poll_fn(move |cx| transaction.poll(cx, caller, desk))
}

/// One try with one connection to an endpoint.
struct Transaction<'a, 'b, N: Network, U> {
    scene: &'a Scene<'b, N>,
    up: &'a mut U,
    /// What the last look saw: a change is progress.
    seen: (u64, u64),
    /// When the last progress was made.
    since: Instant,
    hearing: Hearing,
    /// When the endpoint is looked at for the first time, should it not have answered by then.
    acknowledged_within: Micros,
    vigil: Vigil<'b>,
}

/// Whether the endpoint takes the request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hearing {
    /// This attempt has not begun.
    Unasked,
    Listens,
    /// It takes no more bytes; its answer may still come.
    Deaf,
}

impl<N: Network, U: Upstream> Transaction<'_, '_, N, U> {
    /// The client that waits for a word before it sends its body gets it now, once.
    fn announce<D: Downstream>(&mut self, caller: &mut Caller<'_, D>, desk: &mut Desk) {
        if self.scene.intake.expectation == Expectation::Continue && desk.body.take_announcement() {
            desk.answer.start_response(100);
            caller.down.send_interim(&desk.answer);
        }
    }

    fn poll<D: Downstream>(
        &mut self,
        cx: &mut Context<'_>,
        caller: &mut Caller<'_, D>,
        desk: &mut Desk,
    ) -> Poll<Result<Reply, Fault>> {
        if self.hearing == Hearing::Unasked {
            self.hearing = match desk.body.restart(cx, self.up, &desk.replay) {
                Ok(()) => Hearing::Listens,
                Err(_) => Hearing::Deaf,
            };
        }
        if !desk.body.is_sent() && self.hearing == Hearing::Listens {
            let Desk { body, replay, .. } = &mut *desk;
            match body.poll_send(cx, caller.down, self.up, replay) {
                Poll::Ready(Err(BodyFault::Downstream(fault))) => return Poll::Ready(Err(fault)),
                Poll::Ready(Err(BodyFault::Upstream)) => self.hearing = Hearing::Deaf,
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
        }
        if let Poll::Ready(reply) = self.poll_head(cx, caller, desk) {
            return Poll::Ready(reply);
        }
        if desk.body.leaves_alone(self.up, self.hearing == Hearing::Deaf)
            && caller.down.poll_gone(cx).is_ready()
        {
            return Poll::Ready(Err(Fault::ClientGone));
        }
        if let Some(fault) = self.look_at_endpoint(cx, &desk.body) {
            return Poll::Ready(Err(fault));
        }
        if self.note_progress(caller, &mut desk.body) {
            return Poll::Ready(Err(Fault::ClientTimeout));
        }
        ready!(caller.deadline.poll_passed(cx));
        Poll::Ready(Err(self.lateness(&desk.body)))
    }

    fn poll_head<D: Downstream>(
        &mut self,
        cx: &mut Context<'_>,
        caller: &mut Caller<'_, D>,
        desk: &mut Desk,
    ) -> Poll<Result<Reply, Fault>> {
        let limits = head_limits(&self.scene.worker.options.limits);
        loop {
            // An interim answer leaves before the next one is waited for, and a client that takes none stops them.
            if caller.down.queued() > 0 {
                match caller.down.poll_flush(cx) {
                    Poll::Ready(Err(_)) => return Poll::Ready(Err(Fault::ClientGone)),
                    Poll::Pending if caller.down.queued() > GATHER => return Poll::Pending,
                    Poll::Ready(Ok(())) | Poll::Pending => {}
                }
            }
            let reply = match ready!(self.up.poll_answer(cx, &mut desk.answer, &limits)) {
                HeadRead::Whole(reply) => reply,
                HeadRead::Closed | HeadRead::Cut => return Poll::Ready(Err(Fault::UpstreamClosed)),
                HeadRead::Unreachable => return Poll::Ready(Err(Fault::UpstreamUnreachable)),
                HeadRead::Malformed(rule) => return Poll::Ready(Err(Fault::UpstreamMalformed(rule))),
            };
            match desk.answer.status() {
                101 if self.may_switch() && reply.upgrade == Upgrade::WebSocket => {
                    return Poll::Ready(Ok(reply));
                }
                // Nobody asked for another protocol, or for this one (RFC 9110 §15.2.2).
                101 => return Poll::Ready(Err(Fault::UpstreamMalformed(Malformed::StatusLine))),
                // Fairway has said it itself, if it was to be said.
                100 => {}
                102..=199 if self.scene.intake.version == Version::Http11 => {
                    caller.down.send_interim(&desk.answer);
                }
                102..=199 => {}
                _ => return Poll::Ready(Ok(reply)),
            }
        }
    }

    /// When the answer has not come for a while: an endpoint that has not even acknowledged the request is given up, at
    /// once where the request can go to another one; one that has all of it is asked often from now on whether it is
    /// still there.
    fn look_at_endpoint(&mut self, cx: &mut Context<'_>, body: &RequestBody) -> Option<Fault> {
        // The first poll, which asks for the time, comes before any progress.
        let first = || self.since + self.acknowledged_within.duration();
        match self.vigil.look(cx, first, self.scene.worker, self.up) {
            Sight::NotYet => return None,
            Sight::Present if body.is_sent() && self.up.queued() == 0 => {
                self.up.watch_closely();
                return None;
            }
            Sight::Present => {}
            Sight::Silent => {
                let repeatable = self.scene.intake.method.is_idempotent() && body.is_replayable();
                if repeatable && body.is_sent() {
                    count(&self.scene.worker.counters.attempts.unacknowledged);
                    return Some(Fault::UpstreamUnreachable);
                }
            }
            Sight::Gone => return Some(Fault::UpstreamUnreachable),
        }
        self.vigil.go_on();
        None
    }

    /// Whether the endpoint was asked for another protocol: the client wants it, and the rule lets it through.
    fn may_switch(&self) -> bool {
        self.scene.intake.upgrade == Upgrade::WebSocket && self.scene.rule.rule().policy.websocket
    }

    /// Moves the deadline when there was progress. Says whether the client is too slow altogether.
    fn note_progress<D: Downstream>(&mut self, caller: &mut Caller<'_, D>, body: &mut RequestBody) -> bool {
        let seen = (body.received(), self.up.sent());
        let mut too_slow = false;
        if self.seen != seen {
            // The first look comes right after the beginning: the clock was just read.
            if self.seen != (0, 0) {
                let now = Instant::now();
                if self.seen.0 != seen.0 {
                    too_slow = body.note_wait(now.saturating_duration_since(self.since));
                }
                self.since = now;
            }
            self.seen = seen;
        }
        caller.deadline.set(self.since, self.patience(body));
        too_slow
    }

    /// How long the next step may take.
    fn patience(&self, body: &RequestBody) -> Duration {
        let timeouts = &self.scene.rule.rule().policy.timeouts;
        if body.is_sent() || self.hearing == Hearing::Deaf {
            timeouts.read
        } else if self.up.queued() > 0 {
            timeouts.send
        } else {
            self.scene.worker.options.limits.body_idle
        }
    }

    /// Whose lateness it is.
    fn lateness(&self, body: &RequestBody) -> Fault {
        if body.is_sent() || self.hearing == Hearing::Deaf || self.up.queued() > 0 {
            Fault::UpstreamTimeout
        } else {
            Fault::ClientTimeout
        }
    }
}
