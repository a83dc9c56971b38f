//! HTTP/1.x without I/O: heads, bodies, framing and every rule against request smuggling.
//!
//! A message goes through in this order: [`Head`] parses the start line and the fields into a typed
//! message, [`Target`] and [`request_authority`] say what is asked for, [`framing`] says where the body
//! ends, [`BodyReader`] takes the body out of the stream, and a [`Head`] and a [`BodyWriter`] write a
//! canonical message for the other side. What is ambiguous is [`Malformed`] and goes nowhere.
//!
//! Owns the rules of RFC 9110 and RFC 9112 for one message at a time. Never has sockets, clocks or
//! connections, and allocates nothing per message once its buffers have grown.

pub mod body;
pub mod framing;
pub mod head;
pub mod malformed;
pub mod path;
pub mod target;

mod authority;
mod bytes;

pub use authority::{Authority, parse_authority};
pub use body::{BodyLimits, BodyReader, BodyWriter, Part};
pub use framing::{
    Framing, connection_has, expects_continue, is_of_one_hop, keep_alive, request_framing, response_framing,
    strip_hop_by_hop, upgrade_to,
};
pub use head::{FieldRef, Head, HeadLimits, Known, Method, Parsed, Span, Version};
pub use malformed::Malformed;
pub use target::{Target, TargetForm, request_authority};
