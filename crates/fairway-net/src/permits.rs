//! A limited number of permits shared by all workers: dropping a permit returns it. The limit is passed to each call,
//! so that it can change.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Counts the permits in use.
#[derive(Debug, Default)]
pub struct Permits {
    in_use: AtomicU32,
}

/// A permit, until this is dropped.
#[derive(Debug)]
pub struct Permit(Arc<Permits>);

impl Permits {
    /// Acquires a permit if fewer than `limit` are in use.
    #[must_use]
    pub fn take(self: &Arc<Self>, limit: u32) -> Option<Permit> {
        let increment = |taken: u32| (taken < limit).then(|| taken + 1);
        self.in_use.fetch_update(Ordering::Relaxed, Ordering::Relaxed, increment).ok()?;
        Some(Permit(Arc::clone(self)))
    }

    /// Permits in use.
    #[must_use]
    pub fn in_use(&self) -> u32 {
        self.in_use.load(Ordering::Relaxed)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.in_use.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_released_permit_can_be_taken_again_and_the_limit_may_change() {
        let permits = Arc::new(Permits::default());
        let (first, second) = (permits.take(2).unwrap(), permits.take(2).unwrap());
        assert!(permits.take(2).is_none());
        drop(first);
        assert!(permits.take(1).is_none(), "the limit is lower now, and what is taken stays");
        let third = permits.take(2).unwrap();
        assert!(permits.take(2).is_none());
        drop((second, third));
        assert_eq!(permits.in_use(), 0);
    }

    #[test]
    fn threads_take_no_more_than_there_are() {
        const MAX_PLACES: u32 = 5;
        let permits = Arc::new(Permits::default());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let permits_taken = [permits.take(MAX_PLACES), permits.take(MAX_PLACES)];
                        assert!(permits.in_use() <= MAX_PLACES);
                        drop(permits_taken);
                    }
                });
            }
        });
        assert_eq!(permits.in_use(), 0);
    }
}
