//! The state that decides whether a worker admits new connections and requests. A worker refuses or delays them while
//! it drains, while the process is short of memory or file descriptors, or while clients cancel too many requests.

use std::rc::Rc;
use std::sync::Arc;

use fairway_connection::cancellations::CancellationRate;
use fairway_net::memory::Memory;
use fairway_net::stopping::WorkerStop;

use super::neighbours::Neighbours;
use crate::upstream::DescriptorRoom;

/// The admission state of one worker. `H` is the connection type of its upstream pools, `O` the guard with which a
/// worker counts a client connection as open.
pub(super) struct Admission<H, O> {
    /// Whether this worker serves, drains or has stopped.
    pub(super) stopping: WorkerStop,
    /// The memory budget of the process.
    pub(super) memory: Arc<Memory>,
    /// The file descriptors of this worker. Closes idle upstream connections when new ones need their descriptors.
    pub(super) room: Rc<DescriptorRoom<H>>,
    /// The other workers of the process, which may take over connections that this worker accepted.
    pub(super) neighbours: Neighbours<O>,
    /// How many requests clients have cancelled lately.
    pub(super) cancellation_rate: CancellationRate,
}

impl<H, O> Admission<H, O> {
    pub(super) fn new(memory: Arc<Memory>, room: Rc<DescriptorRoom<H>>, neighbours: Neighbours<O>) -> Self {
        Self {
            stopping: WorkerStop::new(),
            memory,
            room,
            neighbours,
            cancellation_rate: CancellationRate::default(),
        }
    }
}
