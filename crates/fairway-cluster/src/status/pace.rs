//! How often something may be asked of the API server: so much at once, when nothing was asked for a while, and from then on
//! one in each period. Pure; the time is passed in.

use std::time::Duration;

use tokio::time::Instant;

/// An allowance. It is full when nothing was spent for long enough.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    burst: u32,
    spacing: Duration,
    /// When the allowance is full again.
    full: Instant,
}

impl Pace {
    /// `burst` at once, then one in each `spacing`; full at `now`.
    pub(crate) fn new(burst: u32, spacing: Duration, now: Instant) -> Self {
        Self { burst, spacing, full: now }
    }

    /// For statuses: a cluster of the usual size is written at once, one of 100,000 routes within minutes, and neither
    /// takes the API server from others.
    pub(crate) fn of_statuses(now: Instant) -> Self {
        Self::new(1_000, Duration::from_millis(4), now)
    }

    /// When the next may be asked.
    pub(crate) fn next(&self) -> Instant {
        self.full.checked_sub(self.spacing * self.burst.saturating_sub(1)).unwrap_or(self.full)
    }

    /// Whether one may be asked now.
    pub(crate) fn permits(&self, now: Instant) -> bool {
        self.next() <= now
    }

    /// One is asked.
    pub(crate) fn spend(&mut self, now: Instant) {
        self.full = self.full.max(now) + self.spacing;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_let_through_and_then_one_in_each_period() {
        let (spacing, mut now) = (Duration::from_millis(100), Instant::now() + Duration::from_secs(3600));
        let mut pace = Pace::new(3, spacing, now);
        for _ in 0..3 {
            assert!(pace.permits(now));
            pace.spend(now);
        }
        for _ in 0..5 {
            assert!(!pace.permits(now));
            now += spacing;
            assert!(pace.permits(now));
            pace.spend(now);
        }
        now += spacing * 2;
        for permitted in [true, true, false] {
            assert_eq!(pace.permits(now), permitted);
            pace.spend(now);
        }
    }
}
