//! A reverse index: which objects (users) refer to a key.

use imbl::OrdMap;

use crate::few::SmallSet;

/// The users of each key, such as the Ingresses that refer to a Secret. Clones are cheap.
#[derive(Clone, Debug)]
pub struct ReverseIndex<K: Ord, V: Ord>(OrdMap<K, SmallSet<V>>);

impl<K: Ord, V: Ord> Default for ReverseIndex<K, V> {
    fn default() -> Self {
        Self(OrdMap::new())
    }
}

impl<K: Ord + Clone, V: Ord + Clone> ReverseIndex<K, V> {
    /// The users of `key`, in order.
    pub fn users_of(&self, key: &K) -> impl Iterator<Item = &V> {
        self.0.get(key).into_iter().flat_map(SmallSet::iter)
    }

    /// The number of users of `key`.
    pub fn count(&self, key: &K) -> usize {
        self.0.get(key).map_or(0, SmallSet::len)
    }

    /// Whether `key` has users.
    pub fn has(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    /// Adds a user of `key`.
    pub fn add(&mut self, key: &K, user: V) {
        if let Some(users) = self.0.get_mut(key) {
            users.insert(user);
        } else {
            self.0.insert(key.clone(), SmallSet::single(user));
        }
    }

    /// Removes a user of `key`.
    pub fn remove(&mut self, key: &K, user: &V) {
        if let Some(users) = self.0.get_mut(key) {
            users.remove(user);
            if users.is_empty() {
                self.0.remove(key);
            }
        }
    }

    /// The entries from `first` on, in order.
    pub fn from(&self, first: K) -> impl Iterator<Item = (&K, &SmallSet<V>)> {
        self.0.range(first..)
    }
}
