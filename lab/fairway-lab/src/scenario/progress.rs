//! Progress lines of a run on standard error, with the time since its start.

use std::io::Write;
use std::time::Instant;

/// Prints lines with the elapsed time.
#[derive(Clone, Copy)]
pub(super) struct Progress(Instant);

impl Progress {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn seconds(self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }

    pub(super) fn say(self, text: &str) {
        let seconds = self.0.elapsed().as_secs();
        // A closed standard error is no reason to end a run.
        _ = writeln!(std::io::stderr(), "[{:>2}:{:02}] {text}", seconds / 60, seconds % 60);
    }
}
