//! Sending a request and waiting for its answer's head, both at once: an endpoint may answer before it has read all.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use fairway_connection::sides::{Downstream, HeadRead, Reply, Upgrade, Upstream};
use fairway_connection::websocket;
use fairway_http::{Known, Malformed, Version};
use fairway_net::clock::Instant;
use fairway_net::wire::GATHER;

use super::environment::{ClientSide, Environment, Exchange};
use super::peer_watch::{PeerState, PeerWatch};
use crate::buffers::Buffers;
use crate::fault::Fault;
use crate::metrics::count;
use crate::metrics::record::Micros;
use crate::network::Network;
use crate::request::body::{BodyFault, RequestBody};
use crate::request::intake::Intake;

/// Sends the request that waits in `up`, with its body, and waits for the answer's head.
///
/// Not an `async fn`: that would keep its arguments twice for as long as the endpoint takes.
pub(crate) fn transact<'e, N: Network, D: Downstream, U: Upstream>(
    exchange: &'e mut Exchange<'_, '_, N, D>,
    up: &'e mut U,
    now: Instant,
    patience: Duration,
) -> impl Future<Output = Result<Reply, Fault>> {
    announce(exchange);
    exchange.env.worker.reuse.take_back(&mut exchange.buffers.answer);
    let mut transaction = Transaction {
        up,
        seen: Moved::default(),
        since: now,
        hearing: Hearing::Unasked,
        interim: 0,
        acknowledged_within: patience.into(),
        watch: PeerWatch::default(),
    };
    poll_fn(move |cx| transaction.poll(cx, exchange))
}

/// The client that waits for a word before it sends its body gets it now, once.
pub(super) fn announce<N: Network, D: Downstream>(exchange: &mut Exchange<'_, '_, N, D>) {
    let Exchange { env, client_side, buffers, .. } = exchange;
    if env.intake.expects_continue && buffers.body.take_announcement() {
        env.worker.reuse.lend(&mut buffers.answer);
        buffers.answer.start_response(100);
        client_side.down.send_interim(&buffers.answer);
    }
}

/// The most that the kernel's clock of what it heard may be late by: one of its ticks.
const TICK: Duration = Duration::from_millis(10);

/// Interim answers that may come before the final one.
const INTERIM: u8 = 8;

/// One try with one connection to an endpoint.
struct Transaction<'a, 'b, U> {
    up: &'a mut U,
    /// What the last look saw: a change is progress.
    seen: Moved,
    /// When the last progress was made.
    since: Instant,
    hearing: Hearing,
    /// Interim answers that came.
    interim: u8,
    /// When the endpoint is looked at for the first time, should it not have answered by then.
    acknowledged_within: Micros,
    watch: PeerWatch<'b>,
}

/// Bytes of the request that have moved.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Moved {
    /// Of the body, from the client.
    received: u64,
    /// To the endpoint.
    sent: u64,
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

impl<'b, U: Upstream> Transaction<'_, 'b, U> {
    fn poll<N: Network, D: Downstream>(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange<'_, 'b, N, D>,
    ) -> Poll<Result<Reply, Fault>> {
        let Exchange { env, client_side, buffers, .. } = exchange;
        if self.hearing == Hearing::Unasked {
            self.hearing = match buffers.body.restart(cx, self.up, &buffers.replay) {
                Ok(()) => Hearing::Listens,
                Err(_) => Hearing::Deaf,
            };
        }
        if !buffers.body.is_sent() && self.hearing == Hearing::Listens {
            let Buffers { body, replay, .. } = &mut **buffers;
            match body.poll_send(cx, &mut client_side.down, self.up, replay) {
                Poll::Ready(Err(BodyFault::Downstream(fault))) => return Poll::Ready(Err(fault)),
                Poll::Ready(Err(BodyFault::Upstream)) => self.hearing = Hearing::Deaf,
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
        }
        if let Poll::Ready(reply) = self.poll_head(cx, env, client_side, buffers) {
            return Poll::Ready(match reply {
                Err(fault) if env.is_cut_in_time(fault) => Err(env.overdue()),
                reply => reply,
            });
        }
        if buffers.body.leaves_alone(self.hearing == Hearing::Deaf)
            && client_side.down.poll_gone(cx).is_ready()
        {
            return Poll::Ready(Err(Fault::ClientGone));
        }
        // Before the look at the endpoint, which has to know what was just sent.
        if self.note_progress(env, client_side, &mut buffers.body) {
            return Poll::Ready(Err(Fault::ClientTimeout));
        }
        if let Some(fault) = self.look_at_endpoint(cx, env, &buffers.body) {
            return Poll::Ready(Err(fault));
        }
        ready!(client_side.deadline.poll_passed(cx));
        Poll::Ready(Err(self.lateness(env, &buffers.body)))
    }

    fn poll_head<N: Network, D: Downstream>(
        &mut self,
        cx: &mut Context<'_>,
        env: &Environment<'_, N>,
        client_side: &mut ClientSide<D>,
        buffers: &mut Buffers,
    ) -> Poll<Result<Reply, Fault>> {
        let mut limits = env.worker.options.limits.head();
        limits.head_bytes = limits.head_bytes.max(env.rule().steps().bounds.head);
        loop {
            // An interim answer leaves before the next one is waited for, and a client that takes none stops them.
            if client_side.down.queued() > 0 {
                match client_side.down.poll_flush(cx) {
                    Poll::Ready(Err(_)) => return Poll::Ready(Err(Fault::ClientGone)),
                    Poll::Pending if client_side.down.queued() > GATHER => return Poll::Pending,
                    Poll::Ready(Ok(())) | Poll::Pending => {}
                }
            }
            // Lent for each look: most of them find nothing, and those that wait have no room for an answer.
            env.worker.reuse.lend(&mut buffers.answer);
            let Poll::Ready(read) = self.up.poll_answer(cx, &mut buffers.answer, &limits) else {
                env.worker.reuse.take_back(&mut buffers.answer);
                return Poll::Pending;
            };
            let reply = match read {
                HeadRead::Whole(reply) => reply,
                HeadRead::Closed | HeadRead::Cut => return Poll::Ready(Err(Fault::UpstreamClosed)),
                HeadRead::Unreachable => return Poll::Ready(Err(Fault::UpstreamUnreachable)),
                HeadRead::NoUpgrade => return Poll::Ready(Err(Fault::UpstreamNoWebsocket)),
                HeadRead::Malformed(rule) => return Poll::Ready(Err(Fault::UpstreamMalformed(rule))),
            };
            match buffers.answer.status() {
                101 if may_switch(env) && reply.upgrade == Upgrade::WebSocket => {
                    return Poll::Ready(match is_proven(&env.intake, buffers) {
                        true => Ok(reply),
                        false => Err(Fault::UpstreamMalformed(Malformed::WebsocketHandshake)),
                    });
                }
                // Nobody asked for another protocol, or for this one (RFC 9110 §15.2.2).
                101 => return Poll::Ready(Err(Fault::UpstreamMalformed(Malformed::StatusLine))),
                // An endless head is no answer, whatever its pieces are.
                100 | 102..=199 if self.interim == INTERIM => {
                    return Poll::Ready(Err(Fault::UpstreamMalformed(Malformed::HeadTooLarge)));
                }
                // Fairway has said it itself, if it was to be said.
                100 => self.interim += 1,
                102..=199 => {
                    self.interim += 1;
                    if env.intake.version != Version::Http10 {
                        client_side.down.send_interim(&buffers.answer);
                    }
                }
                _ => return Poll::Ready(Ok(reply)),
            }
        }
    }

    /// When the answer has not come for a while: an endpoint that has not even acknowledged the request in time is given up,
    /// where the request can go to another one; one that has all of it is asked often from now on whether it is
    /// still there.
    fn look_at_endpoint<N: Network>(
        &mut self,
        cx: &mut Context<'_>,
        env: &Environment<'b, N>,
        body: &RequestBody,
    ) -> Option<Fault> {
        // The first poll, which asks for the time, sees no progress.
        let first = || self.since + self.acknowledged_within.duration();
        let mut unheard = Duration::ZERO;
        let owes = || {
            let owes = self.up.owes_acknowledgement();
            unheard = owes.unwrap_or_default();
            owes
        };
        match self.watch.look_at(cx, first, env.worker, owes) {
            PeerState::NotYet => return None,
            PeerState::Present if body.is_sent() && self.up.queued() == 0 => {
                self.up.watch_closely();
                return None;
            }
            PeerState::Present => {}
            PeerState::Silent => {
                let repeatable = env.intake.method.is_idempotent() && body.is_replayable();
                if repeatable && body.is_sent() && self.has_waited_for_acknowledgement(unheard) {
                    count(&env.worker.counters.attempts.unacknowledged);
                    return Some(Fault::UpstreamUnreachable);
                }
            }
            PeerState::Gone => return Some(Fault::UpstreamUnreachable),
        }
        self.watch.go_on();
        None
    }

    /// Whether the endpoint, which owes an acknowledgement and was not heard for so long, has had its time for it. What it owes
    /// may be for something that was only just sent: the last piece of a body, or what another exchange sent on its connection.
    fn has_waited_for_acknowledgement(&self, unheard: Duration) -> bool {
        let within = self.acknowledged_within.duration();
        let is_over = |time: Duration| time.saturating_add(TICK) >= within;
        let sent = self.up.last_written().map_or(self.since, |written| written.max(self.since));
        is_over(unheard) && (is_over(sent.elapsed()) || is_over(self.watch.owed_for()))
    }

    /// Moves the deadline when there was progress. Says whether the client is too slow altogether.
    fn note_progress<N: Network, D: Downstream>(
        &mut self,
        env: &Environment<'_, N>,
        client_side: &mut ClientSide<D>,
        body: &mut RequestBody,
    ) -> bool {
        let seen = Moved { received: body.received(), sent: self.up.sent() };
        let mut too_slow = false;
        if self.seen != seen {
            // The first look comes right after the beginning: the clock was just read.
            if self.seen != Moved::default() {
                let now = Instant::now();
                if self.seen.received != seen.received {
                    too_slow = body.note_wait(now.saturating_duration_since(self.since));
                }
                self.since = now;
            }
            self.seen = seen;
        }
        env.arm(&mut client_side.deadline, self.since, self.patience(env, body));
        too_slow
    }

    /// How long the next step may take.
    fn patience<N: Network>(&self, env: &Environment<'_, N>, body: &RequestBody) -> Duration {
        let timeouts = &env.rule().rule().policy.timeouts;
        if body.is_sent() || self.hearing == Hearing::Deaf {
            timeouts.read
        } else if body.is_whole() || body.is_stopped() || self.up.queued() > 0 {
            timeouts.send
        } else if env.intake.dialect.is_grpc() {
            // A stream, in which nobody need have anything to say.
            timeouts.read
        } else {
            env.worker.options.limits.body_idle
        }
    }

    /// Whose lateness it is.
    fn lateness<N: Network>(&self, env: &Environment<'_, N>, body: &RequestBody) -> Fault {
        if env.is_overdue() {
            env.overdue()
        } else if body.is_reading() {
            Fault::BufferFull
        } else if body.is_sent() || body.is_stopped() || self.hearing == Hearing::Deaf || self.up.queued() > 0
        {
            Fault::UpstreamTimeout
        } else {
            Fault::ClientTimeout
        }
    }
}

/// Whether the endpoint was asked for another protocol: the client wants it, and the rule lets it through.
fn may_switch<N: Network>(env: &Environment<'_, N>) -> bool {
    env.intake.upgrade == Upgrade::WebSocket && env.rule().rule().policy.websocket
}

/// Whether the endpoint proved that it understood the key. The client's own key is the client's to check; a client of HTTP/2 or
/// HTTP/3 has none.
#[cold]
fn is_proven(intake: &Intake, buffers: &Buffers) -> bool {
    if !intake.version.has_streams() {
        return true;
    }
    let key = buffers.request.first(Known::SecWebsocketKey).unwrap_or_default();
    let mut proofs = buffers.answer.all_named(b"Sec-WebSocket-Accept");
    proofs.next() == Some(websocket::accept(key).as_bytes()) && proofs.next().is_none()
}
