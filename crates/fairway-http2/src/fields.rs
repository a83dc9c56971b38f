//! Field blocks as messages (RFC 9113 §8): lines into a [`Head`](fairway_http::Head), checked by the rules between
//! fields, and heads back into blocks. Knows no frames.

mod head_builder;
mod request;
mod write;

pub use head_builder::{BlockOutcome, HeadBuilder, Limits, Message};
pub use write::{Connect, write_connect, write_request, write_response, write_trailers};

#[cfg(test)]
mod tests;
