//! Reads responses ahead of slow clients (docs/buffering.md): the endpoint is free as soon as the rest of its response is
//! buffered. For a client that keeps up, nothing is buffered.

use std::task::{Context, Poll, ready};

use fairway_connection::sides::{BodyStep, Channel, Failure, ResponseMeta};
use fairway_http::BodySize;
use fairway_http::grpc::Dialect;
use fairway_model::BodyBuffer;
use fairway_net::yielding::go_on_later;

use super::environment::Environment;
use crate::buffering::{BodyKind, Store};
use crate::buffers::Buffers;
use crate::metrics::increment;
use crate::network::Network;

/// Pieces that are read ahead before other exchanges run.
const MAX_PIECES_PER_TURN: usize = 2;

/// The header with which endpoints tell nginx not to buffer a response.
const X_ACCEL_BUFFERING: &[u8] = b"X-Accel-Buffering";

/// The part of a response body that was received and not yet relayed.
pub(super) struct ReadAhead {
    buffer: BodyBuffer,
    /// Created when the client first falls behind the endpoint.
    store: Option<Store>,
    /// Whether it accepts nothing more until it is empty.
    is_full: bool,
    /// Whether buffered data cannot be read again.
    is_lost: bool,
    end: Option<BodyEnd>,
}

/// How the body ends after the buffered data.
enum BodyEnd {
    Whole(Vec<[Box<[u8]>; 2]>),
    Broken(Failure),
}

impl ReadAhead {
    /// The read-ahead of a response, if its rule enables it.
    pub(super) fn for_response<N: Network>(
        env: &Environment<'_, N>,
        buffers: &Buffers,
        reply: &ResponseMeta,
    ) -> Option<Box<Self>> {
        let buffer = env.rule().steps().forwarding.buffering.as_ref()?.responses?;
        let is_unbuffered =
            buffers.response.named(X_ACCEL_BUFFERING).is_some_and(|value| value.eq_ignore_ascii_case(b"no"));
        let is_stream =
            env.intake.dialect != Dialect::None || is_unbuffered || env.is_for_fairway || env.is_extended;
        let is_held = !is_stream && reply.body != BodySize::None;
        is_held.then(|| Box::new(Self { buffer, store: None, is_full: false, is_lost: false, end: None }))
    }

    /// Whether buffered data cannot be read again, for which the endpoint is not to blame.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Whether the endpoint has sent everything.
    pub(super) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Reads from the endpoint into the buffer, while the client reads nothing.
    pub(super) fn fill<N: Network, U: Channel>(
        &mut self,
        cx: &mut Context<'_>,
        env: &Environment<'_, N>,
        up: &mut U,
    ) {
        for _ in 0..MAX_PIECES_PER_TURN {
            if self.end.is_some() || self.is_full {
                return;
            }
            let store = get_or_create_store(&mut self.store, self.buffer, env);
            let room = match store.poll_room(cx, env.worker.max_shared_memory()) {
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
                Poll::Ready(Ok(BodyStep::End)) => self.end = Some(BodyEnd::from_trailers(up)),
                Poll::Ready(Err(failure)) => self.end = Some(BodyEnd::Broken(failure)),
            }
        }
        go_on_later(cx);
    }

    /// Passes on the buffered data, then what comes from the endpoint, which is `None` only if the body has ended; as
    /// [`Channel::poll_body`].
    pub(super) fn poll_body<U: Channel>(
        &mut self,
        cx: &mut Context<'_>,
        up: Option<&mut U>,
        max_bytes: usize,
        mut sink: impl FnMut(&mut Context<'_>, &[u8]) -> Result<(), Failure>,
    ) -> Poll<Result<BodyStep, Failure>> {
        if let Some(store) = self.store.as_mut().filter(|store| !store.is_read()) {
            let Ok(data) = ready!(store.poll_read(cx, max_bytes)) else {
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
            (Some(BodyEnd::Whole(_)), _) => Poll::Ready(Ok(BodyStep::End)),
            (Some(BodyEnd::Broken(failure)), _) => Poll::Ready(Err(*failure)),
            (None, None) => Poll::Ready(Err(Failure::Closed)),
            (None, Some(up)) => {
                let step = up.poll_body(cx, max_bytes, sink);
                if let Poll::Ready(Ok(BodyStep::End)) = step {
                    self.end = Some(BodyEnd::from_trailers(up));
                }
                step
            }
        }
    }

    /// The trailers of the body, once it is complete.
    pub(super) fn trailers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let trailers = match &self.end {
            Some(BodyEnd::Whole(trailers)) => &trailers[..],
            _ => &[],
        };
        trailers.iter().map(|[name, value]| (&**name, &**value))
    }
}

/// The store of the body, created on first use.
fn get_or_create_store<'s, N: Network>(
    known: &'s mut Option<Store>,
    buffer: BodyBuffer,
    env: &Environment<'_, N>,
) -> &'s mut Store {
    let worker = env.worker;
    known.get_or_insert_with(|| {
        increment(&worker.counters.buffered.responses);
        Store::new(BodyKind::Response, buffer, worker.disk.clone(), worker.body_memory.empty())
    })
}

impl BodyEnd {
    fn from_trailers(up: &impl Channel) -> Self {
        Self::Whole(up.trailers().map(|(name, value)| [name.into(), value.into()]).collect())
    }
}
