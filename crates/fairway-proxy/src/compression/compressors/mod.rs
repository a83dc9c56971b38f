//! The compressors, as body steps: bytes go in by the piece, output is passed on at once or at a pause. Each uses a bounded
//! amount of memory, and of time per piece. They know nothing of heads; a fuzz target builds this folder alone.

mod brotli;
mod chunk_sizes;
mod gzip;
mod zstd;

use fairway_model::{CodingRule, ContentCoding};

use self::brotli::Brotli;
use self::gzip::Gzip;
use self::zstd::Zstd;
use crate::body_step::BodyStep;

#[cfg(test)]
pub(super) use self::chunk_sizes::{MAX_PIECE, OUTPUT_BUFFER_BYTES};

/// The maximum memory of the compressor of a rule, in bytes.
pub(super) fn max_bytes(rule: &CodingRule) -> u64 {
    match rule.coding {
        ContentCoding::Brotli => brotli::bytes(rule.level),
        ContentCoding::Gzip => gzip::MEMORY_BYTES,
        ContentCoding::Zstd => zstd::MEMORY_BYTES,
    }
}

/// The compressor of a rule for a body of this length, if it is known; `None` if there is no memory for one.
pub(super) fn start(rule: &CodingRule, length: Option<u64>) -> Option<Box<dyn BodyStep>> {
    Some(match rule.coding {
        ContentCoding::Brotli => Box::new(Brotli::new(rule.level)),
        ContentCoding::Gzip => Box::new(Gzip::new(rule.level, length)),
        ContentCoding::Zstd => Box::new(Zstd::new(rule.level, length)?),
    })
}
