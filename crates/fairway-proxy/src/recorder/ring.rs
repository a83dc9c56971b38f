//! A ring of entries whose memory is reused.

use std::time::Duration;

use fairway_net::clock::Instant;

use super::entry::RecordedEntry;

/// A ring of up to `capacity` entries; a new one replaces the oldest.
pub(super) struct EntryRing {
    /// Entries, allocated on first use.
    entries: Vec<RecordedEntry>,
    capacity: usize,
    /// Index of the next entry.
    next_index: usize,
    /// Number of valid entries.
    len: usize,
}

impl EntryRing {
    /// For `capacity` entries, at least one.
    pub(super) fn new(capacity: usize) -> Self {
        Self { entries: Vec::new(), capacity: capacity.max(1), next_index: 0, len: 0 }
    }

    /// The slot of the next entry, which the caller must write.
    #[inline]
    pub(super) fn next_slot(&mut self, started_at: Instant) -> &mut RecordedEntry {
        let at = self.next_index;
        if at == self.entries.len() {
            self.allocate_entry(started_at);
        }
        self.next_index = if at + 1 == self.capacity { 0 } else { at + 1 };
        self.len = self.capacity.min(self.len + 1);
        &mut self.entries[at]
    }

    /// Reserves all memory at once: growing would copy it repeatedly, and untouched memory costs nothing.
    #[cold]
    fn allocate_entry(&mut self, started_at: Instant) {
        if self.entries.capacity() == 0 {
            self.entries.reserve_exact(self.capacity);
        }
        self.entries.push(RecordedEntry::empty(started_at));
    }

    /// All entries, newest first.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = &RecordedEntry> {
        (0..self.len).map(|back| &self.entries[(self.next_index + self.capacity - 1 - back) % self.capacity])
    }

    /// Whether the next entry replaces another.
    pub(super) fn is_full(&self) -> bool {
        self.len == self.capacity
    }

    /// Erases entries that are older than `keep`.
    pub(super) fn erase_older_than(&mut self, now: Instant, keep: Duration) {
        while self.len > 0 {
            let oldest = &mut self.entries[(self.next_index + self.capacity - self.len) % self.capacity];
            if now.saturating_duration_since(oldest.ended_at()) <= keep {
                return;
            }
            oldest.erase();
            self.len -= 1;
        }
    }

    /// Drops all entries and frees their memory.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.capacity);
    }
}
