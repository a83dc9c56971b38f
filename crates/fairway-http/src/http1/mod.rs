//! HTTP/1.x without I/O: heads and bodies, framing, and all rules against request smuggling.
//!
//! A message is processed in this order: [`HeadParser`] parses the start line and the fields into a [`crate::Head`],
//! [`framing`] determines where the body ends and what the connection does next, [`BodyReader`] reads the body from the
//! stream, and [`write_request`], [`write_response`] and a [`BodyWriter`] write a canonical message for the other side.
//! Ambiguous messages are [`crate::Malformed`] and never forwarded.
//!
//! The bytes of a head are never passed through, and any split of the input gives the same result.
//!
//! Implements RFC 9112 for one message at a time. Has no sockets, clocks or connections, and allocates nothing per
//! message once its buffers have grown.

pub mod body;
pub mod framing;
pub mod head;

pub use body::{BodyLimits, BodyPart, BodyReader, BodyWriter};
pub use framing::{
    Framing, connection_has, expects_continue, keep_alive, request_framing, response_framing,
    strip_hop_by_hop, upgrade_to,
};
pub use head::{HeadParser, Parsed, RequestHop, write_request, write_response};
