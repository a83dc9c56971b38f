//! Room for one more descriptor: idle connections to endpoints give way, oldest first.

use std::rc::Rc;

use fairway_net::descriptors::Descriptors;

use crate::sides::Hop;
use crate::upstream::group::Groups;

/// Makes room among the descriptors of a worker.
pub struct Room<H> {
    /// What the worker has of them.
    pub descriptors: Descriptors,
    groups: Rc<Groups<H>>,
}

impl<H: Hop> Room<H> {
    /// Over what is counted in `descriptors` and kept in `groups`.
    pub fn new(descriptors: Descriptors, groups: Rc<Groups<H>>) -> Self {
        Self { descriptors, groups }
    }

    /// Whether `more` descriptors are within the share of the worker, after idle connections were closed for them.
    pub fn make(&self, more: usize) -> bool {
        let excess = self.descriptors.excess(more);
        if excess == 0 {
            return true;
        }
        // Some more than needed, so that a full worker does not look through its endpoints for every connection.
        self.groups.close_idle(excess.max(self.groups.idle_connections() / 8));
        self.descriptors.excess(more) == 0
    }

    /// Closes all idle connections. Says whether there was one.
    pub fn clear(&self) -> bool {
        self.groups.close_idle(usize::MAX) > 0
    }
}
