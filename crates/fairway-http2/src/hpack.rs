//! HPACK (RFC 7541): field blocks to lines and back.
//!
//! [`Decoder`] returns each field as a [`Line`] with its [`Known`](fairway_http::Known) name and verdict; [`Encoder`]
//! writes fields. [`Table`], [`NameIndex`], [`integer`] and [`huffman`] are shared with QPACK (RFC 9204). Knows no
//! messages, and keeps its tables in step whatever a block contains.

#[macro_use]
pub mod static_table;

mod decoder;
mod encoder;
mod fixed;
pub mod huffman;
pub mod integer;
mod table;

pub use decoder::{CompressionError, Decoder};
pub use encoder::{Encoder, StringCoding};
pub use static_table::{Fixed, NameIndex};
pub use table::{Line, MAX_TABLE_BYTES, Table};

#[cfg(test)]
mod tests;
