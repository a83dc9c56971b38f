//! Sessions that clients resume with early data (0-RTT, RFC 9001 §4.6.1), stored in the process.
//!
//! Replayed early data is refused because its session is gone: each is taken once, by any worker, and no other
//! process has it. A session is only found for the address it started from, whose owner proved in that
//! handshake that it receives data there: forged addresses cannot send early data.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fairway_net::clock::Instant;
use rustls::ServerConfig;
use rustls::server::{ProducesTickets, StoresServerSessions};
use zeroize::Zeroizing;

use super::handshake_limit::HandshakePermit;

/// Sessions kept, newest first; evicted ones cannot be resumed.
const MAX_SESSIONS: usize = 16 * 1024;

/// Session lifetime, as rustls announces to clients.
const SESSION_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// The early data size QUIC requires; its windows bound the data (RFC 9001 §4.6.1).
const MAX_EARLY_DATA_SIZE: u32 = u32::MAX;

/// Sessions of a process, shared by its workers. Clones share them.
#[derive(Clone, Default)]
pub(super) struct EarlySessions(Arc<Mutex<Generations>>);

/// Sessions by owner: when the newer half is full, the older one is dropped.
#[derive(Default)]
struct Generations {
    newer: HashMap<Box<[u8]>, StoredSession>,
    older: HashMap<Box<[u8]>, StoredSession>,
}

struct StoredSession {
    session: Zeroizing<Vec<u8>>,
    expires: Instant,
}

/// The owner of a session: clients of this address, while they may open as many streams as they remember (RFC
/// 9000 §7.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SessionOwner {
    pub(super) client: IpAddr,
    pub(super) streams: u32,
}

/// The rest of the handshake of a connection served early because its client sent early data.
pub(crate) struct PendingHandshake {
    /// When its first packet arrived.
    pub(crate) started_at: Instant,
    /// Deadline of the handshake.
    pub(crate) deadline: Instant,
    /// Counts the handshake while it lasts.
    pub(super) _permit: HandshakePermit,
}

impl EarlySessions {
    /// `config` for a client that may send early data: its sessions are stored here instead of in tickets,
    /// which could be replayed. Unchanged if session resumption is off.
    pub(super) fn with_early_data(
        &self,
        config: Arc<ServerConfig>,
        owner: SessionOwner,
    ) -> Arc<ServerConfig> {
        if !config.ticketer.enabled() {
            return config;
        }
        let mut copy = ServerConfig::clone(&config);
        copy.ticketer = Arc::new(NoTickets);
        copy.session_storage = Arc::new(OwnedSessions { sessions: self.clone(), owner });
        copy.max_early_data_size = MAX_EARLY_DATA_SIZE;
        Arc::new(copy)
    }

    // Insertions and removals are atomic: a panic leaves the maps consistent.
    fn generations(&self) -> MutexGuard<'_, Generations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionOwner {
    /// The key of a session of this owner.
    fn key(self, id: &[u8]) -> Box<[u8]> {
        let address = match self.client {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        [&address.octets()[..], &self.streams.to_be_bytes(), id].concat().into()
    }
}

impl Generations {
    fn insert(&mut self, key: Box<[u8]>, session: Vec<u8>, now: Instant) {
        if self.newer.len() >= MAX_SESSIONS / 2 {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer
            .insert(key, StoredSession { session: Zeroizing::new(session), expires: now + SESSION_LIFETIME });
    }

    fn take(&mut self, key: &[u8], now: Instant) -> Option<Vec<u8>> {
        let mut session = self.newer.remove(key).or_else(|| self.older.remove(key))?;
        (now < session.expires).then(|| std::mem::take(&mut *session.session))
    }
}

/// Sessions of one owner.
struct OwnedSessions {
    sessions: EarlySessions,
    owner: SessionOwner,
}

impl StoresServerSessions for OwnedSessions {
    fn put(&self, id: Vec<u8>, session: Vec<u8>) -> bool {
        self.sessions.generations().insert(self.owner.key(&id), session, Instant::now());
        true
    }

    /// Only TLS 1.2 reads sessions without taking them.
    fn get(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn take(&self, id: &[u8]) -> Option<Vec<u8>> {
        self.sessions.generations().take(&self.owner.key(id), Instant::now())
    }

    fn can_cache(&self) -> bool {
        true
    }
}

impl fmt::Debug for OwnedSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionsOf").field("owner", &self.owner).finish_non_exhaustive()
    }
}

/// Issues and accepts no tickets.
#[derive(Debug)]
struct NoTickets;

impl ProducesTickets for NoTickets {
    fn enabled(&self) -> bool {
        false
    }

    fn lifetime(&self) -> u32 {
        0
    }

    fn encrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn decrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use fairway_testkit::Authority;

    use super::*;
    use crate::tls::{SessionTickets, TicketGroup};

    fn owner(client: &str, streams: u32) -> SessionOwner {
        SessionOwner { client: client.parse().unwrap(), streams }
    }

    fn owned_sessions(sessions: &EarlySessions, owner: SessionOwner) -> OwnedSessions {
        OwnedSessions { sessions: sessions.clone(), owner }
    }

    #[test]
    fn a_session_is_taken_once_and_only_by_its_owner() {
        let (sessions, one) = (EarlySessions::default(), owner("192.0.2.1", 100));
        assert!(owned_sessions(&sessions, one).put(b"id".to_vec(), b"session".to_vec()));
        for other in [owner("192.0.2.2", 100), owner("192.0.2.1", 50), owner("2001:db8::1", 100)] {
            assert_eq!(owned_sessions(&sessions, other).take(b"id"), None, "{other:?}");
        }
        assert_eq!(owned_sessions(&EarlySessions::default(), one).take(b"id"), None, "another process");
        assert_eq!(owned_sessions(&sessions, one).get(b"id"), None);
        let same = owner("::ffff:192.0.2.1", 100);
        assert_eq!(owned_sessions(&sessions, same).take(b"id").as_deref(), Some(&b"session"[..]));
        assert_eq!(owned_sessions(&sessions, one).take(b"id"), None, "a copy finds nothing");
    }

    #[test]
    fn a_session_is_not_resumed_after_its_announced_lifetime() {
        let (mut kept, now) = (Generations::default(), Instant::now());
        for id in [b"a", b"b"] {
            kept.insert(Box::from(&id[..]), b"session".to_vec(), now);
        }
        assert!(kept.take(b"a", now + SESSION_LIFETIME - Duration::from_secs(1)).is_some());
        assert!(kept.take(b"b", now + SESSION_LIFETIME).is_none());
    }

    #[test]
    fn the_number_of_sessions_is_limited_and_the_oldest_are_evicted() {
        let (sessions, one) = (EarlySessions::default(), owner("192.0.2.1", 100));
        let all = owned_sessions(&sessions, one);
        for id in 0..3 * MAX_SESSIONS as u64 {
            all.put(id.to_be_bytes().to_vec(), vec![0; 8]);
            let generations = sessions.generations();
            assert!(generations.newer.len() + generations.older.len() <= MAX_SESSIONS);
        }
        assert!(all.take(&0_u64.to_be_bytes()).is_none());
        assert!(all.take(&(3 * MAX_SESSIONS as u64 - 1).to_be_bytes()).is_some());
    }

    #[test]
    fn without_session_resumption_there_is_no_early_data() {
        let leaf = Authority::new("early").leaf(&["a.test"]);
        let (sessions, one) = (EarlySessions::default(), owner("192.0.2.1", 100));
        let config = |tickets: &fairway_model::SessionTickets| {
            let keys = SessionTickets::default();
            keys.configure(tickets);
            let mut config = leaf.server_config(&["h3"]);
            config.max_early_data_size = 0;
            config.ticketer = keys.ticketer(TicketGroup::NO_CLIENT_AUTH);
            sessions.with_early_data(Arc::new(config), one)
        };
        let early = config(&fairway_model::SessionTickets::Rotating);
        assert_eq!((early.max_early_data_size, early.ticketer.enabled()), (MAX_EARLY_DATA_SIZE, false));
        assert_eq!(config(&fairway_model::SessionTickets::Off).max_early_data_size, 0);
    }
}
