//! HTTP/1.x without I/O: the bytes of heads and bodies, framing, and every rule against request smuggling.
//!
//! A message goes through in this order: [`HeadParser`] parses the start line and the fields into a
//! [`crate::Head`], [`framing`] says where the body ends and what the connection does next, [`BodyReader`]
//! takes the body out of the stream, and [`write_request`], [`write_response`] and a [`BodyWriter`] write a canonical
//! message for the other side. What is ambiguous is [`crate::Malformed`] and goes nowhere.
//!
//! The bytes of a head are never passed through, and any split of the input gives the same result.
//!
//! Owns the rules of RFC 9112 for one message at a time. Never has sockets, clocks or connections, and allocates nothing
//! per message once its buffers have grown.

pub mod body;
pub mod framing;
pub mod head;

pub use body::{BodyLimits, BodyReader, BodyWriter, Part};
pub use framing::{
    Framing, connection_has, expects_continue, keep_alive, request_framing, response_framing,
    strip_hop_by_hop, upgrade_to,
};
pub use head::{HeadParser, Parsed, RequestHop, write_request, write_response};
