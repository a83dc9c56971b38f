//! One stream as the client's side of an exchange. Never waits by itself: the connection polls the exchange again when
//! something came for its stream, or there is room for more.

use std::net::IpAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

use fairway_message::{BodySize, Head};

use super::streams::{Emptiness, SharedStreams};
use super::trailers::Trailers;
use crate::sides::{AnswerPlan, BodyStep, Channel, Downstream, Failure, Persistence};

/// A stream.
pub(crate) struct H2Side {
    streams: SharedStreams,
    slot: usize,
    /// Those of the request, once its body was read.
    trailers: Option<Trailers>,
}

impl H2Side {
    /// The stream in this slot, now and later.
    pub(crate) fn new(streams: &SharedStreams, slot: usize) -> Self {
        Self { streams: Rc::clone(streams), slot, trailers: None }
    }

    /// Another stream has the slot.
    pub(crate) fn renew(&mut self) {
        self.trailers = None;
    }
}

impl Channel for H2Side {
    fn poll_body<F>(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
        mut sink: F,
    ) -> Poll<Result<BodyStep, Failure>>
    where
        F: FnMut(&mut Context<'_>, &[u8]) -> Result<(), Failure>,
    {
        let taken = self.streams.borrow_mut().take_inbox(self.slot);
        let mut inbox = match taken {
            Ok(inbox) => inbox,
            Err(Emptiness::Coming) => return Poll::Pending,
            Err(Emptiness::Broken) => return Poll::Ready(Err(Failure::Closed)),
            Err(Emptiness::Whole(trailers)) => {
                self.trailers = self.trailers.take().or(trailers);
                return Poll::Ready(Ok(BodyStep::End));
            }
        };
        let count = inbox.pending().len().min(most);
        // Nothing is borrowed meanwhile: the other side may be a stream, too.
        let sunk = sink(cx, &inbox.pending()[..count]);
        inbox.consume(count);
        self.streams.borrow_mut().put_back(self.slot, inbox, count);
        Poll::Ready(sunk.map(|()| BodyStep::More))
    }

    fn poll_room(&mut self, _: &mut Context<'_>) -> Poll<Result<usize, Failure>> {
        let mut streams = self.streams.borrow_mut();
        if streams.is_broken(self.slot) {
            return Poll::Ready(Err(Failure::Closed));
        }
        if !streams.push(self.slot) {
            return Poll::Pending;
        }
        match streams.room(self.slot) {
            0 => Poll::Pending,
            room => Poll::Ready(Ok(room)),
        }
    }

    fn send_data(&mut self, _: &mut Context<'_>, data: &[u8]) -> Result<(), Failure> {
        self.streams.borrow_mut().send_data(self.slot, data)
    }

    fn finish<'a>(&mut self, trailers: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Result<(), Failure> {
        self.streams.borrow_mut().finish(self.slot, trailers)
    }

    fn trailers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.trailers.iter().flat_map(Trailers::iter)
    }

    /// What is in frames counts as sent: the connection writes them before it waits.
    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let mut streams = self.streams.borrow_mut();
        if streams.is_broken(self.slot) {
            return Poll::Ready(Err(Failure::Closed));
        }
        if streams.push(self.slot) { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn queued(&self) -> usize {
        self.streams.borrow().queued(self.slot)
    }

    fn sent(&self) -> u64 {
        self.streams.borrow().sent(self.slot)
    }

    fn open_tunnel(&mut self) {}

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.finish(std::iter::empty())?;
        self.poll_flush(cx)
    }
}

impl Downstream for H2Side {
    fn peer(&self) -> Option<IpAddr> {
        self.streams.borrow().peer
    }

    fn send_interim(&mut self, interim: &Head) {
        self.streams.borrow_mut().send_head(self.slot, interim, None);
    }

    /// The connection stays whatever becomes of the stream.
    fn send_head(&mut self, answer: &mut Head, plan: &AnswerPlan) -> Persistence {
        let body = match plan.body {
            BodySize::None => Some(0),
            BodySize::Exact(length) => Some(length),
            BodySize::Unknown => None,
        };
        self.streams.borrow_mut().send_head(self.slot, answer, body);
        Persistence::KeepAlive
    }

    /// Nothing is to be read before the next request: what still comes of this one is not wanted, and the client is told
    /// so (RFC 9113 §8.1).
    fn unread(&self) -> Option<u64> {
        Some(0)
    }

    fn poll_gone(&mut self, _: &mut Context<'_>) -> Poll<()> {
        if self.streams.borrow().is_broken(self.slot) { Poll::Ready(()) } else { Poll::Pending }
    }

    fn abort(&mut self) {
        self.streams.borrow_mut().abort(self.slot);
    }
}
