//! What a connection reports to its owner. Never does anything.

use bytes::Bytes;
use fairway_http::Span;
use fairway_http2::Priority;
use quinn_proto::{ConnectionError, StreamId};

use crate::code::{Code, Fault};

/// What happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// A request began; the head that was passed in has it.
    Head {
        /// The stream.
        stream: StreamId,
        /// Whether nothing follows, as far as is known now. If `false`, the request can still turn out to have no body:
        /// [`Server::read_body`](crate::Server::read_body) gives [`Read::End`] then.
        end: bool,
        /// `content-length`.
        length: Option<u64>,
        /// `:protocol` (RFC 9220), a piece of the head's text.
        protocol: Option<Span>,
        /// Bytes of the HEADERS frame and of those before it.
        head_bytes: usize,
    },
    /// A request began whose fields are over a limit; it should get a 431. Nothing more is read of it: its client was sent
    /// STOP_SENDING, and `read_body` gives [`Read::End`].
    HeadTooLarge {
        /// The stream.
        stream: StreamId,
        /// Always `true`: nothing of the request follows.
        end: bool,
    },
    /// `read_body` may have something: it gave [`Read::Blocked`] before, or was not called yet.
    Readable {
        /// The stream.
        stream: StreamId,
    },
    /// [`Server::send_data`](crate::Server::send_data) took less than it got, and now takes more.
    Writable {
        /// The stream.
        stream: StreamId,
    },
    /// A reported stream is over in both directions; it stays until it is released.
    Reset {
        /// The stream.
        stream: StreamId,
        /// The code that was received or sent.
        code: Code,
        /// Who ended it, and why.
        by: By,
    },
    /// The client wants another priority for the response (RFC 9218 §7.2).
    Priority {
        /// The stream.
        stream: StreamId,
        /// Its priority.
        priority: Priority,
    },
    /// The client sent GOAWAY, which concerns pushes only: it will probably close the connection soon (RFC 9114 §5.2).
    GoAway,
    /// The client broke a rule of the connection, which was closed with this code. Only `noted` may be called after this;
    /// streams need not be released.
    Closed(Fault),
    /// The QUIC connection is over: the client closed it, or it was lost. As after [`Event::Closed`], nothing more follows.
    Lost(ConnectionError),
}

/// Who ended a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The client: RESET_STREAM or STOP_SENDING.
    Peer,
    /// This end, because of a rule that the client broke.
    Us(&'static str),
}

/// What [`Server::read_body`](crate::Server::read_body) gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// The next piece of the body, never empty.
    Bytes(Bytes),
    /// There is nothing yet; [`Event::Readable`] follows.
    Blocked,
    /// The request is complete, or nothing more of it is wanted.
    End,
    /// Trailers, in the head that was passed in. [`Read::End`] follows.
    Trailers,
    /// The stream or the connection is over; [`Event::Reset`] or [`Event::Closed`] says why.
    Broken,
}
