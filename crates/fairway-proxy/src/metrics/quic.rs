//! What is counted of the datagrams of QUIC before they belong to a connection.

use std::cell::Cell;

/// Of one worker.
#[derive(Default)]
pub struct Quic {
    /// Datagrams that came here and were handed over to the worker that their connection id names.
    pub handed_over: Cell<u64>,
    /// Datagrams that were lost here, in either direction: no room for them, or the system did not take them.
    pub dropped: Cell<u64>,
    /// Stateless resets that were sent (RFC 9000 §10.3).
    pub resets: Cell<u64>,
    /// Retry packets that were sent (RFC 9000 §8.1.2).
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
