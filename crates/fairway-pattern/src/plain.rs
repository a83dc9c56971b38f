//! A fast path for the most common rewrite patterns: a literal, an optional slash, and a group with the rest.
//! Comparing costs a tenth of the engine.

use std::ops::Range;

/// A simple pattern.
#[derive(Clone, Debug)]
pub(crate) struct Plain {
    literal: Box<[u8]>,
    ignore_case: bool,
    slash: Slash,
}

/// The part between the literal and the last group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slash {
    Nothing,
    /// `/?`
    Optional,
    /// `(/|$)`, which is the first group.
    OrEnd,
}

/// Group positions of a simple pattern: one or two groups up to the end of the text, the second after the first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Split {
    first: usize,
    second: Option<usize>,
    end: usize,
}

impl Split {
    #[inline]
    pub(crate) fn group(self, number: usize) -> Option<Range<usize>> {
        let Self { first, second, end } = self;
        match (number, second) {
            (0, _) => Some(0..end),
            (1, _) => Some(first..second.unwrap_or(end)),
            (2, Some(second)) => Some(second..end),
            _ => None,
        }
    }
}

impl Plain {
    /// Parses `text` if it is simple enough.
    pub(crate) fn parse(text: &str, ignore_case: bool) -> Option<Self> {
        let text = text.strip_suffix('$').unwrap_or(text).strip_suffix("(.*)")?;
        let (literal, slash) = if let Some(literal) = text.strip_suffix("(/|$)") {
            (literal, Slash::OrEnd)
        } else if let Some(literal) = text.strip_suffix("/?") {
            (literal, Slash::Optional)
        } else {
            (text, Slash::Nothing)
        };
        let means_itself = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'_');
        let is_plain = literal.bytes().all(means_itself);
        is_plain.then(|| Self { literal: literal.as_bytes().into(), ignore_case, slash })
    }

    /// The groups of a match at the start of `text`. The outer `None` requires the engine, because a line feed
    /// matters.
    #[inline]
    pub(crate) fn find(&self, text: &[u8]) -> Option<Option<Split>> {
        let Some((start, rest)) = text.split_at_checked(self.literal.len()) else { return Some(None) };
        let is_same = if self.ignore_case {
            start.eq_ignore_ascii_case(&self.literal)
        } else {
            *start == *self.literal
        };
        if !is_same {
            return Some(None);
        }
        if has_line_feed(rest) {
            return None;
        }
        let behind = start.len() + usize::from(rest.first() == Some(&b'/'));
        let (first, second) = match self.slash {
            Slash::Nothing => (start.len(), None),
            Slash::Optional => (behind, None),
            Slash::OrEnd if behind == start.len() && !rest.is_empty() => return Some(None),
            Slash::OrEnd => (start.len(), Some(behind)),
        };
        Some(Some(Split { first, second, end: text.len() }))
    }
}

/// Checks eight bytes at a time; the last eight may overlap the previous ones.
#[inline]
fn has_line_feed(text: &[u8]) -> bool {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    // A high bit is set only if a byte is zero: no other byte borrows from the next one.
    let zeros = |eight: &[u8; 8]| {
        let differs = u64::from_le_bytes(*eight) ^ (ONES * u64::from(b'\n'));
        differs.wrapping_sub(ONES) & !differs & (ONES << 7)
    };
    match text.last_chunk::<8>() {
        Some(last) => text.as_chunks::<8>().0.iter().fold(zeros(last), |all, eight| all | zeros(eight)) != 0,
        None => text.contains(&b'\n'),
    }
}
