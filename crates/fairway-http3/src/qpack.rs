//! QPACK (RFC 9204): field sections to lines and back.
//!
//! [`Decoder`] owns the dynamic table that the client's encoder fills; [`Encoder`] uses only the static table and
//! literals, so it needs no encoder stream and never blocks a client. Integers, Huffman code and table entries are
//! those of HPACK.

mod decoder;
mod encoder;
mod fixed;
mod instruction;

pub use decoder::{Decoder, SectionResult};
pub use encoder::Encoder;
pub use instruction::{DecoderInstruction, read_acknowledgment};

#[cfg(test)]
mod tests;
