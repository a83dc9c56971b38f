//! Counters of QUIC datagrams before they belong to a connection.

use std::cell::Cell;

/// Counters of one worker.
#[derive(Default)]
pub struct Quic {
    /// Datagrams handed over to the worker named by their connection id.
    pub handed_over: Cell<u64>,
    /// Datagrams lost here in either direction: no room, or not taken by the system.
    pub dropped: Cell<u64>,
    /// Stateless resets sent (RFC 9000 §10.3).
    pub resets: Cell<u64>,
    /// Retry packets sent (RFC 9000 §8.1.2).
    pub retries: Cell<u64>,
}

impl Quic {
    pub(super) fn counts(&self) -> [(&'static str, u64); 4] {
        [
            ("quic_datagrams_handed_over_total", self.handed_over.get()),
            ("quic_datagrams_dropped_total", self.dropped.get()),
            ("quic_stateless_resets_total", self.resets.get()),
            ("quic_retries_total", self.retries.get()),
        ]
    }
}
