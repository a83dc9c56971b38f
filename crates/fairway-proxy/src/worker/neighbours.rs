//! The other workers, as one of them sees them: who has fewer connections of HTTP/2, and the way there.

use std::sync::Arc;

use fairway_net::spread::{Share, Spread};
use tokio::sync::mpsc;

use crate::listener::ListenerId;

/// Connections that wait until a worker takes them over. One that finds no room stays where it is.
const WAITING: usize = 256;

/// A connection on its way to another worker, which counts it as open with an `O`.
pub(crate) struct Moved<O> {
    pub(crate) share: Share,
    /// Where it came from; `None` for one that is on its way back.
    pub(crate) from: Option<usize>,
    /// Who serves it.
    pub(crate) listener: ListenerId,
    pub(crate) serve: Serve<O>,
}

/// Serves a connection on the thread that calls it.
pub(crate) type Serve<O> = Box<dyn FnOnce(O, Share) + Send>;

/// Where connections from other workers come in.
pub(crate) type Arrivals<O> = mpsc::Receiver<Moved<O>>;

/// The other workers.
pub(crate) struct Neighbours<O> {
    here: usize,
    spread: Arc<Spread>,
    ways: Vec<mpsc::Sender<Moved<O>>>,
}

impl<O> Neighbours<O> {
    /// Of each of as many workers as `spread` counts for, with where its connections come in.
    pub(crate) fn all(spread: &Arc<Spread>) -> Vec<(Self, Arrivals<O>)> {
        let workers = spread.counts().len();
        let (ways, arrivals): (Vec<_>, Vec<_>) = (0..workers).map(|_| mpsc::channel(WAITING)).unzip();
        let of = |(here, arrivals)| (Self { here, spread: Arc::clone(spread), ways: ways.clone() }, arrivals);
        arrivals.into_iter().enumerate().map(of).collect()
    }

    /// Of the only worker there is.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self { here: 0, spread: Spread::new(1), ways: Vec::new() }
    }

    /// Which worker this one is.
    pub(crate) fn here(&self) -> usize {
        self.here
    }

    /// Counts a connection where it belongs.
    pub(crate) fn share(&self) -> Share {
        self.spread.begin(self.here)
    }

    /// Counts a connection at this worker.
    pub(crate) fn share_of(&self, worker: usize) -> Share {
        self.spread.begin_at(worker)
    }

    /// None of the others sends anything here any more.
    pub(crate) fn leave(&self) {
        self.spread.leave(self.here);
    }

    /// Sends a connection to the worker that its share is of; gives it back where that one cannot take it.
    pub(crate) fn send(&self, moved: Moved<O>) -> Result<(), Moved<O>> {
        let Some(way) = self.ways.get(moved.share.worker()) else { return Err(moved) };
        way.try_send(moved).map_err(mpsc::error::TrySendError::into_inner)
    }
}
