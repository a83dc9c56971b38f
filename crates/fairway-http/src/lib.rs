//! What all versions of HTTP share: a message's head, the names with a meaning, methods, targets and paths, the size of a
//! body as a notion, and the rules that a message may break.
//!
//! A codec ([`http1`], or that of HTTP/2, which is a crate of its own) fills a [`Head`] and writes one; everything between two
//! codecs reads and edits it. [`grpc`] is what gRPC and gRPC-Web write into it. Never has sockets or clocks, and allocates nothing
//! per message once its buffers have grown.

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
mod words;

pub use address::{OF_HTTP, OF_HTTPS, write_ip};
pub use authority::{Authority, parse_authority};
pub use head::ready::ReadyFields;
pub use head::spelling::hyphenated;
pub use head::{FieldRef, Head, HeadLimits, Known, Method, Span, Version};
pub use id::identify;
pub use malformed::Malformed;
pub use target::{Target, TargetForm, request_authority};

/// How much of a body there is, as far as its head tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodySize {
    /// There is no body.
    None,
    /// So many bytes.
    Exact(u64),
    /// It ends when its sender says so.
    Unknown,
}
