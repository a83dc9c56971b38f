//! What the static tables of HPACK and QPACK have in common: entries as prepared lines, and lookup by name.

use fairway_http::Known;

use super::table::Line;
use crate::verdict::Verdict;

/// An entry of a static table.
#[derive(Debug)]
pub struct Fixed {
    /// `name: value CRLF`
    pub bytes: &'static [u8],
    /// Its name, in lower case.
    pub name: &'static [u8],
    /// Its value.
    pub value: &'static [u8],
    /// The known name, if it is one.
    pub known: Known,
    /// The verdict on any field of this name.
    pub name_verdict: Verdict,
    /// The verdict on this field.
    pub verdict: Verdict,
}

impl Fixed {
    /// The field as a line.
    #[inline]
    #[must_use]
    pub fn line(&self) -> Line<'static> {
        let Fixed { bytes, name, known, verdict, .. } = *self;
        Line { bytes, name_bytes: name.len(), known, verdict, sensitive: false }
    }
}

/// Declares a static table.
#[doc(hidden)]
#[macro_export]
macro_rules! static_table {
    ($($name:literal, $value:literal, $known:ident, $name_verdict:expr $(, $verdict:expr)?;)+) => {
        /// The entries in order.
        pub(super) static TABLE: [$crate::hpack::static_table::Fixed; [$($name),+].len()] = [$($crate::hpack::static_table::Fixed {
            bytes: concat!($name, ": ", $value, "\r\n").as_bytes(),
            name: $name.as_bytes(),
            value: $value.as_bytes(),
            known: fairway_http::Known::$known,
            name_verdict: $name_verdict,
            verdict: { let verdict = $name_verdict; $(let verdict = { _ = verdict; $verdict };)? verdict },
        }),+];
    };
}

const BUCKET_COUNT: usize = 128;

/// End of a chain.
const NO_ENTRY: u8 = u8::MAX;

/// The indices of a table's entries by the hash of their name, lowest first.
#[derive(Debug)]
pub struct NameIndex<const N: usize> {
    table: &'static [Fixed; N],
    first: [u8; BUCKET_COUNT],
    /// The next index with the same hash.
    next: [u8; N],
}

impl<const N: usize> NameIndex<N> {
    /// For this table.
    #[must_use]
    pub const fn new(table: &'static [Fixed; N]) -> Self {
        let mut names = NameIndex { table, first: [NO_ENTRY; BUCKET_COUNT], next: [NO_ENTRY; N] };
        let mut next_index = N;
        while next_index > 0 {
            next_index -= 1;
            let bucket = bucket(table[next_index].name);
            names.next[next_index] = names.first[bucket];
            names.first[bucket] = next_index as u8;
        }
        names
    }

    /// The indices of a name in any case, lowest first. The name has no control characters.
    #[inline]
    pub fn indices_of(&self, name: &[u8]) -> impl Iterator<Item = usize> {
        let mut at = if name.is_empty() { NO_ENTRY } else { self.first[bucket(name)] };
        std::iter::from_fn(move || {
            while at != NO_ENTRY {
                let position = usize::from(at);
                at = self.next[position];
                if is_same(name, self.table[position].name) {
                    return Some(position);
                }
            }
            None
        })
    }
}

const fn bucket(name: &[u8]) -> usize {
    let last = name.len() - 1;
    let sum = name.len() * 3
        + (name[0] | 0x20) as usize
        + (name[last] | 0x20) as usize * 7
        + (name[last / 2] | 0x20) as usize * 5;
    sum % BUCKET_COUNT
}

/// Compares without case, eight bytes at a time; `lower` consists of lower-case letters, `-` and `:`, and `name` has no
/// control characters.
#[inline]
fn is_same(name: &[u8], lower: &[u8]) -> bool {
    const CASE: u64 = 0x2020_2020_2020_2020;
    if name.len() != lower.len() {
        return false;
    }
    let (names, lowers) = (name.rchunks_exact(8), lower.rchunks_exact(8));
    let first = names.remainder().iter().zip(lowers.remainder());
    let differs = first.fold(0, |differs, (byte, lower)| differs | ((byte | 0x20) ^ lower));
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
    let rest =
        names.zip(lowers).fold(0, |differs, (name, lower)| differs | ((word(name) | CASE) ^ word(lower)));
    u64::from(differs) | rest == 0
}
