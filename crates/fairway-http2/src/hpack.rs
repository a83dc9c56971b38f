//! HPACK (RFC 7541): field blocks to ready lines and back.
//!
//! [`Decoder`] gives each field as a [`Line`] with its [`Known`](fairway_http::Known) name and verdict; [`Encoder`]
//! writes fields. [`Table`], [`Names`], [`integer`] and [`huffman`] serve QPACK as well (RFC 9204). Never knows what a message is, and keeps its
//! tables in step whatever a block holds.

#[macro_use]
pub mod static_table;

mod decoder;
mod encoder;
mod fixed;
pub mod huffman;
pub mod integer;
mod table;

pub use decoder::{Decoder, Defective};
pub use encoder::{Encoder, Strings};
pub use static_table::{Fixed, Names};
pub use table::{Line, MOST as MAX_TABLE_BYTES, Table};

#[cfg(test)]
mod tests;
