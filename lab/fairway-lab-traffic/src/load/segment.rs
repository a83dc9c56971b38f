//! A part of a stream's time: what ended in it. Parts of one stream add up to what the stream would have told as a whole.

use std::sync::Arc;
use std::time::Instant;

use super::outcome::Outcome;
use super::plan::Plan;
use super::tally::Tally;

/// What ended in a part of a stream's time. [`Stream::split`](super::Stream::split) gives it.
#[derive(Clone)]
pub struct Segment {
    pub(super) plan: Arc<Plan>,
    pub(super) tally: Tally,
    pub(super) begun: Instant,
    pub(super) seconds: f64,
}

impl Segment {
    /// Together with another part of the same stream.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.tally.add(other.tally);
        self.seconds += other.seconds;
        self
    }

    /// In the words of the results. Times within it count from the beginning of the stream.
    #[must_use]
    pub fn outcome(mut self) -> Outcome {
        self.tally.answers.in_time = self.tally.answers.all;
        self.tally.answers.last = 0;
        let mut outcome = Outcome::new(&self.plan, self.tally, self.begun, Some(self.seconds));
        // Pieces before the part have nothing in them.
        outcome
            .load
            .over_time
            .series
            .retain(|piece| piece.requests > 0 || piece.errors > 0 || piece.max_ms > 0.0);
        outcome
    }
}
