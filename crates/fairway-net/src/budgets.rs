//! What a worker may spend on repeated work: a share of the regular work, plus a fixed rate.
//!
//! Retries and hedged connects have a budget each, so that a failure cannot multiply the load that caused it.

use std::cell::Cell;
use std::rc::Rc;

use crate::clock::Instant;
use crate::growth::SharedMemory;

/// The most that can be saved, in hundredths: a burst of 1,000.
const MAX_SAVED_HUNDREDTHS: u32 = 100_000;
const COST_HUNDREDTHS: u32 = 100;

/// How fast a budget fills, in hundredths.
#[derive(Clone, Copy)]
struct FillRate {
    /// For each request or connect.
    per_request: u32,
    /// Every second, in addition.
    per_second: u32,
}

/// The budgets of one worker.
pub struct Budgets {
    /// Attempts after the first: 20% of the requests and 10 a second.
    pub retries: Budget,
    /// Connects that race another one: 10% of the connects and 10 a second.
    pub hedges: Budget,
    /// Mirrored requests in flight.
    pub copies: Cell<usize>,
    /// The growth of HTTP/2 windows.
    pub window_growth: Rc<SharedMemory>,
}

impl Budgets {
    /// Full budgets of one second.
    pub fn new(now: Instant) -> Self {
        Self {
            retries: Budget::new(RETRY_RATE, now),
            hedges: Budget::new(HEDGE_RATE, now),
            copies: Cell::new(0),
            window_growth: Rc::default(),
        }
    }
}

const RETRY_RATE: FillRate = FillRate { per_request: 20, per_second: 1000 };
const HEDGE_RATE: FillRate = FillRate { per_request: 10, per_second: 1000 };

/// A token bucket that is filled by work and by time.
pub struct Budget {
    rate: FillRate,
    balance: Cell<u32>,
    filled_at: Cell<Instant>,
}

impl Budget {
    /// `percent` of the work, plus `per_second`; starts with one second's worth.
    #[must_use]
    pub fn with_rate(percent: u8, per_second: u16, now: Instant) -> Self {
        Self::new(
            FillRate { per_request: percent.into(), per_second: u32::from(per_second) * COST_HUNDREDTHS },
            now,
        )
    }

    /// Starts with one second's worth.
    fn new(rate: FillRate, now: Instant) -> Self {
        Self { rate, balance: Cell::new(rate.per_second), filled_at: Cell::new(now) }
    }

    /// Counts a request or a connect.
    pub fn earn(&self) {
        self.balance.set((self.balance.get() + self.rate.per_request).min(MAX_SAVED_HUNDREDTHS));
    }

    /// Takes one token if there is one.
    pub fn spend(&self, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.filled_at.get());
        let by_time = u32::try_from(since.as_millis().min(100_000) * u128::from(self.rate.per_second) / 1000)
            .unwrap_or(MAX_SAVED_HUNDREDTHS);
        if by_time > 0 {
            self.filled_at.set(now);
        }
        let saved = self.balance.get().saturating_add(by_time).min(MAX_SAVED_HUNDREDTHS);
        let enough = saved >= COST_HUNDREDTHS;
        self.balance.set(if enough { saved - COST_HUNDREDTHS } else { saved });
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_budget_without_a_share_allows_the_rate_and_one_without_either_allows_nothing() {
        let start = Instant::now();
        let (spent, nothing) = (Budget::with_rate(0, 3, start), Budget::with_rate(0, 0, start));
        (0..100).for_each(|_| spent.earn());
        assert_eq!((0..100).filter(|_| spent.spend(start)).count(), 3);
        let later = start + Duration::from_secs(1);
        assert_eq!((0..100).filter(|_| spent.spend(later)).count(), 3);
        assert!(!nothing.spend(later));
    }

    #[test]
    fn a_share_of_the_requests_and_ten_a_second_may_be_spent() {
        for (rate, share) in [(RETRY_RATE, 20), (HEDGE_RATE, 10)] {
            let start = Instant::now();
            let budget = Budget::new(rate, start);
            let first = (0..100).filter(|_| budget.spend(start)).count();
            assert_eq!(first, 10);
            for _ in 0..100 {
                budget.earn();
            }
            assert_eq!((0..100).filter(|_| budget.spend(start)).count(), share);
            let later = start + Duration::from_secs(2);
            assert_eq!((0..100).filter(|_| budget.spend(later)).count(), 20);
        }
    }
}
