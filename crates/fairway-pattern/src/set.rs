//! Byte sets. PCRE in nginx compares bytes, and its letters are ASCII.

/// A set of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ByteSet([u64; 4]);

impl ByteSet {
    pub(crate) fn single(byte: u8) -> Self {
        Self::range(byte, byte)
    }

    pub(crate) fn range(first: u8, last: u8) -> Self {
        let mut set = Self::default();
        (first..=last).for_each(|byte| set.0[usize::from(byte >> 6)] |= 1 << (byte & 63));
        set
    }

    pub(crate) fn all() -> Self {
        Self([u64::MAX; 4])
    }

    pub(crate) fn from(bytes: &[u8]) -> Self {
        bytes.iter().fold(Self::default(), |set, byte| set.union(Self::single(*byte)))
    }

    pub(crate) fn digits() -> Self {
        Self::range(b'0', b'9')
    }

    pub(crate) fn letters() -> Self {
        Self::range(b'a', b'z').union(Self::range(b'A', b'Z'))
    }

    /// `\w`
    pub(crate) fn word() -> Self {
        Self::letters().union(Self::digits()).union(Self::single(b'_'))
    }

    /// `\s`
    pub(crate) fn space() -> Self {
        Self::from(b" \t\n\x0b\x0c\r")
    }

    /// `\h`
    pub(crate) fn horizontal_space() -> Self {
        Self::from(b" \t\xa0")
    }

    /// `\v`
    pub(crate) fn vertical_space() -> Self {
        Self::from(b"\n\x0b\x0c\r\x85")
    }

    pub(crate) fn union(mut self, other: Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(mine, more)| *mine |= more);
        self
    }

    pub(crate) fn complement(self) -> Self {
        Self(self.0.map(|bits| !bits))
    }

    /// Adds the other case of its ASCII letters.
    pub(crate) fn without_case(self) -> Self {
        let letters =
            (b'a'..=b'z').filter(|byte| self.contains(*byte) || self.contains(byte.to_ascii_uppercase()));
        letters.fold(self, |set, byte| {
            set.union(Self::single(byte)).union(Self::single(byte.to_ascii_uppercase()))
        })
    }

    pub(crate) fn contains(self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] & (1 << (byte & 63)) != 0
    }

    /// The POSIX class with this name (between `[:` and `:]`).
    pub(crate) fn from_posix_name(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"alnum" => Self::letters().union(Self::digits()),
            b"alpha" => Self::letters(),
            b"ascii" => Self::range(0, 127),
            b"blank" => Self::from(b" \t"),
            b"cntrl" => Self::range(0, 31).union(Self::single(127)),
            b"digit" => Self::digits(),
            b"graph" => Self::range(b'!', b'~'),
            b"lower" => Self::range(b'a', b'z'),
            b"print" => Self::range(b' ', b'~'),
            b"punct" => {
                Self::range(b'!', b'~').intersection(Self::letters().union(Self::digits()).complement())
            }
            b"space" => Self::space(),
            b"upper" => Self::range(b'A', b'Z'),
            b"word" => Self::word(),
            b"xdigit" => Self::digits().union(Self::range(b'a', b'f')).union(Self::range(b'A', b'F')),
            _ => return None,
        })
    }

    fn intersection(self, other: Self) -> Self {
        self.complement().union(other.complement()).complement()
    }

    /// Its contiguous ranges, first and last byte.
    pub(crate) fn ranges(self) -> Vec<(u8, u8)> {
        let mut ranges: Vec<(u8, u8)> = Vec::new();
        for byte in (0..=255).filter(|byte| self.contains(*byte)) {
            match ranges.last_mut().filter(|(_, last)| last.checked_add(1) == Some(byte)) {
                Some((_, last)) => *last = byte,
                None => ranges.push((byte, byte)),
            }
        }
        ranges
    }
}
