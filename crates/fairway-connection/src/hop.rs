//! A connection to an endpoint in any protocol. The branch is the same for all exchanges of an endpoint.

use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use fairway_http::{Head, HeadLimits};
use fairway_http2::PeerEvent;
use fairway_net::clock::Instant;
use fairway_net::transport::Transport;
use fairway_net::wire::{Wire, Workspace};

use crate::h1::H1;
use crate::h2::H2Upstream;
use crate::sides::{
    BodyStep, Channel, Failure, HeadRead, Hop, HopProtocol, RequestPlan, ResponseMeta, Share, Upstream,
};

/// A connection to an endpoint, or one exchange's part of it.
pub enum AnyHop<S: Transport> {
    /// An HTTP/1 connection.
    Http1(H1<S>),
    /// An HTTP/2 connection or stream.
    Http2(H2Upstream<S>),
}

impl<S: Transport> AnyHop<S> {
    /// Over a new stream. HTTP/2 announces the head limits now, HTTP/1 applies them to each head.
    pub fn new(stream: S, spoken: HopProtocol, workspace: &Rc<Workspace>, heads: HeadLimits) -> Self {
        let wire = Wire::new(stream);
        match spoken {
            HopProtocol::Http1 => Self::Http1(H1::new(wire, Rc::clone(workspace))),
            HopProtocol::Http2 => Self::Http2(H2Upstream::new(wire, workspace, heads)),
        }
    }
}

/// Calls the same method of either variant.
macro_rules! either {
    ($hop:expr, $inner:ident => $what:expr) => {
        match $hop {
            Self::Http1($inner) => $what,
            Self::Http2($inner) => $what,
        }
    };
}

impl<S: Transport> Channel for AnyHop<S> {
    fn poll_body<F>(&mut self, cx: &mut Context<'_>, limit: usize, sink: F) -> Poll<Result<BodyStep, Failure>>
    where
        F: FnMut(&mut Context<'_>, &[u8]) -> Result<(), Failure>,
    {
        either!(self, hop => hop.poll_body(cx, limit, sink))
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, Failure>> {
        either!(self, hop => hop.poll_room(cx))
    }

    fn send_data(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Result<(), Failure> {
        either!(self, hop => hop.send_data(cx, data))
    }

    fn finish<'a>(&mut self, trailers: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Result<(), Failure> {
        either!(self, hop => hop.finish(trailers))
    }

    fn trailers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let (one, other) = match self {
            Self::Http1(hop) => (Some(hop.trailers()), None),
            Self::Http2(hop) => (None, Some(hop.trailers())),
        };
        one.into_iter().flatten().chain(other.into_iter().flatten())
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        either!(self, hop => hop.poll_flush(cx))
    }

    fn queued(&self) -> usize {
        either!(self, hop => hop.queued())
    }

    fn progress(&self) -> u64 {
        either!(self, hop => hop.progress())
    }

    fn sent(&self) -> u64 {
        either!(self, hop => hop.sent())
    }

    fn open_tunnel(&mut self) {
        either!(self, hop => hop.open_tunnel());
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        either!(self, hop => hop.poll_close(cx))
    }
}

impl<S: Transport> Upstream for AnyHop<S> {
    fn send_request(&mut self, request: &Head, plan: &RequestPlan<'_>) {
        either!(self, hop => hop.send_request(request, plan));
    }

    fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
        answer: &mut Head,
        limits: &HeadLimits,
    ) -> Poll<HeadRead<ResponseMeta>> {
        either!(self, hop => hop.poll_response(cx, answer, limits))
    }

    fn received(&self) -> u64 {
        either!(self, hop => hop.received())
    }

    fn is_reusable(&self) -> bool {
        either!(self, hop => hop.is_reusable())
    }

    fn unacknowledged_for(&self) -> Option<Duration> {
        either!(self, hop => hop.unacknowledged_for())
    }

    fn last_written(&self) -> Option<Instant> {
        either!(self, hop => hop.last_written())
    }

    fn shorten_keepalive(&self) {
        either!(self, hop => hop.shorten_keepalive());
    }
}

impl<S: Transport> Hop for AnyHop<S> {
    fn is_reusable_now(&mut self) -> bool {
        either!(self, hop => hop.is_reusable_now())
    }

    fn is_safe_for_non_idempotent(&self) -> bool {
        either!(self, hop => hop.is_safe_for_non_idempotent())
    }

    fn release_buffers(&mut self) {
        either!(self, hop => hop.release_buffers());
    }

    fn needs_liveness_check(&self, now: Instant) -> bool {
        either!(self, hop => hop.needs_liveness_check(now))
    }

    fn poll_alive(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        either!(self, hop => hop.poll_alive(cx))
    }

    fn mark_unresponsive(&mut self) {
        either!(self, hop => hop.mark_unresponsive());
    }

    fn abandon(&mut self) {
        either!(self, hop => hop.abandon());
    }

    fn set_event_observer(&mut self, observer: impl Fn(PeerEvent) + 'static) {
        either!(self, hop => hop.set_event_observer(observer));
    }

    fn shared_exchanges(&self) -> usize {
        either!(self, hop => hop.shared_exchanges())
    }

    fn try_share(&mut self) -> Share<Self> {
        match self {
            Self::Http1(_) => Share::Whole,
            Self::Http2(hop) => match hop.try_share() {
                Share::Part(part) => Share::Part(Self::Http2(part)),
                Share::Whole | Share::Full => Share::Full,
            },
        }
    }
}
