//! What is counted of clients' connections of HTTP/3.

use std::cell::Cell;
use std::rc::Rc;

use crate::metrics::http2::Events;

/// Of one worker.
#[derive(Default)]
pub struct Http3 {
    streams: Rc<Cell<u64>>,
    /// Connections that are open.
    pub connections: Rc<Cell<u64>>,
    /// Requests that waited before they began, because clients took back too many.
    pub held: Cell<u64>,
    /// What ended streams and connections.
    pub events: Events,
}

impl Http3 {
    /// Open streams of clients, as their number changes.
    pub fn streams(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.streams)
    }
}
