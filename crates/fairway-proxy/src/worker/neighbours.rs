//! The other workers as seen by one: which has the fewest HTTP/2 connections, and channels to them.

use std::sync::Arc;

use fairway_net::spread::{ConnectionSpread, SpreadConnection};
use tokio::sync::mpsc;

use crate::listener::ListenerId;

/// Connections queued for a worker. If the queue is full, a connection stays where it was accepted.
const MAX_QUEUED_CONNECTIONS: usize = 256;

/// A connection in transit to another worker, which counts it as open with an `O`.
pub(crate) struct TransferredConnection<O> {
    pub(crate) share: SpreadConnection,
    /// The worker that accepted it; `None` on the way back.
    pub(crate) accepted_by: Option<usize>,
    /// The listener that serves it.
    pub(crate) listener: ListenerId,
    pub(crate) serve: Serve<O>,
}

/// Serves a connection on the thread that calls it.
pub(crate) type Serve<O> = Box<dyn FnOnce(O, SpreadConnection) + Send>;

/// Receives connections from other workers.
pub(crate) type Arrivals<O> = mpsc::Receiver<TransferredConnection<O>>;

pub(crate) struct Neighbours<O> {
    index: usize,
    spread: Arc<ConnectionSpread>,
    senders: Vec<mpsc::Sender<TransferredConnection<O>>>,
}

impl<O> Neighbours<O> {
    /// One instance per worker counted by `spread`, with its receiver.
    pub(crate) fn for_workers(spread: &Arc<ConnectionSpread>) -> Vec<(Self, Arrivals<O>)> {
        let workers = spread.counts().len();
        let (senders, arrivals): (Vec<_>, Vec<_>) =
            (0..workers).map(|_| mpsc::channel(MAX_QUEUED_CONNECTIONS)).unzip();
        let neighbour = |(index, arrivals)| {
            (Self { index, spread: Arc::clone(spread), senders: senders.clone() }, arrivals)
        };
        arrivals.into_iter().enumerate().map(neighbour).collect()
    }

    /// For a single worker.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self { index: 0, spread: ConnectionSpread::new(1), senders: Vec::new() }
    }

    /// Index of this worker.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Counts a connection at the worker with the fewest.
    pub(crate) fn share(&self) -> SpreadConnection {
        self.spread.register(self.index)
    }

    /// Counts a connection at this worker.
    pub(crate) fn share_at(&self, worker: usize) -> SpreadConnection {
        self.spread.begin_at(worker)
    }

    /// Stops other workers from sending connections here.
    pub(crate) fn stop_receiving(&self) {
        self.spread.unregister(self.index);
    }

    /// Sends a connection to the worker of its share; returns it if that worker cannot take it.
    pub(crate) fn send(&self, moved: TransferredConnection<O>) -> Result<(), TransferredConnection<O>> {
        let Some(sender) = self.senders.get(moved.share.worker()) else { return Err(moved) };
        sender.try_send(moved).map_err(mpsc::error::TrySendError::into_inner)
    }
}
