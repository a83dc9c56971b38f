//! Makes room for new descriptors by closing idle connections to endpoints, oldest first.

use std::rc::Rc;

use fairway_net::descriptors::WorkerDescriptors;

use crate::sides::Hop;
use crate::upstream::group::Groups;

/// Makes room among the descriptors of a worker.
pub struct DescriptorRoom<H> {
    /// The worker's descriptor budget.
    pub descriptors: WorkerDescriptors,
    groups: Rc<Groups<H>>,
}

impl<H: Hop> DescriptorRoom<H> {
    /// For the descriptors counted in `descriptors` and the endpoints in `groups`.
    pub fn new(descriptors: WorkerDescriptors, groups: Rc<Groups<H>>) -> Self {
        Self { descriptors, groups }
    }

    /// Whether `more` descriptors fit into the worker's share, after closing idle connections if necessary.
    pub fn make_room(&self, count: usize) -> bool {
        let excess = self.descriptors.excess(count);
        if excess == 0 {
            return true;
        }
        // Closes some more than needed, so that a full worker does not search its endpoints for every connection.
        self.groups.close_idle(excess.max(self.groups.idle_connections() / 8));
        self.descriptors.excess(count) == 0
    }

    /// Closes all idle connections. Returns whether there was one.
    pub fn clear(&self) -> bool {
        self.groups.close_idle(usize::MAX) > 0
    }
}
