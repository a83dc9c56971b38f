//! One stream as the client's side of an exchange. Never waits by itself: the connection polls the exchange again when
//! something came for its stream, or there is room for more.

use std::net::IpAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

use fairway_http::Head;

use super::stream::{Arrival, Follow};
use super::streams::SharedStreams;
use crate::outgoing::follow;
use crate::sides::{AnswerPlan, BodyStep, Channel, Downstream, Failure, Persistence};
use crate::trailers::Trailers;

/// A stream.
pub struct H2Side {
    streams: SharedStreams,
    slot: usize,
    /// Those of the request, once its body was read.
    trailers: Option<Trailers>,
}

impl H2Side {
    /// The stream in this slot, now and later.
    pub fn new(streams: &SharedStreams, slot: usize) -> Self {
        Self { streams: Rc::clone(streams), slot, trailers: None }
    }

    /// Another stream has the slot.
    pub fn renew(&mut self) {
        self.trailers = None;
    }

    fn is_broken(&self) -> bool {
        self.streams.borrow().stream(self.slot).arrival == Arrival::Broken
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
        let taken = self.streams.borrow_mut().at(self.slot).0.take_inbox();
        let mut inbox = match taken {
            Ok(inbox) => inbox,
            Err(None) => return Poll::Pending,
            Err(Some(step)) => {
                if step == Ok(BodyStep::End) {
                    let trailers = self.streams.borrow_mut().at(self.slot).0.take_trailers();
                    self.trailers = self.trailers.take().or(trailers);
                }
                return Poll::Ready(step);
            }
        };
        let count = inbox.pending().len().min(most);
        // Nothing is borrowed meanwhile: what it sinks into may be a stream, too.
        let sunk = sink(cx, &inbox.pending()[..count]);
        inbox.consume(count);
        let mut streams = self.streams.borrow_mut();
        let (stream, mut tools) = streams.at(self.slot);
        stream.put_back(inbox, count, &mut tools);
        Poll::Ready(sunk.map(|()| BodyStep::More))
    }

    fn poll_room(&mut self, _: &mut Context<'_>) -> Poll<Result<usize, Failure>> {
        match self.streams.borrow_mut().room(self.slot) {
            Ok(Some(room)) => Poll::Ready(Ok(room)),
            Ok(None) => Poll::Pending,
            Err(failure) => Poll::Ready(Err(failure)),
        }
    }

    fn send_data(&mut self, _: &mut Context<'_>, data: &[u8]) -> Result<(), Failure> {
        self.streams.borrow_mut().send_data(self.slot, data)
    }

    fn finish<'a>(&mut self, trailers: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Result<(), Failure> {
        let mut streams = self.streams.borrow_mut();
        let (stream, mut tools) = streams.at(self.slot);
        stream.finish(trailers, &mut tools)
    }

    fn trailers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.trailers.iter().flat_map(Trailers::iter)
    }

    /// What is in frames counts as sent: the connection writes them before it waits.
    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        if self.is_broken() {
            return Poll::Ready(Err(Failure::Closed));
        }
        let mut streams = self.streams.borrow_mut();
        let (stream, mut tools) = streams.at(self.slot);
        if stream.push(&mut tools) { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn queued(&self) -> usize {
        self.streams.borrow().stream(self.slot).queued()
    }

    fn sent(&self) -> u64 {
        self.streams.borrow().stream(self.slot).sent()
    }

    fn open_tunnel(&mut self) {
        self.streams.borrow_mut().at(self.slot).0.open_tunnel();
    }

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
        self.streams.borrow_mut().send_head(self.slot, interim, Follow::Body(None));
    }

    /// The connection stays whatever becomes of the stream.
    fn send_head(&mut self, answer: &mut Head, plan: &AnswerPlan) -> Persistence {
        if plan.persistence == Persistence::Upgraded {
            // There is no 101 here, and no key that an answer would prove something of (RFC 8441 §5).
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
    /// so (RFC 9113 §8.1).
    fn unread(&self) -> Option<u64> {
        Some(0)
    }

    fn poll_gone(&mut self, _: &mut Context<'_>) -> Poll<()> {
        if self.is_broken() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn is_gone(&self) -> bool {
        self.is_broken()
    }

    fn abort(&mut self) {
        let mut streams = self.streams.borrow_mut();
        let (stream, tools) = streams.at(self.slot);
        stream.abort(tools.codec);
    }
}
