//! Checks eight bytes at a time (SWAR): paths and targets are short, and byte by byte the checks cost four times as
//! much.

/// A one in each byte.
const ONES: u64 = u64::from_le_bytes([1; 8]);
/// The high bit of each byte.
const HIGH: u64 = ONES << 7;

/// Eight bytes. A test returns a word with the high bit of each byte set for which it holds.
#[derive(Clone, Copy)]
pub(crate) struct ByteLanes(u64);

impl ByteLanes {
    #[inline]
    fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(u64::from_le_bytes(bytes))
    }

    /// The bytes equal to this one. No sum carries into the next byte: both operands have seven bits.
    #[inline]
    pub(crate) fn are(self, byte: u8) -> u64 {
        let differs = self.0 ^ (ONES * u64::from(byte));
        !(((differs & !HIGH) + (HIGH - ONES)) | differs) & HIGH
    }

    /// The bytes that are not `VCHAR`: below `!` or above `~`.
    #[inline]
    pub(crate) fn invisible(self) -> u64 {
        let above = ((self.0 & !HIGH) + ONES) | self.0;
        let not_below = (self.0 | HIGH) - ONES * u64::from(b'!');
        (above | !not_below) & HIGH
    }
}

/// Whether `found` is nonzero for any of the bytes. It may see a byte twice, and padding letters.
#[inline]
pub(crate) fn any_byte(bytes: &[u8], found: impl Fn(ByteLanes) -> u64) -> bool {
    let (whole, rest) = bytes.as_chunks::<8>();
    let mut all = whole.iter().fold(0, |all, eight| all | found(ByteLanes::from_bytes(*eight)));
    if !rest.is_empty() {
        all |= found(last(bytes));
    }
    all != 0
}

/// The same for all bytes but the first, each together with the one before it.
#[inline]
pub(crate) fn any_pair(bytes: &[u8], found: impl Fn(ByteLanes, ByteLanes) -> u64) -> bool {
    let Some((_, behind)) = bytes.split_first() else { return false };
    let before = &bytes[..behind.len()];
    let ((firsts, _), (seconds, rest)) = (before.as_chunks::<8>(), behind.as_chunks::<8>());
    let pairs = firsts.iter().zip(seconds);
    let mut all = pairs.fold(0, |all, (first, second)| {
        all | found(ByteLanes::from_bytes(*first), ByteLanes::from_bytes(*second))
    });
    if !rest.is_empty() {
        all |= found(last(before), last(behind));
    }
    all != 0
}

/// The last eight bytes; fewer are padded with letters.
#[inline]
fn last(bytes: &[u8]) -> ByteLanes {
    if let Some(last) = bytes.last_chunk::<8>() {
        return ByteLanes::from_bytes(*last);
    }
    let mut filled = [b'a'; 8];
    filled[..bytes.len()].copy_from_slice(bytes);
    ByteLanes::from_bytes(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_judged_independently_of_its_neighbours() {
        for first in 0..=255u8 {
            for second in 0..=255u8 {
                let bytes = [first, second, first, first, second, second, first, second];
                let matching_bytes = |holds: fn(u8) -> bool| {
                    u64::from_le_bytes(bytes.map(|byte| if holds(byte) { 0x80 } else { 0 }))
                };
                let eight = ByteLanes::from_bytes(bytes);
                assert_eq!(eight.are(b'/'), matching_bytes(|byte| byte == b'/'), "{bytes:?}");
                assert_eq!(eight.are(b'\0'), matching_bytes(|byte| byte == b'\0'), "{bytes:?}");
                assert_eq!(eight.invisible(), matching_bytes(|byte| !byte.is_ascii_graphic()), "{bytes:?}");
            }
        }
    }

    #[test]
    fn a_byte_is_found_in_every_place_of_every_length() {
        for length in 0..20 {
            assert!(!any_byte(&vec![b'b'; length], ByteLanes::invisible));
            for place in 0..length {
                let mut bytes = vec![b'b'; length];
                bytes[place] = b' ';
                assert!(any_byte(&bytes, ByteLanes::invisible), "{place} of {length}");
            }
        }
    }

    #[test]
    fn a_pair_is_found_in_every_place_of_every_length_and_only_in_its_order() {
        let dot_behind_slash = |before: ByteLanes, behind: ByteLanes| before.are(b'/') & behind.are(b'.');
        for length in 0..20 {
            assert!(!any_pair(&vec![b'/'; length], dot_behind_slash));
            for place in 1..length {
                let mut bytes = vec![b'b'; length];
                (bytes[place - 1], bytes[place]) = (b'/', b'.');
                assert!(any_pair(&bytes, dot_behind_slash), "{place} of {length}");
                bytes.swap(place - 1, place);
                assert!(!any_pair(&bytes, dot_behind_slash), "{place} of {length}");
            }
        }
    }
}
