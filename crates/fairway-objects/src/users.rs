//! From things to those who use them: a reverse look-up table. Owns nothing of what using means.

use imbl::OrdMap;

use crate::few::Few;

/// From a thing to those who use it. A clone costs nothing.
#[derive(Clone, Debug)]
pub struct Users<K: Ord, V: Ord>(OrdMap<K, Few<V>>);

impl<K: Ord, V: Ord> Default for Users<K, V> {
    fn default() -> Self {
        Self(OrdMap::new())
    }
}

impl<K: Ord + Clone, V: Ord + Clone> Users<K, V> {
    /// Those who use `key`, in order.
    pub fn of(&self, key: &K) -> impl Iterator<Item = &V> {
        self.0.get(key).into_iter().flat_map(Few::iter)
    }

    /// How many use `key`.
    pub fn count(&self, key: &K) -> usize {
        self.0.get(key).map_or(0, Few::len)
    }

    /// Whether anybody uses `key`.
    pub fn has(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    /// One more uses `key`.
    pub fn add(&mut self, key: &K, user: V) {
        if let Some(users) = self.0.get_mut(key) {
            users.insert(user);
        } else {
            self.0.insert(key.clone(), Few::one(user));
        }
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
    pub fn from(&self, first: K) -> impl Iterator<Item = (&K, &Few<V>)> {
        self.0.range(first..)
    }
}
