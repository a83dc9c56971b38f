//! The trait of body steps, which inspect or change a body while it streams.

use fairway_connection::sides::Failure;

/// Receives the output of a step.
pub(crate) type Sink<'s> = dyn FnMut(&[u8]) -> Result<(), Failure> + 's;

/// A step of a streaming body.
pub(crate) trait BodyStep {
    /// How many bytes it accepts if the receiver has this much room; at least 1.
    fn takes(&self, room: usize) -> usize {
        room
    }

    /// Whether as many bytes come out as go in.
    fn keeps_length(&self) -> bool;

    /// Bytes that it buffers.
    fn held_bytes(&self) -> usize;

    /// Processes a piece, and passes its output to `sink`.
    ///
    /// # Errors
    /// The body is invalid, or `sink` failed.
    fn write(&mut self, chunk: &[u8], sink: &mut Sink<'_>) -> Result<(), Failure>;

    /// Called before waiting for more: passes on what the reader can already use.
    ///
    /// # Errors
    /// As [`Self::write`].
    fn pause(&mut self, _sink: &mut Sink<'_>) -> Result<(), Failure> {
        Ok(())
    }

    /// Called at the end of the body: passes on what is buffered.
    ///
    /// # Errors
    /// As [`Self::write`].
    fn finish(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure>;
}
