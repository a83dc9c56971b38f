//! What a connection reports to its owner. Never does anything.

use fairway_http::Span;

use crate::fault::{Code, Fault};
use crate::priority::Priority;

/// What came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// Nothing more can be done with the input: call again with what is left of it and more.
    NeedMore,
    /// Nothing is read until this has happened.
    Wait(Wait),
    /// A message began; the head that was passed in has it. On the client's side interim answers come like this too.
    Head {
        /// The stream.
        stream: u32,
        /// Whether nothing follows.
        end: bool,
        /// `content-length`.
        length: Option<u64>,
        /// `:protocol` (RFC 8441), a piece of the head's text.
        protocol: Option<Span>,
    },
    /// A message began whose fields are over a limit. The stream is open like any other, and wants a 431.
    HeadTooLarge {
        /// The stream.
        stream: u32,
        /// Whether nothing follows.
        end: bool,
    },
    /// Trailers ended a message; the head that was passed in has their fields.
    Trailers {
        /// The stream.
        stream: u32,
    },
    /// A piece of a body, to be acknowledged with `consume`.
    Data {
        /// The stream.
        stream: u32,
        /// The piece, which can be empty at the end.
        bytes: &'a [u8],
        /// Whether the message ends with it.
        end: bool,
    },
    /// The stream is over; it stays until it is released.
    Reset {
        /// The stream.
        stream: u32,
        /// The code that was received or sent.
        code: Code,
        /// Why.
        by: By,
    },
    /// A window was closed and is open: of this stream, or of all that wait if it is 0.
    Writable {
        /// The stream or 0.
        stream: u32,
    },
    /// The client wants another order (RFC 9218).
    Priority {
        /// The stream.
        stream: u32,
        /// Its priority.
        priority: Priority,
    },
    /// The peer's settings changed.
    Settings,
    /// Our PING came back.
    Pong([u8; 8]),
    /// The peer takes no streams above this one.
    GoAway {
        /// The last stream that it may have acted on.
        last: u32,
        /// Why.
        code: Code,
    },
    /// The connection is over: what waits is to be written, then it is to be closed.
    Closed(Fault),
}

/// What must happen before more is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// What waits must be written, until [`Session::must_flush`](crate::Session::must_flush) is false.
    Flush,
    /// A stream that is over must be released.
    Release,
}

/// Who ended a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The peer.
    Peer,
    /// We did, because of a rule that the peer broke.
    Us(&'static str),
}
