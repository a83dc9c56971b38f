//! What the threads of a flood and those that watch it share. Never starts one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::pace::Pace;

/// When the threads of a flood end, how fast they work, and what they count.
pub(super) struct Control {
    over: AtomicBool,
    opened: AtomicU64,
    /// How fast they may work.
    pub(super) pace: Pace,
}

impl Control {
    pub(super) fn new(threads: usize) -> Self {
        Self { over: AtomicBool::new(false), opened: AtomicU64::new(0), pace: Pace::new(threads) }
    }

    /// Whether the work is over.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Ends the work.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Counts `count` connections that were begun.
    pub(super) fn count_opened(&self, count: u64) {
        self.opened.fetch_add(count, Ordering::Relaxed);
    }

    /// Connections begun so far.
    pub(super) fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }
}
