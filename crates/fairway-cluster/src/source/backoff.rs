//! The delay after a failure: grows up to 5 s, with jitter, so that clients that failed together do not retry together. Never
//! sleeps itself.

use std::time::Duration;

const INITIAL_DELAY: Duration = Duration::from_millis(100);
const MAX_DELAY: Duration = Duration::from_secs(5);

/// Consecutive failures.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The delay after one more failure.
    pub(super) fn next_delay(&mut self) -> Duration {
        self.next_delay_up_to(MAX_DELAY)
    }

    /// The same with another maximum.
    pub(super) fn next_delay_up_to(&mut self, longest: Duration) -> Duration {
        let full_delay = INITIAL_DELAY.saturating_mul(1 << self.failures.min(10)).min(longest);
        self.failures = self.failures.saturating_add(1);
        full_delay.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// The operation succeeded.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_to_five_seconds_and_resets_after_a_success() {
        let mut backoff = Backoff::default();
        assert!(backoff.next_delay() <= INITIAL_DELAY);
        let waits: Vec<_> = (0..50).map(|_| backoff.next_delay()).collect();
        assert!(waits.iter().all(|wait| *wait <= MAX_DELAY) && waits[49] >= MAX_DELAY / 2);
        backoff.reset();
        assert!(backoff.next_delay() <= INITIAL_DELAY);
    }
}
