//! A worker's batch of sampled exchanges, sent when full or once per tick.

use std::cell::{Cell, RefCell};

use super::channel::TraceSender;
use super::exchange::TracedExchange;

/// Exchanges per batch.
const MAX_BATCH_EXCHANGES: usize = 64;

/// Collects and sends sampled exchanges of a worker.
pub(crate) struct TraceBatcher {
    /// `None` without an exporter.
    sender: Option<TraceSender>,
    batch: RefCell<Vec<TracedExchange>>,
    dropped: Cell<u64>,
}

impl TraceBatcher {
    pub(crate) fn new(sender: Option<TraceSender>) -> Self {
        Self { sender, batch: RefCell::default(), dropped: Cell::new(0) }
    }

    /// Whether there is an exporter.
    pub(crate) fn has_exporter(&self) -> bool {
        self.sender.is_some()
    }

    pub(crate) fn add(&self, exchange: TracedExchange) {
        let mut batch = self.batch.borrow_mut();
        if batch.capacity() == 0 {
            batch.reserve_exact(MAX_BATCH_EXCHANGES);
        }
        batch.push(exchange);
        if batch.len() >= MAX_BATCH_EXCHANGES {
            self.hand_over(&mut batch);
        }
    }

    /// Counts an exchange lost before it was added.
    pub(crate) fn count_dropped(&self) {
        self.dropped.set(self.dropped.get() + 1);
    }

    /// Sends the current batch. Once a second.
    pub(crate) fn flush(&self) {
        let mut batch = self.batch.borrow_mut();
        if !batch.is_empty() {
            self.hand_over(&mut batch);
        }
    }

    /// Exchanges dropped because the channel was full or memory was short.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.get()
    }

    fn hand_over(&self, batch: &mut Vec<TracedExchange>) {
        let Some(to) = &self.sender else { return batch.clear() };
        if let Err(lost) = to.send(std::mem::take(batch)) {
            self.dropped.set(self.dropped.get() + lost as u64);
        }
    }
}
