//! A client's stream as the downstream side of an exchange. Registers no wakers: the connection polls the exchange when
//! its stream receives something or can send.

use std::net::IpAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

use fairway_http::Head;

use super::streams::{RequestBodyRead, SharedStreams};
use crate::outgoing::{Following, following};
use crate::sides::{BodyStep, Channel, Downstream, Failure, Persistence, ResponsePlan};
use crate::trailers::Trailers;

/// One stream of a client connection.
pub struct H3Downstream {
    streams: SharedStreams,
    slot: usize,
    /// The trailers of the request, once its body was read.
    trailers: Option<Trailers>,
}

impl H3Downstream {
    /// The stream in this slot.
    pub fn new(streams: &SharedStreams, slot: usize) -> Self {
        Self { streams: Rc::clone(streams), slot, trailers: None }
    }

    /// Prepares for another stream in the same slot.
    pub fn reset(&mut self) {
        self.trailers = None;
    }

    fn is_broken(&self) -> bool {
        self.streams.borrow().is_broken(self.slot)
    }
}

impl Channel for H3Downstream {
    fn poll_body<F>(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
        mut sink: F,
    ) -> Poll<Result<BodyStep, Failure>>
    where
        F: FnMut(&mut Context<'_>, &[u8]) -> Result<(), Failure>,
    {
        let chunk = self.streams.borrow_mut().read_body(self.slot, most, &mut self.trailers);
        match chunk {
            // Nothing is borrowed while `sink` runs: it may write to a stream as well.
            RequestBodyRead::Bytes(bytes) => Poll::Ready(sink(cx, &bytes).map(|()| BodyStep::More)),
            RequestBodyRead::Blocked => Poll::Pending,
            RequestBodyRead::End => Poll::Ready(Ok(BodyStep::End)),
            RequestBodyRead::Broken => Poll::Ready(Err(Failure::Closed)),
        }
    }

    fn poll_room(&mut self, _: &mut Context<'_>) -> Poll<Result<usize, Failure>> {
        let room = self
            .streams
            .borrow_mut()
            .with_stream(self.slot, |outgoing, frames, workspace| outgoing.room(frames, workspace));
        match room {
            Ok(Some(room)) => Poll::Ready(Ok(room)),
            Ok(None) => Poll::Pending,
            Err(failure) => Poll::Ready(Err(failure)),
        }
    }

    fn send_data(&mut self, _: &mut Context<'_>, data: &[u8]) -> Result<(), Failure> {
        self.streams
            .borrow_mut()
            .with_stream(self.slot, |outgoing, frames, workspace| outgoing.send_data(data, frames, workspace))
            .flatten()
    }

    fn finish<'a>(&mut self, trailers: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Result<(), Failure> {
        self.streams
            .borrow_mut()
            .with_stream(self.slot, |outgoing, frames, workspace| {
                outgoing.finish(trailers, frames, workspace)
            })
            .flatten()
    }

    fn trailers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.trailers.iter().flat_map(Trailers::iter)
    }

    /// Data that QUIC accepted counts as sent: the connection sends it before it waits.
    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let is_flushed = self
            .streams
            .borrow_mut()
            .with_stream(self.slot, |outgoing, frames, workspace| outgoing.push(frames, workspace));
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

impl Downstream for H3Downstream {
    fn peer(&self) -> Option<IpAddr> {
        Some(self.streams.borrow().quic.remote_address().ip().to_canonical())
    }

    fn send_interim(&mut self, interim: &Head) {
        self.streams.borrow_mut().send_head(self.slot, interim, Following::Body(None));
    }

    /// The connection stays open, whatever happens to the stream.
    fn send_head(&mut self, response: &mut Head, plan: &ResponsePlan) -> Persistence {
        if plan.persistence == Persistence::Upgraded {
            // HTTP/3 has no 101 and no key to prove (RFC 9220 §3).
            response.set_status(200);
            response.remove(b"Sec-WebSocket-Accept");
            self.streams.borrow_mut().send_head(self.slot, response, Following::Tunnel);
            return Persistence::Upgraded;
        }
        let follow = following(plan.body, response.version());
        self.streams.borrow_mut().send_head(self.slot, response, follow);
        Persistence::KeepAlive
    }

    /// Always 0: an unfinished request does not delay the next one, and the client is asked to stop sending (RFC 9114
    /// §4.1).
    fn unread_body(&self) -> Option<u64> {
        Some(0)
    }

    fn poll_client_gone(&mut self, _: &mut Context<'_>) -> Poll<()> {
        if self.is_broken() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn is_client_gone(&self) -> bool {
        self.is_broken()
    }

    fn is_early_data(&self) -> bool {
        self.streams.borrow().is_early_data
    }

    fn abort(&mut self) {
        self.streams.borrow_mut().abort(self.slot);
    }
}
