//! Zstandard (RFC 8878), with a small window: RFC 9659 allows 8 MiB, but each response would hold that.

use fairway_connection::sides::Failure;
use zstd_safe::zstd_sys::ZSTD_EndDirective as Directive;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};

use super::chunk_sizes::{MAX_PIECE, OUTPUT_BUFFER_BYTES};
use crate::body_step::{BodyStep, Sink};

/// 64 KiB, which is also the maximum compressed at once. With 128 KiB, bodies would be 4% smaller, a compressor would take
/// nearly twice the memory, and other exchanges would wait twice as long for it.
const WINDOW_LOG: u32 = 16;

/// The sizes of the match tables, chosen so that all levels take about the same memory: with its own tables, level 4 would take
/// 2.5 MB, and level 9 more than 10 MB.
const HASH_LOG: u32 = 15;
const CHAIN_LOG: u32 = 13;

/// The highest level. Level 12 takes a fifth more time to make bodies 1% smaller, and level 19 works on 64 KiB for 10 ms.
const MAX_LEVEL: u8 = 9;

/// The memory of a compressor, in bytes; for bodies of up to 4 KiB 120 KiB.
pub(super) const MEMORY_BYTES: u64 = 620 << 10;

/// A compressor, for one body. Reusing it would save 8 µs, of 20 µs for 4 KiB, but hold its memory meanwhile.
pub(super) struct Zstd {
    state: CCtx<'static>,
    /// Whether it may hold bytes that were not passed on.
    is_dirty: bool,
}

impl Zstd {
    /// A compressor with a level from 1 to 9, for a body of this length, if it is known; `None` if there is no memory for it.
    pub(super) fn new(level: u8, length: Option<u64>) -> Option<Self> {
        let mut state = CCtx::try_create()?;
        for parameter in [
            CParameter::CompressionLevel(i32::from(level.clamp(1, MAX_LEVEL))),
            CParameter::WindowLog(WINDOW_LOG),
            CParameter::HashLog(HASH_LOG),
            CParameter::ChainLog(CHAIN_LOG),
        ] {
            state.set_parameter(parameter).ok()?;
        }
        // A body of another length then fails as truncated.
        state.set_pledged_src_size(length).ok()?;
        Some(Self { state, is_dirty: false })
    }

    /// Compresses `input` and passes the output on.
    fn run(&mut self, input: &[u8], directive: Directive, sink: &mut Sink<'_>) -> Result<(), Failure> {
        let mut output = [0; OUTPUT_BUFFER_BYTES];
        let mut from = InBuffer::around(input);
        loop {
            let mut into = OutBuffer::around(&mut output[..]);
            let remaining =
                self.state.compress_stream2(&mut into, &mut from, directive).map_err(|_| Failure::Closed)?;
            let written = into.pos();
            if written > 0 {
                sink(&output[..written])?;
            }
            let is_done = match directive {
                // It leaves room only if it has no more output.
                Directive::ZSTD_e_continue => from.pos() == input.len() && written < OUTPUT_BUFFER_BYTES,
                Directive::ZSTD_e_flush | Directive::ZSTD_e_end => remaining == 0,
            };
            if is_done {
                return Ok(());
            }
        }
    }
}

impl BodyStep for Zstd {
    /// The room of the client does not limit the input: the output is smaller, or waits in the client's queue, and a small
    /// window of the client must not make small pieces.
    fn takes(&self, _: usize) -> usize {
        MAX_PIECE
    }

    fn keeps_length(&self) -> bool {
        false
    }

    /// Its memory is bounded independently of the body.
    fn held_bytes(&self) -> usize {
        0
    }

    fn write(&mut self, chunk: &[u8], sink: &mut Sink<'_>) -> Result<(), Failure> {
        self.is_dirty |= !chunk.is_empty();
        self.run(chunk, Directive::ZSTD_e_continue, sink)
    }

    fn pause(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
        match std::mem::take(&mut self.is_dirty) {
            true => self.run(&[], Directive::ZSTD_e_flush, sink),
            false => Ok(()),
        }
    }

    fn finish(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
        self.run(&[], Directive::ZSTD_e_end, sink)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compressor_takes_no_more_than_its_share_at_any_level() {
        let mut random = fastrand::Rng::with_seed(1);
        let body: Vec<u8> = (0..300_000).map(|_| random.alphanumeric() as u8).collect();
        for level in (0..=10).chain([u8::MAX]) {
            for length in [None, Some(body.len())] {
                let mut step = Zstd::new(level, length.map(|length| length as u64)).unwrap();
                let mut limit = 0;
                for piece in body.chunks(MAX_PIECE) {
                    step.write(piece, &mut |_| Ok(())).unwrap();
                    limit = limit.max(step.state.sizeof() as u64);
                }
                assert!(
                    (MEMORY_BYTES / 10 * 9..=MEMORY_BYTES).contains(&limit),
                    "level {level}: {limit} bytes"
                );
            }
        }
    }

    #[test]
    fn a_body_of_another_length_does_not_end_well() {
        for length in [4, 6] {
            let mut step = Zstd::new(3, Some(length)).unwrap();
            let mut sink = |_: &[u8]| Ok(());
            let ended = step.write(b"hello", &mut sink).and_then(|()| step.finish(&mut sink));
            assert_eq!(ended, Err(Failure::Closed), "{length}");
        }
    }
}
