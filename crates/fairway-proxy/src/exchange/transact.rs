//! Sends a request and waits for the response head at the same time, because an endpoint may respond before it has read the
//! whole body.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use fairway_connection::sides::{Downstream, HeadRead, ResponseMeta, Upgrade, Upstream};
use fairway_connection::websocket;
use fairway_http::{Known, Malformed, Version};
use fairway_net::clock::Instant;
use fairway_net::wire::GATHER;

use super::environment::{ClientSide, Environment, Exchange};
use super::peer_watch::{PeerState, PeerWatch};
use crate::buffers::Buffers;
use crate::fault::Fault;
use crate::metrics::increment;
use crate::metrics::record::Microseconds;
use crate::network::Network;
use crate::request::body::{BodyFault, RequestBody};
use crate::request::validation::Intake;

/// Sends the request that is queued in `up`, with its body, and waits for the response head.
///
/// Not an `async fn`: its future would hold the arguments twice while the endpoint works.
pub(crate) fn transact<'e, N: Network, D: Downstream, U: Upstream>(
    exchange: &'e mut Exchange<'_, '_, N, D>,
    up: &'e mut U,
    now: Instant,
    acknowledgement_timeout: Duration,
) -> impl Future<Output = Result<ResponseMeta, Fault>> {
    send_continue(exchange);
    exchange.env.worker.reuse.reclaim(&mut exchange.buffers.response);
    let mut transaction = Transaction {
        up,
        last_moved: Moved::default(),
        since: now,
        endpoint_reading: EndpointReading::NotStarted,
        interim: 0,
        acknowledged_within: acknowledgement_timeout.into(),
        watch: PeerWatch::default(),
    };
    poll_fn(move |cx| transaction.poll(cx, exchange))
}

/// Sends `100 Continue` once, if the client waits for it.
pub(super) fn send_continue<N: Network, D: Downstream>(exchange: &mut Exchange<'_, '_, N, D>) {
    let Exchange { env, client_side, buffers, .. } = exchange;
    if env.intake.expects_continue && buffers.body.take_continue() {
        env.worker.reuse.lend(&mut buffers.response);
        buffers.response.start_response(100);
        client_side.down.send_interim(&buffers.response);
    }
}

/// The resolution of the kernel's time of the last received packet: one of its ticks.
const KERNEL_TICK: Duration = Duration::from_millis(10);

/// Interim responses that may precede the final one.
const MAX_INTERIM_RESPONSES: u8 = 8;

/// The request and response of one attempt on one connection.
struct Transaction<'a, 'b, U> {
    up: &'a mut U,
    /// The counters at the last poll: a change is progress.
    last_moved: Moved,
    /// When the last progress was made.
    since: Instant,
    endpoint_reading: EndpointReading,
    /// Interim responses received.
    interim: u8,
    /// When the endpoint is checked for the first time, if it has not responded by then.
    acknowledged_within: Microseconds,
    watch: PeerWatch<'b>,
}

/// Bytes of the request that have moved.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Moved {
    /// Body bytes received from the client.
    received: u64,
    /// Bytes sent to the endpoint.
    sent: u64,
}

/// Whether the endpoint reads the request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EndpointReading {
    /// Nothing was sent yet.
    NotStarted,
    Reading,
    /// It reads no more; its response may still come.
    Refusing,
}

impl<'b, U: Upstream> Transaction<'_, 'b, U> {
    fn poll<N: Network, D: Downstream>(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange<'_, 'b, N, D>,
    ) -> Poll<Result<ResponseMeta, Fault>> {
        let Exchange { env, client_side, buffers, .. } = exchange;
        if self.endpoint_reading == EndpointReading::NotStarted {
            self.endpoint_reading = match buffers.body.restart(cx, self.up, &buffers.replay) {
                Ok(()) => EndpointReading::Reading,
                Err(_) => EndpointReading::Refusing,
            };
        }
        if !buffers.body.is_sent() && self.endpoint_reading == EndpointReading::Reading {
            let Buffers { body, replay, .. } = &mut **buffers;
            match body.poll_send(cx, &mut client_side.down, self.up, replay) {
                Poll::Ready(Err(BodyFault::Downstream(fault))) => return Poll::Ready(Err(fault)),
                Poll::Ready(Err(BodyFault::Upstream)) => self.endpoint_reading = EndpointReading::Refusing,
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
        }
        if let Poll::Ready(reply) = self.poll_head(cx, env, client_side, buffers) {
            return Poll::Ready(match reply {
                Err(fault) if env.is_cut_by_deadline(fault) => Err(env.overdue_fault()),
                reply => reply,
            });
        }
        if buffers.body.is_client_paused(self.endpoint_reading == EndpointReading::Refusing)
            && client_side.down.poll_client_gone(cx).is_ready()
        {
            return Poll::Ready(Err(Fault::ClientGone));
        }
        // Before the check of the endpoint, which must know what was just sent.
        if self.record_progress(env, client_side, &mut buffers.body) {
            return Poll::Ready(Err(Fault::ClientTimeout));
        }
        if let Some(fault) = self.watch_endpoint(cx, env, &buffers.body) {
            return Poll::Ready(Err(fault));
        }
        ready!(client_side.deadline.poll_passed(cx));
        Poll::Ready(Err(self.timeout_fault(env, &buffers.body)))
    }

    fn poll_head<N: Network, D: Downstream>(
        &mut self,
        cx: &mut Context<'_>,
        env: &Environment<'_, N>,
        client_side: &mut ClientSide<D>,
        buffers: &mut Buffers,
    ) -> Poll<Result<ResponseMeta, Fault>> {
        let mut limits = env.worker.options.limits.head();
        limits.head_bytes = limits.head_bytes.max(env.rule().steps().bounds.head);
        loop {
            // An interim response is flushed before the next one is read; a client that does not read them stops them.
            if client_side.down.queued() > 0 {
                match client_side.down.poll_flush(cx) {
                    Poll::Ready(Err(_)) => return Poll::Ready(Err(Fault::ClientGone)),
                    Poll::Pending if client_side.down.queued() > GATHER => return Poll::Pending,
                    Poll::Ready(Ok(())) | Poll::Pending => {}
                }
            }
            // Lent for each poll: most polls find nothing, and a waiting exchange holds no room for a head.
            env.worker.reuse.lend(&mut buffers.response);
            let Poll::Ready(read) = self.up.poll_response(cx, &mut buffers.response, &limits) else {
                env.worker.reuse.reclaim(&mut buffers.response);
                return Poll::Pending;
            };
            let reply = match read {
                HeadRead::Whole(reply) => reply,
                HeadRead::Closed | HeadRead::Cut => return Poll::Ready(Err(Fault::UpstreamClosed)),
                HeadRead::Unreachable => return Poll::Ready(Err(Fault::UpstreamUnreachable)),
                HeadRead::NoUpgrade => return Poll::Ready(Err(Fault::UpstreamNoWebsocket)),
                HeadRead::Malformed(rule) => return Poll::Ready(Err(Fault::UpstreamMalformed(rule))),
            };
            match buffers.response.status() {
                101 if may_switch(env) && reply.upgrade == Upgrade::WebSocket => {
                    return Poll::Ready(match has_valid_accept_key(&env.intake, buffers) {
                        true => Ok(reply),
                        false => Err(Fault::UpstreamMalformed(Malformed::WebsocketHandshake)),
                    });
                }
                // No upgrade was requested, or not to this protocol (RFC 9110 §15.2.2).
                101 => return Poll::Ready(Err(Fault::UpstreamMalformed(Malformed::StatusLine))),
                // Too many interim responses: an endless head.
                100 | 102..=199 if self.interim == MAX_INTERIM_RESPONSES => {
                    return Poll::Ready(Err(Fault::UpstreamMalformed(Malformed::HeadTooLarge)));
                }
                // Fairway has already sent its own 100, if the client waited for one.
                100 => self.interim += 1,
                102..=199 => {
                    self.interim += 1;
                    if env.intake.version != Version::Http10 {
                        client_side.down.send_interim(&buffers.response);
                    }
                }
                _ => return Poll::Ready(Ok(reply)),
            }
        }
    }

    /// Checks the endpoint while its response is late. If it has not even acknowledged the request in time, it is given up, if
    /// the request can go to another one. If it has the whole request, it is checked frequently from now on.
    fn watch_endpoint<N: Network>(
        &mut self,
        cx: &mut Context<'_>,
        env: &Environment<'b, N>,
        body: &RequestBody,
    ) -> Option<Fault> {
        // At the first poll, which needs the time, `since` is still the start.
        let first = || self.since + self.acknowledged_within.duration();
        let mut unheard = Duration::ZERO;
        let owes = || {
            let owes = self.up.unacknowledged_for();
            unheard = owes.unwrap_or_default();
            owes
        };
        match self.watch.check_with(cx, first, env.worker, owes) {
            PeerState::NotYet => return None,
            PeerState::Present if body.is_sent() && self.up.queued() == 0 => {
                self.up.shorten_keepalive();
                return None;
            }
            PeerState::Present => {}
            PeerState::Silent => {
                let repeatable = env.intake.method.is_idempotent() && body.is_replayable();
                if repeatable && body.is_sent() && self.has_waited_for_acknowledgement(unheard) {
                    increment(&env.worker.counters.attempts.unacknowledged);
                    return Some(Fault::UpstreamUnreachable);
                }
            }
            PeerState::Gone => return Some(Fault::UpstreamUnreachable),
        }
        self.watch.schedule_next_check();
        None
    }

    /// Whether the endpoint had enough time to acknowledge: it owes an acknowledgement and has been silent for `unheard`. What
    /// it owes may be for data that was only just sent: the last part of a body, or data of another exchange on the connection.
    fn has_waited_for_acknowledgement(&self, unheard: Duration) -> bool {
        let within = self.acknowledged_within.duration();
        let is_over = |time: Duration| time.saturating_add(KERNEL_TICK) >= within;
        let sent = self.up.last_written().map_or(self.since, |written| written.max(self.since));
        is_over(unheard) && (is_over(sent.elapsed()) || is_over(self.watch.unacknowledged_for()))
    }

    /// Extends the deadline on progress. Returns whether the client is below the minimum rate.
    fn record_progress<N: Network, D: Downstream>(
        &mut self,
        env: &Environment<'_, N>,
        client_side: &mut ClientSide<D>,
        body: &mut RequestBody,
    ) -> bool {
        let progress = Moved { received: body.received(), sent: self.up.sent() };
        let mut too_slow = false;
        if self.last_moved != progress {
            // The first poll comes right after the start: the clock was just read.
            if self.last_moved != Moved::default() {
                let now = Instant::now();
                if self.last_moved.received != progress.received {
                    too_slow = body.record_wait(now.saturating_duration_since(self.since));
                }
                self.since = now;
            }
            self.last_moved = progress;
        }
        env.arm(&mut client_side.deadline, self.since, self.step_timeout(env, body));
        too_slow
    }

    /// The timeout of the next step.
    fn step_timeout<N: Network>(&self, env: &Environment<'_, N>, body: &RequestBody) -> Duration {
        let timeouts = &env.rule().rule().policy.timeouts;
        if body.is_sent() || self.endpoint_reading == EndpointReading::Refusing {
            timeouts.read
        } else if body.is_complete() || body.is_blocked() || self.up.queued() > 0 {
            timeouts.send
        } else if env.intake.dialect.is_grpc() {
            // A stream may be silent.
            timeouts.read
        } else {
            env.worker.options.limits.body_idle
        }
    }

    /// The fault of the side that is late.
    fn timeout_fault<N: Network>(&self, env: &Environment<'_, N>, body: &RequestBody) -> Fault {
        if env.is_overdue() {
            env.overdue_fault()
        } else if body.is_loading() {
            Fault::BufferFull
        } else if body.is_sent()
            || body.is_blocked()
            || self.endpoint_reading == EndpointReading::Refusing
            || self.up.queued() > 0
        {
            Fault::UpstreamTimeout
        } else {
            Fault::ClientTimeout
        }
    }
}

/// Whether the endpoint was asked to upgrade: the client wants it, and the rule allows it.
fn may_switch<N: Network>(env: &Environment<'_, N>) -> bool {
    env.intake.upgrade == Upgrade::WebSocket && env.rule().rule().policy.websocket
}

/// Whether the endpoint's `Sec-WebSocket-Accept` matches the key. HTTP/1 clients check their own key; for clients of HTTP/2 and
/// HTTP/3 Fairway generated it.
#[cold]
fn has_valid_accept_key(intake: &Intake, buffers: &Buffers) -> bool {
    if !intake.version.has_streams() {
        return true;
    }
    let key = buffers.request.first(Known::SecWebsocketKey).unwrap_or_default();
    let mut proofs = buffers.response.all_named(b"Sec-WebSocket-Accept");
    proofs.next() == Some(websocket::accept(key).as_bytes()) && proofs.next().is_none()
}
