//! A worker's batch of sampled exchanges, which is handed over when it is full or once a tick.

use std::cell::{Cell, RefCell};

use super::channel::TraceSender;
use super::exchange::TracedExchange;

/// The most exchanges of a batch.
const BATCH: usize = 64;

/// A worker's end of the channel to the exporter.
pub(crate) struct Traces {
    /// `None` without an exporter.
    to: Option<TraceSender>,
    batch: RefCell<Vec<TracedExchange>>,
    dropped: Cell<u64>,
}

impl Traces {
    pub(crate) fn new(to: Option<TraceSender>) -> Self {
        Self { to, batch: RefCell::default(), dropped: Cell::new(0) }
    }

    /// Whether there is an exporter.
    pub(crate) fn is_exported(&self) -> bool {
        self.to.is_some()
    }

    pub(crate) fn add(&self, exchange: TracedExchange) {
        let mut batch = self.batch.borrow_mut();
        if batch.capacity() == 0 {
            batch.reserve_exact(BATCH);
        }
        batch.push(exchange);
        if batch.len() >= BATCH {
            self.hand_over(&mut batch);
        }
    }

    /// An exchange is lost before it was added.
    pub(crate) fn lose(&self) {
        self.dropped.set(self.dropped.get() + 1);
    }

    /// Hands over what has gathered. Once a second.
    pub(crate) fn flush(&self) {
        let mut batch = self.batch.borrow_mut();
        if !batch.is_empty() {
            self.hand_over(&mut batch);
        }
    }

    /// Exchanges that were dropped because the channel was full, or memory was short.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.get()
    }

    fn hand_over(&self, batch: &mut Vec<TracedExchange>) {
        let Some(to) = &self.to else { return batch.clear() };
        if let Err(lost) = to.send(std::mem::take(batch)) {
            self.dropped.set(self.dropped.get() + lost as u64);
        }
    }
}
