//! Counters of downstream HTTP/3 connections.

use std::cell::Cell;
use std::rc::Rc;

use crate::metrics::http2::EventCounts;

/// HTTP/3 counters of one worker.
#[derive(Default)]
pub struct Http3 {
    /// Streams that are open now.
    streams: Rc<Cell<u64>>,
    /// Connections that are open now.
    pub connections: Rc<Cell<u64>>,
    /// Requests that the worker delayed before it served them, because clients cancelled too many requests.
    pub held_requests: Cell<u64>,
    /// Connections whose early data was accepted.
    pub early_connections: Cell<u64>,
    /// Requests in early data that were served before the TLS handshake was complete.
    pub early_served: Cell<u64>,
    /// Requests in early data that waited for the TLS handshake, because they were unsafe to replay (RFC 8470 §3) or
    /// because their rule checks the client.
    pub early_delayed: Cell<u64>,
    /// Events that ended streams or connections, by kind.
    pub events: EventCounts,
}

impl Http3 {
    /// The counters that have no labels, by metric name without its prefix.
    pub(super) fn counts(&self) -> [(&'static str, u64); 4] {
        [
            ("http3_held_requests_total", self.held_requests.get()),
            ("http3_early_data_connections_total", self.early_connections.get()),
            ("http3_early_data_requests_total", self.early_served.get()),
            ("http3_early_data_delayed_requests_total", self.early_delayed.get()),
        ]
    }

    /// The number of open streams. The cell is shared: its value follows later changes.
    pub fn streams(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.streams)
    }
}
