//! Parses received bytes into a [`crate::Head`] and writes heads as canonical bytes.

mod defect;
mod parse;
mod write;

pub use parse::{HeadParser, Parsed};
pub use write::{RequestHop, write_request, write_response};

#[cfg(test)]
mod tests;
