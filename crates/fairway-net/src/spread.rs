//! Counts long-lived connections per worker, so that a new one goes to the worker with the fewest.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The connection counts of all workers. Locked when a connection begins and ends and when counts are read, not while a
/// connection is used.
pub struct ConnectionSpread {
    workers: Mutex<Vec<WorkerLoad>>,
}

/// The load of one worker.
#[derive(Clone, Copy, Default)]
struct WorkerLoad {
    open: u64,
    is_leaving: bool,
}

/// A connection placed on a worker, counted until this is dropped.
pub struct SpreadConnection {
    spread: Arc<ConnectionSpread>,
    worker: usize,
}

impl ConnectionSpread {
    /// This many workers without connections.
    #[must_use]
    pub fn new(workers: usize) -> Arc<Self> {
        Arc::new(Self { workers: Mutex::new(vec![WorkerLoad::default(); workers]) })
    }

    /// Places a connection on the worker with the fewest that is not leaving, or on `worker` if no other has fewer.
    #[must_use]
    pub fn register(self: &Arc<Self>, worker: usize) -> SpreadConnection {
        let mut workers = self.lock();
        let least = workers.iter().enumerate().filter(|(_, load)| !load.is_leaving);
        let least = least.min_by_key(|(at, load)| (load.open, *at != worker)).map_or(worker, |(at, _)| at);
        self.count(&mut workers, least)
    }

    /// Places a connection on this worker, whatever the others have.
    #[must_use]
    pub fn begin_at(self: &Arc<Self>, worker: usize) -> SpreadConnection {
        self.count(&mut self.lock(), worker)
    }

    /// Marks a worker as leaving: [`register`](Self::register) places no more connections on it, unless all are leaving.
    pub fn unregister(&self, worker: usize) {
        if let Some(load) = self.lock().get_mut(worker) {
            load.is_leaving = true;
        }
    }

    /// The number of connections of each worker.
    #[must_use]
    pub fn counts(&self) -> Vec<u64> {
        self.lock().iter().map(|load| load.open).collect()
    }

    fn count(self: &Arc<Self>, workers: &mut [WorkerLoad], worker: usize) -> SpreadConnection {
        if let Some(load) = workers.get_mut(worker) {
            load.open += 1;
        }
        SpreadConnection { spread: Arc::clone(self), worker }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<WorkerLoad>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SpreadConnection {
    /// The worker of the connection.
    #[must_use]
    pub fn worker(&self) -> usize {
        self.worker
    }
}

impl Drop for SpreadConnection {
    fn drop(&mut self) {
        if let Some(load) = self.spread.lock().get_mut(self.worker) {
            load.open = load.open.saturating_sub(1);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]
mod tests {
    use super::*;

    #[test]
    fn the_worker_with_the_fewest_connections_is_chosen_and_ties_stay() {
        let spread = ConnectionSpread::new(3);
        let first = spread.register(1);
        assert_eq!(first.worker(), 1, "none has fewer");
        assert_eq!(spread.register(1).worker(), 0);
        assert_eq!(spread.register(2).worker(), 2);
        drop(first);
        assert_eq!(spread.counts(), [0, 0, 0]);
    }

    #[test]
    fn one_that_leaves_gets_none_and_the_last_keeps_its_own() {
        let spread = ConnectionSpread::new(2);
        spread.unregister(1);
        let shares: Vec<_> = (0..3).map(|_| spread.register(0)).collect();
        assert_eq!(spread.counts(), [3, 0]);
        spread.unregister(0);
        assert_eq!(spread.register(1).worker(), 1, "all workers are leaving");
        drop(shares);
    }

    #[test]
    fn none_has_more_than_its_share_wherever_they_come() {
        for workers in 1..9u64 {
            let spread = ConnectionSpread::new(usize::try_from(workers).unwrap());
            let mut shares = Vec::new();
            for count in 1..100u64 {
                let worker = usize::try_from(count.pow(5) / 7 % workers).unwrap();
                shares.push(spread.register(worker));
                let limit = spread.counts().into_iter().max().unwrap();
                assert_eq!(limit, count.div_ceil(workers));
            }
            drop(shares);
            assert!(spread.counts().iter().all(|open| *open == 0));
        }
    }
}
