//! Brotli (RFC 7932), with a small window.

use brotli::enc::StandardAlloc;
use brotli::enc::encode::{BrotliEncoderOperation, BrotliEncoderParameter, BrotliEncoderStateStruct};
use fairway_connection::sides::Failure;

use super::chunk_sizes::{MAX_PIECE, OUTPUT_BUFFER_BYTES};
use crate::body_step::{BodyStep, Sink};

/// The highest quality. Beyond it a compressor takes 12 MB or more, and works on 64 KiB for up to 70 ms, during which all
/// exchanges of its worker wait.
const MAX_QUALITY: u32 = 6;

/// The highest quality for which a window of 64 KiB suffices; higher ones would take 35 MB for that, and 6 MB for one of 256
/// KiB.
const MAX_QUALITY_OF_SMALL_WINDOW: u32 = 4;

/// The memory of a compressor with this quality, in bytes.
pub(super) fn bytes(quality: u8) -> u64 {
    match quality {
        0 | 1 => 200 << 10,
        2 | 3 => 1 << 20,
        4 => 2 << 20,
        5 => 5 << 20,
        _ => 6 << 20,
    }
}

/// A compressor.
pub(super) struct Brotli {
    state: BrotliEncoderStateStruct<StandardAlloc>,
    /// Whether it may hold bytes that were not passed on.
    is_dirty: bool,
}

impl Brotli {
    /// A compressor with a quality from 0 to 6.
    pub(super) fn new(quality: u8) -> Self {
        let quality = u32::from(quality).min(MAX_QUALITY);
        let window_bits = if quality > MAX_QUALITY_OF_SMALL_WINDOW { 18 } else { 16 };
        let mut state = BrotliEncoderStateStruct::new(StandardAlloc::default());
        state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_QUALITY, quality);
        state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_LGWIN, window_bits);
        Self { state, is_dirty: false }
    }

    /// Compresses `input` and passes the output on.
    fn run(
        &mut self,
        operation: BrotliEncoderOperation,
        input: &[u8],
        sink: &mut Sink<'_>,
    ) -> Result<(), Failure> {
        let mut output = [0; OUTPUT_BUFFER_BYTES];
        let (mut left, mut at) = (input.len(), 0);
        loop {
            let (mut room, mut made) = (output.len(), 0);
            let went_on = self.state.compress_stream(
                operation,
                &mut left,
                input,
                &mut at,
                &mut room,
                &mut output,
                &mut made,
                &mut None,
                &mut |_, _, _, _| (),
            );
            if !went_on {
                return Err(Failure::Closed);
            }
            if made > 0 {
                sink(&output[..made])?;
            }
            if left == 0 && !self.state.has_more_output() {
                return Ok(());
            }
        }
    }
}

impl BodyStep for Brotli {
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
        self.run(BrotliEncoderOperation::BROTLI_OPERATION_PROCESS, chunk, sink)
    }

    fn pause(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
        match std::mem::take(&mut self.is_dirty) {
            true => self.run(BrotliEncoderOperation::BROTLI_OPERATION_FLUSH, &[], sink),
            false => Ok(()),
        }
    }

    fn finish(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
        self.run(BrotliEncoderOperation::BROTLI_OPERATION_FINISH, &[], sink)
    }
}
