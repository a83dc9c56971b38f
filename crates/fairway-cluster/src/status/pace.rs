//! Limits the rate of API server requests: a burst after idle time, then one per period. Pure; the time is passed in.

use std::time::Duration;

use tokio::time::Instant;

/// A token bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestPace {
    burst: u32,
    spacing: Duration,
    /// When the bucket is full again.
    full: Instant,
}

impl RequestPace {
    /// `burst` requests at once, then one per `spacing`; full at `now`.
    pub(crate) fn new(burst: u32, spacing: Duration, now: Instant) -> Self {
        Self { burst, spacing, full: now }
    }

    /// For statuses: a cluster of usual size is written at once, one with 100,000 routes within minutes, without starving other
    /// clients of the API server.
    pub(crate) fn for_statuses(now: Instant) -> Self {
        Self::new(1_000, Duration::from_millis(4), now)
    }

    /// When the next request is permitted.
    pub(crate) fn next_at(&self) -> Instant {
        self.full.checked_sub(self.spacing * self.burst.saturating_sub(1)).unwrap_or(self.full)
    }

    /// Whether a request is permitted now.
    pub(crate) fn permits(&self, now: Instant) -> bool {
        self.next_at() <= now
    }

    /// Counts a request.
    pub(crate) fn spend(&mut self, now: Instant) {
        self.full = self.full.max(now) + self.spacing;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_permitted_and_then_one_request_per_period() {
        let (spacing, mut now) = (Duration::from_millis(100), Instant::now() + Duration::from_secs(3600));
        let mut pace = RequestPace::new(3, spacing, now);
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
