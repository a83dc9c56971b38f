//! What carries an exchange to an endpoint, by the protocol that is spoken there. The branch is the same for all of an
//! endpoint's exchanges.

use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use fairway_http::{Head, HeadLimits};
use fairway_http2::Note;
use fairway_net::clock::Instant;
use fairway_net::transport::Transport;
use fairway_net::wire::{Wire, Workspace};

use crate::h1::H1;
use crate::h2::H2Up;
use crate::sides::{BodyStep, Channel, Failure, HeadRead, Hop, Reply, RequestPlan, Share, Spoken, Upstream};

/// A connection to an endpoint, or a part of one.
pub enum AnyHop<S: Transport> {
    /// A connection of HTTP/1.
    Http1(H1<S>),
    /// A stream of HTTP/2.
    Http2(H2Up<S>),
}

impl<S: Transport> AnyHop<S> {
    /// Over a new stream. HTTP/2 is told at once how large heads may be, HTTP/1 with each.
    pub fn new(stream: S, spoken: Spoken, workspace: &Rc<Workspace>, heads: HeadLimits) -> Self {
        let wire = Wire::new(stream);
        match spoken {
            Spoken::Http1 => Self::Http1(H1::new(wire, Rc::clone(workspace))),
            Spoken::Http2 => Self::Http2(H2Up::begin(wire, workspace, heads)),
        }
    }
}

/// The same of either.
macro_rules! either {
    ($hop:expr, $inner:ident => $what:expr) => {
        match $hop {
            Self::Http1($inner) => $what,
            Self::Http2($inner) => $what,
        }
    };
}

impl<S: Transport> Channel for AnyHop<S> {
    fn poll_body<F>(&mut self, cx: &mut Context<'_>, most: usize, sink: F) -> Poll<Result<BodyStep, Failure>>
    where
        F: FnMut(&mut Context<'_>, &[u8]) -> Result<(), Failure>,
    {
        either!(self, hop => hop.poll_body(cx, most, sink))
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

    fn poll_answer(
        &mut self,
        cx: &mut Context<'_>,
        answer: &mut Head,
        limits: &HeadLimits,
    ) -> Poll<HeadRead<Reply>> {
        either!(self, hop => hop.poll_answer(cx, answer, limits))
    }

    fn received(&self) -> u64 {
        either!(self, hop => hop.received())
    }

    fn is_reusable(&self) -> bool {
        either!(self, hop => hop.is_reusable())
    }

    fn owes_acknowledgement(&self) -> Option<Duration> {
        either!(self, hop => hop.owes_acknowledgement())
    }

    fn last_written(&self) -> Option<Instant> {
        either!(self, hop => hop.last_written())
    }

    fn watch_closely(&self) {
        either!(self, hop => hop.watch_closely());
    }
}

impl<S: Transport> Hop for AnyHop<S> {
    fn is_quiet(&mut self) -> bool {
        either!(self, hop => hop.is_quiet())
    }

    fn is_proven(&self) -> bool {
        either!(self, hop => hop.is_proven())
    }

    fn rest(&mut self) {
        either!(self, hop => hop.rest());
    }

    fn is_silent(&self, now: Instant) -> bool {
        either!(self, hop => hop.is_silent(now))
    }

    fn poll_proven(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        either!(self, hop => hop.poll_proven(cx))
    }

    fn distrust(&mut self) {
        either!(self, hop => hop.distrust());
    }

    fn abandon(&mut self) {
        either!(self, hop => hop.abandon());
    }

    fn tell(&mut self, told: impl Fn(Note) + 'static) {
        either!(self, hop => hop.tell(told));
    }

    fn parts_lent(&self) -> usize {
        either!(self, hop => hop.parts_lent())
    }

    fn share(&mut self) -> Share<Self> {
        match self {
            Self::Http1(_) => Share::Whole,
            Self::Http2(hop) => match hop.share() {
                Share::Part(part) => Share::Part(Self::Http2(part)),
                Share::Whole | Share::Full => Share::Full,
            },
        }
    }
}
