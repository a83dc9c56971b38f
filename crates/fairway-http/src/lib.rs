//! The parts common to all versions of HTTP: message heads, known header names, methods, targets and paths, body sizes,
//! and the rules that a message can break.
//!
//! A codec ([`http1`], or the separate crates for HTTP/2 and HTTP/3) fills a [`Head`] and writes one; everything
//! between two codecs reads and edits it. [`grpc`] implements what gRPC and gRPC-Web add. Has no sockets or clocks, and
//! allocates nothing per message once its buffers have grown.

pub mod bytes;
pub mod grpc;
mod head;
pub mod http1;
mod malformed;
pub mod path;
mod target;

mod address;
mod authority;
mod id;
mod swar;

pub use address::{OF_HTTP, OF_HTTPS, write_ip};
pub use authority::{Authority, parse_authority};
pub use head::ready::ReadyFields;
pub use head::spelling::hyphenated;
pub use head::{FieldRef, Head, HeadLimits, Known, Method, Span, Version};
pub use id::identify;
pub use malformed::Malformed;
pub use target::{Target, TargetForm, request_authority};

/// The size of a body, as far as its head tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodySize {
    /// There is no body.
    None,
    /// This many bytes.
    Exact(u64),
    /// Until the sender ends it.
    Unknown,
}
