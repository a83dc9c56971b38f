//! What the threads of a flood and those that watch it share: when they end, what they count, and how fast they may work, so
//! that the proxy spends as much CPU as wanted and no more. Never starts one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Rounds per second before the first look at what a round costs.
const FIRST_RATE: f64 = 200.0;
/// Sleeping for less is not worth a system call: it adds up.
const SHORTEST_SLEEP: Duration = Duration::from_micros(200);
/// One that fell behind by more does not catch up.
const LARGEST_DEBT: Duration = Duration::from_millis(20);
const LONGEST_INTERVAL: Duration = Duration::from_secs(1);

/// When the threads of a flood end, how fast they work, and what they count.
pub(super) struct Control {
    over: AtomicBool,
    opened: AtomicU64,
    rounds: AtomicU64,
    threads: f64,
    /// Nanoseconds between two rounds of a thread.
    interval: AtomicU64,
}

impl Control {
    pub(super) fn new(threads: usize) -> Self {
        let threads = threads as f64;
        let first = Duration::from_secs_f64(threads / FIRST_RATE);
        Self {
            over: AtomicBool::new(false),
            opened: AtomicU64::new(0),
            rounds: AtomicU64::new(0),
            threads,
            interval: AtomicU64::new(first.as_nanos() as u64),
        }
    }

    /// Whether the work is over.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Ends the work.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Counts a connection that was begun.
    pub(super) fn count_opened(&self) {
        self.opened.fetch_add(1, Ordering::Relaxed);
    }

    /// Connections begun so far.
    pub(super) fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// Rounds so far.
    pub(super) fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Relaxed)
    }

    /// Counts `count` rounds.
    pub(super) fn count_rounds(&self, count: u64) {
        self.rounds.fetch_add(count, Ordering::Relaxed);
    }

    /// The rounds of a thread that are due in `time`.
    pub(super) fn due_in(&self, time: Duration) -> f64 {
        time.as_nanos() as f64 / self.interval.load(Ordering::Relaxed).max(1) as f64
    }

    /// Counts a round of a thread and sleeps until its next one is due.
    pub(super) fn rest(&self, due: &mut Instant) {
        self.count_rounds(1);
        let interval = Duration::from_nanos(self.interval.load(Ordering::Relaxed));
        let now = Instant::now();
        *due = (*due + interval).max(now.checked_sub(LARGEST_DEBT).unwrap_or(now));
        let ahead = due.saturating_duration_since(now);
        if ahead >= SHORTEST_SLEEP {
            std::thread::sleep(ahead.min(LONGEST_INTERVAL));
        }
    }

    /// Sets the pace at which rounds that cost the proxy `each` make it spend `cores` seconds of CPU a second.
    pub(super) fn aim(&self, each: Duration, cores: f64) {
        let interval = each.mul_f64(self.threads / cores.max(0.001)).min(LONGEST_INTERVAL);
        self.interval.store(interval.as_nanos() as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_threads_at_half_a_core_work_a_quarter_of_the_time_each() {
        let control = Control::new(2);
        control.aim(Duration::from_millis(1), 0.5);
        assert!((control.due_in(Duration::from_secs(1)) - 250.0).abs() < 1e-9);
    }

    #[test]
    fn rounds_are_spread_over_time() {
        let control = Control::new(1);
        control.aim(Duration::from_millis(1), 0.1);
        let began = Instant::now();
        let mut due = began;
        (0..5).for_each(|_| control.rest(&mut due));
        assert!(began.elapsed() >= Duration::from_millis(45), "{:?}", began.elapsed());
        assert_eq!(control.rounds(), 5);
    }
}
