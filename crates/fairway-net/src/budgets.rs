//! What a worker may spend on repeating work: a share of what was asked of it, and some every second besides.
//!
//! Retries and hedged connects have a budget each, so that a fault cannot multiply the load that caused it.

use std::cell::Cell;
use std::rc::Rc;

use crate::clock::Instant;
use crate::growth::Growth;

/// The most that can be saved, in hundredths: a burst of 1,000.
const MOST: u32 = 100_000;
const ONE: u32 = 100;

/// How fast a budget fills, in hundredths.
#[derive(Clone, Copy)]
struct Rate {
    /// For each thing that was asked for.
    share: u32,
    /// Every second besides.
    floor: u32,
}

/// The budgets of one worker.
pub struct Budgets {
    /// Attempts after the first: 20% of the requests and 10 a second.
    pub retries: Budget,
    /// Connects that race another one: 10% of the connects and 10 a second.
    pub hedges: Budget,
    /// Copies of requests that are under way.
    pub copies: Cell<usize>,
    /// What windows of HTTP/2 have grown by.
    pub windows: Rc<Growth>,
}

impl Budgets {
    /// Nothing spent yet.
    pub fn new(now: Instant) -> Self {
        Self {
            retries: Budget::new(RETRIES, now),
            hedges: Budget::new(HEDGES, now),
            copies: Cell::new(0),
            windows: Rc::default(),
        }
    }
}

const RETRIES: Rate = Rate { share: 20, floor: 1000 };
const HEDGES: Rate = Rate { share: 10, floor: 1000 };

/// A bucket, filled by what is asked for and by time.
pub struct Budget {
    rate: Rate,
    hundredths: Cell<u32>,
    filled: Cell<Instant>,
}

impl Budget {
    /// So many for each hundred that are asked for, and so many every second besides, of which it holds one second's worth at first.
    #[must_use]
    pub fn of(percent: u8, per_second: u16, now: Instant) -> Self {
        Self::new(Rate { share: percent.into(), floor: u32::from(per_second) * ONE }, now)
    }

    /// Holds one second's worth at first.
    fn new(rate: Rate, now: Instant) -> Self {
        Self { rate, hundredths: Cell::new(rate.floor), filled: Cell::new(now) }
    }

    /// Something was asked for: a request or a connect.
    pub fn earn(&self) {
        self.hundredths.set((self.hundredths.get() + self.rate.share).min(MOST));
    }

    /// Takes one out, if there is one.
    pub fn spend(&self, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.filled.get());
        let by_time = u32::try_from(since.as_millis().min(100_000) * u128::from(self.rate.floor) / 1000)
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
    fn a_budget_without_a_share_has_what_a_second_gives_and_one_without_either_has_nothing() {
        let start = Instant::now();
        let (spent, nothing) = (Budget::of(0, 3, start), Budget::of(0, 0, start));
        (0..100).for_each(|_| spent.earn());
        assert_eq!((0..100).filter(|_| spent.spend(start)).count(), 3);
        let later = start + Duration::from_secs(1);
        assert_eq!((0..100).filter(|_| spent.spend(later)).count(), 3);
        assert!(!nothing.spend(later));
    }

    #[test]
    fn a_share_of_what_was_asked_and_ten_a_second_may_be_spent() {
        for (rate, share) in [(RETRIES, 20), (HEDGES, 10)] {
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
