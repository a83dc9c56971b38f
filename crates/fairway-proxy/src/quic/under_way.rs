//! Handshakes that are under way at a port of a worker, and whether a client may begin one more.
//!
//! ```text
//!  none                       64                                                            1024
//!  | anybody                  | clients that have shown their address, 128 each at most     | nobody
//! ```

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use fairway_net::counts::{self, Counts};

use crate::listener::PortId;

/// Handshakes from which on a client must show first that it receives what is sent to its address: then those whose addresses are made
/// up keep nobody out.
pub(super) const MAX_UNVALIDATED: usize = 64;

/// Handshakes beyond which nobody begins another one.
const MAX: usize = 1024;

/// Those of one client: an IPv4 address, or a network of 64 bits in IPv6. More than may be under way for addresses that are made up, so
/// that these do not keep out whoever has such an address.
pub(super) const MAX_OF_A_CLIENT: u32 = 128;

/// The handshakes of a port.
pub(super) struct Handshakes {
    all: Rc<Cell<usize>>,
    /// Those of each client, among what the process counts of clients.
    clients: Arc<Counts>,
    /// Tells them from those of other ports and workers.
    here: (&'static str, PortId, u16),
}

/// One of them, until this is dropped.
pub(super) struct UnderWay {
    all: Rc<Cell<usize>>,
    _of_client: counts::UnderWay,
}

impl Handshakes {
    /// None yet, at this port of this worker.
    pub(super) fn new(clients: &Arc<Counts>, port: PortId, worker: u16) -> Self {
        Self { all: Rc::default(), clients: Arc::clone(clients), here: ("QUIC handshakes", port, worker) }
    }

    /// Whether clients must show first that they receive what is sent to their addresses.
    pub(super) fn need_validation(&self) -> bool {
        self.all.get() >= MAX_UNVALIDATED
    }

    /// One more, where there may be one more, and the client has fewer than it may have.
    pub(super) fn begin(&self, client: IpAddr) -> Option<UnderWay> {
        if self.all.get() >= MAX {
            return None;
        }
        let of_client = self.clients.begins(self.here, client.to_canonical(), MAX_OF_A_CLIENT)?;
        self.all.set(self.all.get() + 1);
        Some(UnderWay { all: Rc::clone(&self.all), _of_client: of_client })
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.all.set(self.all.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// As many as that client may begin.
    fn begin_all(handshakes: &Handshakes, client: &str) -> Vec<UnderWay> {
        std::iter::from_fn(|| handshakes.begin(address(client))).collect()
    }

    #[test]
    fn a_client_has_its_share_and_leaves_the_rest_to_others() {
        let handshakes = Handshakes::new(&Counts::new(), PortId(1), 0);
        let held = begin_all(&handshakes, "192.0.2.1");
        assert_eq!(held.len(), MAX_OF_A_CLIENT as usize);
        assert!(handshakes.begin(address("::ffff:192.0.2.1")).is_none(), "the same client");
        let of_network = begin_all(&handshakes, "2001:db8:1:2::1");
        assert_eq!(of_network.len(), MAX_OF_A_CLIENT as usize);
        assert!(handshakes.begin(address("2001:db8:1:2:ffff::9")).is_none(), "the same network");
        assert!(handshakes.begin(address("192.0.2.2")).is_some());
        drop(held);
        assert!(handshakes.begin(address("192.0.2.1")).is_some());
    }

    #[test]
    fn all_clients_together_are_bounded_and_what_ends_makes_room() {
        let handshakes = Handshakes::new(&Counts::new(), PortId(1), 0);
        let mut held: Vec<_> =
            (0..20).flat_map(|client| begin_all(&handshakes, &format!("192.0.2.{client}"))).collect();
        assert_eq!(held.len(), MAX);
        assert!(handshakes.begin(address("192.0.2.99")).is_none());
        held.pop();
        let last = handshakes.begin(address("192.0.2.99"));
        assert!(last.is_some() && handshakes.begin(address("192.0.2.98")).is_none());
        drop((held, last));
        assert!(!handshakes.need_validation());
    }

    #[test]
    fn addresses_that_are_made_up_take_no_client_s_whole_share() {
        let handshakes = Handshakes::new(&Counts::new(), PortId(1), 0);
        let mut forged = Vec::new();
        while !handshakes.need_validation() {
            forged.extend(handshakes.begin(address("192.0.2.1")));
        }
        assert!(handshakes.begin(address("192.0.2.1")).is_some());
    }

    #[test]
    fn ports_and_workers_are_counted_apart() {
        let counts = Counts::new();
        let at = |port, worker| Handshakes::new(&counts, PortId(port), worker);
        let all = [at(1, 0), at(1, 1), at(2, 0)];
        let held: Vec<_> = all.iter().map(|handshakes| begin_all(handshakes, "192.0.2.1").len()).collect();
        assert_eq!(held, [MAX_OF_A_CLIENT as usize; 3]);
    }
}
