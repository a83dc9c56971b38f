//! Answers that are read ahead of clients that are slower than their endpoints (docs/buffering.md): an endpoint is free as soon as the
//! rest of its answer is held. A client that keeps up gets what comes, and nothing is held.

use std::task::{Context, Poll, ready};

use fairway_connection::sides::{BodyStep, Channel, Failure, Reply};
use fairway_http::BodySize;
use fairway_http::grpc::Dialect;
use fairway_model::BodyBuffer;
use fairway_net::turns::go_on_later;

use super::environment::Environment;
use crate::buffering::{Of, Store};
use crate::buffers::Buffers;
use crate::metrics::count;
use crate::network::Network;

/// Pieces that are read ahead before other exchanges have their turn.
const PIECES_IN_A_TURN: usize = 2;

/// What nginx is told with to stream an answer, in whatever case.
const UNBUFFERED: &[u8] = b"X-Accel-Buffering";

/// What of an answer's body came and was not relayed.
pub(super) struct Ahead {
    buffer: BodyBuffer,
    /// Made when the client is slower than the endpoint for the first time.
    store: Option<Store>,
    /// Whether it takes nothing more until it is empty.
    is_full: bool,
    /// Whether what is held cannot be read again.
    is_lost: bool,
    end: Option<End>,
}

/// How the body ends behind what is held.
enum End {
    Whole(Vec<[Box<[u8]>; 2]>),
    Broken(Failure),
}

impl Ahead {
    /// Of an answer, where its rule lets it be read ahead.
    pub(super) fn of<N: Network>(
        env: &Environment<'_, N>,
        buffers: &Buffers,
        reply: &Reply,
    ) -> Option<Box<Self>> {
        let buffer = env.rule().steps().forwarding.buffering.as_ref()?.responses?;
        let is_unbuffered =
            buffers.answer.named(UNBUFFERED).is_some_and(|value| value.eq_ignore_ascii_case(b"no"));
        let is_stream =
            env.intake.dialect != Dialect::None || is_unbuffered || env.is_for_fairway || env.is_extended;
        let is_held = !is_stream && reply.body != BodySize::None;
        is_held.then(|| Box::new(Self { buffer, store: None, is_full: false, is_lost: false, end: None }))
    }

    /// Whether what is held cannot be read again: the endpoint is not to blame.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Whether nothing more comes from the endpoint.
    pub(super) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Reads what came, as far as there is room for it, while the client takes nothing.
    pub(super) fn fill<N: Network, U: Channel>(
        &mut self,
        cx: &mut Context<'_>,
        env: &Environment<'_, N>,
        up: &mut U,
    ) {
        for _ in 0..PIECES_IN_A_TURN {
            if self.end.is_some() || self.is_full {
                return;
            }
            let store = store(&mut self.store, self.buffer, env);
            let room = match store.poll_room(cx, env.worker.shared_memory()) {
                Poll::Pending => return,
                Poll::Ready(Ok(room)) => room,
                Poll::Ready(Err(_)) => {
                    self.is_full = true;
                    return;
                }
            };
            let step = up.poll_body(cx, room, |_, data| {
                store.append(data);
                Ok(())
            });
            match step {
                Poll::Pending => return,
                Poll::Ready(Ok(BodyStep::More)) => {}
                Poll::Ready(Ok(BodyStep::End)) => self.end = Some(End::of(up)),
                Poll::Ready(Err(failure)) => self.end = Some(End::Broken(failure)),
            }
        }
        go_on_later(cx);
    }

    /// Hands on what is held, and behind it what comes from the endpoint, which is there unless the body has ended; as
    /// [`Channel::poll_body`].
    pub(super) fn poll_body<U: Channel>(
        &mut self,
        cx: &mut Context<'_>,
        up: Option<&mut U>,
        most: usize,
        mut sink: impl FnMut(&mut Context<'_>, &[u8]) -> Result<(), Failure>,
    ) -> Poll<Result<BodyStep, Failure>> {
        if let Some(store) = self.store.as_mut().filter(|store| !store.is_read()) {
            let Ok(data) = ready!(store.poll_read(cx, most)) else {
                self.is_lost = true;
                return Poll::Ready(Err(Failure::Closed));
            };
            let used = data.len();
            sink(cx, data)?;
            store.advance(used);
            if store.is_read() {
                store.empty();
                self.is_full = false;
            }
            return Poll::Ready(Ok(BodyStep::More));
        }
        match (&self.end, up) {
            (Some(End::Whole(_)), _) => Poll::Ready(Ok(BodyStep::End)),
            (Some(End::Broken(failure)), _) => Poll::Ready(Err(*failure)),
            (None, None) => Poll::Ready(Err(Failure::Closed)),
            (None, Some(up)) => {
                let step = up.poll_body(cx, most, sink);
                if let Poll::Ready(Ok(BodyStep::End)) = step {
                    self.end = Some(End::of(up));
                }
                step
            }
        }
    }

    /// The trailers of the body, once it is whole.
    pub(super) fn trailers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let trailers = match &self.end {
            Some(End::Whole(trailers)) => &trailers[..],
            _ => &[],
        };
        trailers.iter().map(|[name, value]| (&**name, &**value))
    }
}

/// Where a body is held, made when it is first.
fn store<'s, N: Network>(
    known: &'s mut Option<Store>,
    buffer: BodyBuffer,
    env: &Environment<'_, N>,
) -> &'s mut Store {
    let worker = env.worker;
    known.get_or_insert_with(|| {
        count(&worker.counters.buffered.responses);
        Store::new(Of::Response, buffer, worker.disk.clone(), worker.held.empty())
    })
}

impl End {
    fn of(up: &impl Channel) -> Self {
        Self::Whole(up.trailers().map(|(name, value)| [name.into(), value.into()]).collect())
    }
}
