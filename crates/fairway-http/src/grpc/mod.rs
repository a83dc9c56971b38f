//! gRPC and gRPC-Web on top of HTTP, without I/O: the dialect of a message, the timeout and status of a call, and the
//! framing of gRPC-Web. Any split of a body gives the same result.
//!
//! Implements PROTOCOL-HTTP2.md and PROTOCOL-WEB.md of the gRPC project.

mod dialect;
mod status;
mod timeout;
mod web;

pub use dialect::{Dialect, with_dialect};
pub use status::{Code, read_status, write_message};
pub use timeout::timeout;
pub use web::{Decoder, Encoder, NotBase64, trailer_line, trailer_prefix};
