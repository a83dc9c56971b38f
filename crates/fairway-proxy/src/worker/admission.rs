//! Whether a worker takes more work: it may be stopping, or the process may be short of memory or of
//! descriptors.

use std::rc::Rc;
use std::sync::Arc;

use fairway_runtime::memory::Memory;
use fairway_runtime::stopping::Stopping;

use crate::upstream::Room;

/// Whether a worker takes more work.
pub(super) struct Admission<H> {
    pub(super) stopping: Stopping,
    pub(super) memory: Arc<Memory>,
    pub(super) room: Rc<Room<H>>,
}

impl<H> Admission<H> {
    pub(super) fn new(memory: Arc<Memory>, room: Rc<Room<H>>) -> Self {
        Self { stopping: Stopping::new(), memory, room }
    }
}
