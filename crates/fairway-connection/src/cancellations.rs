//! How many requests HTTP/2 and HTTP/3 clients cancel before a response begins, and whether that looks like a flood.
//! Counted per worker, not per address: one address may stand for one client or for thousands.

use std::cell::Cell;

use crate::sides::RequestEnd;

/// Fewer cancellations than this, in about a second, are normal: users leave pages, calls time out.
const MIN_CANCELED: u32 = 64;
/// One cancellation in this many requests is normal too.
const MIN_CANCELED_SHARE: u32 = 8;

/// The counts of one worker, halved every second.
#[derive(Default)]
pub struct CancellationRate {
    responded: Cell<u32>,
    canceled: Cell<u32>,
    /// The result of the last check.
    was_high: Cell<bool>,
}

impl CancellationRate {
    /// Counts a request that ended.
    pub fn record(&self, departed: RequestEnd) {
        let count = match departed {
            RequestEnd::Responded => &self.responded,
            RequestEnd::Canceled => &self.canceled,
            RequestEnd::Abandoned => return,
        };
        count.set(count.get().saturating_add(1));
    }

    /// Whether so many were cancelled lately that connections must earn their streams.
    pub fn is_high(&self) -> bool {
        let taken_back = self.canceled.get();
        taken_back >= MIN_CANCELED && taken_back >= self.responded.get() / MIN_CANCELED_SHARE
    }

    /// Call once a second. Returns whether the rate is high, if that changed.
    pub fn tick(&self) -> Option<bool> {
        let are_many = self.is_high();
        for count in [&self.responded, &self.canceled] {
            count.set(count.get() / 2);
        }
        (self.was_high.replace(are_many) != are_many).then_some(are_many)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record_counts(takebacks: &CancellationRate, answered: u32, taken_back: u32) -> bool {
        (0..answered).for_each(|_| takebacks.record(RequestEnd::Responded));
        (0..taken_back).for_each(|_| takebacks.record(RequestEnd::Canceled));
        takebacks.is_high()
    }

    #[test]
    fn few_are_not_many_and_a_small_share_is_not_either() {
        assert!(!record_counts(&CancellationRate::default(), 0, 63));
        assert!(record_counts(&CancellationRate::default(), 0, 64));
        assert!(record_counts(&CancellationRate::default(), 800, 100));
        assert!(!record_counts(&CancellationRate::default(), 808, 100));
    }

    #[test]
    fn counts_are_halved_each_second_and_each_change_is_reported_once() {
        let takebacks = CancellationRate::default();
        assert_eq!(takebacks.tick(), None);
        assert!(record_counts(&takebacks, 0, 200));
        assert_eq!([takebacks.tick(), takebacks.tick()], [Some(true), None], "200 and 100");
        assert_eq!([takebacks.tick(), takebacks.tick()], [Some(false), None], "50 and 25");
    }
}
