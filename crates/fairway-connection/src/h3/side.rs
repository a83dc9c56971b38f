//! One stream as the client's side of an exchange. Never waits by itself: the connection polls the exchange again when
//! something came for its stream, or there is room for more.

use std::net::IpAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

use fairway_http::Head;

use super::streams::{Piece, SharedStreams};
use crate::outgoing::{Follow, follow};
use crate::sides::{AnswerPlan, BodyStep, Channel, Downstream, Failure, Persistence};
use crate::trailers::Trailers;

/// A stream.
pub struct H3Side {
    streams: SharedStreams,
    slot: usize,
    /// Those of the request, once its body was read.
    trailers: Option<Trailers>,
}

impl H3Side {
    /// The stream in this slot, now and later.
    pub fn new(streams: &SharedStreams, slot: usize) -> Self {
        Self { streams: Rc::clone(streams), slot, trailers: None }
    }

    /// Another stream has the slot.
    pub fn renew(&mut self) {
        self.trailers = None;
    }

    fn is_broken(&self) -> bool {
        self.streams.borrow().is_broken(self.slot)
    }
}

impl Channel for H3Side {
    fn poll_body<F>(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
        mut sink: F,
    ) -> Poll<Result<BodyStep, Failure>>
    where
        F: FnMut(&mut Context<'_>, &[u8]) -> Result<(), Failure>,
    {
        let piece = self.streams.borrow_mut().read(self.slot, most, &mut self.trailers);
        match piece {
            // Nothing is borrowed meanwhile: what it sinks into may be a stream, too.
            Piece::Bytes(bytes) => Poll::Ready(sink(cx, &bytes).map(|()| BodyStep::More)),
            Piece::Blocked => Poll::Pending,
            Piece::End => Poll::Ready(Ok(BodyStep::End)),
            Piece::Broken => Poll::Ready(Err(Failure::Closed)),
        }
    }

    fn poll_room(&mut self, _: &mut Context<'_>) -> Poll<Result<usize, Failure>> {
        let room = self
            .streams
            .borrow_mut()
            .act(self.slot, |outgoing, frames, workspace| outgoing.room(frames, workspace));
        match room {
            Ok(Some(room)) => Poll::Ready(Ok(room)),
            Ok(None) => Poll::Pending,
            Err(failure) => Poll::Ready(Err(failure)),
        }
    }

    fn send_data(&mut self, _: &mut Context<'_>, data: &[u8]) -> Result<(), Failure> {
        self.streams
            .borrow_mut()
            .act(self.slot, |outgoing, frames, workspace| outgoing.send_data(data, frames, workspace))
            .flatten()
    }

    fn finish<'a>(&mut self, trailers: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Result<(), Failure> {
        self.streams
            .borrow_mut()
            .act(self.slot, |outgoing, frames, workspace| outgoing.finish(trailers, frames, workspace))
            .flatten()
    }

    fn trailers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.trailers.iter().flat_map(Trailers::iter)
    }

    /// What QUIC has counts as sent: the connection sends it before it waits.
    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let is_flushed = self
            .streams
            .borrow_mut()
            .act(self.slot, |outgoing, frames, workspace| outgoing.push(frames, workspace));
        match is_flushed {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
            Err(failure) => Poll::Ready(Err(failure)),
        }
    }

    fn queued(&self) -> usize {
        self.streams.borrow().outgoing(self.slot).queued()
    }

    fn sent(&self) -> u64 {
        self.streams.borrow().outgoing(self.slot).sent
    }

    fn open_tunnel(&mut self) {
        self.streams.borrow_mut().open_tunnel(self.slot);
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.finish(std::iter::empty())?;
        self.poll_flush(cx)
    }
}

impl Downstream for H3Side {
    fn peer(&self) -> Option<IpAddr> {
        Some(self.streams.borrow().quic.remote_address().ip().to_canonical())
    }

    fn send_interim(&mut self, interim: &Head) {
        self.streams.borrow_mut().send_head(self.slot, interim, Follow::Body(None));
    }

    /// The connection stays whatever becomes of the stream.
    fn send_head(&mut self, answer: &mut Head, plan: &AnswerPlan) -> Persistence {
        if plan.persistence == Persistence::Upgraded {
            // There is no 101 here, and no key that an answer would prove something of (RFC 9220 §3).
            answer.set_status(200);
            answer.remove(b"Sec-WebSocket-Accept");
            self.streams.borrow_mut().send_head(self.slot, answer, Follow::Tunnel);
            return Persistence::Upgraded;
        }
        let follow = follow(plan.body, answer.version());
        self.streams.borrow_mut().send_head(self.slot, answer, follow);
        Persistence::KeepAlive
    }

    /// Nothing is to be read before the next request: what still comes of this one is not wanted, and the client is told
    /// so (RFC 9114 §4.1).
    fn unread(&self) -> Option<u64> {
        Some(0)
    }

    fn poll_gone(&mut self, _: &mut Context<'_>) -> Poll<()> {
        if self.is_broken() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn is_gone(&self) -> bool {
        self.is_broken()
    }

    fn is_early(&self) -> bool {
        self.streams.borrow().is_early
    }

    fn abort(&mut self) {
        self.streams.borrow_mut().abort(self.slot);
    }
}
