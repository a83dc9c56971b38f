//! The dynamic table (RFC 7541 §2.3.2, §4) as ready lines with what is known of them, so that an indexed field is one
//! copy. Never decides what enters it.

use std::collections::VecDeque;

use fairway_http::Known;

use crate::verdict::Verdict;

/// "The size of an entry is the sum of its name's length in octets, its value's length in octets, and 32" (RFC 7541 §4.1).
pub(crate) const OVERHEAD: usize = 32;

/// A line has four bytes that count for nothing: the colon, the blank and the line end.
const PUNCTUATION: usize = 4;

/// Tables are at most this large, so that 16 bits say where a line lies.
pub const MOST: usize = 32 * 1024;

/// A field as the line that a head has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// `name: value CRLF`
    pub bytes: &'a [u8],
    /// How long the name is.
    pub name_bytes: usize,
    /// The name, if it is one with a meaning here.
    pub known: Known,
    /// What the field is.
    pub verdict: Verdict,
    /// It must never enter a table (RFC 7541 §7.1.3).
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

    /// What it counts in a table and in a list of fields.
    #[inline]
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len() - PUNCTUATION + OVERHEAD
    }
}

/// Where a line lies.
#[derive(Debug, Clone, Copy)]
struct Entry {
    start: u16,
    end: u16,
    name_bytes: u16,
    known: Known,
    verdict: Verdict,
}

/// The entries, oldest first. Their lines lie in one buffer in the same order and without gaps between them: new ones are
/// appended, and when there is no room left all move to the front. A line is shorter than what its entry counts, so this
/// is rare.
#[derive(Debug)]
pub struct Table {
    lines: Vec<u8>,
    entries: VecDeque<Entry>,
    size: usize,
    most: usize,
}

impl Table {
    /// An empty table of this size at most. It takes no memory before it has an entry.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Table { lines: Vec::new(), entries: VecDeque::new(), size: 0, most: most.min(MOST) }
    }

    /// How large it may be.
    #[inline]
    #[must_use]
    pub fn most(&self) -> usize {
        self.most
    }

    /// What its entries count.
    #[inline]
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// How many entries it has.
    #[inline]
    #[must_use]
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// The memory that it keeps, in bytes.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.lines.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    /// "Whenever the maximum size for the dynamic table is reduced, entries are evicted from the end of the dynamic table
    /// until the size of the dynamic table is less than or equal to the maximum size" (RFC 7541 §4.3).
    pub fn resize(&mut self, most: usize) {
        self.most = most.min(MOST);
        while self.size > self.most {
            self.evict();
        }
        if self.most == 0 {
            self.lines = Vec::new();
            self.entries = VecDeque::new();
        }
    }

    /// The entry that was inserted so many entries before the newest one.
    #[inline]
    #[must_use]
    pub fn newest(&self, before: usize) -> Option<Line<'_>> {
        let entry = self.entries.get(self.entries.len().checked_sub(before + 1)?)?;
        Some(Line {
            bytes: &self.lines[usize::from(entry.start)..usize::from(entry.end)],
            name_bytes: usize::from(entry.name_bytes),
            known: entry.known,
            verdict: entry.verdict,
            sensitive: false,
        })
    }

    /// Inserts a field, and evicts what has no room beside it. "It is not an error to attempt to add an entry that is
    /// larger than the maximum size; an attempt to add an entry larger than the maximum size causes the table to be
    /// emptied of all existing entries" (RFC 7541 §4.4).
    pub fn insert(&mut self, line: Line<'_>) {
        let size = line.size();
        while self.size + size > self.most {
            if !self.evict() {
                return;
            }
        }
        if self.lines.len() + line.bytes.len() > self.most {
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

    /// Takes the oldest entry out; says whether there was one.
    pub(super) fn evict(&mut self) -> bool {
        let Some(entry) = self.entries.pop_front() else { return false };
        self.size -= usize::from(entry.end - entry.start) - PUNCTUATION + OVERHEAD;
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
        (0..table.count()).map(|at| table.newest(at).unwrap().bytes.to_vec()).collect()
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
        assert_eq!((table.count(), table.size(), table.newest(0)), (0, 0, None));
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
