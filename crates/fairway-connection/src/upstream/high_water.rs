//! How many attempts were under way with an endpoint at once: what its pool is worth keeping for.

use std::cell::Cell;
use std::time::Duration;

use fairway_net::clock::Instant;

/// For how long a high-water mark holds at least; it is gone after twice the time.
const MEMORY: Duration = Duration::from_secs(60);

/// The most attempts at once, of the minute that is under way and of the one before.
pub(crate) struct HighWater {
    current: Cell<u32>,
    before: Cell<u32>,
    /// When the minute that is under way began.
    began: Cell<Instant>,
}

impl HighWater {
    pub(crate) fn new(now: Instant) -> Self {
        Self { current: Cell::new(0), before: Cell::new(0), began: Cell::new(now) }
    }

    /// So many attempts are under way. Called for each attempt, so it asks no clock.
    #[inline]
    pub(crate) fn rise(&self, in_flight: u32) {
        if in_flight > self.current.get() {
            self.current.set(in_flight);
        }
    }

    /// Forgets what is older, once a second; `in_flight` attempts are under way.
    pub(crate) fn sweep(&self, in_flight: u32, now: Instant) {
        let age = now.saturating_duration_since(self.began.get());
        if age < MEMORY {
            return;
        }
        // Of a worker that was not looked at for longer, the minute before has nothing.
        self.before.set(if age < 2 * MEMORY { self.current.get() } else { 0 });
        self.current.set(in_flight);
        self.began.set(now);
    }

    /// The mark.
    pub(crate) fn mark(&self) -> usize {
        self.current.get().max(self.before.get()) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Marks after each second in which this many attempts are under way at once.
    fn marks(in_flight: impl IntoIterator<Item = u32>) -> Vec<usize> {
        let mut now = Instant::now();
        let water = HighWater::new(now);
        in_flight
            .into_iter()
            .map(|in_flight| {
                (1..=in_flight).for_each(|count| water.rise(count));
                now += Duration::from_secs(1);
                // All end within the second.
                water.sweep(0, now);
                water.mark()
            })
            .collect()
    }

    #[test]
    fn a_peak_holds_for_a_minute_and_is_gone_after_two() {
        for peak_at in [0, 1, 30, 58, 59, 60, 61] {
            let load = (0..240).map(|second| if second == peak_at { 500 } else { 7 });
            let marks = marks(load);
            assert!(marks[peak_at..peak_at + 60].iter().all(|mark| *mark == 500), "at {peak_at}: {marks:?}");
            assert!(marks[peak_at + 120..].iter().all(|mark| *mark == 7), "at {peak_at}: {marks:?}");
        }
    }

    #[test]
    fn it_follows_a_rise_at_once_and_a_fall_step_by_step() {
        let load = (0..600).map(|second| match second {
            0..120 => 100,
            120..240 => 1000,
            240..360 => 400,
            _ => 0,
        });
        let marks = marks(load);
        assert_eq!((marks[119], marks[120], marks[239]), (100, 1000, 1000));
        assert_eq!((marks[360], marks[480]), (400, 0));
        let falls = marks.windows(2).filter(|pair| pair[1] < pair[0]).count();
        assert_eq!(falls, 2, "1000, 400, 0");
    }

    #[test]
    fn what_is_under_way_when_a_minute_begins_belongs_to_it() {
        let began = Instant::now();
        let water = HighWater::new(began);
        water.rise(40);
        for minute in 1..10 {
            water.sweep(40, began + minute * MEMORY);
            assert_eq!(water.mark(), 40);
        }
        water.sweep(0, began + 20 * MEMORY);
        assert_eq!(water.mark(), 0, "nobody looked for ten minutes");
    }
}
