//! The sizes of input and output pieces of a compressor.

/// The maximum input piece, in bytes: other exchanges wait while it is compressed.
pub(crate) const MAX_PIECE: usize = 16 * 1024;

/// The maximum output piece, in bytes.
pub(crate) const OUTPUT_BUFFER_BYTES: usize = 8 * 1024;
