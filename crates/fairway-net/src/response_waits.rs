//! Exchanges waiting for a response head, so that slow responses are noticed without a timer per request.
//!
//! A wait costs a table entry. Every [`CHECK_INTERVAL`] the worker wakes the exchanges that are due; they decide what
//! to do.

use std::cell::RefCell;
use std::task::Waker;
use std::time::Duration;

use slab::Slab;

use crate::clock::Instant;

/// How often the table is checked.
pub const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The waits of one worker.
#[derive(Default)]
pub struct ResponseWaits {
    entries: RefCell<Slab<Entry>>,
}

struct Entry {
    due: Instant,
    waker: Waker,
    state: WaitState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WaitState {
    Waiting,
    /// Its exchange was woken and has not checked yet.
    Due,
    /// Its exchange knows.
    Noted,
}

/// One wait, until this is dropped.
pub struct ResponseWait<'a> {
    waits: &'a ResponseWaits,
    slot: usize,
}

impl ResponseWaits {
    /// No waits yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a wait for the task behind `waker`.
    #[inline]
    pub fn start(&self, due: Instant, waker: &Waker) -> ResponseWait<'_> {
        let entry = Entry { due, waker: waker.clone(), state: WaitState::Waiting };
        ResponseWait { waits: self, slot: self.entries.borrow_mut().insert(entry) }
    }

    /// Wakes the exchanges that are due.
    pub fn look(&self, now: Instant) {
        for (_, entry) in self.entries.borrow_mut().iter_mut() {
            if entry.state == WaitState::Waiting && entry.due <= now {
                entry.state = WaitState::Due;
                entry.waker.wake_by_ref();
            }
        }
    }

    /// The number of waits.
    pub fn count(&self) -> usize {
        self.entries.borrow().len()
    }
}

impl ResponseWait<'_> {
    /// Whether it is due; returns true once.
    #[inline]
    pub fn take_due(&self) -> bool {
        let mut entries = self.waits.entries.borrow_mut();
        let state = &mut entries[self.slot].state;
        let due = *state == WaitState::Due;
        if due {
            *state = WaitState::Noted;
        }
        due
    }

    /// Restarts the wait.
    #[inline]
    pub fn restart(&self, due: Instant) {
        let mut entries = self.waits.entries.borrow_mut();
        let entry = &mut entries[self.slot];
        entry.due = due;
        entry.state = WaitState::Waiting;
    }
}

impl Drop for ResponseWait<'_> {
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
        let (waits, now) = (ResponseWaits::new(), Instant::now());
        let wait = waits.start(now + CHECK_INTERVAL, Waker::noop());
        waits.look(now);
        assert!(!wait.take_due());
        waits.look(now + CHECK_INTERVAL);
        assert!(wait.take_due());
        waits.look(now + CHECK_INTERVAL * 2);
        assert!(!wait.take_due());
        wait.restart(now + CHECK_INTERVAL * 3);
        waits.look(now + CHECK_INTERVAL * 2);
        assert!(!wait.take_due());
        waits.look(now + CHECK_INTERVAL * 3);
        assert!(wait.take_due());
        drop(wait);
        assert_eq!(waits.count(), 0);
    }
}
