//! Limits on concurrent handshakes at a port of a worker.
//!
//! ```text
//!  none                       64                                                            1024
//!  | every client             | clients with a validated address, at most 128 each          | none
//! ```

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use fairway_net::counts::{self, ClientCounts};

use crate::listener::PortId;

/// Above this many handshakes, clients must validate their address first, so that forged addresses keep no
/// client out.
pub(super) const MAX_UNVALIDATED: usize = 64;

/// Above this many handshakes, connections are refused.
const MAX_HANDSHAKES: usize = 1024;

/// Handshakes per client: an IPv4 address or an IPv6 /64 network. More than [`MAX_UNVALIDATED`], so that forged
/// addresses do not lock out their owners.
pub(super) const MAX_HANDSHAKES_PER_CLIENT: u32 = 128;

/// Handshakes of a port.
pub(super) struct Handshakes {
    count: Rc<Cell<usize>>,
    /// Handshakes by client, in the client counts of the process.
    clients: Arc<ClientCounts>,
    /// Distinguishes them from those of other ports and workers.
    counted_at: (&'static str, PortId, u16),
}

/// One handshake, counted until dropped.
pub(super) struct HandshakePermit {
    count: Rc<Cell<usize>>,
    _of_client: counts::CountedExchange,
}

impl Handshakes {
    /// No handshakes yet, for this port and worker.
    pub(super) fn new(clients: &Arc<ClientCounts>, port: PortId, worker: u16) -> Self {
        Self {
            count: Rc::default(),
            clients: Arc::clone(clients),
            counted_at: ("QUIC handshakes", port, worker),
        }
    }

    /// Whether clients must validate their address first.
    pub(super) fn require_validation(&self) -> bool {
        self.count.get() >= MAX_UNVALIDATED
    }

    /// Counts one more handshake, if the limits of the port and the client allow it.
    pub(super) fn try_start(&self, client: IpAddr) -> Option<HandshakePermit> {
        if self.count.get() >= MAX_HANDSHAKES {
            return None;
        }
        let of_client =
            self.clients.begin_exchange(self.counted_at, client.to_canonical(), MAX_HANDSHAKES_PER_CLIENT)?;
        self.count.set(self.count.get() + 1);
        Some(HandshakePermit { count: Rc::clone(&self.count), _of_client: of_client })
    }
}

impl Drop for HandshakePermit {
    fn drop(&mut self) {
        self.count.set(self.count.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Starts as many as the client may.
    fn begin_all(handshakes: &Handshakes, client: &str) -> Vec<HandshakePermit> {
        std::iter::from_fn(|| handshakes.try_start(address(client))).collect()
    }

    #[test]
    fn handshakes_are_limited_per_client() {
        let handshakes = Handshakes::new(&ClientCounts::new(), PortId(1), 0);
        let accepted = begin_all(&handshakes, "192.0.2.1");
        assert_eq!(accepted.len(), MAX_HANDSHAKES_PER_CLIENT as usize);
        assert!(handshakes.try_start(address("::ffff:192.0.2.1")).is_none(), "the same client");
        let of_network = begin_all(&handshakes, "2001:db8:1:2::1");
        assert_eq!(of_network.len(), MAX_HANDSHAKES_PER_CLIENT as usize);
        assert!(handshakes.try_start(address("2001:db8:1:2:ffff::9")).is_none(), "the same network");
        assert!(handshakes.try_start(address("192.0.2.2")).is_some());
        drop(accepted);
        assert!(handshakes.try_start(address("192.0.2.1")).is_some());
    }

    #[test]
    fn handshakes_are_limited_in_total_and_finished_ones_make_room() {
        let handshakes = Handshakes::new(&ClientCounts::new(), PortId(1), 0);
        let mut accepted: Vec<_> =
            (0..20).flat_map(|client| begin_all(&handshakes, &format!("192.0.2.{client}"))).collect();
        assert_eq!(accepted.len(), MAX_HANDSHAKES);
        assert!(handshakes.try_start(address("192.0.2.99")).is_none());
        accepted.pop();
        let last = handshakes.try_start(address("192.0.2.99"));
        assert!(last.is_some() && handshakes.try_start(address("192.0.2.98")).is_none());
        drop((accepted, last));
        assert!(!handshakes.require_validation());
    }

    #[test]
    fn forged_addresses_do_not_use_up_a_clients_limit() {
        let handshakes = Handshakes::new(&ClientCounts::new(), PortId(1), 0);
        let mut forged = Vec::new();
        while !handshakes.require_validation() {
            forged.extend(handshakes.try_start(address("192.0.2.1")));
        }
        assert!(handshakes.try_start(address("192.0.2.1")).is_some());
    }

    #[test]
    fn ports_and_workers_are_counted_separately() {
        let counts = ClientCounts::new();
        let at = |port, worker| Handshakes::new(&counts, PortId(port), worker);
        let all = [at(1, 0), at(1, 1), at(2, 0)];
        let accepted: Vec<_> =
            all.iter().map(|handshakes| begin_all(handshakes, "192.0.2.1").len()).collect();
        assert_eq!(accepted, [MAX_HANDSHAKES_PER_CLIENT as usize; 3]);
    }
}
