//! Which datagrams belong together: sessions by the address and port of their clients, in the order in which something moved in
//! them last. Every step takes the same time however many there are, and nothing is allocated but room for more of them.
//!
//! Pure: the time is passed in, and what a session has is the caller's.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::SocketAddr;
use std::time::Duration;

use fairway_net::clock::Instant;
use slab::Slab;

/// Where a session is. One that is over is never mistaken for a later one in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    slot: usize,
    serial: u64,
}

/// The sessions of one socket.
#[derive(Debug)]
pub(crate) struct Sessions<V> {
    by_client: HashMap<SocketAddr, Key>,
    slots: Slab<Session<V>>,
    /// The one in which nothing has moved for the longest time, and the one in which something moved last.
    ends: Option<Ends>,
    last_serial: u64,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    oldest: usize,
    newest: usize,
}

#[derive(Debug)]
struct Session<V> {
    key: Key,
    client: SocketAddr,
    moved: Instant,
    /// In the order of `moved`.
    older: Option<usize>,
    newer: Option<usize>,
    value: V,
}

impl<V> Default for Sessions<V> {
    fn default() -> Self {
        Self { by_client: HashMap::new(), slots: Slab::new(), ends: None, last_serial: 0 }
    }
}

impl<V> Sessions<V> {
    /// How many there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is none.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The session of a client.
    #[must_use]
    pub(crate) fn find(&self, client: &SocketAddr) -> Option<(Key, &V)> {
        let key = *self.by_client.get(client)?;
        Some((key, &self.slots.get(key.slot)?.value))
    }

    /// Begins the session of a client that has none. Gives what `make` makes back if it has one.
    ///
    /// # Errors
    /// With the value.
    pub(crate) fn begin(
        &mut self,
        client: SocketAddr,
        now: Instant,
        make: impl FnOnce(Key) -> V,
    ) -> Result<Key, V> {
        self.last_serial += 1;
        let key = Key { slot: self.slots.vacant_key(), serial: self.last_serial };
        let value = make(key);
        match self.by_client.entry(client) {
            Entry::Occupied(_) => Err(value),
            Entry::Vacant(vacant) => {
                vacant.insert(key);
                self.slots.insert(Session { key, client, moved: now, older: None, newer: None, value });
                self.append(key.slot);
                Ok(key)
            }
        }
    }

    /// Something moved in it.
    pub(crate) fn touch(&mut self, key: Key, now: Instant) {
        if !self.has(key) {
            return;
        }
        self.slots[key.slot].moved = now;
        if self.ends.is_some_and(|ends| ends.newest != key.slot) {
            self.unlink(key.slot);
            self.append(key.slot);
        }
    }

    /// Ends it; `None` where it has ended already.
    pub(crate) fn end(&mut self, key: Key) -> Option<V> {
        if !self.has(key) {
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

    /// Ends the one in which nothing has moved for the longest time, if that is `idle` at least.
    pub(crate) fn end_idle(&mut self, now: Instant, idle: Duration) -> Option<V> {
        let oldest = &self.slots[self.ends?.oldest];
        let (key, silent) = (oldest.key, now.saturating_duration_since(oldest.moved));
        if silent >= idle { self.end(key) } else { None }
    }

    /// When something moved last in the one in which nothing has moved for the longest time.
    #[must_use]
    pub(crate) fn oldest(&self) -> Option<Instant> {
        Some(self.slots[self.ends?.oldest].moved)
    }

    fn has(&self, key: Key) -> bool {
        self.slots.get(key.slot).is_some_and(|session| session.key == key)
    }

    /// Takes it out of the order.
    fn unlink(&mut self, slot: usize) {
        let (older, newer) = (self.slots[slot].older.take(), self.slots[slot].newer.take());
        if let Some(older) = older {
            self.slots[older].newer = newer;
        }
        if let Some(newer) = newer {
            self.slots[newer].older = older;
        }
        self.ends = self.ends.and_then(|ends| {
            let oldest = if ends.oldest == slot { newer } else { Some(ends.oldest) };
            let newest = if ends.newest == slot { older } else { Some(ends.newest) };
            Some(Ends { oldest: oldest?, newest: newest? })
        });
    }

    /// Puts one that is not in the order at its end.
    fn append(&mut self, slot: usize) {
        match &mut self.ends {
            None => self.ends = Some(Ends { oldest: slot, newest: slot }),
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
    fn sessions_end_in_the_order_in_which_nothing_moves() {
        let (mut sessions, start) = (Sessions::default(), Instant::now());
        let keys = [1, 2, 3].map(|port| sessions.begin(client(port), start, |_| port).unwrap());
        sessions.touch(keys[0], start + Duration::from_secs(10));
        assert_eq!(sessions.end_idle(start + IDLE - Duration::from_millis(1), IDLE), None);
        let ended: Vec<_> = std::iter::from_fn(|| sessions.end_idle(start + IDLE, IDLE)).collect();
        assert_eq!((ended, sessions.len()), (vec![2, 3], 1));
        assert_eq!(sessions.oldest(), Some(start + Duration::from_secs(10)));
        assert_eq!(sessions.end_idle(start + IDLE * 2, IDLE), Some(1));
        assert_eq!((sessions.oldest(), sessions.is_empty()), (None, true));
    }

    #[test]
    fn a_client_has_one_session_and_a_place_is_never_mistaken() {
        let (mut sessions, now) = (Sessions::default(), Instant::now());
        let first = sessions.begin(client(1), now, |_| "first").unwrap();
        assert_eq!(sessions.begin(client(1), now, |_| "again"), Err("again"));
        assert_eq!(sessions.end(first), Some("first"));
        let second = sessions.begin(client(2), now, |_| "second").unwrap();
        assert_eq!((sessions.end(first), sessions.len()), (None, 1));
        sessions.touch(first, now + IDLE);
        assert_eq!((sessions.oldest(), sessions.find(&client(2))), (Some(now), Some((second, &"second"))));
        assert_eq!(sessions.find(&client(1)), None);
    }

    /// What happens to sessions.
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
        fn they_are_what_a_list_in_the_order_of_movement_says(steps in prop::collection::vec(step(), 1..200)) {
            let (mut sessions, mut now) = (Sessions::default(), Instant::now());
            // The oldest first: client, key, and when something moved.
            let mut list: Vec<(u16, Key, Instant)> = Vec::new();
            for step in steps {
                let place = |port: u16| list.iter().position(|(other, ..)| *other == port);
                match step {
                    Step::Begin(port) => match (sessions.begin(client(port), now, |_| port), place(port)) {
                        (Ok(key), None) => list.push((port, key, now)),
                        (Err(_), Some(_)) => {}
                        (begun, known) => prop_assert!(false, "{begun:?} {known:?}"),
                    },
                    Step::Touch(port) => if let Some(at) = place(port) {
                        let (_, key, _) = list.remove(at);
                        sessions.touch(key, now);
                        list.push((port, key, now));
                    },
                    Step::End(port) => if let Some(at) = place(port) {
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
