//! Which requests were seen, and which more than once. Remembers a bounded number and says how many it forgot.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// Ids that are named when they are seen again.
const NAMED: usize = 1_000;

/// Remembers ids by a hash of 64 bits: the newest ones, at least half of the bound.
pub struct SeenIds {
    bound: usize,
    pages: Mutex<Pages>,
}

#[derive(Default)]
struct Pages {
    current: HashSet<u64>,
    /// Full, and still looked into.
    previous: HashSet<u64>,
    seen: Seen,
}

/// What is known of ids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Requests with an id.
    pub requests: u64,
    /// Those of them whose id was there before.
    pub again: u64,
    /// Ids that were forgotten: a request that comes again after that is not known as such.
    pub forgotten: u64,
    /// The first ids that were seen again.
    pub duplicates: Vec<String>,
}

impl SeenIds {
    /// Remembers at most so many.
    #[must_use]
    pub fn new(bound: usize) -> Self {
        Self { bound: bound.max(2), pages: Mutex::default() }
    }

    /// A request with this id came; true when it was there before.
    pub fn note(&self, id: &[u8]) -> bool {
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        let hash = hasher.finish();
        let mut pages = self.pages();
        pages.seen.requests += 1;
        let is_again = pages.previous.contains(&hash) || !pages.current.insert(hash);
        if is_again {
            pages.seen.again += 1;
            if pages.seen.duplicates.len() < NAMED {
                pages.seen.duplicates.push(String::from_utf8_lossy(id).into_owned());
            }
        } else if pages.current.len() >= self.bound / 2 {
            pages.seen.forgotten += pages.previous.len() as u64;
            pages.previous = std::mem::take(&mut pages.current);
        }
        is_again
    }

    /// What it knows.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.pages().seen.clone()
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_comes_again_is_counted_and_named() {
        let seen_ids = SeenIds::new(100);
        assert!(!seen_ids.note(b"a") && !seen_ids.note(b"b"));
        assert!(seen_ids.note(b"a") && seen_ids.note(b"a"));
        let seen = seen_ids.seen();
        assert_eq!((seen.requests, seen.again, seen.forgotten), (4, 2, 0));
        assert_eq!(seen.duplicates, ["a", "a"]);
    }

    #[test]
    fn what_is_forgotten_is_said() {
        let seen_ids = SeenIds::new(10);
        for number in 0..20_u32 {
            seen_ids.note(&number.to_le_bytes());
        }
        assert_eq!(seen_ids.seen().forgotten, 15);
        assert!(seen_ids.note(&19_u32.to_le_bytes()));
        assert!(!seen_ids.note(&0_u32.to_le_bytes()));
    }
}
