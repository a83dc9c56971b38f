//! What gRPC and gRPC-Web write into HTTP, without I/O: which of them a message speaks, how long a call may take, its status,
//! and the framing of gRPC-Web. Knows neither HTTP's versions nor what a message means. Any split of a body gives
//! the same result.
//!
//! The rules are those of PROTOCOL-HTTP2.md and PROTOCOL-WEB.md of the gRPC project.

mod dialect;
mod status;
mod timeout;
mod web;

pub use dialect::{Dialect, with_dialect};
pub use status::{Code, read_status, write_message};
pub use timeout::timeout;
pub use web::{Decoder, Encoder, NotBase64, trailer_line, trailer_prefix};
