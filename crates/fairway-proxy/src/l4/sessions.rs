//! Table of datagram sessions by client address and port, ordered by last activity. Every operation takes
//! constant time, and allocates only to grow the table.
//!
//! Pure: the time is passed in, and the values are the caller's.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::SocketAddr;
use std::time::Duration;

use fairway_net::clock::Instant;
use slab::Slab;

/// Identifies a session. A key of an ended session never matches a later one in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SessionKey {
    slot: usize,
    serial: u64,
}

/// Sessions of one socket.
#[derive(Debug)]
pub(crate) struct Sessions<V> {
    by_client: HashMap<SocketAddr, SessionKey>,
    slots: Slab<Session<V>>,
    /// The least and most recently active sessions.
    order: Option<ActivityOrder>,
    last_serial: u64,
}

#[derive(Clone, Copy, Debug)]
struct ActivityOrder {
    oldest: usize,
    newest: usize,
}

#[derive(Debug)]
struct Session<V> {
    key: SessionKey,
    client: SocketAddr,
    last_active: Instant,
    /// Neighbours in the order of `last_active`.
    older: Option<usize>,
    newer: Option<usize>,
    value: V,
}

impl<V> Default for Sessions<V> {
    fn default() -> Self {
        Self { by_client: HashMap::new(), slots: Slab::new(), order: None, last_serial: 0 }
    }
}

impl<V> Sessions<V> {
    /// Number of sessions.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are no sessions.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Finds the session of a client.
    #[must_use]
    pub(crate) fn find(&self, client: &SocketAddr) -> Option<(SessionKey, &V)> {
        let key = *self.by_client.get(client)?;
        Some((key, &self.slots.get(key.slot)?.value))
    }

    /// Starts a session for a client without one. Returns the value of `make` if the client has a session.
    ///
    /// # Errors
    /// The client already has a session.
    pub(crate) fn start(
        &mut self,
        client: SocketAddr,
        now: Instant,
        make: impl FnOnce(SessionKey) -> V,
    ) -> Result<SessionKey, V> {
        self.last_serial += 1;
        let key = SessionKey { slot: self.slots.vacant_key(), serial: self.last_serial };
        let value = make(key);
        match self.by_client.entry(client) {
            Entry::Occupied(_) => Err(value),
            Entry::Vacant(vacant) => {
                vacant.insert(key);
                self.slots.insert(Session { key, client, last_active: now, older: None, newer: None, value });
                self.append(key.slot);
                Ok(key)
            }
        }
    }

    /// Records activity.
    pub(crate) fn touch(&mut self, key: SessionKey, now: Instant) {
        if !self.is_current(key) {
            return;
        }
        self.slots[key.slot].last_active = now;
        if self.order.is_some_and(|ends| ends.newest != key.slot) {
            self.unlink(key.slot);
            self.append(key.slot);
        }
    }

    /// Ends a session; `None` if it has ended already.
    pub(crate) fn end(&mut self, key: SessionKey) -> Option<V> {
        if !self.is_current(key) {
            return None;
        }
        self.unlink(key.slot);
        let session = self.slots.remove(key.slot);
        self.by_client.remove(&session.client);
        if self.slots.is_empty() {
            self.by_client.shrink_to(0);
            self.slots.shrink_to_fit();
        }
        Some(session.value)
    }

    /// Ends the least recently active session if it has been idle for at least `idle`.
    pub(crate) fn end_idle(&mut self, now: Instant, idle: Duration) -> Option<V> {
        let oldest = &self.slots[self.order?.oldest];
        let (key, silent) = (oldest.key, now.saturating_duration_since(oldest.last_active));
        if silent >= idle { self.end(key) } else { None }
    }

    /// Last activity of the least recently active session.
    #[must_use]
    pub(crate) fn oldest(&self) -> Option<Instant> {
        Some(self.slots[self.order?.oldest].last_active)
    }

    fn is_current(&self, key: SessionKey) -> bool {
        self.slots.get(key.slot).is_some_and(|session| session.key == key)
    }

    /// Removes a session from the order.
    fn unlink(&mut self, slot: usize) {
        let (older, newer) = (self.slots[slot].older.take(), self.slots[slot].newer.take());
        if let Some(older) = older {
            self.slots[older].newer = newer;
        }
        if let Some(newer) = newer {
            self.slots[newer].older = older;
        }
        self.order = self.order.and_then(|ends| {
            let oldest = if ends.oldest == slot { newer } else { Some(ends.oldest) };
            let newest = if ends.newest == slot { older } else { Some(ends.newest) };
            Some(ActivityOrder { oldest: oldest?, newest: newest? })
        });
    }

    /// Appends a session to the order.
    fn append(&mut self, slot: usize) {
        match &mut self.order {
            None => self.order = Some(ActivityOrder { oldest: slot, newest: slot }),
            Some(ends) => {
                let before = std::mem::replace(&mut ends.newest, slot);
                self.slots[before].newer = Some(slot);
                self.slots[slot].older = Some(before);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const IDLE: Duration = Duration::from_secs(60);

    fn client(port: u16) -> SocketAddr {
        ([192, 0, 2, 1], port).into()
    }

    #[test]
    fn the_longest_idle_sessions_end_first() {
        let (mut sessions, start) = (Sessions::default(), Instant::now());
        let keys = [1, 2, 3].map(|port| sessions.start(client(port), start, |_| port).unwrap());
        sessions.touch(keys[0], start + Duration::from_secs(10));
        assert_eq!(sessions.end_idle(start + IDLE - Duration::from_millis(1), IDLE), None);
        let ended: Vec<_> = std::iter::from_fn(|| sessions.end_idle(start + IDLE, IDLE)).collect();
        assert_eq!((ended, sessions.len()), (vec![2, 3], 1));
        assert_eq!(sessions.oldest(), Some(start + Duration::from_secs(10)));
        assert_eq!(sessions.end_idle(start + IDLE * 2, IDLE), Some(1));
        assert_eq!((sessions.oldest(), sessions.is_empty()), (None, true));
    }

    #[test]
    fn a_client_has_one_session_and_old_keys_never_match_a_reused_slot() {
        let (mut sessions, now) = (Sessions::default(), Instant::now());
        let first = sessions.start(client(1), now, |_| "first").unwrap();
        assert_eq!(sessions.start(client(1), now, |_| "again"), Err("again"));
        assert_eq!(sessions.end(first), Some("first"));
        let second = sessions.start(client(2), now, |_| "second").unwrap();
        assert_eq!((sessions.end(first), sessions.len()), (None, 1));
        sessions.touch(first, now + IDLE);
        assert_eq!((sessions.oldest(), sessions.find(&client(2))), (Some(now), Some((second, &"second"))));
        assert_eq!(sessions.find(&client(1)), None);
    }

    /// An operation on the table.
    #[derive(Clone, Debug)]
    enum Step {
        Begin(u16),
        Touch(u16),
        End(u16),
        Expire,
        Wait(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..12_u16).prop_map(Step::Begin),
            (0..12_u16).prop_map(Step::Touch),
            (0..12_u16).prop_map(Step::End),
            Just(Step::Expire),
            (0..40_u64).prop_map(Step::Wait),
        ]
    }

    proptest! {
        #[test]
        fn behaves_like_a_list_ordered_by_activity(steps in prop::collection::vec(step(), 1..200)) {
            let (mut sessions, mut now) = (Sessions::default(), Instant::now());
            // Least recently active first: client, key and last activity.
            let mut list: Vec<(u16, SessionKey, Instant)> = Vec::new();
            for step in steps {
                let index = |port: u16| list.iter().position(|(other, ..)| *other == port);
                match step {
                    Step::Begin(port) => match (sessions.start(client(port), now, |_| port), index(port)) {
                        (Ok(key), None) => list.push((port, key, now)),
                        (Err(_), Some(_)) => {}
                        (begun, known) => prop_assert!(false, "{begun:?} {known:?}"),
                    },
                    Step::Touch(port) => if let Some(at) = index(port) {
                        let (_, key, _) = list.remove(at);
                        sessions.touch(key, now);
                        list.push((port, key, now));
                    },
                    Step::End(port) => if let Some(at) = index(port) {
                        prop_assert_eq!(sessions.end(list.remove(at).1), Some(port));
                    },
                    Step::Expire => {
                        let ended: Vec<_> = std::iter::from_fn(|| sessions.end_idle(now, IDLE)).collect();
                        let due: Vec<_> = list.iter().filter(|(.., moved)| now - *moved >= IDLE).map(|(port, ..)| *port).collect();
                        list.retain(|(.., moved)| now - *moved < IDLE);
                        prop_assert_eq!(ended, due);
                    }
                    Step::Wait(seconds) => now += Duration::from_secs(seconds),
                }
                prop_assert_eq!(sessions.len(), list.len());
                prop_assert_eq!(sessions.oldest(), list.first().map(|(.., moved)| *moved));
                for (port, key, _) in &list {
                    prop_assert_eq!(sessions.find(&client(*port)), Some((*key, port)));
                }
            }
        }
    }
}
