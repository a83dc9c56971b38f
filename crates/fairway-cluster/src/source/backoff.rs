//! How long to wait after a failure: longer each time, never longer than 5 s, and not in step with others that failed at
//! the same moment. Never waits itself.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

/// Failures in a row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The time to wait after one more failure.
    pub(super) fn next(&mut self) -> Duration {
        self.next_up_to(LONGEST)
    }

    /// The same, where it may wait up to `longest`.
    pub(super) fn next_up_to(&mut self, longest: Duration) -> Duration {
        let whole = FIRST.saturating_mul(1 << self.failures.min(10)).min(longest);
        self.failures = self.failures.saturating_add(1);
        whole.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// It works again.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_to_five_seconds_and_begins_anew_after_a_success() {
        let mut backoff = Backoff::default();
        assert!(backoff.next() <= FIRST);
        let waits: Vec<_> = (0..50).map(|_| backoff.next()).collect();
        assert!(waits.iter().all(|wait| *wait <= LONGEST) && waits[49] >= LONGEST / 2);
        backoff.reset();
        assert!(backoff.next() <= FIRST);
    }
}
