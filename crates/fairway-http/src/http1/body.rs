//! Bodies: [`BodyReader`] takes one out of a stream, [`BodyWriter`] puts one into another, each by its own
//! framing, so that what was chunked can leave with a length and the other way round. Neither ever keeps
//! body bytes; only trailers are kept, up to their limit.

mod limits;
mod reader;
mod trailer;
mod writer;

pub use limits::BodyLimits;
pub use reader::{BodyReader, Part};
pub use writer::BodyWriter;

#[cfg(test)]
mod tests;
