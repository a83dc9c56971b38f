//! Heads: received bytes to a [`crate::Head`] and back to canonical bytes. Never knows the body or the
//! connection.

mod defect;
mod parse;
mod write;

pub use parse::{HeadParser, Parsed};
pub use write::{RequestHop, write_request, write_response};

#[cfg(test)]
mod tests;
