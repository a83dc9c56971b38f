//! Field blocks as messages (RFC 9113 §8): lines into a [`Head`](fairway_http::Head) with every rule that holds
//! between fields, and heads back into blocks. Never sees frames.

mod intake;
mod request;
mod write;

pub use intake::{Intake, Limits, Message, Outcome};
pub use write::{Connect, write_connect, write_request, write_response, write_trailers};

#[cfg(test)]
mod tests;
