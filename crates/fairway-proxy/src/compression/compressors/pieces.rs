//! How much a compressor takes in and hands on at a time.

/// The most that it takes in one piece: what it does with that, other exchanges wait for.
pub(crate) const MAX_PIECE: usize = 16 * 1024;

/// The most that it hands on in one piece.
pub(crate) const OUTPUT: usize = 8 * 1024;
