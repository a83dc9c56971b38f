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

use super::environment::{ClientSide, Environment, Exchange};
use super::web::Outlet;
use crate::body_steps::BodySteps;
use crate::buffers::Buffers;
use crate::compression::is_digest;
use crate::fault::Fault;
use crate::grpc::status_of;
use crate::network::Network;

/// Pieces of an answer that are relayed before other exchanges have their turn. Most answers have fewer.
const PIECES_IN_A_TURN: usize = 2;

/// How far the answer is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Flowing,
    Finished,
}

/// Relays to the end of the answer, whose head came at `began`. Says what becomes of the client's connection, which is what was
/// planned, and whether the endpoint's can be reused.
///
/// Not an `async fn`: that would keep its arguments twice for as long as the answer takes.
pub(crate) fn relay<'e, N: Network, D: Downstream, U: Upstream>(
    exchange: &'e mut Exchange<'_, '_, N, D>,
    up: &'e mut U,
    began: Instant,
    mut steps: Option<Box<BodySteps>>,
    mut encoder: Option<Box<Encoder>>,
    planned: Persistence,
) -> impl Future<Output = Result<(Persistence, bool), Broken>> {
    let Exchange { env, client_side, buffers, record } = exchange;
    let mut flow = Flow::new(began, env.worker.options.limits.answer_rate);
    let mut deaf = false;
    poll_fn(move |cx| {
        let rate = env.rule().steps().bounds.rate;
        let most = rate.map_or(u64::MAX, |rate| allowance(rate, record.began));
        let Buffers { body, replay, text, .. } = &mut **buffers;
        if !body.is_sent() && !deaf {
            // The endpoint may refuse the rest; its answer counts all the same.
            deaf = matches!(body.poll_send(cx, &mut client_side.down, up, replay), Poll::Ready(Err(_)));
        }
        let (down, moved) = (&mut client_side.down, &mut record.body_bytes);
        let mut outlet =
            Outlet { down, steps: steps.as_deref_mut(), encoder: encoder.as_deref_mut(), lines: text, moved };
        let fault = match flow.poll(cx, up, &mut outlet, most) {
            Poll::Ready(Ok(())) => {
                if env.intake.dialect.is_grpc() {
                    record.call.status = status_of(up.trailers()).or(record.call.status);
                }
                return Poll::Ready(Ok((planned, body.is_sent() && up.is_reusable())));
            }
            Poll::Ready(Err(fault)) if env.is_cut_in_time(fault) => env.overdue(),
            Poll::Ready(Err(fault)) => fault,
            // What a turn of several brings is no sign of how fast the client takes it.
            Poll::Pending if flow.has_more && client_side.deadline.poll_passed(cx).is_pending() => {
                return Poll::Pending;
            }
            Poll::Pending => {
                if body.leaves_alone(deaf) && client_side.down.poll_gone(cx).is_ready() {
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
        let mut outlet =
            Outlet { down, steps: steps.as_deref_mut(), encoder: encoder.as_deref_mut(), lines: text, moved };
        let (dialect, version) = (env.intake.dialect, env.intake.version);
        let end = match flow.stage == Stage::Flowing && outlet.end_early(cx, dialect, version, fault) {
            true => End::Sent,
            false => End::Missing,
        };
        Poll::Ready(Err(Broken { fault, end }))
    })
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

    fn poll<D: Channel, U: Channel>(
        &mut self,
        cx: &mut Context<'_>,
        up: &mut U,
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
            let step = up.poll_body(cx, room, |cx, data| outlet.send_data(cx, data));
            match step {
                Poll::Ready(Ok(BodyStep::More)) => pieces += 1,
                Poll::Ready(Ok(BodyStep::End)) => {
                    let is_changed = outlet.steps.is_some();
                    let holds = |(name, _): &(&[u8], &[u8])| !is_changed || !is_digest(name);
                    let trailers = up.trailers().filter(holds);
                    outlet.finish(cx, trailers).map_err(|_| Fault::UpstreamTruncated)?;
                    self.stage = Stage::Finished;
                }
                Poll::Ready(Err(Failure::Refused)) => return Poll::Ready(Err(Fault::ClientGone)),
                Poll::Ready(Err(Failure::Closed)) => return Poll::Ready(Err(Fault::UpstreamTruncated)),
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
