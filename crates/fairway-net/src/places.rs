//! Places of which there are only so many, all workers together: one is taken and, when it is dropped, given back. How many
//! there may be is asked each time, so that it can change.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many are taken.
#[derive(Debug, Default)]
pub struct Places {
    taken: AtomicU32,
}

/// One that is taken, until this is dropped.
#[derive(Debug)]
pub struct Place(Arc<Places>);

impl Places {
    /// One more, where fewer than `most` are taken.
    #[must_use]
    pub fn take(self: &Arc<Self>, most: u32) -> Option<Place> {
        let one_more = |taken: u32| (taken < most).then(|| taken + 1);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        Some(Place(Arc::clone(self)))
    }

    /// How many are taken.
    #[must_use]
    pub fn taken(&self) -> u32 {
        self.taken.load(Ordering::Relaxed)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_given_back_can_be_taken_again_and_the_limit_may_change() {
        let places = Arc::new(Places::default());
        let (first, second) = (places.take(2).unwrap(), places.take(2).unwrap());
        assert!(places.take(2).is_none());
        drop(first);
        assert!(places.take(1).is_none(), "the limit is lower now, and what is taken stays");
        let third = places.take(2).unwrap();
        assert!(places.take(2).is_none());
        drop((second, third));
        assert_eq!(places.taken(), 0);
    }

    #[test]
    fn threads_take_no_more_than_there_are() {
        const MOST: u32 = 5;
        let places = Arc::new(Places::default());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let taken = [places.take(MOST), places.take(MOST)];
                        assert!(places.taken() <= MOST);
                        drop(taken);
                    }
                });
            }
        });
        assert_eq!(places.taken(), 0);
    }
}
