//! A persistent hash table by name, optimised for few cache misses: clones share their data, and a change copies one
//! shard and the directory of shards.
//!
//! Among 100,000 hosts a lookup is bound by memory: a hash trie has one miss per level, one for the key and one for the
//! value; this table has one for the slot and one for the value, which contains its name. Measured by `cargo bench -p
//! fairway-routing`.

use std::fmt;
use std::sync::Arc;

use crate::hash::FastHashState;

/// Entries per shard at which the number of shards doubles: copying a directory and copying a shard then cost about the
/// same at realistic sizes.
const SHARD_ENTRIES: usize = 256;

/// A value that knows its name.
pub(crate) trait Named {
    fn name(&self) -> &[u8];
}

/// Values by name.
pub(crate) struct NameTable<V> {
    /// A power of two.
    shards: Arc<Vec<Shard<V>>>,
    length: usize,
    hash: FastHashState,
}

/// Open addressing; the number of slots is a power of two, at most half of them used, so that most lookups end at the
/// first slot: each further one is a mispredicted branch. Tags are separate from values, so that the tags of 100,000
/// hosts fit into a cache.
struct Shard<V> {
    /// Part of the hash of each slot's name; 0 if the slot is free.
    tags: Arc<[u16]>,
    values: Arc<[Option<Arc<V>>]>,
    /// Only read when a shard is rebuilt.
    hashes: Arc<[u64]>,
    length: usize,
}

/// A name that is stored inline if it is short enough, as nearly all host names are.
#[derive(Clone, Debug)]
pub(crate) enum ShortName {
    Inline(u8, [u8; ShortName::INLINE]),
    Long(Arc<str>),
}

impl ShortName {
    const INLINE: usize = 46;

    pub(crate) fn new(name: &Arc<str>) -> Self {
        let mut bytes = [0; Self::INLINE];
        match (u8::try_from(name.len()), bytes.get_mut(..name.len())) {
            (Ok(length), Some(place)) => {
                place.copy_from_slice(name.as_bytes());
                Self::Inline(length, bytes)
            }
            _ => Self::Long(name.clone()),
        }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Inline(length, bytes) => &bytes[..usize::from(*length)],
            Self::Long(name) => name.as_bytes(),
        }
    }
}

impl<V: Named> NameTable<V> {
    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    #[inline]
    pub(crate) fn find(&self, name: &[u8]) -> Option<&Arc<V>> {
        let hash = self.hash.hash_below(0, name);
        self.shards[self.shard(hash)].find(hash, name)
    }

    /// Inserts `value` under its name and returns the previous one.
    pub(crate) fn insert(&mut self, value: Arc<V>) -> Option<Arc<V>> {
        if self.length >= self.shards.len() * SHARD_ENTRIES {
            self.double();
        }
        let hash = self.hash.hash_below(0, value.name());
        let before = self.shard_mut(hash).insert(hash, value);
        self.length += usize::from(before.is_none());
        before
    }

    /// Removes and returns the value under `name`.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<Arc<V>> {
        self.find(name)?;
        let hash = self.hash.hash_below(0, name);
        let removed = self.shard_mut(hash).remove(hash, name);
        self.length -= usize::from(removed.is_some());
        removed
    }

    fn shard(&self, hash: u64) -> usize {
        // Slots are chosen by the low half.
        (hash >> 32) as usize & (self.shards.len() - 1)
    }

    fn shard_mut(&mut self, hash: u64) -> &mut Shard<V> {
        let index = self.shard(hash);
        &mut Arc::make_mut(&mut self.shards)[index]
    }

    fn double(&mut self) {
        let before = std::mem::take(&mut self.shards);
        self.shards = Arc::new((0..before.len() * 2).map(|_| Shard::default()).collect());
        for (hash, value) in before.iter().flat_map(Shard::entries) {
            self.shard_mut(hash).insert(hash, value.clone());
        }
    }
}

impl<V: Named> Shard<V> {
    #[inline]
    fn find(&self, hash: u64, name: &[u8]) -> Option<&Arc<V>> {
        let mask = self.tags.len().checked_sub(1)?;
        let (mut place, own) = (hash as usize & mask, tag(hash));
        loop {
            match self.tags[place] {
                0 => return None,
                it if it == own => {
                    let value = self.values[place].as_ref()?;
                    if value.name() == name {
                        return Some(value);
                    }
                }
                _ => {}
            }
            place = (place + 1) & mask;
        }
    }

    fn insert(&mut self, hash: u64, value: Arc<V>) -> Option<Arc<V>> {
        if (self.length + 1) * 2 > self.tags.len() {
            let before = std::mem::replace(self, Self::empty((self.tags.len() * 2).max(4)));
            self.fill(before.entries());
        }
        let mask = self.tags.len() - 1;
        let mut slot = hash as usize & mask;
        while let Some(there) = &self.values[slot] {
            if self.hashes[slot] == hash && there.name() == value.name() {
                return Arc::make_mut(&mut self.values)[slot].replace(value);
            }
            slot = (slot + 1) & mask;
        }
        Arc::make_mut(&mut self.tags)[slot] = tag(hash);
        Arc::make_mut(&mut self.hashes)[slot] = hash;
        Arc::make_mut(&mut self.values)[slot] = Some(value);
        self.length += 1;
        None
    }

    /// Rebuilds the table without the entry: a free slot would hide entries displaced past it.
    fn remove(&mut self, hash: u64, name: &[u8]) -> Option<Arc<V>> {
        let before = std::mem::replace(self, Self::empty(self.tags.len()));
        let is_it = |(at, value): &(u64, &Arc<V>)| *at == hash && value.name() == name;
        self.fill(before.entries().filter(|entry| !is_it(entry)));
        before.entries().find(is_it).map(|(_, value)| value.clone())
    }

    fn fill<'v>(&mut self, entries: impl Iterator<Item = (u64, &'v Arc<V>)>)
    where
        V: 'v,
    {
        for (hash, value) in entries {
            self.insert(hash, value.clone());
        }
    }
}

impl<V> Shard<V> {
    fn empty(slots: usize) -> Self {
        Self {
            tags: std::iter::repeat_n(0, slots).collect(),
            values: std::iter::repeat_with(|| None).take(slots).collect(),
            hashes: std::iter::repeat_n(0, slots).collect(),
            length: 0,
        }
    }

    /// Its values, with the hash of each name.
    fn entries(&self) -> impl Iterator<Item = (u64, &Arc<V>)> {
        let all = self.hashes.iter().zip(&*self.values);
        all.filter_map(|(hash, value)| Some((*hash, value.as_ref()?)))
    }
}

/// The bits that select neither the shard nor, in one of usual size, the slot; never 0.
#[inline]
fn tag(hash: u64) -> u16 {
    (hash >> 16) as u16 | 1
}

impl<V> Default for NameTable<V> {
    fn default() -> Self {
        Self { shards: Arc::new(vec![Shard::default()]), length: 0, hash: FastHashState::default() }
    }
}

impl<V> Default for Shard<V> {
    fn default() -> Self {
        Self::empty(0)
    }
}

// Implemented by hand: the values are shared and need not be `Clone`.
impl<V> Clone for NameTable<V> {
    fn clone(&self) -> Self {
        Self { shards: self.shards.clone(), length: self.length, hash: self.hash }
    }
}

impl<V> Clone for Shard<V> {
    fn clone(&self) -> Self {
        let Self { tags, values, hashes, length } = self;
        Self { tags: tags.clone(), values: values.clone(), hashes: hashes.clone(), length: *length }
    }
}

impl<V> fmt::Debug for NameTable<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Names({})", self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    #[derive(Debug, PartialEq)]
    struct Value(String, usize);

    impl Named for Value {
        fn name(&self) -> &[u8] {
            self.0.as_bytes()
        }
    }

    proptest! {
        #[test]
        fn behaves_like_an_ordinary_map_and_never_changes_its_clones(
            edits in proptest::collection::vec((0..3000_usize, any::<bool>()), 0..4000),
        ) {
            let mut names = NameTable::default();
            let mut model = BTreeMap::new();
            let mut halfway = None;
            for (turn, (n, remove)) in edits.iter().enumerate() {
                let name = format!("host-{n}");
                if *remove {
                    let removed = names.remove(name.as_bytes()).map(|value: Arc<Value>| value.1);
                    prop_assert_eq!(removed, model.remove(&name));
                } else {
                    let before = names.insert(Arc::new(Value(name.clone(), turn))).map(|value| value.1);
                    prop_assert_eq!(before, model.insert(name, turn));
                }
                if turn == edits.len() / 2 {
                    halfway = Some((names.clone(), model.clone()));
                }
            }
            for (names, model) in halfway.into_iter().chain([(names, model)]) {
                prop_assert_eq!(names.is_empty(), model.is_empty());
                for name in (0..3000).map(|n| format!("host-{n}")) {
                    let found = names.find(name.as_bytes()).map(|value| value.1);
                    prop_assert_eq!(found, model.get(&name).copied());
                }
            }
        }
    }

    #[test]
    fn short_and_long_names_are_stored_completely() {
        for length in [0, 1, 45, 46, 47, 253] {
            let name: Arc<str> = "n".repeat(length).into();
            assert_eq!(ShortName::new(&name).bytes(), name.as_bytes());
        }
    }
}
