//! The dynamic table (RFC 7541 §2.3.2, §4) as prepared lines with their verdicts, so that an indexed field is a single
//! copy.

use std::collections::VecDeque;

use fairway_http::Known;

use crate::verdict::Verdict;

/// "The size of an entry is the sum of its name's length in octets, its value's length in octets, and 32" (RFC 7541 §4.1).
pub(crate) const ENTRY_OVERHEAD_BYTES: usize = 32;

/// Bytes of a line that do not count: the colon, the space and the line end.
const PUNCTUATION_BYTES: usize = 4;

/// The maximum size of a table, so that 16-bit offsets suffice.
pub const MAX_TABLE_BYTES: usize = 32 * 1024;

/// A field as a line of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// `name: value CRLF`
    pub bytes: &'a [u8],
    /// The length of the name.
    pub name_bytes: usize,
    /// The known name, if it is one.
    pub known: Known,
    /// The verdict on the field.
    pub verdict: Verdict,
    /// Whether it must never enter a table (RFC 7541 §7.1.3).
    pub sensitive: bool,
}

impl<'a> Line<'a> {
    /// The name.
    #[inline]
    #[must_use]
    pub fn name(&self) -> &'a [u8] {
        &self.bytes[..self.name_bytes]
    }

    /// The value.
    #[inline]
    #[must_use]
    pub fn value(&self) -> &'a [u8] {
        &self.bytes[self.name_bytes + 2..self.bytes.len() - 2]
    }

    /// Its size in a table and in a list of fields.
    #[inline]
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len() - PUNCTUATION_BYTES + ENTRY_OVERHEAD_BYTES
    }
}

/// The position of a line.
#[derive(Debug, Clone, Copy)]
struct Entry {
    start: u16,
    end: u16,
    name_bytes: u16,
    known: Known,
    verdict: Verdict,
}

/// The entries, oldest first. Their lines are in one buffer in the same order and without gaps: new ones are appended,
/// and when there is no room all move to the front. A line is shorter than its counted size, so this is rare.
#[derive(Debug)]
pub struct Table {
    lines: Vec<u8>,
    entries: VecDeque<Entry>,
    size: usize,
    max_bytes: usize,
}

impl Table {
    /// An empty table of at most this size. Allocates with the first entry.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Table { lines: Vec::new(), entries: VecDeque::new(), size: 0, max_bytes: limit.min(MAX_TABLE_BYTES) }
    }

    /// The maximum size.
    #[inline]
    #[must_use]
    pub fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// The counted size of its entries.
    #[inline]
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// The number of entries.
    #[inline]
    #[must_use]
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of memory in use.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.lines.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    /// "Whenever the maximum size for the dynamic table is reduced, entries are evicted from the end of the dynamic table
    /// until the size of the dynamic table is less than or equal to the maximum size" (RFC 7541 §4.3).
    pub fn resize(&mut self, limit: usize) {
        self.max_bytes = limit.min(MAX_TABLE_BYTES);
        while self.size > self.max_bytes {
            self.evict();
        }
        if self.max_bytes == 0 {
            self.lines = Vec::new();
            self.entries = VecDeque::new();
        }
    }

    /// The entry that was inserted this many entries before the newest one.
    #[inline]
    #[must_use]
    pub fn get_from_newest(&self, before: usize) -> Option<Line<'_>> {
        let entry = self.entries.get(self.entries.len().checked_sub(before + 1)?)?;
        Some(Line {
            bytes: &self.lines[usize::from(entry.start)..usize::from(entry.end)],
            name_bytes: usize::from(entry.name_bytes),
            known: entry.known,
            verdict: entry.verdict,
            sensitive: false,
        })
    }

    /// Inserts a field, evicting the oldest ones for which there is no room. "It is not an error to attempt to add an
    /// entry that is larger than the maximum size; an attempt to add an entry larger than the maximum size causes the
    /// table to be emptied of all existing entries" (RFC 7541 §4.4).
    pub fn insert(&mut self, line: Line<'_>) {
        let size = line.size();
        while self.size + size > self.max_bytes {
            if !self.evict() {
                return;
            }
        }
        if self.lines.len() + line.bytes.len() > self.max_bytes {
            self.move_to_front();
        }
        let start = self.lines.len();
        self.lines.extend_from_slice(line.bytes);
        self.size += size;
        self.entries.push_back(Entry {
            start: start as u16,
            end: self.lines.len() as u16,
            name_bytes: line.name_bytes as u16,
            known: line.known,
            verdict: line.verdict,
        });
    }

    /// Removes the oldest entry. Returns whether there was one.
    pub(super) fn evict(&mut self) -> bool {
        let Some(entry) = self.entries.pop_front() else { return false };
        self.size -= usize::from(entry.end - entry.start) - PUNCTUATION_BYTES + ENTRY_OVERHEAD_BYTES;
        if self.entries.is_empty() {
            self.lines.clear();
        }
        true
    }

    fn move_to_front(&mut self) {
        let Some(first) = self.entries.front().map(|entry| entry.start) else { return };
        self.lines.copy_within(usize::from(first).., 0);
        self.lines.truncate(self.lines.len() - usize::from(first));
        for entry in &mut self.entries {
            entry.start -= first;
            entry.end -= first;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(bytes: &[u8], name_bytes: usize) -> Line<'_> {
        Line { bytes, name_bytes, known: Known::Other, verdict: Verdict::Regular, sensitive: false }
    }

    fn listed(table: &Table) -> Vec<Vec<u8>> {
        (0..table.count()).map(|at| table.get_from_newest(at).unwrap().bytes.to_vec()).collect()
    }

    #[test]
    fn rfc7541_4_4_an_oversize_entry_empties_the_table() {
        let mut table = Table::new(70);
        table.insert(line(b"a: b\r\n", 1));
        table.insert(line(b"a: c\r\n", 1));
        assert_eq!((table.count(), table.size()), (2, 68));
        table.insert(line(b"a: d\r\n", 1));
        assert_eq!(listed(&table), [b"a: d\r\n", b"a: c\r\n"]);
        let long = [&b"a: "[..], &[b'x'; 60], b"\r\n"].concat();
        table.insert(line(&long, 1));
        assert_eq!((table.count(), table.size(), table.get_from_newest(0)), (0, 0, None));
        table.insert(line(b"a: b\r\n", 1));
        assert_eq!(table.count(), 1);
    }

    #[test]
    fn rfc7541_4_3_a_smaller_table_evicts_the_oldest() {
        let mut table = Table::new(4096);
        for value in 0..10 {
            table.insert(line(format!("a: {value}\r\n").as_bytes(), 1));
        }
        table.resize(70);
        assert_eq!(listed(&table), [b"a: 9\r\n", b"a: 8\r\n"]);
        table.resize(0);
        assert_eq!((table.count(), table.kept_bytes()), (0, 0));
    }

    proptest! {
        #[test]
        fn a_table_holds_what_a_list_would(
            most in 0..400usize,
            lines in prop::collection::vec(("[a-z]{1,40}", "[a-z]{0,90}"), 0..200),
        ) {
            let mut table = Table::new(most);
            let mut list: Vec<Vec<u8>> = Vec::new();
            for (name, value) in &lines {
                let bytes = format!("{name}: {value}\r\n").into_bytes();
                table.insert(line(&bytes, name.len()));
                list.insert(0, bytes);
                let fits = |list: &[Vec<u8>]| list.iter().map(|line| line.len() + 28).sum::<usize>() <= most;
                while !fits(&list) {
                    list.pop();
                }
                prop_assert_eq!(&listed(&table), &list);
                prop_assert!(table.lines.len() <= most);
            }
        }
    }
}
