//! Where a field lies in its head. Never owns bytes.

use super::known::Known;

/// A piece of a head's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The bytes from `start` up to `end`.
    ///
    /// # Panics
    /// When a head were 4 GiB large.
    #[inline]
    #[must_use]
    pub fn new(start: usize, end: usize) -> Self {
        debug_assert!(start <= end);
        // What comes before an offset that fits, fits.
        Span { start: start as u32, end: offset(end) }
    }

    /// The bytes of this piece.
    #[inline]
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start as usize..self.end as usize]
    }
}

/// An offset into a head, whose parsed part is limited and whose edits are small.
#[inline]
pub(crate) fn offset(at: usize) -> u32 {
    u32::try_from(at).expect("a head is far below 4 GiB")
}

/// A field that lies in the buffer as `name: value CRLF`, always: the parser copies one that came with
/// other white space. So a run of neighbours is written with one copy and is canonical nevertheless.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    pub(super) start: u32,
    pub(super) name_end: u32,
    pub(super) end: u32,
    pub(super) known: Known,
    /// It must never enter a compression table (RFC 7541 §7.1.3).
    pub(super) sensitive: bool,
}

impl Field {
    /// One that lies there, its name from `start` to `name_end`.
    #[inline]
    pub(super) fn at(start: usize, name_end: usize, end: usize, known: Known) -> Self {
        debug_assert!(start <= name_end && name_end <= end);
        // What comes before an offset that fits, fits.
        let end = offset(end);
        Field { start: start as u32, name_end: name_end as u32, end, known, sensitive: false }
    }

    #[inline]
    pub(super) fn name(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start as usize..self.name_end as usize]
    }

    #[inline]
    pub(super) fn value(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.name_end as usize + 2..self.end as usize]
    }

    #[inline]
    pub(super) fn of(self, bytes: &[u8]) -> FieldRef<'_> {
        FieldRef { name: self.name(bytes), value: self.value(bytes), known: self.known }
    }

    #[inline]
    pub(super) fn is(self, known: Known, name: &[u8], bytes: &[u8]) -> bool {
        self.known == known && (known != Known::Other || self.name(bytes).eq_ignore_ascii_case(name))
    }
}

/// A field as the world sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldRef<'a> {
    /// The name as it was spelt.
    pub name: &'a [u8],
    /// The value without white space around it.
    pub value: &'a [u8],
    /// The name, if it is one with a meaning here.
    pub known: Known,
}
