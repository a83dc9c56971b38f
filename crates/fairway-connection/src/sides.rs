//! The two sides of an exchange, as the exchange sees them. One implementation per protocol serves a side; the exchange
//! never knows which protocol it speaks with, nor whether it has a connection for itself.

use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use fairway_http::grpc::NotBase64;
use fairway_http::{BodySize, Head, HeadLimits, Malformed, Version};
use fairway_http2::Note;
use fairway_net::clock::Instant;
use fairway_net::wire::GATHER;

/// How far the body came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyStep {
    /// Something was handed over; there is more.
    More,
    /// The body is whole.
    End,
}

/// How a request of a shared connection was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departed {
    /// Its answer had begun.
    Answered,
    /// The client wanted none any more before it began.
    TakenBack,
    /// It was not answered, and that was not the client's wish.
    GivenUp,
}

/// Why a side cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It closed or reset the connection, or ended a body early.
    Closed,
    /// What it sent breaks a rule.
    Malformed(Malformed),
    /// The receiver of the data refused it: its own failure is kept elsewhere.
    Refused,
}

impl From<NotBase64> for Failure {
    fn from(_: NotBase64) -> Self {
        Self::Malformed(Malformed::Base64)
    }
}

/// How reading a head ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadRead<T> {
    /// It is whole; what it says about its hop was taken out of it.
    Whole(T),
    /// The peer closed before its first byte.
    Closed,
    /// The peer closed or reset within it.
    Cut,
    /// The network gave the peer up: it does not answer keep-alive (tcp(7)), or there is no way.
    Unreachable,
    /// There is none: the peer was not asked, because it does not switch to the protocol that was wanted.
    NoUpgrade,
    /// It breaks a rule.
    Malformed(Malformed),
}

impl<T> HeadRead<T> {
    /// The same failure of a head that would have said something else.
    pub fn without<U>(self) -> HeadRead<U> {
        match self {
            Self::Malformed(rule) => HeadRead::Malformed(rule),
            Self::Closed => HeadRead::Closed,
            Self::Unreachable => HeadRead::Unreachable,
            Self::NoUpgrade => HeadRead::NoUpgrade,
            Self::Cut | Self::Whole(_) => HeadRead::Cut,
        }
    }
}

/// The protocol that a connection becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upgrade {
    /// It stays what it is.
    None,
    /// RFC 6455.
    WebSocket,
}

/// What a request's head says about its own hop.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Its length as it came.
    pub head_bytes: u32,
    /// How its body is delimited.
    pub body: Result<BodySize, Malformed>,
    /// Whether the client waits for a word before it sends the body (RFC 9110 §10.1.1).
    pub expects_continue: Result<bool, Malformed>,
    /// What the client wishes.
    pub persistence: Persistence,
    /// What the client asks for.
    pub upgrade: Upgrade,
}

/// What a response's head says about its own hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// How its body is delimited.
    pub body: BodySize,
    /// What the endpoint switched to, with 101.
    pub upgrade: Upgrade,
}

/// Bodies in both directions, and what both sides have.
pub trait Channel {
    /// Hands what has arrived of the body to `sink`, some `most` bytes at a time. `End` may be repeated.
    fn poll_body<F>(&mut self, cx: &mut Context<'_>, most: usize, sink: F) -> Poll<Result<BodyStep, Failure>>
    where
        F: FnMut(&mut Context<'_>, &[u8]) -> Result<(), Failure>;

    /// Ready with how many bytes can be sent now, at least 1. To be asked before they are read from elsewhere, so that
    /// nothing piles up here that the peer does not take.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, Failure>> {
        if self.queued() > GATHER {
            ready!(self.poll_flush(cx))?;
        }
        Poll::Ready(Ok(usize::MAX))
    }

    /// Takes data of the body to send. Always takes all: what has no room is kept.
    fn send_data(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Result<(), Failure>;

    /// Ends the body that is sent.
    fn finish<'a>(&mut self, trailers: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Result<(), Failure>;

    /// The trailers that came with the body, once it is whole.
    fn trailers(&self) -> impl Iterator<Item = (&[u8], &[u8])>;

    /// Ready when all that was taken is sent.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>>;

    /// Bytes that were taken and wait to be sent; more than any bound where they cannot be counted.
    fn queued(&self) -> usize;

    /// Grows with every byte that the peer's socket takes, also with those that left [`Channel::queued`] encrypted before.
    fn progress(&self) -> u64 {
        self.sent()
    }

    /// Bytes that left since the connection was made.
    fn sent(&self) -> u64;

    /// From now on both bodies are the bytes of a tunnel; each direction ends for itself.
    fn open_tunnel(&mut self);

    /// Ends the direction that is sent, once all of it left. Only in a tunnel.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>>;
}

/// What becomes of the client's connection after the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// It waits for the next request.
    KeepAlive,
    /// It is closed, and the client is told so.
    Close,
    /// It becomes a tunnel.
    Upgraded,
}

/// What an answer's head must fit to.
#[derive(Clone, Copy, Debug)]
pub struct AnswerPlan {
    /// The request's version.
    pub version: Version,
    /// What becomes of the connection.
    pub persistence: Persistence,
    /// The body that follows. What an answer to HEAD would have had does not.
    pub body: BodySize,
}

/// The client's side.
pub trait Downstream: Channel {
    /// The address at the other end of the connection, while the system knows it.
    fn peer(&self) -> Option<IpAddr>;

    /// Queues an interim response (1xx), which has no body.
    fn send_interim(&mut self, interim: &Head);

    /// The response whose head follows comes from this endpoint.
    fn set_served_by(&mut self, _: SocketAddr) {}

    /// Queues the final head, free of fields of one hop. Says what becomes of the connection: the body may leave no
    /// choice.
    fn send_head(&mut self, answer: &mut Head, plan: &AnswerPlan) -> Persistence;

    /// Bytes of the request's body that are still to come; `None` when nobody knows.
    fn unread(&self) -> Option<u64>;

    /// Ready when the client has gone: it will take no answer. A client that has ended its direction counts as gone, as in
    /// nginx; what it sent before it left does not hide it. To be asked while nothing is read from the client.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Whether the client is known to have gone without asking the system: before any work is done for it.
    fn is_gone(&self) -> bool {
        false
    }

    /// Whether the handshake of the connection is not complete: what came until now could be a copy (RFC 8470 §3).
    fn is_early(&self) -> bool {
        false
    }

    /// The client shall see a failure, not an end.
    fn abort(&mut self);
}

/// A request on its way to an endpoint.
pub struct RequestPlan<'a> {
    /// Path and query.
    pub target: &'a [u8],
    /// The body that follows.
    pub body: BodySize,
    /// What the endpoint is asked for.
    pub upgrade: Upgrade,
    /// Whether an endpoint of HTTP/1 is spoken to in HTTP/1.0, where that can say the request.
    pub http10: bool,
    /// What an endpoint of HTTP/1 is told of the connection.
    pub connection: Option<&'static [u8]>,
}

/// An endpoint's side.
pub trait Upstream: Channel {
    /// Queues a request head, free of fields of one hop.
    fn send_request(&mut self, request: &Head, plan: &RequestPlan<'_>);

    /// Reads a response head, interim or final.
    fn poll_answer(
        &mut self,
        cx: &mut Context<'_>,
        answer: &mut Head,
        limits: &HeadLimits,
    ) -> Poll<HeadRead<Reply>>;

    /// Bytes that came from the endpoint since the connection was made: whether it was heard.
    fn received(&self) -> u64;

    /// Whether the exchange is over in the endpoint's direction, and leaves room for another one.
    fn is_reusable(&self) -> bool;

    /// Where the endpoint's host has not acknowledged all of what was sent: how long nothing at all came from it.
    fn owes_acknowledgement(&self) -> Option<Duration>;

    /// When something was sent last, where other exchanges send on the same connection.
    fn last_written(&self) -> Option<Instant> {
        None
    }

    /// The answer takes long: from now on an endpoint that vanishes is noticed sooner.
    fn watch_closely(&self);
}

/// What a pool keeps and lends: a connection to an endpoint, or one exchange's part of a connection that carries several.
pub trait Hop: Upstream + 'static {
    /// Whether it can carry another exchange: it is as the last one left it. Costs no system call unless something
    /// happened.
    fn is_quiet(&mut self) -> bool;

    /// Whether a request that may not be sent twice can go on it, however long ago it answered.
    fn is_proven(&self) -> bool {
        false
    }

    /// Gives the buffers back that hold nothing: it waits for its next exchange.
    fn rest(&mut self);

    /// Whether the endpoint has said nothing for so long that it is to be asked first whether it is there, and can be.
    fn is_silent(&self, _now: Instant) -> bool {
        false
    }

    /// Asks. Ready with whether it is there; what was lent has carried nothing yet.
    fn poll_proven(&mut self, _cx: &mut Context<'_>) -> Poll<bool> {
        Poll::Ready(true)
    }

    /// It did not answer in time: no other exchange should use this.
    fn distrust(&mut self) {}

    /// What is under way is given up: the endpoint shall see a failure, not an end, and no port of ours waits for stray
    /// segments of it (TIME-WAIT). Of a connection that carries other exchanges, dropping what was lent is enough.
    fn abandon(&mut self) {}

    /// Who is told of what the endpoint does that is worth counting. HTTP/1 has nothing of the kind.
    fn tell(&mut self, _told: impl Fn(Note) + 'static)
    where
        Self: Sized,
    {
    }

    /// Exchanges that have a part of it; 0 where an exchange has all of it or none.
    fn parts_lent(&self) -> usize {
        0
    }

    /// Room for an exchange beside those that are under way.
    fn share(&mut self) -> Share<Self>
    where
        Self: Sized,
    {
        Share::Whole
    }
}

/// What is spoken over a connection to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoken {
    /// HTTP/1.1, one exchange at a time.
    Http1,
    /// HTTP/2, many exchanges at once.
    Http2,
}

/// What a pool may lend of a connection.
pub enum Share<H> {
    /// The connection itself: it carries one exchange at a time.
    Whole,
    /// A part of it; the connection stays in the pool.
    Part(H),
    /// Nothing for now.
    Full,
}
