//! One step of a body that streams: what it takes in, and what it hands on.

use fairway_connection::sides::Failure;

/// Takes what a step hands on.
pub(crate) type Sink<'s> = dyn FnMut(&[u8]) -> Result<(), Failure> + 's;

/// One step.
pub(crate) trait BodyStep {
    /// How many bytes it takes in where there is room for so many; at least 1.
    fn takes(&self, room: usize) -> usize {
        room
    }

    /// Whether as many bytes come out as go in.
    fn keeps_length(&self) -> bool;

    /// Bytes that it holds.
    fn held(&self) -> usize;

    /// Takes a piece, and hands on what becomes of it.
    ///
    /// # Errors
    /// The body breaks a rule, or that of `sink`.
    fn write(&mut self, piece: &[u8], sink: &mut Sink<'_>) -> Result<(), Failure>;

    /// More is waited for: hands on what its reader could use already.
    ///
    /// # Errors
    /// As [`Self::write`].
    fn pause(&mut self, _sink: &mut Sink<'_>) -> Result<(), Failure> {
        Ok(())
    }

    /// The body is whole: hands on what it holds.
    ///
    /// # Errors
    /// As [`Self::write`].
    fn finish(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure>;
}
