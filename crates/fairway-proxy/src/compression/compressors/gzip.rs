//! gzip (RFC 1952), with the window and the memory of nginx's defaults.

use fairway_connection::sides::Failure;
use flate2::{Compress, Compression, FlushCompress, Status};

use super::pieces::{MAX_PIECE, OUTPUT};
use crate::body_step::{BodyStep, Sink};

/// What a match may look ahead (`MIN_LOOKAHEAD` of zlib): so much larger than the body is the smallest window that suits it.
const LOOKAHEAD: u64 = 262;

/// What a compressor takes; for the smallest bodies 250 KiB.
pub(super) const BYTES: u64 = 370 << 10;

/// A compressor.
pub(super) struct Gzip {
    state: Compress,
    /// Whether it may hold bytes that were not handed on.
    is_dirty: bool,
}

impl Gzip {
    /// Of a level from 1 to 9, for a body of this length where it is known.
    pub(super) fn new(level: u8, length: Option<u64>) -> Self {
        let level = Compression::new(u32::from(level.clamp(1, 9)));
        Self { state: Compress::new_gzip(level, window_bits(length)), is_dirty: false }
    }

    /// Compresses `input` and hands on what comes of it.
    fn run(&mut self, mut input: &[u8], flush: FlushCompress, sink: &mut Sink<'_>) -> Result<(), Failure> {
        let mut output = [0; OUTPUT];
        loop {
            let (taken, made) = (self.state.total_in(), self.state.total_out());
            let status = self.state.compress(input, &mut output, flush).map_err(|_| Failure::Closed)?;
            let taken = usize::try_from(self.state.total_in() - taken).unwrap_or(input.len());
            let made = usize::try_from(self.state.total_out() - made).unwrap_or(output.len());
            input = input.get(taken..).unwrap_or_default();
            if made > 0 {
                sink(&output[..made])?;
            }
            // It left room only where it has nothing more to say.
            if status == Status::StreamEnd || (input.is_empty() && made < output.len()) {
                return Ok(());
            }
        }
    }
}

/// Of the smallest window in which all of the body has room, as nginx chooses it.
fn window_bits(length: Option<u64>) -> u8 {
    let has_room = |bits: &u8| length.is_some_and(|length| length.saturating_add(LOOKAHEAD) <= 1 << bits);
    (9..15).find(has_room).unwrap_or(15)
}

impl BodyStep for Gzip {
    /// Less comes out, or it waits where all that finds no room waits: a small window of the client does not make small pieces.
    fn takes(&self, _: usize) -> usize {
        MAX_PIECE
    }

    fn keeps_length(&self) -> bool {
        false
    }

    /// Its memory has one size, whatever passes.
    fn held(&self) -> usize {
        0
    }

    fn write(&mut self, piece: &[u8], sink: &mut Sink<'_>) -> Result<(), Failure> {
        self.is_dirty |= !piece.is_empty();
        self.run(piece, FlushCompress::None, sink)
    }

    fn pause(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
        match std::mem::take(&mut self.is_dirty) {
            true => self.run(&[], FlushCompress::Sync, sink),
            false => Ok(()),
        }
    }

    fn finish(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
        self.run(&[], FlushCompress::Finish, sink)
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
