//! Limits on datagram sessions per listener and per client, counted over all workers without a lock.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fairway_net::counts::{ClientCounts, CountedExchange};

/// Sessions of one listener.
#[derive(Debug)]
pub(crate) struct SessionLimits {
    /// Distinguishes its clients from those of other listeners.
    listener_number: u64,
    open: AtomicU32,
    clients: SessionsByClient,
}

/// Sessions of each client, of all listeners.
struct SessionsByClient(Arc<ClientCounts>);

impl std::fmt::Debug for SessionsByClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clients")
    }
}

/// Which limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionLimitReached {
    /// The listener's.
    Listener,
    /// The client's: of an IPv4 address, or an IPv6 /64 network.
    Client,
}

/// Limits on sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MaxSessions {
    /// Per listener.
    pub per_listener: u32,
    /// Per client.
    pub per_client: u32,
}

/// A session, counted until dropped.
pub(crate) struct SessionCount {
    bounds: Arc<SessionLimits>,
    _client: CountedExchange,
}

impl SessionLimits {
    /// For a new listener. All listeners count their clients in one table, which has room for 65,536.
    #[must_use]
    pub(crate) fn new(clients: &Arc<ClientCounts>) -> Arc<Self> {
        static LAST_LISTENER_NUMBER: AtomicU64 = AtomicU64::new(0);
        let listener_number = LAST_LISTENER_NUMBER.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self {
            listener_number,
            open: AtomicU32::new(0),
            clients: SessionsByClient(Arc::clone(clients)),
        })
    }

    /// Counts a session of a client.
    ///
    /// # Errors
    /// A limit is reached.
    pub(crate) fn acquire(
        self: &Arc<Self>,
        client: IpAddr,
        limits: MaxSessions,
    ) -> Result<SessionCount, SessionLimitReached> {
        let one_more = |open: u32| (open < limits.per_listener).then(|| open + 1);
        if self.open.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).is_err() {
            return Err(SessionLimitReached::Listener);
        }
        match self.clients.0.begin_exchange(self.listener_number, client.to_canonical(), limits.per_client) {
            Some(client) => Ok(SessionCount { bounds: Arc::clone(self), _client: client }),
            None => {
                self.open.fetch_sub(1, Ordering::AcqRel);
                Err(SessionLimitReached::Client)
            }
        }
    }

    /// Open sessions.
    pub(crate) fn open(&self) -> u32 {
        self.open.load(Ordering::Acquire)
    }
}

impl Drop for SessionCount {
    fn drop(&mut self) {
        self.bounds.open.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_SESSIONS: MaxSessions = MaxSessions { per_listener: 5, per_client: 3 };

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn sessions_are_limited_per_client_and_per_listener() {
        let clients = ClientCounts::new();
        let (one, other) = (SessionLimits::new(&clients), SessionLimits::new(&clients));
        let begin = |client: &str| one.acquire(address(client), MAX_SESSIONS);
        let mut sessions: Vec<_> = (0..3).map(|_| begin("192.0.2.1").ok().unwrap()).collect();
        assert_eq!(begin("192.0.2.1").err(), Some(SessionLimitReached::Client));
        assert_eq!(
            begin("::ffff:192.0.2.1").err(),
            Some(SessionLimitReached::Client),
            "the same client on a dual-stack socket"
        );
        sessions.extend([begin("2001:db8:1:2::1").ok(), begin("2001:db8:1:2::2").ok()].into_iter().flatten());
        assert_eq!((one.open(), begin("192.0.2.9").err()), (5, Some(SessionLimitReached::Listener)));
        assert!(
            other.acquire(address("192.0.2.1"), MAX_SESSIONS).is_ok(),
            "another listener has bounds of its own"
        );
        sessions.clear();
        assert_eq!((one.open(), other.open(), clients.in_flight()), (0, 0, 0));
    }

    #[test]
    fn a_network_of_64_bits_is_one_client() {
        let bounds = SessionLimits::new(&ClientCounts::new());
        let sessions: Vec<_> = (0..9)
            .filter_map(|number| {
                bounds.acquire(address(&format!("2001:db8:1:2::{number}")), MAX_SESSIONS).ok()
            })
            .collect();
        assert_eq!(sessions.len(), 3);
        assert!(bounds.acquire(address("2001:db8:1:3::1"), MAX_SESSIONS).is_ok());
    }

    #[test]
    fn concurrent_threads_never_exceed_the_limit() {
        let bounds = SessionLimits::new(&ClientCounts::new());
        let limit = MaxSessions { per_listener: 5, per_client: 1_000 };
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let bounds = &bounds;
                scope.spawn(move || {
                    for round in 0..5_000 {
                        let client = address(&format!("192.0.{thread}.{}", round % 250));
                        let session = bounds.acquire(client, limit);
                        assert!(bounds.open() <= 5);
                        drop(session);
                    }
                });
            }
        });
        assert_eq!(bounds.open(), 0);
    }
}
