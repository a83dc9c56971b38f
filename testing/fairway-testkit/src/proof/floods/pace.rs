//! How fast attackers may work, so that the proxy spends as much CPU as wanted and no more. Counts their rounds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Rounds per second before the first look at what a round costs.
const FIRST_RATE: f64 = 200.0;
/// Sleeping for less is not worth a system call: it adds up.
const SHORTEST_SLEEP: Duration = Duration::from_micros(200);
/// One that fell behind by more does not catch up.
const LARGEST_DEBT: Duration = Duration::from_millis(20);
const LONGEST_INTERVAL: Duration = Duration::from_secs(1);

/// The pace that all threads of a flood keep.
pub(super) struct Pace {
    members: f64,
    /// Nanoseconds between two rounds of a member.
    interval: AtomicU64,
    rounds: AtomicU64,
}

impl Pace {
    pub(super) fn new(members: usize) -> Self {
        let members = members as f64;
        let first = Duration::from_secs_f64(members / FIRST_RATE);
        Self { members, interval: AtomicU64::new(first.as_nanos() as u64), rounds: AtomicU64::new(0) }
    }

    /// Rounds so far.
    pub(super) fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Relaxed)
    }

    /// Counts `count` rounds.
    pub(super) fn count(&self, count: u64) {
        self.rounds.fetch_add(count, Ordering::Relaxed);
    }

    /// The rounds of a member that are due in `time`.
    pub(super) fn due_in(&self, time: Duration) -> f64 {
        time.as_nanos() as f64 / self.interval.load(Ordering::Relaxed).max(1) as f64
    }

    /// Counts `count` rounds of a member and sleeps until its next one is due.
    pub(super) fn rest(&self, due: &mut Instant, count: u64) {
        self.count(count);
        let interval = Duration::from_nanos(self.interval.load(Ordering::Relaxed)) * count as u32;
        let now = Instant::now();
        *due = (*due + interval).max(now.checked_sub(LARGEST_DEBT).unwrap_or(now));
        let ahead = due.saturating_duration_since(now);
        if ahead >= SHORTEST_SLEEP {
            std::thread::sleep(ahead.min(LONGEST_INTERVAL));
        }
    }

    /// Sets the pace at which rounds that cost the proxy `each` make it spend `cores` seconds of CPU a second.
    pub(super) fn aim(&self, each: Duration, cores: f64) {
        let interval = interval(self.members, each, cores).min(LONGEST_INTERVAL);
        self.interval.store(interval.as_nanos() as u64, Ordering::Relaxed);
    }
}

fn interval(members: f64, each: Duration, cores: f64) -> Duration {
    each.mul_f64(members / cores.max(0.001))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_members_at_half_a_core_work_a_quarter_of_the_time_each() {
        assert_eq!(interval(2.0, Duration::from_millis(1), 0.5), Duration::from_millis(4));
    }

    #[test]
    fn rounds_are_spread_over_time() {
        let pace = Pace::new(1);
        pace.aim(Duration::from_millis(1), 0.1);
        let began = Instant::now();
        let mut due = began;
        (0..5).for_each(|_| pace.rest(&mut due, 1));
        assert!(began.elapsed() >= Duration::from_millis(45), "{:?}", began.elapsed());
        assert_eq!(pace.rounds(), 5);
    }

    #[test]
    fn what_is_done_together_is_what_would_have_been_done_one_by_one() {
        let pace = Pace::new(1);
        pace.aim(Duration::from_millis(1), 0.1);
        assert!((pace.due_in(Duration::from_secs(1)) - 100.0).abs() < 1e-9);
        assert!((pace.due_in(Duration::from_millis(5)) - 0.5).abs() < 1e-9);
    }
}
