//! Who waits for a response head, so that one that takes long is looked at without a timer for every request.
//!
//! A wait costs an entry in a table. Once every [`LOOK`] the worker wakes the exchanges whose time has come; what they do
//! then is theirs to decide.

use std::cell::RefCell;
use std::task::Waker;
use std::time::Duration;

use slab::Slab;

use crate::clock::Instant;

/// How often the table is looked through.
pub const LOOK: Duration = Duration::from_millis(50);

/// The waits of one worker.
#[derive(Default)]
pub struct Waits {
    entries: RefCell<Slab<Entry>>,
}

struct Entry {
    due: Instant,
    waker: Waker,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    /// Its exchange was woken and has not asked yet.
    Due,
    /// Its exchange knows.
    Noted,
}

/// One wait; it is over when this is dropped.
pub struct Wait<'a> {
    waits: &'a Waits,
    slot: usize,
}

impl Waits {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a wait of the task behind `waker`.
    #[inline]
    pub fn begin(&self, due: Instant, waker: &Waker) -> Wait<'_> {
        let entry = Entry { due, waker: waker.clone(), state: State::Waiting };
        Wait { waits: self, slot: self.entries.borrow_mut().insert(entry) }
    }

    /// Wakes those whose time has come.
    pub fn look(&self, now: Instant) {
        for (_, entry) in self.entries.borrow_mut().iter_mut() {
            if entry.state == State::Waiting && entry.due <= now {
                entry.state = State::Due;
                entry.waker.wake_by_ref();
            }
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.entries.borrow().len()
    }
}

impl Wait<'_> {
    /// Whether its time has come; says so once.
    #[inline]
    pub fn take_due(&self) -> bool {
        let mut entries = self.waits.entries.borrow_mut();
        let state = &mut entries[self.slot].state;
        let due = *state == State::Due;
        if due {
            *state = State::Noted;
        }
        due
    }

    /// Waits once more.
    #[inline]
    pub fn again(&self, due: Instant) {
        let mut entries = self.waits.entries.borrow_mut();
        let entry = &mut entries[self.slot];
        entry.due = due;
        entry.state = State::Waiting;
    }
}

impl Drop for Wait<'_> {
    #[inline]
    fn drop(&mut self) {
        self.waits.entries.borrow_mut().remove(self.slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_due_once_for_each_time_that_was_set_and_only_after_it() {
        let (waits, now) = (Waits::new(), Instant::now());
        let wait = waits.begin(now + LOOK, Waker::noop());
        waits.look(now);
        assert!(!wait.take_due());
        waits.look(now + LOOK);
        assert!(wait.take_due());
        waits.look(now + LOOK * 2);
        assert!(!wait.take_due());
        wait.again(now + LOOK * 3);
        waits.look(now + LOOK * 2);
        assert!(!wait.take_due());
        waits.look(now + LOOK * 3);
        assert!(wait.take_due());
        drop(wait);
        assert_eq!(waits.count(), 0);
    }
}
