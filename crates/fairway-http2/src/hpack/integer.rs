//! Integers with a prefix (RFC 7541 §5.1, RFC 9204 §4.1.1).

/// The maximum value. "QPACK implementations MUST be able to decode integers up to and including 62 bits long" (RFC
/// 9204 §4.1.1).
const MAX_VALUE: u64 = (1 << 62) - 1;

/// Maximum continuation bytes: enough for 62 bits, without further padding.
const MAX_CONTINUATION_BYTES: usize = 9;

/// The maximum in HPACK: "Integer encodings that exceed implementation limits -- in value or octet length -- MUST be
/// treated as decoding errors" (RFC 7541 §5.1). Four carry 28 bits, more than any value needs.
const MAX_HPACK_CONTINUATION_BYTES: usize = 4;

/// The result of reading an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Integer {
    /// The value, and its encoded length.
    Value(u64, usize),
    /// More bytes are needed.
    Incomplete,
    /// Too large or too long: "MUST be treated as decoding errors" (RFC 7541 §5.1).
    TooLarge,
}

/// Reads the integer whose prefix is the low `bits` bits of the first byte.
#[inline]
pub fn read(input: &[u8], bits: u32) -> Integer {
    let Some(&first) = input.first() else { return Integer::Incomplete };
    let max_prefix = (1u64 << bits) - 1;
    let prefix = u64::from(first) & max_prefix;
    if prefix < max_prefix { Integer::Value(prefix, 1) } else { read_continuation(&input[1..], prefix) }
}

fn read_continuation(input: &[u8], prefix: u64) -> Integer {
    let mut value = 0u64;
    for (at, &byte) in input.iter().take(MAX_CONTINUATION_BYTES).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            let value = value + prefix;
            return if value > MAX_VALUE { Integer::TooLarge } else { Integer::Value(value, at + 2) };
        }
    }
    if input.len() < MAX_CONTINUATION_BYTES { Integer::Incomplete } else { Integer::TooLarge }
}

/// The same within the limits of HPACK, from complete input. `None` if it is truncated or too large.
#[inline]
pub(super) fn decode(input: &[u8], bits: u32) -> Option<(u32, usize)> {
    match read(input, bits) {
        Integer::Value(value, used) if used <= 1 + MAX_HPACK_CONTINUATION_BYTES => Some((value as u32, used)),
        _ => None,
    }
}

/// Appends an integer with a prefix of the low `bits` bits, and `high` as the bits above it.
#[inline]
pub fn write(value: u64, bits: u32, high: u8, out: &mut Vec<u8>) {
    let max_prefix = (1u64 << bits) - 1;
    if value < max_prefix {
        return out.push(high | value as u8);
    }
    out.push(high | max_prefix as u8);
    let mut rest = value - max_prefix;
    while rest >= 0x80 {
        out.push(0x80 | (rest & 0x7f) as u8);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(value: u64, bits: u32) -> Vec<u8> {
        let mut out = Vec::new();
        write(value, bits, 0, &mut out);
        out
    }

    #[test]
    fn rfc7541_c_1_examples() {
        assert_eq!(written(10, 5), [0b01010]);
        assert_eq!(written(1337, 5), [0b11111, 0b1001_1010, 0b0000_1010]);
        assert_eq!(written(42, 8), [0b10_1010]);
        assert_eq!(read(&[0b1110_1010], 5), Integer::Value(10, 1));
        assert_eq!(read(&[0b1111_1111, 0b1001_1010, 0b0000_1010, 9], 5), Integer::Value(1337, 3));
    }

    #[test]
    fn integers_up_to_62_bits_read_back_with_every_prefix() {
        for bits in 3..=8 {
            for value in (0..600).chain([16_383, 65_535, 1 << 28, 1 << 35, 1 << 56, MAX_VALUE - 1, MAX_VALUE])
            {
                let bytes = written(value, bits);
                assert_eq!(read(&bytes, bits), Integer::Value(value, bytes.len()));
                assert_eq!(read(&bytes[..bytes.len() - 1], bits), Integer::Incomplete);
            }
        }
    }

    #[test]
    fn rfc9204_4_1_1_larger_and_longer_integers_are_refused() {
        for bits in 3..=8 {
            assert_eq!(read(&written(MAX_VALUE + 1, bits), bits), Integer::TooLarge);
            assert_eq!(read(&written(u64::MAX, bits), bits), Integer::TooLarge);
        }
        let zeros = [0x80; 9];
        assert_eq!(
            read(&[&[0xff][..], &zeros, &[0]].concat(), 7),
            Integer::TooLarge,
            "ten continuation bytes"
        );
        assert_eq!(read(&[&[0xff][..], &zeros[1..], &[0]].concat(), 7), Integer::Value(127, 10));
        assert_eq!(read(&[], 7), Integer::Incomplete);
    }

    #[test]
    fn rfc7541_5_1_too_long_or_too_large_integers_are_refused() {
        assert_eq!(decode(&[0xff, 0x80, 0x80, 0x80, 0x80, 0x00], 7), None);
        assert_eq!(decode(&[0xff, 0xff, 0xff, 0xff, 0xff, 0x0f], 7), None);
        assert_eq!(decode(&[0xff, 0xff, 0xff, 0xff, 0x7f], 7), Some(((1 << 28) - 1 + 127, 5)));
        assert_eq!(decode(&[0xff, 0x80, 0x80, 0x80, 0x00], 7), Some((127, 5)), "zeros within the limit");
        assert_eq!(decode(&[], 7), None);
    }
}
