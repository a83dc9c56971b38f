//! The answer's body on its way to the client, while the rest of the request may still be on its way to the endpoint.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use fairway_connection::sides::{BodyStep, Channel, Downstream, Failure, Persistence, Upstream};
use fairway_http::grpc::Encoder;
use fairway_model::AnswerRate;
use fairway_net::clock::Instant;
use fairway_net::pace::Pace;
use fairway_net::turns::go_on_later;

use super::ahead::Ahead;
use super::environment::{ClientSide, Environment, Exchange};
use super::web::Outlet;
use crate::body_steps::BodySteps;
use crate::buffers::Buffers;
use crate::compression::is_made_wrong;
use crate::fault::Fault;
use crate::grpc::status_of;
use crate::network::Network;
use crate::worker::ToEndpoint;

/// Pieces of an answer that are relayed before other exchanges have their turn. Most answers have fewer.
const PIECES_IN_A_TURN: usize = 2;

/// How far the answer is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Flowing,
    Finished,
}

/// What an answer's body meets on its way to the client; most meet nothing.
pub(crate) struct Through {
    /// Where what comes faster than the client takes it is held.
    pub(super) ahead: Option<Box<Ahead>>,
    pub(crate) steps: Option<Box<BodySteps>>,
    pub(crate) encoder: Option<Box<Encoder>>,
}

/// How far an answer was relayed.
pub(crate) enum Relayed {
    /// To its end: what becomes of the client's connection, which is what was planned, and whether the endpoint's can be reused.
    Whole(Persistence, bool),
    /// The endpoint has sent all of it, and the client has not taken all of it: whether the endpoint's connection can be reused, and what
    /// is left to do without it.
    Held(bool, Box<Relay>),
}

/// An answer's body that is being relayed.
pub(crate) struct Relay {
    flow: Flow,
    through: Through,
    /// Whether the endpoint takes no more of the request.
    deaf: bool,
    planned: Persistence,
}

/// Relays to the end of the answer, whose head came at `began`, or until its endpoint is needed no longer.
///
/// Not an `async fn`: that would keep its arguments twice for as long as the answer takes.
pub(crate) fn relay<'e, N: Network, D: Downstream, U: Upstream>(
    exchange: &'e mut Exchange<'_, '_, N, D>,
    up: &'e mut U,
    began: Instant,
    through: Through,
    planned: Persistence,
) -> impl Future<Output = Result<Relayed, Broken>> {
    let flow = Flow::new(began, exchange.env.worker.options.limits.answer_rate);
    let mut relay = Some(Relay { flow, through, deaf: false, planned });
    poll_fn(move |cx| {
        let Some(this) = &mut relay else { return Poll::Pending };
        if let Poll::Ready(ended) = this.poll(cx, exchange, Some(&mut *up)) {
            return Poll::Ready(ended.map(|reusable| Relayed::Whole(this.planned, reusable)));
        }
        let is_held = this.through.ahead.as_ref().is_some_and(|ahead| ahead.has_ended());
        if is_held && exchange.buffers.body.is_sent() {
            let reusable = up.is_reusable();
            return relay
                .take()
                .map_or(Poll::Pending, |rest| Poll::Ready(Ok(Relayed::Held(reusable, Box::new(rest)))));
        }
        Poll::Pending
    })
}

/// Relays what is held of an answer, without its endpoint. Says what becomes of the client's connection.
pub(crate) async fn relay_rest<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    mut rest: Box<Relay>,
) -> Result<Persistence, Broken> {
    poll_fn(|cx| rest.poll(cx, exchange, None::<&mut ToEndpoint<N>>)).await?;
    Ok(rest.planned)
}

impl Relay {
    /// Ready at the end, with whether the endpoint's connection can be reused.
    #[inline]
    fn poll<N: Network, D: Downstream, U: Upstream>(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange<'_, '_, N, D>,
        mut up: Option<&mut U>,
    ) -> Poll<Result<bool, Broken>> {
        let Exchange { env, client_side, buffers, record } = exchange;
        let Self { flow, through, deaf, .. } = self;
        let rate = env.rule().steps().bounds.rate;
        let most = rate.map_or(u64::MAX, |rate| allowance(rate, record.began));
        let Buffers { body, replay, text, .. } = &mut **buffers;
        if !body.is_sent()
            && !*deaf
            && let Some(up) = &mut up
        {
            // The endpoint may refuse the rest; its answer counts all the same.
            *deaf = matches!(body.poll_send(cx, &mut client_side.down, *up, replay), Poll::Ready(Err(_)));
            if *deaf {
                body.forget();
            }
        }
        let (down, moved) = (&mut client_side.down, &mut record.body_bytes);
        let Through { ahead, steps, encoder } = through;
        let mut outlet =
            Outlet { down, steps: steps.as_deref_mut(), encoder: encoder.as_deref_mut(), lines: text, moved };
        let mut source = Source { up: up.as_deref_mut(), ahead: ahead.as_deref_mut() };
        let polled = flow.poll(cx, &mut source, &mut outlet, most);
        if polled.is_pending() && flow.leaves_endpoint_alone() {
            source.read_ahead(cx, env);
        }
        let fault = match polled {
            Poll::Ready(Ok(())) => {
                if env.intake.dialect.is_grpc()
                    && let Some(up) = &up
                {
                    record.call.status = status_of(up.trailers()).or(record.call.status);
                }
                return Poll::Ready(Ok(body.is_sent() && up.is_some_and(|up| up.is_reusable())));
            }
            Poll::Ready(Err(fault)) if env.is_cut_in_time(fault) => env.overdue(),
            Poll::Ready(Err(fault)) => fault,
            // What a turn of several brings is no sign of how fast the client takes it.
            Poll::Pending if flow.has_more && client_side.deadline.poll_passed(cx).is_pending() => {
                return Poll::Pending;
            }
            Poll::Pending => {
                if body.leaves_alone(*deaf) && client_side.down.poll_gone(cx).is_ready() {
                    return Poll::Ready(Err(Broken::off(Fault::ClientGone)));
                }
                if flow.is_held(record.body_bytes, most) {
                    flow.hold(client_side, record.body_bytes);
                    ready!(client_side.deadline.poll_passed(cx));
                    client_side.deadline.set(Instant::now(), HOLD);
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                // In a stream of messages, the request's are progress, too.
                let received = if env.intake.dialect.is_grpc() { body.received() } else { 0 };
                if flow.note_progress(env, client_side, record.body_bytes + received) {
                    return Poll::Ready(Err(Broken::off(Fault::ClientStalled)));
                }
                ready!(client_side.deadline.poll_passed(cx));
                if env.is_overdue() { env.overdue() } else { flow.lateness() }
            }
        };
        let (down, moved) = (&mut client_side.down, &mut record.body_bytes);
        let Through { steps, encoder, .. } = through;
        let mut outlet =
            Outlet { down, steps: steps.as_deref_mut(), encoder: encoder.as_deref_mut(), lines: text, moved };
        let (dialect, version) = (env.intake.dialect, env.intake.version);
        let end = match flow.stage == Stage::Flowing && outlet.end_early(cx, dialect, version, fault) {
            true => End::Sent,
            false => End::Missing,
        };
        Poll::Ready(Err(Broken { fault, end }))
    }
}

/// Where the answer's body comes from: its endpoint, or what was read ahead of it, or the one behind the other.
struct Source<'s, U> {
    /// There is none where all that is left was read ahead.
    up: Option<&'s mut U>,
    ahead: Option<&'s mut Ahead>,
}

impl<U: Channel> Source<'_, U> {
    #[inline]
    fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
        sink: impl FnMut(&mut Context<'_>, &[u8]) -> Result<(), Failure>,
    ) -> Poll<Result<BodyStep, Failure>> {
        match (&mut self.ahead, &mut self.up) {
            (Some(ahead), up) => ahead.poll_body(cx, up.as_deref_mut(), most, sink),
            (None, Some(up)) => up.poll_body(cx, most, sink),
            (None, None) => Poll::Ready(Err(Failure::Closed)),
        }
    }

    /// The client takes nothing now.
    #[inline]
    fn read_ahead<N: Network>(&mut self, cx: &mut Context<'_>, env: &Environment<'_, N>) {
        if let (Some(ahead), Some(up)) = (&mut self.ahead, &mut self.up) {
            ahead.fill(cx, env, *up);
        }
    }
}

/// An answer that was not relayed to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Broken {
    pub(crate) fault: Fault,
    pub(crate) end: End,
}

/// What the client will see of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Nothing yet.
    Missing,
    /// It was said why the answer ends here, and waits to be sent.
    Sent,
}

impl Broken {
    fn off(fault: Fault) -> Self {
        Self { fault, end: End::Missing }
    }
}

/// Who is waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Awaited {
    /// Nothing was looked at yet.
    Unknown,
    Endpoint,
    /// Bytes wait that it does not take.
    Client,
    /// The rule lets no more pass for now.
    Allowance,
}

/// Bytes of the exchange that have moved.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Moved {
    /// Of the answer's body, to the client's side; in a stream of messages also of the request's, from the client.
    relayed: u64,
    /// By the client's socket.
    taken: u64,
}

struct Flow {
    stage: Stage,
    awaited: Awaited,
    /// Whether the client has no room for more.
    is_full: bool,
    /// Whether it was left only because others have their turn.
    has_more: bool,
    /// What the last look saw: a change is progress.
    seen: Moved,
    /// When the last progress was made.
    since: Instant,
    pace: Pace,
}

/// How long an answer is held for more of its allowance to come.
const HOLD: Duration = Duration::from_millis(50);

/// The bytes of a body that may have moved by now, when its request came at `began`.
fn allowance(rate: AnswerRate, began: Instant) -> u64 {
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
            seen: Moved::default(),
            since: began,
            pace: Pace::new(rate),
        }
    }

    /// Whether no more may move for now.
    fn is_held(&self, moved: u64, most: u64) -> bool {
        self.stage == Stage::Flowing && moved >= most
    }

    /// Waits for more allowance: nobody is late meanwhile.
    fn hold<D: Downstream>(&mut self, client_side: &mut ClientSide<D>, moved: u64) {
        let now = Instant::now();
        if self.awaited != Awaited::Allowance {
            self.awaited = Awaited::Allowance;
            self.since = now;
            client_side.deadline.set(now, HOLD);
        }
        self.seen = Moved { relayed: moved, taken: client_side.down.progress() };
    }

    /// Whether the endpoint is not read from for now, whatever it has sent: the client has no room, or the rule lets no more pass.
    fn leaves_endpoint_alone(&self) -> bool {
        self.is_full || self.awaited == Awaited::Allowance
    }

    fn poll<D: Channel, U: Channel>(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut Source<'_, U>,
        outlet: &mut Outlet<'_, D>,
        most: u64,
    ) -> Poll<Result<(), Fault>> {
        let mut pieces = 0;
        // What steps do with a piece takes longer than to copy it.
        let pieces_in_a_turn = if outlet.steps.is_some() { 1 } else { PIECES_IN_A_TURN };
        self.has_more = false;
        loop {
            if self.stage == Stage::Finished {
                ready!(outlet.down.poll_flush(cx)).map_err(|_| Fault::ClientGone)?;
                return Poll::Ready(Ok(()));
            }
            if pieces == pieces_in_a_turn {
                self.has_more = true;
                go_on_later(cx);
                return Poll::Pending;
            }
            let room = outlet.poll_room(cx);
            self.is_full = room.is_pending();
            let room = ready!(room).map_err(|_| Fault::ClientGone)?;
            if self.is_held(*outlet.moved, most) {
                ready!(outlet.down.poll_flush(cx)).map_err(|_| Fault::ClientGone)?;
                return Poll::Pending;
            }
            let left = usize::try_from(most - *outlet.moved).unwrap_or(usize::MAX);
            let room = room.min(left);
            let step = source.poll_body(cx, room, |cx, data| outlet.send_data(cx, data));
            match step {
                Poll::Ready(Ok(BodyStep::More)) => pieces += 1,
                Poll::Ready(Ok(BodyStep::End)) => {
                    let is_changed = outlet.steps.is_some();
                    let holds = |(name, value): &(&[u8], &[u8])| !is_changed || !is_made_wrong(name, value);
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
                    // What is there leaves before more is waited for.
                    outlet.pause(cx).map_err(|_| Fault::ClientGone)?;
                    if let Poll::Ready(Err(_)) = outlet.down.poll_flush(cx) {
                        return Poll::Ready(Err(Fault::ClientGone));
                    }
                    return Poll::Pending;
                }
            }
        }
    }

    /// Whose lateness it is.
    fn lateness(&self) -> Fault {
        match self.awaited {
            Awaited::Client => Fault::ClientStalled,
            Awaited::Unknown | Awaited::Endpoint | Awaited::Allowance => Fault::UpstreamTimeout,
        }
    }

    /// Moves the deadline when there was progress. Says whether the client is too slow altogether.
    fn note_progress<N: Network, D: Downstream>(
        &mut self,
        env: &Environment<'_, N>,
        client_side: &mut ClientSide<D>,
        moved: u64,
    ) -> bool {
        let seen = Moved { relayed: moved, taken: client_side.down.progress() };
        let mut too_slow = false;
        if self.awaited != Awaited::Unknown {
            if self.seen == seen && self.awaited != Awaited::Allowance {
                return false;
            }
            let now = Instant::now();
            if self.awaited == Awaited::Client {
                let wait = now.saturating_duration_since(self.since);
                too_slow = self.pace.note(wait, seen.taken - self.seen.taken);
            }
            self.since = now;
        }
        // The first look comes right after the head: the clock was just read.
        self.seen = seen;
        let waits = self.is_full || client_side.down.queued() > 0 || self.stage == Stage::Finished;
        self.awaited = if waits { Awaited::Client } else { Awaited::Endpoint };
        let patience = match self.awaited {
            Awaited::Client => env.adopted.settings().downstream.write_timeout,
            Awaited::Unknown | Awaited::Endpoint | Awaited::Allowance => {
                env.rule().rule().policy.timeouts.read
            }
        };
        env.arm(&mut client_side.deadline, self.since, patience);
        too_slow
    }
}
