//! How many sessions of datagrams a listener may have, and a client of it: counted for all workers together, without a lock.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fairway_net::counts::{Counts, UnderWay};

/// The sessions of one listener.
#[derive(Debug)]
pub(crate) struct SessionBounds {
    /// Tells its clients from those of other listeners.
    number: u64,
    open: AtomicU32,
    clients: Clients,
}

/// The sessions of each client, of all listeners.
struct Clients(Arc<Counts>);

impl std::fmt::Debug for Clients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clients")
    }
}

/// Who has as many sessions as it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// The listener.
    Listener,
    /// The client: an IPv4 address, or a network of 64 bits in IPv6.
    Client,
}

/// The most sessions that there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Most {
    /// Of the listener.
    pub of_listener: u32,
    /// Of each client.
    pub of_client: u32,
}

/// A session that is counted, until this is dropped.
pub(crate) struct Counted {
    bounds: Arc<SessionBounds>,
    _client: UnderWay,
}

impl SessionBounds {
    /// Of a listener that has no session yet. All listeners count their clients in one table, which has a place for 65,536.
    #[must_use]
    pub(crate) fn new(clients: &Arc<Counts>) -> Arc<Self> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { number, open: AtomicU32::new(0), clients: Clients(Arc::clone(clients)) })
    }

    /// Counts a session of a client.
    ///
    /// # Errors
    /// When there are as many as may be.
    pub(crate) fn begin(self: &Arc<Self>, client: IpAddr, most: Most) -> Result<Counted, Full> {
        let one_more = |open: u32| (open < most.of_listener).then(|| open + 1);
        if self.open.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).is_err() {
            return Err(Full::Listener);
        }
        match self.clients.0.begins(self.number, client.to_canonical(), most.of_client) {
            Some(client) => Ok(Counted { bounds: Arc::clone(self), _client: client }),
            None => {
                self.open.fetch_sub(1, Ordering::AcqRel);
                Err(Full::Client)
            }
        }
    }

    /// Sessions that are open.
    pub(crate) fn open(&self) -> u32 {
        self.open.load(Ordering::Acquire)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.bounds.open.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Most = Most { of_listener: 5, of_client: 3 };

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_client_and_all_clients_of_a_listener_are_bounded() {
        let clients = Counts::new();
        let (one, other) = (SessionBounds::new(&clients), SessionBounds::new(&clients));
        let begin = |client: &str| one.begin(address(client), MOST);
        let mut held: Vec<_> = (0..3).map(|_| begin("192.0.2.1").ok().unwrap()).collect();
        assert_eq!(begin("192.0.2.1").err(), Some(Full::Client));
        assert_eq!(
            begin("::ffff:192.0.2.1").err(),
            Some(Full::Client),
            "the same client on a dual-stack socket"
        );
        held.extend([begin("2001:db8:1:2::1").ok(), begin("2001:db8:1:2::2").ok()].into_iter().flatten());
        assert_eq!((one.open(), begin("192.0.2.9").err()), (5, Some(Full::Listener)));
        assert!(other.begin(address("192.0.2.1"), MOST).is_ok(), "another listener has bounds of its own");
        held.clear();
        assert_eq!((one.open(), other.open(), clients.under_way()), (0, 0, 0));
    }

    #[test]
    fn a_network_of_64_bits_is_one_client() {
        let bounds = SessionBounds::new(&Counts::new());
        let held: Vec<_> = (0..9)
            .filter_map(|number| bounds.begin(address(&format!("2001:db8:1:2::{number}")), MOST).ok())
            .collect();
        assert_eq!(held.len(), 3);
        assert!(bounds.begin(address("2001:db8:1:3::1"), MOST).is_ok());
    }

    #[test]
    fn many_threads_never_pass_the_bound() {
        let bounds = SessionBounds::new(&Counts::new());
        let most = Most { of_listener: 5, of_client: 1_000 };
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let bounds = &bounds;
                scope.spawn(move || {
                    for round in 0..5_000 {
                        let client = address(&format!("192.0.{thread}.{}", round % 250));
                        let held = bounds.begin(client, most);
                        assert!(bounds.open() <= 5);
                        drop(held);
                    }
                });
            }
        });
        assert_eq!(bounds.open(), 0);
    }
}
