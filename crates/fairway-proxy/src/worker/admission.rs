//! Whether a worker takes more work: it may be stopping, or short of memory.

use super::shedding::Shedding;
use super::stopping::Stopping;

/// Whether a worker takes more work.
pub(super) struct Admission {
    pub(super) stopping: Stopping,
    pub(super) shedding: Shedding,
}

impl Admission {
    pub(super) fn new(memory: Option<u64>) -> Self {
        Self { stopping: Stopping::new(), shedding: Shedding::new(memory) }
    }
}
