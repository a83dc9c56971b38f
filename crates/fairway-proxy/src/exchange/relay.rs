//! Relays the response body to the client, while the rest of the request may still be sent to the endpoint.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use fairway_connection::sides::{BodyStep, Channel, Downstream, Failure, Persistence, Upstream};
use fairway_http::grpc::Encoder;
use fairway_model::ResponseRate;
use fairway_net::clock::Instant;
use fairway_net::pace::MinimumRate;
use fairway_net::yielding::go_on_later;

use super::environment::{ClientSide, Environment, Exchange};
use super::read_ahead::ReadAhead;
use super::web::Outlet;
use crate::body_steps::BodySteps;
use crate::buffers::Buffers;
use crate::compression::is_invalidated;
use crate::fault::Fault;
use crate::grpc::status_of;
use crate::network::Network;
use crate::worker::EndpointHop;

/// Pieces that are relayed before other exchanges run. Most responses have fewer.
const MAX_PIECES_PER_TURN: usize = 2;

/// How far the response is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Flowing,
    Finished,
}

/// What a response body passes on its way to the client; most pass nothing.
pub(crate) struct ResponsePipeline {
    /// The buffer for data that arrives faster than the client reads.
    pub(super) ahead: Option<Box<ReadAhead>>,
    pub(crate) steps: Option<Box<BodySteps>>,
    pub(crate) encoder: Option<Box<Encoder>>,
}

/// How far a response was relayed.
pub(crate) enum Relayed {
    /// To its end: the planned persistence of the client's connection, and whether the endpoint's can be reused.
    Complete(Persistence, bool),
    /// The endpoint has sent everything, but the client has not read everything: whether the endpoint's connection can be
    /// reused, and the rest to relay without it.
    Buffered(bool, Box<Relay>),
}

/// A response body that is being relayed.
pub(crate) struct Relay {
    flow: Flow,
    through: ResponsePipeline,
    /// Whether the endpoint reads no more of the request.
    endpoint_refuses: bool,
    planned_persistence: Persistence,
}

/// Relays a response whose head arrived at `began`, to its end or until the endpoint is no longer needed.
///
/// Not an `async fn`: its future would hold the arguments twice for the whole response.
pub(crate) fn relay<'e, N: Network, D: Downstream, U: Upstream>(
    exchange: &'e mut Exchange<'_, '_, N, D>,
    up: &'e mut U,
    began: Instant,
    through: ResponsePipeline,
    planned: Persistence,
) -> impl Future<Output = Result<Relayed, BrokenResponse>> {
    let flow = Flow::new(began, exchange.env.worker.options.limits.response_rate);
    let mut relay = Some(Relay { flow, through, endpoint_refuses: false, planned_persistence: planned });
    poll_fn(move |cx| {
        let Some(this) = &mut relay else { return Poll::Pending };
        if let Poll::Ready(ended) = this.poll(cx, exchange, Some(&mut *up)) {
            return Poll::Ready(ended.map(|reusable| Relayed::Complete(this.planned_persistence, reusable)));
        }
        let is_held = this.through.ahead.as_ref().is_some_and(|ahead| ahead.has_ended());
        if is_held && exchange.buffers.body.is_sent() {
            let reusable = up.is_reusable();
            return relay
                .take()
                .map_or(Poll::Pending, |rest| Poll::Ready(Ok(Relayed::Buffered(reusable, Box::new(rest)))));
        }
        Poll::Pending
    })
}

/// Relays the buffered rest of a response, without its endpoint. Returns the persistence of the client's connection.
pub(crate) async fn relay_rest<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    mut rest: Box<Relay>,
) -> Result<Persistence, BrokenResponse> {
    poll_fn(|cx| rest.poll(cx, exchange, None::<&mut EndpointHop<N>>)).await?;
    Ok(rest.planned_persistence)
}

impl Relay {
    /// Ready at the end, with whether the endpoint's connection can be reused.
    #[inline]
    fn poll<N: Network, D: Downstream, U: Upstream>(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange<'_, '_, N, D>,
        mut up: Option<&mut U>,
    ) -> Poll<Result<bool, BrokenResponse>> {
        let Exchange { env, client_side, buffers, record } = exchange;
        let Self { flow, through, endpoint_refuses, .. } = self;
        let rate = env.rule().steps().bounds.rate;
        let max_bytes = rate.map_or(u64::MAX, |rate| allowance(rate, record.started_at));
        let Buffers { body, replay, text, .. } = &mut **buffers;
        if !body.is_sent()
            && !*endpoint_refuses
            && let Some(up) = &mut up
        {
            // The endpoint may refuse the rest; its response is still valid.
            *endpoint_refuses =
                matches!(body.poll_send(cx, &mut client_side.down, *up, replay), Poll::Ready(Err(_)));
            if *endpoint_refuses {
                body.discard_store();
            }
        }
        let (down, moved) = (&mut client_side.down, &mut record.body_bytes);
        let ResponsePipeline { ahead, steps, encoder } = through;
        let mut outlet =
            Outlet { down, steps: steps.as_deref_mut(), encoder: encoder.as_deref_mut(), lines: text, moved };
        let mut source = BodySource { up: up.as_deref_mut(), ahead: ahead.as_deref_mut() };
        let polled = flow.poll(cx, &mut source, &mut outlet, max_bytes);
        if polled.is_pending() && flow.pauses_endpoint() {
            source.read_ahead(cx, env);
        }
        let fault = match polled {
            Poll::Ready(Ok(())) => {
                if env.intake.dialect.is_grpc()
                    && let Some(up) = &up
                {
                    record.grpc_call.status = status_of(up.trailers()).or(record.grpc_call.status);
                }
                return Poll::Ready(Ok(body.is_sent() && up.is_some_and(|up| up.is_reusable())));
            }
            Poll::Ready(Err(fault)) if env.is_cut_by_deadline(fault) => env.overdue_fault(),
            Poll::Ready(Err(fault)) => fault,
            // A poll that ended only for fairness says nothing about the client's speed.
            Poll::Pending if flow.has_more && client_side.deadline.poll_passed(cx).is_pending() => {
                return Poll::Pending;
            }
            Poll::Pending => {
                if body.is_client_paused(*endpoint_refuses)
                    && client_side.down.poll_client_gone(cx).is_ready()
                {
                    return Poll::Ready(Err(BrokenResponse::without_end(Fault::ClientGone)));
                }
                if flow.is_rate_limited(record.body_bytes, max_bytes) {
                    flow.wait_for_allowance(client_side, record.body_bytes);
                    ready!(client_side.deadline.poll_passed(cx));
                    client_side.deadline.set(Instant::now(), RATE_LIMIT_INTERVAL);
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                // In a stream of messages, request messages are progress, too.
                let received = if env.intake.dialect.is_grpc() { body.received() } else { 0 };
                if flow.record_progress(env, client_side, record.body_bytes + received) {
                    return Poll::Ready(Err(BrokenResponse::without_end(Fault::ClientStalled)));
                }
                ready!(client_side.deadline.poll_passed(cx));
                if env.is_overdue() { env.overdue_fault() } else { flow.timeout_fault() }
            }
        };
        let (down, moved) = (&mut client_side.down, &mut record.body_bytes);
        let ResponsePipeline { steps, encoder, .. } = through;
        let mut outlet =
            Outlet { down, steps: steps.as_deref_mut(), encoder: encoder.as_deref_mut(), lines: text, moved };
        let (dialect, version) = (env.intake.dialect, env.intake.version);
        let end = match flow.stage == Stage::Flowing && outlet.end_early(cx, dialect, version, fault) {
            true => ClientEnd::Sent,
            false => ClientEnd::Missing,
        };
        Poll::Ready(Err(BrokenResponse { fault, end }))
    }
}

/// The source of a response body: its endpoint, the data that was read ahead, or first the one and then the other.
struct BodySource<'s, U> {
    /// `None` if everything left was read ahead.
    up: Option<&'s mut U>,
    ahead: Option<&'s mut ReadAhead>,
}

impl<U: Channel> BodySource<'_, U> {
    #[inline]
    fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        max_bytes: usize,
        sink: impl FnMut(&mut Context<'_>, &[u8]) -> Result<(), Failure>,
    ) -> Poll<Result<BodyStep, Failure>> {
        match (&mut self.ahead, &mut self.up) {
            (Some(ahead), up) => ahead.poll_body(cx, up.as_deref_mut(), max_bytes, sink),
            (None, Some(up)) => up.poll_body(cx, max_bytes, sink),
            (None, None) => Poll::Ready(Err(Failure::Closed)),
        }
    }

    /// Reads ahead while the client reads nothing.
    #[inline]
    fn read_ahead<N: Network>(&mut self, cx: &mut Context<'_>, env: &Environment<'_, N>) {
        if let (Some(ahead), Some(up)) = (&mut self.ahead, &mut self.up) {
            ahead.fill(cx, env, *up);
        }
    }
}

/// A response that was not relayed to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BrokenResponse {
    pub(crate) fault: Fault,
    pub(crate) end: ClientEnd,
}

/// How the response ends for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientEnd {
    /// Without an end yet.
    Missing,
    /// With a status that explains the truncation; it is queued.
    Sent,
}

impl BrokenResponse {
    fn without_end(fault: Fault) -> Self {
        Self { fault, end: ClientEnd::Missing }
    }
}

/// What the relay waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Awaited {
    /// Nothing was polled yet.
    Unknown,
    Endpoint,
    /// It does not read the queued bytes.
    Client,
    /// The rule's rate limit.
    Allowance,
}

/// Bytes of the exchange that have moved.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Moved {
    /// Of the response body, to the client's side; in a stream of messages also of the request body, from the client.
    relayed: u64,
    /// Taken by the client's socket.
    bytes_taken: u64,
}

struct Flow {
    stage: Stage,
    awaited: Awaited,
    /// Whether the client's side has no room.
    is_full: bool,
    /// Whether the last poll ended only so that other exchanges can run.
    has_more: bool,
    /// The counters at the last poll: a change is progress.
    last_moved: Moved,
    /// When the last progress was made.
    since: Instant,
    pace: MinimumRate,
}

/// How long a rate-limited response waits for more allowance.
const RATE_LIMIT_INTERVAL: Duration = Duration::from_millis(50);

/// The body bytes that the rate limit allows by now, for a request that came at `began`.
fn allowance(rate: ResponseRate, began: Instant) -> u64 {
    let elapsed = Instant::now().saturating_duration_since(began) + Duration::from_secs(1);
    let bytes = u128::from(rate.bytes) * elapsed.as_millis() / 1000;
    rate.after.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX))
}

impl Flow {
    fn new(began: Instant, rate: u64) -> Self {
        Self {
            stage: Stage::Flowing,
            awaited: Awaited::Unknown,
            is_full: false,
            has_more: false,
            last_moved: Moved::default(),
            since: began,
            pace: MinimumRate::new(rate),
        }
    }

    /// Whether the rate limit allows no more bytes for now.
    fn is_rate_limited(&self, moved: u64, max_bytes: u64) -> bool {
        self.stage == Stage::Flowing && moved >= max_bytes
    }

    /// Waits for more allowance; no timeout runs meanwhile.
    fn wait_for_allowance<D: Downstream>(&mut self, client_side: &mut ClientSide<D>, moved: u64) {
        let now = Instant::now();
        if self.awaited != Awaited::Allowance {
            self.awaited = Awaited::Allowance;
            self.since = now;
            client_side.deadline.set(now, RATE_LIMIT_INTERVAL);
        }
        self.last_moved = Moved { relayed: moved, bytes_taken: client_side.down.progress() };
    }

    /// Whether the endpoint is not read from: the client has no room, or the rate limit is reached.
    fn pauses_endpoint(&self) -> bool {
        self.is_full || self.awaited == Awaited::Allowance
    }

    fn poll<D: Channel, U: Channel>(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut BodySource<'_, U>,
        outlet: &mut Outlet<'_, D>,
        max_bytes: u64,
    ) -> Poll<Result<(), Fault>> {
        let mut chunks = 0;
        // Steps take longer for a piece than a copy.
        let pieces_in_a_turn = if outlet.steps.is_some() { 1 } else { MAX_PIECES_PER_TURN };
        self.has_more = false;
        loop {
            if self.stage == Stage::Finished {
                ready!(outlet.down.poll_flush(cx)).map_err(|_| Fault::ClientGone)?;
                return Poll::Ready(Ok(()));
            }
            if chunks == pieces_in_a_turn {
                self.has_more = true;
                go_on_later(cx);
                return Poll::Pending;
            }
            let room = outlet.poll_room(cx);
            self.is_full = room.is_pending();
            let room = ready!(room).map_err(|_| Fault::ClientGone)?;
            if self.is_rate_limited(*outlet.moved, max_bytes) {
                ready!(outlet.down.poll_flush(cx)).map_err(|_| Fault::ClientGone)?;
                return Poll::Pending;
            }
            let remaining = usize::try_from(max_bytes - *outlet.moved).unwrap_or(usize::MAX);
            let room = room.min(remaining);
            let step = source.poll_body(cx, room, |cx, data| outlet.send_data(cx, data));
            match step {
                Poll::Ready(Ok(BodyStep::More)) => chunks += 1,
                Poll::Ready(Ok(BodyStep::End)) => {
                    let is_changed = outlet.steps.is_some();
                    let holds = |(name, value): &(&[u8], &[u8])| !is_changed || !is_invalidated(name, value);
                    match (&source.ahead, &source.up) {
                        (Some(ahead), _) => outlet.finish(cx, ahead.trailers().filter(holds)),
                        (None, Some(up)) => outlet.finish(cx, up.trailers().filter(holds)),
                        (None, None) => outlet.finish(cx, std::iter::empty()),
                    }
                    .map_err(|_| Fault::UpstreamTruncated)?;
                    self.stage = Stage::Finished;
                }
                Poll::Ready(Err(Failure::Refused)) => return Poll::Ready(Err(Fault::ClientGone)),
                Poll::Ready(Err(Failure::Closed)) => {
                    let is_ours = source.ahead.as_ref().is_some_and(|ahead| ahead.is_lost());
                    let fault = if is_ours { Fault::BufferFull } else { Fault::UpstreamTruncated };
                    return Poll::Ready(Err(fault));
                }
                Poll::Ready(Err(Failure::Malformed(rule))) => {
                    return Poll::Ready(Err(Fault::UpstreamMalformed(rule)));
                }
                Poll::Pending => {
                    // Flush before waiting for more.
                    outlet.pause(cx).map_err(|_| Fault::ClientGone)?;
                    if let Poll::Ready(Err(_)) = outlet.down.poll_flush(cx) {
                        return Poll::Ready(Err(Fault::ClientGone));
                    }
                    return Poll::Pending;
                }
            }
        }
    }

    /// The fault of the side that is late.
    fn timeout_fault(&self) -> Fault {
        match self.awaited {
            Awaited::Client => Fault::ClientStalled,
            Awaited::Unknown | Awaited::Endpoint | Awaited::Allowance => Fault::UpstreamTimeout,
        }
    }

    /// Extends the deadline on progress. Returns whether the client is below the minimum rate.
    fn record_progress<N: Network, D: Downstream>(
        &mut self,
        env: &Environment<'_, N>,
        client_side: &mut ClientSide<D>,
        moved: u64,
    ) -> bool {
        let progress = Moved { relayed: moved, bytes_taken: client_side.down.progress() };
        let mut too_slow = false;
        if self.awaited != Awaited::Unknown {
            if self.last_moved == progress && self.awaited != Awaited::Allowance {
                return false;
            }
            let now = Instant::now();
            if self.awaited == Awaited::Client {
                let wait = now.saturating_duration_since(self.since);
                too_slow = self.pace.note(wait, progress.bytes_taken - self.last_moved.bytes_taken);
            }
            self.since = now;
        }
        // The first poll comes right after the head: the clock was just read.
        self.last_moved = progress;
        let waits = self.is_full || client_side.down.queued() > 0 || self.stage == Stage::Finished;
        self.awaited = if waits { Awaited::Client } else { Awaited::Endpoint };
        let max_wait = match self.awaited {
            Awaited::Client => env.adopted.settings().downstream.write_timeout,
            Awaited::Unknown | Awaited::Endpoint | Awaited::Allowance => {
                env.rule().rule().policy.timeouts.read
            }
        };
        env.arm(&mut client_side.deadline, self.since, max_wait);
        too_slow
    }
}
