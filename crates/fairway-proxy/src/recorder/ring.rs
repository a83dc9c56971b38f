//! A ring of entries, whose places are used again and again.

use std::time::Duration;

use fairway_net::clock::Instant;

use super::entry::Entry;

/// At most so many entries, of which the next one takes the place of the oldest.
pub(super) struct Ring {
    /// Places; they are made as they are needed.
    places: Vec<Entry>,
    capacity: usize,
    /// The place of the next entry.
    next: usize,
    /// Entries that are there.
    len: usize,
}

impl Ring {
    /// For `capacity` entries, at least one.
    pub(super) fn new(capacity: usize) -> Self {
        Self { places: Vec::new(), capacity: capacity.max(1), next: 0, len: 0 }
    }

    /// The place of the next entry, which is to be written now.
    #[inline]
    pub(super) fn next(&mut self, began: Instant) -> &mut Entry {
        let at = self.next;
        if at == self.places.len() {
            self.make_place(began);
        }
        self.next = if at + 1 == self.capacity { 0 } else { at + 1 };
        self.len = self.capacity.min(self.len + 1);
        &mut self.places[at]
    }

    /// The memory is asked for at once: growing would copy it again and again, and what is not used yet costs nothing.
    #[cold]
    fn make_place(&mut self, began: Instant) {
        if self.places.capacity() == 0 {
            self.places.reserve_exact(self.capacity);
        }
        self.places.push(Entry::empty(began));
    }

    /// All entries.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = &Entry> {
        (0..self.len).map(|back| &self.places[(self.next + self.capacity - 1 - back) % self.capacity])
    }

    /// Whether the next entry takes the place of another one.
    pub(super) fn is_full(&self) -> bool {
        self.len == self.capacity
    }

    /// Erases entries that are older than `keep`.
    pub(super) fn erase_older(&mut self, now: Instant, keep: Duration) {
        while self.len > 0 {
            let oldest = &mut self.places[(self.next + self.capacity - self.len) % self.capacity];
            if now.saturating_duration_since(oldest.ended()) <= keep {
                return;
            }
            oldest.erase();
            self.len -= 1;
        }
    }

    /// Forgets all entries, and frees their memory.
    pub(super) fn forget(&mut self) {
        *self = Self::new(self.capacity);
    }
}
