//! Variable-length integers (RFC 9000 §16).

/// The largest integer that the encoding can represent, 2^62 - 1.
pub(crate) const MAX: u64 = (1 << 62) - 1;

/// The length of the integer that begins with this byte.
#[inline]
pub(crate) const fn length(first: u8) -> usize {
    1 << (first >> 6)
}

/// The integer at the start of the input, and its length; `None` if it is incomplete.
#[inline]
pub(crate) fn read(input: &[u8]) -> Option<(u64, usize)> {
    let first = *input.first()?;
    let bytes = input.get(..length(first))?;
    let value = bytes[1..].iter().fold(u64::from(first & 0x3f), |value, &byte| value << 8 | u64::from(byte));
    Some((value, bytes.len()))
}

/// The length of an integer in its shortest form.
pub(crate) const fn size(value: u64) -> usize {
    match value {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    }
}

/// Appends an integer of at most 62 bits in its shortest form.
#[inline]
pub(crate) fn write(value: u64, out: &mut Vec<u8>) {
    match value {
        0..=0x3f => out.push(value as u8),
        0x40..=0x3fff => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..=0x3fff_ffff => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc9000_a_1_examples() {
        let long = [0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c];
        assert_eq!(read(&long), Some((151_288_809_941_952_652, 8)));
        assert_eq!(read(&[0x9d, 0x7f, 0x3e, 0x7d]), Some((494_878_333, 4)));
        assert_eq!(read(&[0x7b, 0xbd]), Some((15_293, 2)));
        assert_eq!(read(&[0x25]), Some((37, 1)));
        assert_eq!(read(&[0x40, 0x25]), Some((37, 2)));
    }

    #[test]
    fn integers_read_back_in_their_shortest_form_and_never_when_truncated() {
        for (value, bytes) in
            [(0, 1), (63, 1), (64, 2), (16_383, 2), (16_384, 4), ((1 << 30) - 1, 4), (1 << 30, 8), (MAX, 8)]
        {
            let mut out = Vec::new();
            write(value, &mut out);
            assert_eq!((out.len(), size(value), read(&out)), (bytes, bytes, Some((value, bytes))));
            assert_eq!(read(&out[..bytes - 1]), None);
        }
    }
}
