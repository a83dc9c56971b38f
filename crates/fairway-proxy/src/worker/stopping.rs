//! How far a worker is with stopping, and who is woken when that changes. Closes nothing itself.

use std::cell::{Cell, RefCell};
use std::task::Waker;

use slab::Slab;
use tokio::sync::Notify;

/// How far the worker is with stopping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Serving.
    Running,
    /// Still accepting, but every answer closes its connection.
    Leaving,
    /// No longer accepting; idle connections close, exchanges in flight finish.
    Draining,
}

/// The phase of one worker.
pub(crate) struct Stopping {
    phase: Cell<Phase>,
    changed: Notify,
    /// Every connection, to be woken when the phase changes.
    connections: RefCell<Slab<Waker>>,
}

impl Stopping {
    pub(super) fn new() -> Self {
        Self {
            phase: Cell::new(Phase::Running),
            changed: Notify::new(),
            connections: RefCell::new(Slab::new()),
        }
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase.get()
    }

    pub(super) fn enter(&self, phase: Phase) {
        self.phase.set(phase);
        self.changed.notify_waiters();
        self.wake();
    }

    /// Makes every connection look whether it is to stop.
    pub(super) fn wake(&self) {
        for (_, waker) in self.connections.borrow().iter() {
            waker.wake_by_ref();
        }
    }

    pub(super) async fn draining(&self) {
        loop {
            let changed = self.changed.notified();
            if self.phase() == Phase::Draining {
                return;
            }
            changed.await;
        }
    }

    #[cfg(test)]
    pub(super) fn registered(&self) -> usize {
        self.connections.borrow().len()
    }

    pub(super) fn register(&self, waker: &Waker) -> Registered<'_> {
        Registered { stopping: self, slot: self.connections.borrow_mut().insert(waker.clone()) }
    }
}

/// A connection that is woken when the phase changes.
pub(crate) struct Registered<'w> {
    stopping: &'w Stopping,
    slot: usize,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.stopping.connections.borrow_mut().remove(self.slot);
    }
}
