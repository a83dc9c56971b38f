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
    /// Connections whose early data was accepted.
    pub early_connections: Cell<u64>,
    /// Requests that were served before the handshake was complete.
    pub early_served: Cell<u64>,
    /// Requests that came before it was complete and waited for it.
    pub early_delayed: Cell<u64>,
    /// What ended streams and connections.
    pub events: Events,
}

impl Http3 {
    pub(super) fn counts(&self) -> [(&'static str, u64); 4] {
        [
            ("http3_held_requests_total", self.held.get()),
            ("http3_early_data_connections_total", self.early_connections.get()),
            ("http3_early_data_requests_total", self.early_served.get()),
            ("http3_early_data_delayed_requests_total", self.early_delayed.get()),
        ]
    }

    /// Open streams of clients, as their number changes.
    pub fn streams(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.streams)
    }
}
