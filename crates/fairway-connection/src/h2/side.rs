//! A client's stream as the downstream side of an exchange. Registers no wakers: the connection polls the exchange when
//! its stream receives something or can send.

use std::net::IpAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

use fairway_http::Head;

use super::stream::{Following, ReceiveState};
use super::streams::SharedStreams;
use crate::outgoing::following;
use crate::sides::{BodyStep, Channel, Downstream, Failure, Persistence, ResponsePlan};
use crate::trailers::Trailers;

/// One stream of a client connection.
pub struct H2Downstream {
    streams: SharedStreams,
    slot: usize,
    /// The trailers of the request, once its body was read.
    trailers: Option<Trailers>,
}

impl H2Downstream {
    /// The stream in this slot.
    pub fn new(streams: &SharedStreams, slot: usize) -> Self {
        Self { streams: Rc::clone(streams), slot, trailers: None }
    }

    /// Prepares for another stream in the same slot.
    pub fn reset(&mut self) {
        self.trailers = None;
    }

    fn is_broken(&self) -> bool {
        self.streams.borrow().stream(self.slot).arrival == ReceiveState::Reset
    }
}

impl Channel for H2Downstream {
    fn poll_body<F>(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
        mut sink: F,
    ) -> Poll<Result<BodyStep, Failure>>
    where
        F: FnMut(&mut Context<'_>, &[u8]) -> Result<(), Failure>,
    {
        let received = self.streams.borrow_mut().get_mut(self.slot).0.take_inbox();
        let mut inbox = match received {
            Ok(inbox) => inbox,
            Err(None) => return Poll::Pending,
            Err(Some(step)) => {
                if step == Ok(BodyStep::End) {
                    let trailers = self.streams.borrow_mut().get_mut(self.slot).0.take_trailers();
                    self.trailers = self.trailers.take().or(trailers);
                }
                return Poll::Ready(step);
            }
        };
        let count = inbox.pending().len().min(most);
        // Nothing is borrowed while `sink` runs: it may write to a stream as well.
        let sunk = sink(cx, &inbox.pending()[..count]);
        inbox.consume(count);
        let mut streams = self.streams.borrow_mut();
        let (stream, mut tools) = streams.get_mut(self.slot);
        stream.return_inbox(inbox, count, &mut tools);
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
        let (stream, mut tools) = streams.get_mut(self.slot);
        stream.finish(trailers, &mut tools)
    }

    fn trailers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.trailers.iter().flat_map(Trailers::iter)
    }

    /// Data in frames counts as sent: the connection writes it before it waits.
    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        if self.is_broken() {
            return Poll::Ready(Err(Failure::Closed));
        }
        let mut streams = self.streams.borrow_mut();
        let (stream, mut tools) = streams.get_mut(self.slot);
        if stream.push(&mut tools) { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn queued(&self) -> usize {
        self.streams.borrow().stream(self.slot).queued()
    }

    fn sent(&self) -> u64 {
        self.streams.borrow().stream(self.slot).sent()
    }

    fn open_tunnel(&mut self) {
        self.streams.borrow_mut().get_mut(self.slot).0.open_tunnel();
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.finish(std::iter::empty())?;
        self.poll_flush(cx)
    }
}

impl Downstream for H2Downstream {
    fn peer(&self) -> Option<IpAddr> {
        self.streams.borrow().peer
    }

    fn send_interim(&mut self, interim: &Head) {
        self.streams.borrow_mut().send_head(self.slot, interim, Following::Body(None));
    }

    /// The connection stays open, whatever happens to the stream.
    fn send_head(&mut self, response: &mut Head, plan: &ResponsePlan) -> Persistence {
        if plan.persistence == Persistence::Upgraded {
            // HTTP/2 has no 101 and no key to prove (RFC 8441 §5).
            response.set_status(200);
            response.remove(b"Sec-WebSocket-Accept");
            self.streams.borrow_mut().send_head(self.slot, response, Following::Tunnel);
            return Persistence::Upgraded;
        }
        let follow = following(plan.body, response.version());
        self.streams.borrow_mut().send_head(self.slot, response, follow);
        Persistence::KeepAlive
    }

    /// Always 0: an unfinished request does not delay the next one, and the client is asked to stop sending (RFC 9113
    /// §8.1).
    fn unread_body(&self) -> Option<u64> {
        Some(0)
    }

    fn poll_client_gone(&mut self, _: &mut Context<'_>) -> Poll<()> {
        if self.is_broken() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn is_client_gone(&self) -> bool {
        self.is_broken()
    }

    fn abort(&mut self) {
        let mut streams = self.streams.borrow_mut();
        let (stream, tools) = streams.get_mut(self.slot);
        stream.abort(tools.codec);
    }
}
