//! Bodies: [`BodyReader`] reads one from a stream and [`BodyWriter`] writes one, each with its own framing, so that a
//! chunked body can be sent with a length and vice versa. Neither buffers body data, only trailers up to their limit.

mod limits;
mod reader;
mod trailer;
mod writer;

pub use limits::BodyLimits;
pub use reader::{BodyPart, BodyReader};
pub use writer::BodyWriter;

#[cfg(test)]
mod tests;
