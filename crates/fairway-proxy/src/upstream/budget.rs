//! How many retries a worker may spend: a fifth of its requests, and ten a second besides.

use std::cell::Cell;

use crate::clock::Instant;

/// Retries per request, in hundredths.
const SHARE: u32 = 20;
/// Retries per second besides, in hundredths.
const FLOOR_PER_SECOND: u32 = 1000;
/// The most that can be saved, in hundredths: a burst of 1,000 retries.
const MOST: u32 = 100_000;
const ONE: u32 = 100;

/// A bucket of retries, filled by requests and by time.
pub(crate) struct RetryBudget {
    hundredths: Cell<u32>,
    filled: Cell<Instant>,
}

impl RetryBudget {
    /// Holds one second's worth at first.
    pub(crate) fn new(now: Instant) -> Self {
        Self { hundredths: Cell::new(FLOOR_PER_SECOND), filled: Cell::new(now) }
    }

    /// A request arrived.
    pub(crate) fn earn(&self) {
        self.hundredths.set((self.hundredths.get() + SHARE).min(MOST));
    }

    /// Takes one retry out, if there is one.
    pub(crate) fn spend(&self, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.filled.get());
        let by_time = u32::try_from(since.as_millis().min(100_000) * u128::from(FLOOR_PER_SECOND) / 1000)
            .unwrap_or(MOST);
        if by_time > 0 {
            self.filled.set(now);
        }
        let held = self.hundredths.get().saturating_add(by_time).min(MOST);
        let enough = held >= ONE;
        self.hundredths.set(if enough { held - ONE } else { held });
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_fifth_of_the_requests_and_ten_a_second_may_be_retried() {
        let start = Instant::now();
        let budget = RetryBudget::new(start);
        let first = (0..100).filter(|_| budget.spend(start)).count();
        assert_eq!(first, 10);
        for _ in 0..100 {
            budget.earn();
        }
        assert_eq!((0..100).filter(|_| budget.spend(start)).count(), 20);
        let later = start + Duration::from_secs(2);
        assert_eq!((0..100).filter(|_| budget.spend(later)).count(), 20);
    }
}
