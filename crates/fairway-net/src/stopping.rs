//! How far a worker is with stopping, and who is woken when that changes. Closes nothing itself.

use std::cell::{Cell, RefCell};
use std::task::Waker;

use slab::Slab;
use tokio::sync::Notify;

/// How far the worker is with stopping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Serving.
    Running,
    /// Still accepting, but every answer closes its connection.
    Leaving,
    /// No longer accepting; idle connections close, exchanges in flight finish.
    Draining,
    /// The time for that is over: exchanges in flight end where they are.
    Cutting,
}

/// The phase of one worker.
pub struct Stopping {
    phase: Cell<Phase>,
    handed_over: Cell<bool>,
    changed: Notify,
    /// Every connection, to be woken when the phase changes.
    connections: RefCell<Slab<Waker>>,
}

impl Default for Stopping {
    fn default() -> Self {
        Self::new()
    }
}

impl Stopping {
    /// Serving, without connections.
    pub fn new() -> Self {
        Self {
            phase: Cell::new(Phase::Running),
            handed_over: Cell::new(false),
            changed: Notify::new(),
            connections: RefCell::new(Slab::new()),
        }
    }

    /// How far it is.
    #[inline]
    pub fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// Goes on to `phase`, which every connection notices.
    pub fn enter(&self, phase: Phase) {
        self.phase.set(phase);
        self.changed.notify_waiters();
        self.wake();
    }

    /// Makes every connection look whether it is to stop.
    pub fn wake(&self) {
        for (_, waker) in self.connections.borrow().iter() {
            waker.wake_by_ref();
        }
    }

    /// Waits until the worker drains.
    pub async fn draining(&self) {
        loop {
            let changed = self.changed.notified();
            if self.phase() >= Phase::Draining {
                return;
            }
            changed.await;
        }
    }

    /// Another process takes whatever is new.
    pub fn hand_over(&self) {
        self.handed_over.set(true);
        self.changed.notify_waiters();
    }

    /// Whether another process takes whatever is new.
    pub fn is_handed_over(&self) -> bool {
        self.handed_over.get()
    }

    /// Waits until nothing new is accepted: the worker drains, or another process takes it.
    pub async fn accepts_no_more(&self) {
        loop {
            let changed = self.changed.notified();
            if self.is_handed_over() || self.phase() >= Phase::Draining {
                return;
            }
            changed.await;
        }
    }

    /// How many connections there are.
    pub fn registered(&self) -> usize {
        self.connections.borrow().len()
    }

    /// Adds the connection behind `waker`.
    #[inline]
    pub fn register(&self, waker: &Waker) -> Registered<'_> {
        Registered { stopping: self, slot: self.connections.borrow_mut().insert(waker.clone()) }
    }
}

/// A connection that is woken when the phase changes.
pub struct Registered<'w> {
    stopping: &'w Stopping,
    slot: usize,
}

impl Drop for Registered<'_> {
    #[inline]
    fn drop(&mut self) {
        self.stopping.connections.borrow_mut().remove(self.slot);
    }
}
