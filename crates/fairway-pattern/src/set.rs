//! Sets of bytes: what one place of a pattern takes. PCRE in nginx compares bytes, and letters are those of ASCII.

/// A set of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Set([u64; 4]);

impl Set {
    pub(crate) fn of(byte: u8) -> Self {
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
        bytes.iter().fold(Self::default(), |set, byte| set.or(Self::of(*byte)))
    }

    pub(crate) fn digits() -> Self {
        Self::range(b'0', b'9')
    }

    pub(crate) fn letters() -> Self {
        Self::range(b'a', b'z').or(Self::range(b'A', b'Z'))
    }

    /// `\w`
    pub(crate) fn word() -> Self {
        Self::letters().or(Self::digits()).or(Self::of(b'_'))
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

    pub(crate) fn or(mut self, other: Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(mine, more)| *mine |= more);
        self
    }

    pub(crate) fn not(self) -> Self {
        Self(self.0.map(|bits| !bits))
    }

    /// With the other case of its ASCII letters.
    pub(crate) fn without_case(self) -> Self {
        let letters = (b'a'..=b'z').filter(|byte| self.has(*byte) || self.has(byte.to_ascii_uppercase()));
        letters.fold(self, |set, byte| set.or(Self::of(byte)).or(Self::of(byte.to_ascii_uppercase())))
    }

    pub(crate) fn has(self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] & (1 << (byte & 63)) != 0
    }

    /// The class of that name between `[:` and `:]`.
    pub(crate) fn named(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"alnum" => Self::letters().or(Self::digits()),
            b"alpha" => Self::letters(),
            b"ascii" => Self::range(0, 127),
            b"blank" => Self::from(b" \t"),
            b"cntrl" => Self::range(0, 31).or(Self::of(127)),
            b"digit" => Self::digits(),
            b"graph" => Self::range(b'!', b'~'),
            b"lower" => Self::range(b'a', b'z'),
            b"print" => Self::range(b' ', b'~'),
            b"punct" => Self::range(b'!', b'~').and(Self::letters().or(Self::digits()).not()),
            b"space" => Self::space(),
            b"upper" => Self::range(b'A', b'Z'),
            b"word" => Self::word(),
            b"xdigit" => Self::digits().or(Self::range(b'a', b'f')).or(Self::range(b'A', b'F')),
            _ => return None,
        })
    }

    fn and(self, other: Self) -> Self {
        self.not().or(other.not()).not()
    }

    /// Its runs of neighbours, first and last.
    pub(crate) fn ranges(self) -> Vec<(u8, u8)> {
        let mut ranges: Vec<(u8, u8)> = Vec::new();
        for byte in (0..=255).filter(|byte| self.has(*byte)) {
            match ranges.last_mut().filter(|(_, last)| last.checked_add(1) == Some(byte)) {
                Some((_, last)) => *last = byte,
                None => ranges.push((byte, byte)),
            }
        }
        ranges
    }
}
