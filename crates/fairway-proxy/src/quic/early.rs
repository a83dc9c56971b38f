//! Sessions that clients resume with early data (0-RTT, RFC 9001 §4.6.1), which the process keeps itself.
//!
//! A copy of early data is refused because its session is gone: each is taken once, by any worker, and no other process has it. A session
//! is found only for the address that it began from, whose owner has shown in that handshake that it receives what is sent there: whoever
//! makes up an address sends no early data in its name.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fairway_net::clock::Instant;
use rustls::ServerConfig;
use rustls::server::{ProducesTickets, StoresServerSessions};
use zeroize::Zeroizing;

use super::under_way::UnderWay;

/// Sessions that are kept, the newest of all clients; those that fall out are resumed no more.
const MAX_SESSIONS: usize = 16 * 1024;

/// How long a session is resumed, as rustls tells clients.
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// A size of early data that QUIC allows; its windows bound the data (RFC 9001 §4.6.1).
const UNBOUNDED: u32 = u32::MAX;

/// What the workers of a process keep. A clone has the same.
#[derive(Clone, Default)]
pub(super) struct EarlySessions(Arc<Mutex<Generations>>);

/// Sessions by the clients that they are kept for: when the newer half is full, the older one is forgotten.
#[derive(Default)]
struct Generations {
    newer: HashMap<Box<[u8]>, Kept>,
    older: HashMap<Box<[u8]>, Kept>,
}

struct Kept {
    session: Zeroizing<Vec<u8>>,
    expires: Instant,
}

/// Who may resume a session: clients of this address, as long as they may open as many streams as they remember (RFC 9000 §7.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) client: IpAddr,
    pub(super) streams: u32,
}

/// A connection that is served before its handshake is complete, because its client sent early data.
pub(crate) struct Unfinished {
    /// When its first packet came.
    pub(crate) began: Instant,
    /// When the handshake has taken too long.
    pub(crate) until: Instant,
    /// It counts as a handshake as long as it is one.
    pub(super) _under_way: UnderWay,
}

impl EarlySessions {
    /// `config` for a client that may send early data: its sessions are kept here in place of tickets, which could be used again. The same
    /// as it is where sessions are not resumed at all.
    pub(super) fn config(&self, config: Arc<ServerConfig>, owner: Owner) -> Arc<ServerConfig> {
        if !config.ticketer.enabled() {
            return config;
        }
        let mut own = ServerConfig::clone(&config);
        own.ticketer = Arc::new(NoTickets);
        own.session_storage = Arc::new(SessionsOf { sessions: self.clone(), owner });
        own.max_early_data_size = UNBOUNDED;
        Arc::new(own)
    }

    // Sessions are put in and taken out whole, whoever panics.
    fn generations(&self) -> MutexGuard<'_, Generations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Owner {
    /// What a session of this owner is kept by.
    fn key(self, id: &[u8]) -> Box<[u8]> {
        let address = match self.client {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        [&address.octets()[..], &self.streams.to_be_bytes(), id].concat().into()
    }
}

impl Generations {
    fn put(&mut self, key: Box<[u8]>, session: Vec<u8>, now: Instant) {
        if self.newer.len() >= MAX_SESSIONS / 2 {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(key, Kept { session: Zeroizing::new(session), expires: now + LIFETIME });
    }

    fn take(&mut self, key: &[u8], now: Instant) -> Option<Vec<u8>> {
        let mut kept = self.newer.remove(key).or_else(|| self.older.remove(key))?;
        (now < kept.expires).then(|| std::mem::take(&mut *kept.session))
    }
}

/// Those of one owner.
struct SessionsOf {
    sessions: EarlySessions,
    owner: Owner,
}

impl StoresServerSessions for SessionsOf {
    fn put(&self, id: Vec<u8>, session: Vec<u8>) -> bool {
        self.sessions.generations().put(self.owner.key(&id), session, Instant::now());
        true
    }

    /// Only sessions of TLS 1.2 are looked at without being taken.
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

impl fmt::Debug for SessionsOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionsOf").field("owner", &self.owner).finish_non_exhaustive()
    }
}

/// Makes and opens no tickets.
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
    use crate::tls::{Group, SessionTickets};

    fn owner(client: &str, streams: u32) -> Owner {
        Owner { client: client.parse().unwrap(), streams }
    }

    fn of(sessions: &EarlySessions, owner: Owner) -> SessionsOf {
        SessionsOf { sessions: sessions.clone(), owner }
    }

    #[test]
    fn a_session_is_taken_once_and_only_by_its_owner() {
        let (sessions, one) = (EarlySessions::default(), owner("192.0.2.1", 100));
        assert!(of(&sessions, one).put(b"id".to_vec(), b"session".to_vec()));
        for other in [owner("192.0.2.2", 100), owner("192.0.2.1", 50), owner("2001:db8::1", 100)] {
            assert_eq!(of(&sessions, other).take(b"id"), None, "{other:?}");
        }
        assert_eq!(of(&EarlySessions::default(), one).take(b"id"), None, "another process");
        assert_eq!(of(&sessions, one).get(b"id"), None);
        let same = owner("::ffff:192.0.2.1", 100);
        assert_eq!(of(&sessions, same).take(b"id").as_deref(), Some(&b"session"[..]));
        assert_eq!(of(&sessions, one).take(b"id"), None, "a copy finds nothing");
    }

    #[test]
    fn a_session_is_not_resumed_for_longer_than_clients_are_told() {
        let (mut kept, now) = (Generations::default(), Instant::now());
        for id in [b"a", b"b"] {
            kept.put(Box::from(&id[..]), b"session".to_vec(), now);
        }
        assert!(kept.take(b"a", now + LIFETIME - Duration::from_secs(1)).is_some());
        assert!(kept.take(b"b", now + LIFETIME).is_none());
    }

    #[test]
    fn sessions_are_bounded_and_the_oldest_are_forgotten() {
        let (sessions, one) = (EarlySessions::default(), owner("192.0.2.1", 100));
        let all = of(&sessions, one);
        for id in 0..3 * MAX_SESSIONS as u64 {
            all.put(id.to_be_bytes().to_vec(), vec![0; 8]);
            let kept = sessions.generations();
            assert!(kept.newer.len() + kept.older.len() <= MAX_SESSIONS);
        }
        assert!(all.take(&0_u64.to_be_bytes()).is_none());
        assert!(all.take(&(3 * MAX_SESSIONS as u64 - 1).to_be_bytes()).is_some());
    }

    #[test]
    fn where_sessions_are_not_resumed_there_is_no_early_data() {
        let leaf = Authority::new("early").leaf(&["a.test"]);
        let (sessions, one) = (EarlySessions::default(), owner("192.0.2.1", 100));
        let config = |tickets: &fairway_model::SessionTickets| {
            let keys = SessionTickets::default();
            keys.configure(tickets);
            let mut config = leaf.server_config(&["h3"]);
            config.max_early_data_size = 0;
            config.ticketer = keys.of_group(Group::UNASKED);
            sessions.config(Arc::new(config), one)
        };
        let early = config(&fairway_model::SessionTickets::Rotating);
        assert_eq!((early.max_early_data_size, early.ticketer.enabled()), (UNBOUNDED, false));
        assert_eq!(config(&fairway_model::SessionTickets::Off).max_early_data_size, 0);
    }
}
