//! Positions of fields in a head.

use super::header_names::Known;

/// A range of a head's buffer.
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
    /// If the head is larger than 4 GiB.
    #[inline]
    #[must_use]
    pub fn new(start: usize, end: usize) -> Self {
        debug_assert!(start <= end);
        // An offset before one that fits also fits.
        Span { start: start as u32, end: offset(end) }
    }

    /// The bytes of this range.
    #[inline]
    pub fn slice(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start as usize..self.end as usize]
    }
}

/// An offset into a head; heads are limited and edits are small.
#[inline]
pub(crate) fn offset(at: usize) -> u32 {
    u32::try_from(at).expect("a head is far below 4 GiB")
}

/// A field in the buffer, always as `name: value CRLF`: the parser copies a field that was received with other white
/// space. So a run of neighbours is written with one copy and is still canonical.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    pub(super) start: u32,
    pub(super) name_end: u32,
    pub(super) end: u32,
    pub(super) known: Known,
    /// Whether it must never enter a compression table (RFC 7541 §7.1.3).
    pub(super) sensitive: bool,
}

impl Field {
    /// A field at this position; its name is from `start` to `name_end`.
    #[inline]
    pub(super) fn at(start: usize, name_end: usize, end: usize, known: Known) -> Self {
        debug_assert!(start <= name_end && name_end <= end);
        // An offset before one that fits also fits.
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
    pub(super) fn field_ref(self, bytes: &[u8]) -> FieldRef<'_> {
        FieldRef { name: self.name(bytes), value: self.value(bytes), known: self.known }
    }

    #[inline]
    pub(super) fn matches(self, known: Known, name: &[u8], bytes: &[u8]) -> bool {
        self.known == known && (known != Known::Other || self.name(bytes).eq_ignore_ascii_case(name))
    }
}

/// A field of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldRef<'a> {
    /// The name as written.
    pub name: &'a [u8],
    /// The value without surrounding white space.
    pub value: &'a [u8],
    /// The known name, if it is one.
    pub known: Known,
}
