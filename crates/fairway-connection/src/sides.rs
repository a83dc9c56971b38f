//! The two sides of an exchange. Each protocol implements them; the exchange does not know which protocol it uses, nor
//! whether the connection is shared.

use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use fairway_http::grpc::NotBase64;
use fairway_http::{BodySize, Head, HeadLimits, Malformed, Version};
use fairway_http2::PeerEvent;
use fairway_net::clock::Instant;
use fairway_net::wire::GATHER;

/// The result of reading a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyStep {
    /// Data was handed over; more may follow.
    More,
    /// The body is complete.
    End,
}

/// How a request on a shared connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestEnd {
    /// The response had begun.
    Responded,
    /// The client cancelled it before the response began.
    Canceled,
    /// It ended without a response for another reason.
    Abandoned,
}

/// Why a side cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The peer closed or reset the connection, or ended a body early.
    Closed,
    /// The peer broke a rule.
    Malformed(Malformed),
    /// The receiver of the data refused it; its own failure is kept elsewhere.
    Refused,
}

impl From<NotBase64> for Failure {
    fn from(_: NotBase64) -> Self {
        Self::Malformed(Malformed::Base64)
    }
}

/// The result of reading a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadRead<T> {
    /// The head is complete; its hop-by-hop fields were removed.
    Whole(T),
    /// The peer closed before the first byte.
    Closed,
    /// The peer closed or reset within the head.
    Cut,
    /// The peer is unreachable: it does not answer keep-alive probes (tcp(7)), or there is no route.
    Unreachable,
    /// The request was not sent, because the peer does not support the wanted upgrade.
    NoUpgrade,
    /// The head breaks a rule.
    Malformed(Malformed),
}

impl<T> HeadRead<T> {
    /// The same failure for another head type.
    pub fn map_failure<U>(self) -> HeadRead<U> {
        match self {
            Self::Malformed(rule) => HeadRead::Malformed(rule),
            Self::Closed => HeadRead::Closed,
            Self::Unreachable => HeadRead::Unreachable,
            Self::NoUpgrade => HeadRead::NoUpgrade,
            Self::Cut | Self::Whole(_) => HeadRead::Cut,
        }
    }
}

/// The protocol to switch to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upgrade {
    /// No switch.
    None,
    /// RFC 6455.
    WebSocket,
}

/// The hop-by-hop information of a request head.
#[derive(Clone, Copy, Debug)]
pub struct RequestMeta {
    /// Bytes of the head as received.
    pub head_bytes: u32,
    /// How the body is delimited.
    pub body: Result<BodySize, Malformed>,
    /// Whether the client waits for 100 (Continue) before it sends the body (RFC 9110 §10.1.1).
    pub expects_continue: Result<bool, Malformed>,
    /// Whether the client wants to keep the connection.
    pub persistence: Persistence,
    /// The upgrade that the client asks for.
    pub upgrade: Upgrade,
}

/// The hop-by-hop information of a response head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseMeta {
    /// How the body is delimited.
    pub body: BodySize,
    /// The protocol that the endpoint switched to, with 101.
    pub upgrade: Upgrade,
}

/// What both sides have in common: bodies in both directions.
pub trait Channel {
    /// Hands received body data to `sink`, about `max_bytes` bytes at a time. `End` may be repeated.
    fn poll_body<F>(
        &mut self,
        cx: &mut Context<'_>,
        max_bytes: usize,
        sink: F,
    ) -> Poll<Result<BodyStep, Failure>>
    where
        F: FnMut(&mut Context<'_>, &[u8]) -> Result<(), Failure>;

    /// Ready with the number of bytes that can be sent now, at least 1. Call it before reading them from the other
    /// side, so that data does not pile up faster than the peer takes it.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, Failure>> {
        if self.queued() > GATHER {
            ready!(self.poll_flush(cx))?;
        }
        Poll::Ready(Ok(usize::MAX))
    }

    /// Sends body data. Always accepts all of it; what has no room is queued.
    fn send_data(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Result<(), Failure>;

    /// Ends the sent body.
    fn finish<'a>(&mut self, trailers: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Result<(), Failure>;

    /// The trailers received after the body, once it is complete.
    fn trailers(&self) -> impl Iterator<Item = (&[u8], &[u8])>;

    /// Ready when everything accepted was sent.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>>;

    /// Queued bytes; larger than any limit where they cannot be counted.
    fn queued(&self) -> usize;

    /// Grows with every byte that the peer's socket takes, including those that TLS encrypted before and that
    /// [`Channel::queued`] no longer counts.
    fn progress(&self) -> u64 {
        self.sent()
    }

    /// Bytes sent since the connection was made.
    fn sent(&self) -> u64;

    /// Switches both directions to tunnel mode; each direction ends by itself.
    fn open_tunnel(&mut self);

    /// Ends the sending direction once everything was sent. Only in a tunnel.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>>;
}

/// What happens to the client connection after the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// It waits for the next request.
    KeepAlive,
    /// It is closed, and the response says so.
    Close,
    /// It becomes a tunnel.
    Upgraded,
}

/// What a response head must fit.
#[derive(Clone, Copy, Debug)]
pub struct ResponsePlan {
    /// The request's version.
    pub version: Version,
    /// What happens to the connection.
    pub persistence: Persistence,
    /// The body that follows. None for a response to HEAD.
    pub body: BodySize,
}

/// The client's side of an exchange.
pub trait Downstream: Channel {
    /// The peer's address, while the system knows it.
    fn peer(&self) -> Option<IpAddr>;

    /// Queues an interim response (1xx), which has no body.
    fn send_interim(&mut self, interim: &Head);

    /// Sets the endpoint that the next response head comes from.
    fn set_served_by(&mut self, _: SocketAddr) {}

    /// Queues the final head, which has no hop-by-hop fields. Returns what happens to the connection: the body may
    /// leave no choice.
    fn send_head(&mut self, response: &mut Head, plan: &ResponsePlan) -> Persistence;

    /// Bytes of the request body still to come; `None` if unknown.
    fn unread_body(&self) -> Option<u64>;

    /// Ready when the client is gone and will take no response. As in nginx, a client that has closed its sending
    /// direction counts as gone, even if unread data precedes the end. Only call it while nothing is read from the
    /// client.
    fn poll_client_gone(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Whether the client is known to be gone, without a system call. Checked before any work is done for it.
    fn is_client_gone(&self) -> bool {
        false
    }

    /// Whether the handshake is not complete, so that received data may be a replay (RFC 8470 §3).
    fn is_early_data(&self) -> bool {
        false
    }

    /// Ends with a failure that the client can see.
    fn abort(&mut self);
}

/// How to send a request to an endpoint.
pub struct RequestPlan<'a> {
    /// Path and query.
    pub target: &'a [u8],
    /// The body that follows.
    pub body: BodySize,
    /// The upgrade to ask for.
    pub upgrade: Upgrade,
    /// Whether to speak HTTP/1.0 to an HTTP/1 endpoint, if it can express the request.
    pub http10: bool,
    /// The `Connection` value for an HTTP/1 endpoint.
    pub connection: Option<&'static [u8]>,
}

/// The endpoint's side of an exchange.
pub trait Upstream: Channel {
    /// Queues a request head, which has no hop-by-hop fields.
    fn send_request(&mut self, request: &Head, plan: &RequestPlan<'_>);

    /// Reads an interim or final response head.
    fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Head,
        limits: &HeadLimits,
    ) -> Poll<HeadRead<ResponseMeta>>;

    /// Bytes received since the connection was made.
    fn received(&self) -> u64;

    /// Whether the endpoint's response is complete and the connection can carry another exchange.
    fn is_reusable(&self) -> bool;

    /// If the endpoint's host has not acknowledged everything sent: how long nothing was received from it.
    fn unacknowledged_for(&self) -> Option<Duration>;

    /// When something was last sent, for connections that are shared with other exchanges.
    fn last_written(&self) -> Option<Instant> {
        None
    }

    /// The response takes long: from now on, notice sooner if the endpoint vanishes.
    fn shorten_keepalive(&self);
}

/// A pooled connection to an endpoint, or one exchange's part of a shared one.
pub trait Hop: Upstream + 'static {
    /// Whether it can carry another exchange: nothing happened since the last one. Needs no system call unless the
    /// socket has an event.
    fn is_reusable_now(&mut self) -> bool;

    /// Whether a non-idempotent request can use it, however long ago its last response was.
    fn is_safe_for_non_idempotent(&self) -> bool {
        false
    }

    /// Releases empty buffers while it waits for its next exchange.
    fn release_buffers(&mut self);

    /// Whether the endpoint was silent for so long that it should be checked first, and the protocol can do so.
    fn needs_liveness_check(&self, _now: Instant) -> bool {
        false
    }

    /// Checks whether the endpoint is alive. Ready with the result; no request was sent yet.
    fn poll_alive(&mut self, _cx: &mut Context<'_>) -> Poll<bool> {
        Poll::Ready(true)
    }

    /// The endpoint did not answer the check in time: no other exchange should use this connection.
    fn mark_unresponsive(&mut self) {}

    /// Abandons the current exchange: the endpoint sees a failure, not an end, and no local port stays in TIME-WAIT.
    /// For a shared connection, dropping the part is enough.
    fn abandon(&mut self) {}

    /// Sets the observer for protocol events worth counting. HTTP/1 has none.
    fn set_event_observer(&mut self, _observer: impl Fn(PeerEvent) + 'static)
    where
        Self: Sized,
    {
    }

    /// The number of exchanges that share it; 0 if it is not shared.
    fn shared_exchanges(&self) -> usize {
        0
    }

    /// Makes room for one more exchange.
    fn try_share(&mut self) -> Share<Self>
    where
        Self: Sized,
    {
        Share::Whole
    }
}

/// The protocol of an endpoint connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopProtocol {
    /// HTTP/1.1, one exchange at a time.
    Http1,
    /// HTTP/2, many exchanges at a time.
    Http2,
}

/// What a pool can lend of a connection.
pub enum Share<H> {
    /// The connection itself: it carries one exchange at a time.
    Whole,
    /// A part of it; the connection stays in the pool.
    Part(H),
    /// Nothing for now.
    Full,
}
