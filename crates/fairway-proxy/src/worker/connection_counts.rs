//! Counts of open downstream connections by progress. A connection needs one pointer for this and for its
//! worker: connections of equal progress share a tally.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::rc::{Rc, Weak};

use crate::inspection::ClientProtocol;
use crate::listener::ListenerId;

/// Progress of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Progress {
    /// Accepted, without a listener yet.
    Accepted,
    /// Served by a listener.
    Served(ListenerId, ClientProtocol),
}

/// Shared by connections of equal progress: holds the worker `W`, and its reference count is their number.
pub(super) struct Tally<W>(Rc<W>);

/// Tallies of a worker.
pub(super) struct Tallies<W>(RefCell<BTreeMap<Progress, Weak<Tally<W>>>>);

impl<W> Default for Tallies<W> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<W> Deref for Tally<W> {
    type Target = Rc<W>;

    fn deref(&self) -> &Rc<W> {
        &self.0
    }
}

impl<W> Tallies<W> {
    /// The tally for one more connection of `worker`.
    pub(super) fn tally(&self, worker: &Rc<W>, progress: Progress) -> Rc<Tally<W>> {
        let mut tallies = self.0.borrow_mut();
        if let Some(known) = tallies.get(&progress).and_then(Weak::upgrade) {
            return known;
        }
        // Listeners come and go: drop tallies without connections.
        tallies.retain(|_, tally| tally.strong_count() > 0);
        let new_tally = Rc::new(Tally(Rc::clone(worker)));
        tallies.insert(progress, Rc::downgrade(&new_tally));
        new_tally
    }

    /// Number of connections by progress.
    pub(super) fn counts(&self) -> Vec<(Progress, u64)> {
        let tallies = self.0.borrow();
        let counts = tallies.iter().map(|(progress, tally)| (*progress, tally.strong_count() as u64));
        counts.filter(|(_, count)| *count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_counted_once_and_empty_tallies_are_dropped() {
        let (worker, tallies) = (Rc::new(()), Tallies::default());
        let served = |slot| Progress::Served(ListenerId { slot, generation: 1 }, ClientProtocol::Http1);
        let mut connections: Vec<_> = (0..3).map(|_| tallies.tally(&worker, Progress::Accepted)).collect();
        connections[0] = tallies.tally(&worker, served(7));
        connections[1] = tallies.tally(&worker, served(7));
        assert_eq!(tallies.counts(), [(Progress::Accepted, 1), (served(7), 2)]);
        connections.clear();
        assert_eq!((tallies.counts(), Rc::strong_count(&worker)), (Vec::new(), 1));
        let last = tallies.tally(&worker, served(8));
        assert_eq!((tallies.counts(), tallies.0.borrow().len()), (vec![(served(8), 1)], 1));
        drop(last);
    }
}
