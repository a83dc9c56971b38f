//! The maximum number of concurrent attempts on an endpoint, which decides how many idle connections to keep.

use std::cell::Cell;
use std::time::Duration;

use fairway_net::clock::Instant;

/// How long a maximum is kept at least; it is forgotten after twice this time.
const MARK_PERIOD: Duration = Duration::from_secs(60);

/// The maxima of the current and the previous minute.
pub(crate) struct HighWater {
    current: Cell<u32>,
    previous: Cell<u32>,
    /// When the current minute began.
    began: Cell<Instant>,
}

impl HighWater {
    pub(crate) fn new(now: Instant) -> Self {
        Self { current: Cell::new(0), previous: Cell::new(0), began: Cell::new(now) }
    }

    /// This many attempts are in flight. Called for each attempt, so it reads no clock.
    #[inline]
    pub(crate) fn rise(&self, in_flight: u32) {
        if in_flight > self.current.get() {
            self.current.set(in_flight);
        }
    }

    /// Call once a second to forget old maxima.
    pub(crate) fn sweep(&self, in_flight: u32, now: Instant) {
        let age = now.saturating_duration_since(self.began.get());
        if age < MARK_PERIOD {
            return;
        }
        // If the worker was not swept for longer, the previous minute had no attempts.
        self.previous.set(if age < 2 * MARK_PERIOD { self.current.get() } else { 0 });
        self.current.set(in_flight);
        self.began.set(now);
    }

    /// The mark.
    pub(crate) fn mark(&self) -> usize {
        self.current.get().max(self.previous.get()) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The marks after each second, with this many concurrent attempts in each.
    fn marks(in_flight: impl IntoIterator<Item = u32>) -> Vec<usize> {
        let mut now = Instant::now();
        let water = HighWater::new(now);
        in_flight
            .into_iter()
            .map(|in_flight| {
                (1..=in_flight).for_each(|count| water.rise(count));
                now += Duration::from_secs(1);
                // All attempts end within the second.
                water.sweep(0, now);
                water.mark()
            })
            .collect()
    }

    #[test]
    fn a_peak_is_kept_for_a_minute_and_forgotten_after_two() {
        for peak_at in [0, 1, 30, 58, 59, 60, 61] {
            let load = (0..240).map(|second| if second == peak_at { 500 } else { 7 });
            let marks = marks(load);
            assert!(marks[peak_at..peak_at + 60].iter().all(|mark| *mark == 500), "at {peak_at}: {marks:?}");
            assert!(marks[peak_at + 120..].iter().all(|mark| *mark == 7), "at {peak_at}: {marks:?}");
        }
    }

    #[test]
    fn the_maximum_follows_rises_at_once_and_falls_in_steps() {
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
    fn requests_in_flight_at_the_start_of_a_minute_count_for_it() {
        let began = Instant::now();
        let water = HighWater::new(began);
        water.rise(40);
        for minute in 1..10 {
            water.sweep(40, began + minute * MARK_PERIOD);
            assert_eq!(water.mark(), 40);
        }
        water.sweep(0, began + 20 * MARK_PERIOD);
        assert_eq!(water.mark(), 0, "nobody looked for ten minutes");
    }
}
