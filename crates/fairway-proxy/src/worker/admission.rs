//! Whether a worker takes more work: it may be stopping, or the process may be short of memory or of
//! descriptors. Or clients may take back so much of what they ask for that they have to earn it.

use std::rc::Rc;
use std::sync::Arc;

use fairway_connection::takebacks::Takebacks;
use fairway_net::memory::Memory;
use fairway_net::stopping::Stopping;

use super::neighbours::Neighbours;
use crate::upstream::Room;

/// Whether a worker takes more work, or another one does.
pub(super) struct Admission<H, O> {
    pub(super) stopping: Stopping,
    pub(super) memory: Arc<Memory>,
    pub(super) room: Rc<Room<H>>,
    pub(super) neighbours: Neighbours<O>,
    pub(super) takebacks: Takebacks,
}

impl<H, O> Admission<H, O> {
    pub(super) fn new(memory: Arc<Memory>, room: Rc<Room<H>>, neighbours: Neighbours<O>) -> Self {
        Self { stopping: Stopping::new(), memory, room, neighbours, takebacks: Takebacks::default() }
    }
}
