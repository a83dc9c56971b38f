//! The shutdown phase of a worker, and waking its connections when it changes.

use std::cell::{Cell, RefCell};
use std::task::Waker;

use slab::Slab;
use tokio::sync::Notify;

/// The shutdown phase of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopPhase {
    /// Serving.
    Running,
    /// Still accepting, but every response closes its connection.
    Leaving,
    /// No longer accepting; idle connections are closed, exchanges in flight finish.
    Draining,
    /// The drain timeout has passed: exchanges in flight are aborted.
    Cutting,
}

/// The phase of one worker.
pub struct WorkerStop {
    phase: Cell<StopPhase>,
    handed_over: Cell<bool>,
    changed: Notify,
    /// The wakers of all connections, for phase changes.
    connections: RefCell<Slab<Waker>>,
}

impl Default for WorkerStop {
    fn default() -> Self {
        Self::new()
    }
}

impl WorkerStop {
    /// Running, without connections.
    pub fn new() -> Self {
        Self {
            phase: Cell::new(StopPhase::Running),
            handed_over: Cell::new(false),
            changed: Notify::new(),
            connections: RefCell::new(Slab::new()),
        }
    }

    /// The current phase.
    #[inline]
    pub fn phase(&self) -> StopPhase {
        self.phase.get()
    }

    /// Enters `phase` and wakes every connection.
    pub fn enter(&self, phase: StopPhase) {
        self.phase.set(phase);
        self.changed.notify_waiters();
        self.wake();
    }

    /// Wakes every connection to check the phase.
    pub fn wake(&self) {
        for (_, waker) in self.connections.borrow().iter() {
            waker.wake_by_ref();
        }
    }

    /// Waits until the worker drains.
    pub async fn draining(&self) {
        loop {
            let changed = self.changed.notified();
            if self.phase() >= StopPhase::Draining {
                return;
            }
            changed.await;
        }
    }

    /// Another process accepts new connections from now on.
    pub fn hand_over(&self) {
        self.handed_over.set(true);
        self.changed.notify_waiters();
    }

    /// Whether another process accepts new connections.
    pub fn is_handed_over(&self) -> bool {
        self.handed_over.get()
    }

    /// Waits until nothing new is accepted: the worker drains, or another process has taken over.
    pub async fn accepts_no_more(&self) {
        loop {
            let changed = self.changed.notified();
            if self.is_handed_over() || self.phase() >= StopPhase::Draining {
                return;
            }
            changed.await;
        }
    }

    /// The number of registered connections.
    pub fn registered(&self) -> usize {
        self.connections.borrow().len()
    }

    /// Registers the connection behind `waker`.
    #[inline]
    pub fn register(&self, waker: &Waker) -> ConnectionRegistration<'_> {
        ConnectionRegistration { stopping: self, slot: self.connections.borrow_mut().insert(waker.clone()) }
    }
}

/// A connection that is woken when the phase changes.
pub struct ConnectionRegistration<'w> {
    stopping: &'w WorkerStop,
    slot: usize,
}

impl Drop for ConnectionRegistration<'_> {
    #[inline]
    fn drop(&mut self) {
        self.stopping.connections.borrow_mut().remove(self.slot);
    }
}
