//! The gzip compressor (RFC 1952). It chooses its window as nginx does by default, and so needs as much memory.

use fairway_connection::sides::Failure;
use flate2::{Compress, Compression, FlushCompress, Status};

use super::chunk_sizes::{MAX_PIECE, OUTPUT_BUFFER_BYTES};
use crate::body_step::{BodyStep, Sink};

/// Bytes of a window that zlib reserves for lookahead (`MIN_LOOKAHEAD`). A window that holds a whole body must be
/// at least this much larger than the body.
const LOOKAHEAD_BYTES: u64 = 262;

/// The memory of a compressor with the largest window, in bytes; admission counts it for every compressor. One with
/// the smallest window uses 250 KiB.
pub(super) const MEMORY_BYTES: u64 = 370 << 10;

/// Compresses one body.
pub(super) struct Gzip {
    state: Compress,
    /// Whether zlib may still buffer input that is not yet in the output, so that a pause must flush it.
    is_dirty: bool,
}

impl Gzip {
    /// Creates a compressor with a level from 1 to 9 for a body of this length; `None` if the length is unknown.
    pub(super) fn new(level: u8, length: Option<u64>) -> Self {
        let level = Compression::new(u32::from(level.clamp(1, 9)));
        Self { state: Compress::new_gzip(level, window_bits(length)), is_dirty: false }
    }

    /// Compresses `input` and passes the output to `sink`.
    fn compress(
        &mut self,
        mut input: &[u8],
        flush: FlushCompress,
        sink: &mut Sink<'_>,
    ) -> Result<(), Failure> {
        let mut output = [0; OUTPUT_BUFFER_BYTES];
        loop {
            let (total_in, total_out) = (self.state.total_in(), self.state.total_out());
            let status = self.state.compress(input, &mut output, flush).map_err(|_| Failure::Closed)?;
            let consumed = usize::try_from(self.state.total_in() - total_in).unwrap_or(input.len());
            let produced = usize::try_from(self.state.total_out() - total_out).unwrap_or(output.len());
            input = input.get(consumed..).unwrap_or_default();
            if produced > 0 {
                sink(&output[..produced])?;
            }
            // zlib fills the output buffer while it has more output, so a buffer that is not full was the last one.
            if status == Status::StreamEnd || (input.is_empty() && produced < output.len()) {
                return Ok(());
            }
        }
    }
}

/// The base-2 logarithm of the window size in bytes. The window is the smallest that holds the whole body, or the
/// largest (2^15 bytes) if none does or the length is unknown. nginx uses the same rule.
fn window_bits(length: Option<u64>) -> u8 {
    let holds_body =
        |bits: &u8| length.is_some_and(|length| length.saturating_add(LOOKAHEAD_BYTES) <= 1 << bits);
    (9..15).find(holds_body).unwrap_or(15)
}

impl BodyStep for Gzip {
    /// The send window of the client does not limit the input, because a small window would split the body into
    /// small pieces. The output is usually smaller than the input, and excess output waits in the client's queue.
    fn takes(&self, _: usize) -> usize {
        MAX_PIECE
    }

    fn keeps_length(&self) -> bool {
        false
    }

    /// Always 0: the compressor's buffers have a fixed size, which [`MEMORY_BYTES`] already counts.
    fn held_bytes(&self) -> usize {
        0
    }

    fn write(&mut self, chunk: &[u8], sink: &mut Sink<'_>) -> Result<(), Failure> {
        self.is_dirty |= !chunk.is_empty();
        self.compress(chunk, FlushCompress::None, sink)
    }

    fn pause(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
        match std::mem::take(&mut self.is_dirty) {
            true => self.compress(&[], FlushCompress::Sync, sink),
            false => Ok(()),
        }
    }

    fn finish(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
        self.compress(&[], FlushCompress::Finish, sink)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_bodies_have_small_windows() {
        for (length, bits) in [
            (Some(0), 9),
            (Some(250), 9),
            (Some(251), 10),
            (Some(16_384 - 262), 14),
            (Some(16_384 - 261), 15),
            (Some(u64::MAX), 15),
            (None, 15),
        ] {
            assert_eq!(window_bits(length), bits, "{length:?}");
        }
    }
}
