//! From things to those who use them: a reverse look-up table. Owns nothing of what using means.

use imbl::{OrdMap, OrdSet};

/// From a thing to those who use it. A clone costs nothing.
#[derive(Clone, Debug)]
pub struct Users<K: Ord, V: Ord>(OrdMap<K, OrdSet<V>>);

impl<K: Ord, V: Ord> Default for Users<K, V> {
    fn default() -> Self {
        Self(OrdMap::new())
    }
}

impl<K: Ord + Clone, V: Ord + Clone> Users<K, V> {
    /// Those who use `key`.
    pub fn of(&self, key: &K) -> impl Iterator<Item = &V> {
        self.0.get(key).into_iter().flatten()
    }

    /// How many use `key`.
    pub fn count(&self, key: &K) -> usize {
        self.0.get(key).map_or(0, OrdSet::len)
    }

    /// Whether anybody uses `key`.
    pub fn has(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    /// One more uses `key`.
    pub fn add(&mut self, key: &K, user: V) {
        self.0.entry(key.clone()).or_default().insert(user);
    }

    /// `user` uses `key` no longer.
    pub fn remove(&mut self, key: &K, user: &V) {
        if let Some(users) = self.0.get_mut(key) {
            users.remove(user);
            if users.is_empty() {
                self.0.remove(key);
            }
        }
    }

    /// All that is used from `first` on, in order.
    pub fn from(&self, first: K) -> impl Iterator<Item = (&K, &OrdSet<V>)> {
        self.0.range(first..)
    }
}
