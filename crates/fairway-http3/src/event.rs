//! The events that a connection reports to its owner.

use bytes::Bytes;
use fairway_http::Span;
use fairway_http2::Priority;
use quinn_proto::{ConnectionError, StreamId};

use crate::code::{Code, Fault};

/// An event.
#[derive(Debug, Clone)]
pub enum Event {
    /// A request began; its head is in the `head` passed in.
    Head {
        /// The stream.
        stream: StreamId,
        /// Whether nothing follows, as far as is known. If `false`, the request can still turn out to have no body:
        /// [`Server::read_body`](crate::Server::read_body) then returns [`BodyRead::End`].
        end: bool,
        /// `content-length`.
        length: Option<u64>,
        /// `:protocol` (RFC 9220), a span of the head's text.
        protocol: Option<Span>,
        /// Bytes of the HEADERS frame and of those before it.
        head_bytes: usize,
    },
    /// A request whose fields exceed a limit; it should get a 431. Nothing more of it is read: STOP_SENDING was sent,
    /// and `read_body` returns [`BodyRead::End`].
    HeadTooLarge {
        /// The stream.
        stream: StreamId,
        /// Always `true`: nothing of the request follows.
        end: bool,
    },
    /// `read_body` may return something: it returned [`BodyRead::Blocked`] before, or was not called yet.
    Readable {
        /// The stream.
        stream: StreamId,
    },
    /// [`Server::send_data`](crate::Server::send_data) accepted less than it was given, and now accepts more.
    Writable {
        /// The stream.
        stream: StreamId,
    },
    /// A reported stream is over in both directions; its record stays until it is released.
    Reset {
        /// The stream.
        stream: StreamId,
        /// The code that was received or sent.
        code: Code,
        /// Who reset it, and why.
        reset_by: ResetBy,
    },
    /// The client changed the priority of the response (RFC 9218 §7.2).
    Priority {
        /// The stream.
        stream: StreamId,
        /// Its priority.
        priority: Priority,
    },
    /// The client sent GOAWAY, which only concerns pushes: it will probably close the connection soon (RFC 9114 §5.2).
    GoAway,
    /// The client broke a rule of the connection, which was closed with this code. Only the peer events may be read
    /// after this; streams need not be released.
    Closed(Fault),
    /// The QUIC connection is over: closed by the client or lost. As after [`Event::Closed`], nothing follows.
    Lost(ConnectionError),
}

/// Who reset a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetBy {
    /// The client: RESET_STREAM or STOP_SENDING.
    Peer,
    /// This end, because the client broke this rule.
    Us(&'static str),
}

/// The result of [`Server::read_body`](crate::Server::read_body).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyRead {
    /// The next bytes of the body, at least one.
    Bytes(Bytes),
    /// Nothing yet; [`Event::Readable`] follows.
    Blocked,
    /// The request is complete, or nothing more of it is read.
    End,
    /// Trailers, in the head passed in. [`BodyRead::End`] follows.
    Trailers,
    /// The stream or the connection is over; [`Event::Reset`] or [`Event::Closed`] says why.
    Broken,
}
