//! What the threads of a stream and its owner tell each other.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::tally::Tally;

/// From the order to begin to the first request.
const LEAD: Duration = Duration::from_millis(2);

/// What the threads of a stream and its owner tell each other. Nothing here is touched per request but counters that only
/// one thread writes.
pub(super) struct Shared {
    pub(super) origin: Instant,
    begun: OnceLock<Instant>,
    unready: AtomicUsize,
    stop: AtomicBool,
    /// Connections may close.
    released: AtomicBool,
    /// How often the owner has asked for what was counted since.
    cuts: AtomicU32,
    pub(super) threads: Vec<ThreadStatus>,
}

/// What one thread shows while it runs.
#[derive(Default)]
pub(super) struct ThreadStatus {
    pub(super) ok: AtomicU64,
    pub(super) answers: AtomicU64,
    pub(super) errors: AtomicU64,
    pub(super) in_flight: AtomicU64,
    /// Every request of this thread has ended.
    pub(super) finished: AtomicBool,
    /// How often this thread has handed over what it counted, and the last of that.
    cuts: AtomicU32,
    handed_over: Mutex<Option<Tally>>,
}

/// How a stream fares.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Expected answers so far.
    pub ok: u64,
    /// Complete answers so far.
    pub answers: u64,
    /// Failed requests so far.
    pub errors: u64,
    /// Requests on their way.
    pub in_flight: u64,
}

impl Shared {
    pub(super) fn new(threads: usize) -> Self {
        Self {
            origin: Instant::now(),
            begun: OnceLock::new(),
            unready: AtomicUsize::new(threads),
            stop: AtomicBool::new(false),
            released: AtomicBool::new(false),
            cuts: AtomicU32::new(0),
            threads: (0..threads).map(|_| ThreadStatus::default()).collect(),
        }
    }

    /// A thread has its connections.
    pub(super) fn ready(&self) {
        self.unready.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether all threads have theirs.
    pub(super) fn are_ready(&self) -> bool {
        self.unready.load(Ordering::Acquire) == 0
    }

    /// Sets the time of the first request.
    pub(super) fn begin(&self) -> Instant {
        *self.begun.get_or_init(|| Instant::now() + LEAD)
    }

    /// Lets threads close their connections once they have finished.
    pub(super) fn release(&self) {
        self.released.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_released(&self) -> bool {
        self.released.load(Ordering::Relaxed)
    }

    /// The time of the first request, once it is known.
    pub(super) fn begun(&self) -> Option<Instant> {
        self.begun.get().copied()
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Asks every thread for what it has counted since it was asked last.
    pub(super) fn cut(&self) {
        self.cuts.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether a thread was asked and has not handed over yet.
    pub(super) fn is_asked(&self, thread: usize) -> bool {
        self.threads[thread].cuts.load(Ordering::Relaxed) != self.cuts.load(Ordering::Relaxed)
    }

    /// A thread hands over what it has counted.
    pub(super) fn hand_over(&self, thread: usize, tally: Tally) {
        let status = &self.threads[thread];
        *status.handed_over.lock().unwrap_or_else(PoisonError::into_inner) = Some(tally);
        status.cuts.store(self.cuts.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// What a thread has handed over, if it has.
    pub(super) fn take(&self, thread: usize) -> Option<Tally> {
        self.threads[thread].handed_over.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn progress(&self) -> Progress {
        let mut progress = Progress::default();
        for status in &self.threads {
            progress.ok += status.ok.load(Ordering::Relaxed);
            progress.answers += status.answers.load(Ordering::Relaxed);
            progress.errors += status.errors.load(Ordering::Relaxed);
            progress.in_flight += status.in_flight.load(Ordering::Relaxed);
        }
        progress
    }
}
