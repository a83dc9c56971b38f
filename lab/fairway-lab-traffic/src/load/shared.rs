//! State shared by the threads of a stream and its owner.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::thread_counts::Tally;

/// Delay from the start order to the first request.
const START_DELAY: Duration = Duration::from_millis(2);

/// State shared by the threads of a stream and its owner. Per request, only counters with a single writer are touched.
pub(super) struct WorkerShared {
    pub(super) origin: Instant,
    begun: OnceLock<Instant>,
    unready: AtomicUsize,
    stop: AtomicBool,
    /// Connections may close.
    released: AtomicBool,
    /// Number of times the owner has asked for the counts since the previous cut.
    cuts: AtomicU32,
    pub(super) threads: Vec<ThreadStatus>,
}

/// The live status of one thread.
#[derive(Default)]
pub(super) struct ThreadStatus {
    pub(super) ok: AtomicU64,
    pub(super) responses: AtomicU64,
    pub(super) errors: AtomicU64,
    pub(super) in_flight: AtomicU64,
    /// Every request of this thread has ended.
    pub(super) finished: AtomicBool,
    /// Number of cuts that this thread has served, and its counts at the last one.
    cuts: AtomicU32,
    handed_over: Mutex<Option<Tally>>,
}

/// The progress of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Expected responses so far.
    pub ok: u64,
    /// Complete responses so far.
    pub responses: u64,
    /// Failed requests so far.
    pub errors: u64,
    /// Requests in flight.
    pub in_flight: u64,
}

impl WorkerShared {
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

    /// Records that a thread's connections are open.
    pub(super) fn ready(&self) {
        self.unready.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether the connections of all threads are open.
    pub(super) fn are_ready(&self) -> bool {
        self.unready.load(Ordering::Acquire) == 0
    }

    /// Sets the time of the first request.
    pub(super) fn start_clock(&self) -> Instant {
        *self.begun.get_or_init(|| Instant::now() + START_DELAY)
    }

    /// Allows threads to close their connections once finished.
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

    /// Asks every thread for its counts since the previous cut.
    pub(super) fn cut(&self) {
        self.cuts.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether a thread has not served the latest cut yet.
    pub(super) fn is_asked(&self, thread: usize) -> bool {
        self.threads[thread].cuts.load(Ordering::Relaxed) != self.cuts.load(Ordering::Relaxed)
    }

    /// Hands over a thread's counts.
    pub(super) fn hand_over(&self, thread: usize, tally: Tally) {
        let status = &self.threads[thread];
        *status.handed_over.lock().unwrap_or_else(PoisonError::into_inner) = Some(tally);
        status.cuts.store(self.cuts.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Takes the counts that a thread has handed over.
    pub(super) fn take(&self, thread: usize) -> Option<Tally> {
        self.threads[thread].handed_over.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn progress(&self) -> Progress {
        let mut progress = Progress::default();
        for status in &self.threads {
            progress.ok += status.ok.load(Ordering::Relaxed);
            progress.responses += status.responses.load(Ordering::Relaxed);
            progress.errors += status.errors.load(Ordering::Relaxed);
            progress.in_flight += status.in_flight.load(Ordering::Relaxed);
        }
        progress
    }
}
