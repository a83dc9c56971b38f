//! How many connections of clients are open, by how far they are. A connection has no more than one pointer for this and for its worker:
//! it shares a tally with all that are equally far.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::rc::{Rc, Weak};

use crate::inspection::ClientProtocol;
use crate::listener::ListenerId;

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Progress {
    /// It was accepted.
    Greeted,
    /// A listener serves it.
    Served(ListenerId, ClientProtocol),
}

/// What connections that are equally far refer to: the worker `W`, and by the number of references their number.
pub(super) struct Tally<W>(Rc<W>);

/// The tallies of a worker that may have connections.
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
    /// The tally for one more connection of `worker`, whose tallies these are.
    pub(super) fn tally(&self, worker: &Rc<W>, progress: Progress) -> Rc<Tally<W>> {
        let mut tallies = self.0.borrow_mut();
        if let Some(known) = tallies.get(&progress).and_then(Weak::upgrade) {
            return known;
        }
        // Listeners come and go: those that have no connection are forgotten here.
        tallies.retain(|_, tally| tally.strong_count() > 0);
        let fresh = Rc::new(Tally(Rc::clone(worker)));
        tallies.insert(progress, Rc::downgrade(&fresh));
        fresh
    }

    /// How many connections are how far.
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
    fn a_connection_counts_in_one_place_and_what_has_none_is_forgotten() {
        let (worker, tallies) = (Rc::new(()), Tallies::default());
        let served = |slot| Progress::Served(ListenerId { slot, generation: 1 }, ClientProtocol::Http1);
        let mut connections: Vec<_> = (0..3).map(|_| tallies.tally(&worker, Progress::Greeted)).collect();
        connections[0] = tallies.tally(&worker, served(7));
        connections[1] = tallies.tally(&worker, served(7));
        assert_eq!(tallies.counts(), [(Progress::Greeted, 1), (served(7), 2)]);
        connections.clear();
        assert_eq!((tallies.counts(), Rc::strong_count(&worker)), (Vec::new(), 1));
        let last = tallies.tally(&worker, served(8));
        assert_eq!((tallies.counts(), tallies.0.borrow().len()), (vec![(served(8), 1)], 1));
        drop(last);
    }
}
