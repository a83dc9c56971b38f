//! The two sides of an exchange, as the exchange sees them: bytes of bodies in and out.
//!
//! One implementation per protocol serves either side; the exchange never knows which protocol it speaks with.

use std::task::{Context, Poll};
use std::time::Duration;

use fairway_http1::{Framing, Head, HeadLimits, Malformed, Version};

use crate::h1::HeadRead;

/// How far the body came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyStep {
    /// Something was handed over; there is more.
    More,
    /// The body is whole.
    End,
}

/// Why a side cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It closed or reset the connection, or ended a body early.
    Closed,
    /// What it sent breaks a rule.
    Malformed(Malformed),
    /// The receiver of the data refused it: its own failure is kept elsewhere.
    Refused,
}

/// Bodies in both directions on one side of an exchange.
pub(crate) trait Channel {
    /// Hands what has arrived of the body to `sink`. `End` may be repeated.
    fn poll_body<F>(&mut self, cx: &mut Context<'_>, sink: F) -> Poll<Result<BodyStep, Failure>>
    where
        F: FnMut(&mut Context<'_>, &[u8]) -> Result<(), Failure>;

    /// Takes data of the body to send. Always takes all; callers flush before they read more, so what waits is bounded
    /// by one read.
    fn send_data(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Result<(), Failure>;

    /// Ends the body that is sent.
    fn finish<'a>(&mut self, trailers: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Result<(), Failure>;

    /// The trailers that came with the body, once it is whole.
    fn trailers(&self) -> impl Iterator<Item = (&[u8], &[u8])>;

    /// Ready when all that was taken is sent.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>>;

    /// Bytes that were taken and wait to be sent.
    fn queued(&self) -> usize;
}

/// What becomes of the client's connection after the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// It waits for the next request.
    KeepAlive,
    /// It is closed, and the client is told so.
    Close,
    /// It becomes a tunnel.
    Upgraded,
}

/// What an answer's head must fit to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerPlan {
    /// The request's version.
    pub(crate) version: Version,
    /// What becomes of the connection.
    pub(crate) persistence: Persistence,
}

/// The client's side.
pub(crate) trait Downstream: Channel {
    /// Queues an interim response (1xx), which has no body.
    fn send_interim(&mut self, interim: &Head);

    /// Queues the final head, free of hop-by-hop fields, with the framing that fits the client for a body that comes
    /// framed as `body`.
    fn send_head(&mut self, answer: &mut Head, body: Framing, plan: &AnswerPlan);
}

/// An endpoint's side.
pub(crate) trait Upstream: Channel {
    /// Queues a request head, free of hop-by-hop fields but for those that frame the body.
    fn send_request(&mut self, request: &Head, target: &[u8], body: Framing);

    /// Reads a response head, interim or final.
    fn poll_answer(&mut self, cx: &mut Context<'_>, answer: &mut Head, limits: &HeadLimits)
    -> Poll<HeadRead>;

    /// The body that follows the head just read.
    fn expect_body(&mut self, framing: Framing);

    /// Bytes that left for the endpoint since the connection was made.
    fn sent(&self) -> u64;

    /// Where the endpoint's host has not acknowledged all of them: how long nothing at all came from it.
    fn owes_acknowledgement(&self) -> Option<Duration>;

    /// The answer takes long: from now on an endpoint that vanishes is noticed sooner.
    fn watch_closely(&self);
}
