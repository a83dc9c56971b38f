//! Which shares of a limit are lent or borrowed, by counter key. Requests read without a lock; one writer at a time,
//! off the request path.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Entries of a set.
const ENTRIES_PER_SET: usize = 8;
/// Sets of the table: 4,096 entries, 64 KiB.
const SET_COUNT: usize = 512;
/// A value is the end in milliseconds, above the number of replicas and the sixteenths.
const SIXTEENTHS_BITS: u32 = 14;
const REPLICAS_BITS: u32 = 10;
const END_BITS: u32 = u64::BITS - SIXTEENTHS_BITS - REPLICAS_BITS;

/// How a client's share temporarily differs from an equal share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShareState {
    /// It is lent, except for the part that the lender keeps.
    Lent,
    /// It is this many sixteenths of an equal share, which was one of `replicas`.
    Borrowed { sixteenths: u32, replicas: u32 },
}

#[derive(Default)]
pub(super) struct LentShares {
    entries: OnceLock<Box<[Entry]>>,
    writer: Mutex<()>,
}

#[derive(Default)]
struct Entry {
    /// 0 if free.
    key: AtomicU64,
    value: AtomicU64,
}

impl LentShares {
    /// The share of a key, if it differs from the equal one; `now` is in milliseconds.
    #[inline]
    pub(super) fn find(&self, key: u64, now: u64) -> Option<ShareState> {
        let entry = set(self.entries.get()?, key).iter().find(|it| it.key.load(Ordering::Acquire) == key)?;
        let value = entry.value.load(Ordering::Acquire);
        // Written for another key in the meantime.
        if entry.key.load(Ordering::Acquire) != key || !is_current(value, now) {
            return None;
        }
        Some(unpack(value))
    }

    /// Sets the share of a key until `end`; `false` if there is no room. Times are in milliseconds.
    pub(super) fn set(&self, key: u64, share: ShareState, end: u64, now: u64) -> bool {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let entries =
            self.entries.get_or_init(|| (0..ENTRIES_PER_SET * SET_COUNT).map(|_| Entry::default()).collect());
        let set = set(entries, key);
        let is_free = |entry: &&Entry| !is_current(entry.value.load(Ordering::Acquire), now);
        let own_entry = set.iter().find(|entry| entry.key.load(Ordering::Acquire) == key);
        let Some(entry) = own_entry.or_else(|| set.iter().find(is_free)) else { return false };
        if own_entry.is_none() {
            // A reader that finds the new key never finds the old value.
            entry.value.store(0, Ordering::Release);
            entry.key.store(key, Ordering::Release);
        }
        entry.value.store(pack(share, end), Ordering::Release);
        true
    }
}

/// The lowest bit of a key is always set.
#[inline]
fn set(entries: &[Entry], key: u64) -> &[Entry] {
    let first = ((key >> 1) as usize % SET_COUNT) * ENTRIES_PER_SET;
    &entries[first..first + ENTRIES_PER_SET]
}

#[inline]
fn is_current(value: u64, now: u64) -> bool {
    now < value >> (SIXTEENTHS_BITS + REPLICAS_BITS)
}

fn pack(share: ShareState, end: u64) -> u64 {
    let (replicas, sixteenths) = match share {
        ShareState::Lent => (0, 0),
        ShareState::Borrowed { sixteenths, replicas } => (replicas, sixteenths),
    };
    let end = end.min((1 << END_BITS) - 1);
    let replicas = u64::from(replicas.min((1 << REPLICAS_BITS) - 1));
    let sixteenths = u64::from(sixteenths.min((1 << SIXTEENTHS_BITS) - 1));
    (end << REPLICAS_BITS | replicas) << SIXTEENTHS_BITS | sixteenths
}

#[inline]
fn unpack(value: u64) -> ShareState {
    let part = |shift: u32, bits: u32| ((value >> shift) & ((1 << bits) - 1)) as u32;
    match part(0, SIXTEENTHS_BITS) {
        0 => ShareState::Lent,
        sixteenths => ShareState::Borrowed { sixteenths, replicas: part(SIXTEENTHS_BITS, REPLICAS_BITS) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_holds_until_its_end_and_makes_room_then() {
        let shares = LentShares::default();
        assert_eq!(shares.find(1, 0), None);
        let borrowed = ShareState::Borrowed { sixteenths: 15_001, replicas: 1_000 };
        assert!(shares.set(1, borrowed, 10, 0) && shares.set(3, ShareState::Lent, 20, 0));
        assert_eq!((shares.find(1, 9), shares.find(1, 10)), (Some(borrowed), None));
        assert_eq!((shares.find(3, 19), shares.find(5, 0)), (Some(ShareState::Lent), None));
        // Keys of one set.
        let key = |number: u64| (number * SET_COUNT as u64) << 1 | 1;
        let shares = LentShares::default();
        assert!((0..ENTRIES_PER_SET as u64).all(|number| shares.set(key(number), ShareState::Lent, 10, 0)));
        assert!(!shares.set(key(100), ShareState::Lent, 10, 9), "all are in use");
        assert!(shares.set(key(3), ShareState::Lent, 30, 9), "and may be set again");
        assert!(shares.set(key(100), ShareState::Lent, 40, 10));
        assert_eq!((shares.find(key(0), 0), shares.find(key(100), 39)), (None, Some(ShareState::Lent)));
    }
}
