//! The events that a connection reports to its owner.

use fairway_http::Span;

use crate::fault::{Code, Fault};
use crate::priority::Priority;

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// More input is needed: call again with the rest of the input and more.
    NeedMore,
    /// Nothing is read until this has happened.
    Wait(Wait),
    /// A message began; its head is in the `head` passed in. Clients get interim responses this way too.
    Head {
        /// The stream.
        stream: u32,
        /// Whether nothing follows.
        end: bool,
        /// `content-length`.
        length: Option<u64>,
        /// `:protocol` (RFC 8441), a span of the head's text.
        protocol: Option<Span>,
    },
    /// A message whose fields exceed a limit. The stream is open as usual, and should get a 431.
    HeadTooLarge {
        /// The stream.
        stream: u32,
        /// Whether nothing follows.
        end: bool,
    },
    /// Trailers ended a message; the head passed in has their fields.
    Trailers {
        /// The stream.
        stream: u32,
    },
    /// Body data, to be acknowledged with `consume`.
    Data {
        /// The stream.
        stream: u32,
        /// The data; it can be empty at the end.
        bytes: &'a [u8],
        /// Whether the message ends with it.
        end: bool,
    },
    /// The stream is over; its record stays until it is released.
    Reset {
        /// The stream.
        stream: u32,
        /// The code that was received or sent.
        code: Code,
        /// Who reset it, and why.
        reset_by: ResetBy,
    },
    /// A closed window has opened: of this stream, or of all waiting streams if it is 0.
    Writable {
        /// The stream or 0.
        stream: u32,
    },
    /// The client changed the priority (RFC 9218).
    Priority {
        /// The stream.
        stream: u32,
        /// Its priority.
        priority: Priority,
    },
    /// The peer's settings changed.
    Settings,
    /// Our PING was answered.
    Pong([u8; 8]),
    /// The peer accepts no streams above this one.
    GoAway {
        /// The last stream that it may have acted on.
        last_stream: u32,
        /// Why.
        code: Code,
    },
    /// The connection is over: write what is pending, then close it.
    Closed(Fault),
}

/// What must happen before more is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Pending output must be written, until [`Session::must_flush`](crate::Session::must_flush) is false.
    Flush,
    /// A stream that is over must be released.
    Release,
}

/// Who reset a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetBy {
    /// The peer.
    Peer,
    /// This end, because the peer broke this rule.
    Us(&'static str),
}
