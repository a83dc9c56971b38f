//! A compressor that counts its bytes.

use std::rc::Rc;

use fairway_connection::sides::Failure;

use crate::body_step::{BodyStep, Sink};
use crate::memory_share::MemoryReservation;
use crate::metrics::CodingBytes;

/// A compressor with its byte counters and its share of the memory.
pub(super) struct CountedCompressor {
    pub(super) step: Box<dyn BodyStep>,
    pub(super) volume: Rc<CodingBytes>,
    pub(super) _share: MemoryReservation,
}

impl CountedCompressor {
    /// Runs the step and counts its output.
    fn count(
        &mut self,
        sink: &mut Sink<'_>,
        act: impl FnOnce(&mut dyn BodyStep, &mut Sink<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Self { step, volume, .. } = self;
        act(&mut **step, &mut |piece| {
            volume.after.set(volume.after.get() + piece.len() as u64);
            sink(piece)
        })
    }
}

impl BodyStep for CountedCompressor {
    fn takes(&self, room: usize) -> usize {
        self.step.takes(room)
    }

    fn keeps_length(&self) -> bool {
        self.step.keeps_length()
    }

    fn held_bytes(&self) -> usize {
        self.step.held_bytes()
    }

    fn write(&mut self, chunk: &[u8], sink: &mut Sink<'_>) -> Result<(), Failure> {
        let before = &self.volume.before;
        before.set(before.get() + chunk.len() as u64);
        self.count(sink, |step, sink| step.write(chunk, sink))
    }

    fn pause(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
        self.count(sink, |step, sink| step.pause(sink))
    }

    fn finish(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
        self.count(sink, |step, sink| step.finish(sink))
    }
}
