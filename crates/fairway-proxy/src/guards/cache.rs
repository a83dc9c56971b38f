//! A worker's cache of results for later requests, such as responses of an authentication service or claims of a token. It is
//! bounded in number and bytes; the oldest entry is evicted. It stores only a keyed hash of request data.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use aws_lc_rs::hmac::{self, HMAC_SHA256};
use fairway_net::clock::Instant;

/// Values per worker.
const MAX_ENTRIES: usize = 4096;
/// Bytes of all values together.
const MAX_BYTES: usize = 4 << 20;

/// The cache key: a keyed hash of request data.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CacheTag([u8; 32]);

/// The cached values of a worker. Nothing is allocated before the first lookup.
pub(crate) struct ExpiringCache<T> {
    table: RefCell<Option<Box<Table<T>>>>,
    /// The maximum size of one value, in bytes.
    max_entry_bytes: usize,
}

struct Table<T> {
    key: hmac::Key,
    values: HashMap<CacheTag, CacheEntry<T>>,
    /// In order of insertion; includes replaced values.
    order: VecDeque<(CacheTag, u64)>,
    bytes: usize,
    arrivals: u64,
}

struct CacheEntry<T> {
    value: T,
    until: Instant,
    bytes: usize,
    arrival: u64,
}

impl<T: Clone> ExpiringCache<T> {
    /// An empty cache that refuses larger values.
    pub(crate) fn with_max_entry_bytes(largest: usize) -> Self {
        Self { table: RefCell::default(), max_entry_bytes: largest }
    }

    /// The tag for these parts of a request.
    pub(crate) fn tag(&self, parts: &[&[u8]]) -> CacheTag {
        let mut table = self.table.borrow_mut();
        let mut context = hmac::Context::with_key(&table.get_or_insert_with(Table::new).key);
        for part in parts {
            // Length prefixes keep different lists of parts distinct.
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let mut tag = [0; 32];
        tag.copy_from_slice(context.sign().as_ref());
        CacheTag(tag)
    }

    /// The value for a tag.
    pub(crate) fn find(&self, tag: &CacheTag) -> Option<T> {
        let table = self.table.borrow();
        let entry = table.as_ref()?.values.get(tag)?;
        (Instant::now() < entry.until).then(|| entry.value.clone())
    }

    /// Stores a value of this size for this time, unless it is too large.
    pub(crate) fn insert(&self, tag: CacheTag, value: T, bytes: usize, time: Duration) {
        let bytes = size_of::<CacheEntry<T>>() + bytes;
        let until = Instant::now().checked_add(time);
        if let (Some(table), Some(until), true) =
            (&mut *self.table.borrow_mut(), until, bytes <= self.max_entry_bytes)
        {
            table.make_room(bytes);
            table.arrivals += 1;
            let entry = CacheEntry { value, until, bytes, arrival: table.arrivals };
            table.order.push_back((tag, table.arrivals));
            table.bytes += bytes;
            let before = table.values.insert(tag, entry);
            table.bytes -= before.map_or(0, |before| before.bytes);
        }
    }

    /// Removes all values.
    pub(crate) fn clear(&self) {
        self.table.take();
    }
}

impl<T> Table<T> {
    fn new() -> Box<Self> {
        let key = hmac::Key::generate(HMAC_SHA256, &aws_lc_rs::rand::SystemRandom::new())
            .expect("the system gives random bytes, without which there is no TLS either");
        Box::new(Self { key, values: HashMap::new(), order: VecDeque::new(), bytes: 0, arrivals: 0 })
    }

    /// Evicts the oldest values until one of this size fits, and expired values at the front.
    fn make_room(&mut self, bytes: usize) {
        let now = Instant::now();
        while let Some((tag, arrival)) = self.order.front().copied() {
            let entry = self.values.get(&tag).filter(|entry| entry.arrival == arrival);
            let is_over = entry.is_none_or(|entry| entry.until <= now);
            if !is_over && self.order.len() < MAX_ENTRIES && self.bytes + bytes <= MAX_BYTES {
                return;
            }
            if let Some(entry) = entry {
                self.bytes -= entry.bytes;
                self.values.remove(&tag);
            }
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

    use super::*;

    const SMALL: usize = 100;
    const MAX_ENTRY_BYTES: usize = 8 << 10;

    fn is_at_rest(cache: &ExpiringCache<&str>) -> bool {
        let table = cache.table.borrow();
        let table = table.as_ref().unwrap();
        let bytes: usize = table.values.values().map(|cache| cache.bytes).sum();
        bytes == table.bytes && table.order.len() <= MAX_ENTRIES && table.values.len() <= table.order.len()
    }

    #[tokio::test(start_paused = true)]
    async fn a_value_is_cached_until_it_expires_and_under_its_tag_only() {
        let cache = ExpiringCache::with_max_entry_bytes(MAX_ENTRY_BYTES);
        let (tag, other) = (cache.tag(&[b"ab", b"c"]), cache.tag(&[b"a", b"bc"]));
        cache.insert(tag, "alice", SMALL, Duration::from_secs(5));
        assert_eq!(cache.find(&tag), Some("alice"));
        assert_eq!(cache.find(&other), None);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(cache.find(&tag), None);
        cache.insert(tag, "bob", SMALL, Duration::from_secs(5));
        assert_eq!(cache.find(&tag), Some("bob"));
        assert!(is_at_rest(&cache));
        cache.clear();
        assert_eq!(cache.find(&tag), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_entry_is_evicted_beyond_the_limit() {
        let cache = ExpiringCache::with_max_entry_bytes(MAX_ENTRY_BYTES);
        let tag = |number: usize| cache.tag(&[&number.to_be_bytes()]);
        for number in 0..MAX_ENTRIES + 2 {
            cache.insert(tag(number), "a", SMALL, Duration::from_secs(60));
        }
        assert!(cache.find(&tag(0)).is_none() && cache.find(&tag(1)).is_none());
        assert!(cache.find(&tag(2)).is_some() && cache.find(&tag(MAX_ENTRIES + 1)).is_some());
        for number in 0..MAX_ENTRIES {
            cache.insert(tag(number), "a", MAX_ENTRY_BYTES / 4, Duration::from_secs(60));
        }
        assert!(cache.find(&tag(0)).is_none() && cache.find(&tag(MAX_ENTRIES - 1)).is_some());
        assert!(cache.table.borrow().as_ref().unwrap().bytes <= MAX_BYTES);
        assert!(is_at_rest(&cache));
        cache.insert(tag(MAX_ENTRIES), "a", MAX_ENTRY_BYTES, Duration::from_secs(60));
        assert_eq!(cache.find(&tag(MAX_ENTRIES)), None, "it is too large");
    }

    #[tokio::test(start_paused = true)]
    async fn a_frequently_replaced_entry_evicts_no_others() {
        let cache = ExpiringCache::with_max_entry_bytes(MAX_ENTRY_BYTES);
        let (often, once) = (cache.tag(&[b"often"]), cache.tag(&[b"once"]));
        for _ in 0..3 * MAX_ENTRIES {
            cache.insert(often, "a", SMALL, Duration::from_secs(60));
        }
        cache.insert(once, "b", SMALL, Duration::from_secs(60));
        assert!(cache.find(&often).is_some() && cache.find(&once).is_some());
        assert!(is_at_rest(&cache));
    }
}
