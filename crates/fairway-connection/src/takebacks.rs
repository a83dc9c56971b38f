//! How many requests clients of HTTP/2 take back before an answer began, and whether these are so many that it looks like a
//! flood. Each worker has its own count; nothing is known of addresses, behind which there may be one client or thousands.

use std::cell::Cell;

use crate::sides::Departed;

/// Fewer than this, in about a second, are everyday life: people who leave a page, calls whose time is over.
const MANY: u32 = 64;
/// One of so many is everyday life as well, however many there are.
const SHARE: u32 = 8;

/// Of one worker. Both counts lose half of themselves each second.
#[derive(Default)]
pub struct Takebacks {
    answered: Cell<u32>,
    taken_back: Cell<u32>,
    /// Whether there were many at the last look.
    were_many: Cell<bool>,
}

impl Takebacks {
    /// A request is over, or its client has left.
    pub fn note(&self, departed: Departed) {
        let count = match departed {
            Departed::Answered => &self.answered,
            Departed::TakenBack => &self.taken_back,
            Departed::GivenUp => return,
        };
        count.set(count.get().saturating_add(1));
    }

    /// Whether so many were taken back lately that connections have to earn what they may ask for.
    pub fn are_many(&self) -> bool {
        let taken_back = self.taken_back.get();
        taken_back >= MANY && taken_back >= self.answered.get() / SHARE
    }

    /// Once a second. Says whether there are many, where that is new.
    pub fn tick(&self) -> Option<bool> {
        let are_many = self.are_many();
        for count in [&self.answered, &self.taken_back] {
            count.set(count.get() / 2);
        }
        (self.were_many.replace(are_many) != are_many).then_some(are_many)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(takebacks: &Takebacks, answered: u32, taken_back: u32) -> bool {
        (0..answered).for_each(|_| takebacks.note(Departed::Answered));
        (0..taken_back).for_each(|_| takebacks.note(Departed::TakenBack));
        takebacks.are_many()
    }

    #[test]
    fn few_are_not_many_and_a_small_share_is_not_either() {
        assert!(!some(&Takebacks::default(), 0, 63));
        assert!(some(&Takebacks::default(), 0, 64));
        assert!(some(&Takebacks::default(), 800, 100));
        assert!(!some(&Takebacks::default(), 808, 100));
    }

    #[test]
    fn they_are_forgotten_by_half_each_second_and_each_change_is_told_once() {
        let takebacks = Takebacks::default();
        assert_eq!(takebacks.tick(), None);
        assert!(some(&takebacks, 0, 200));
        assert_eq!([takebacks.tick(), takebacks.tick()], [Some(true), None], "200 and 100");
        assert_eq!([takebacks.tick(), takebacks.tick()], [Some(false), None], "50 and 25");
    }
}
