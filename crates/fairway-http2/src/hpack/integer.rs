//! Integers with a prefix (RFC 7541 §5.1). Never reads or writes what they count.

/// Continuation bytes that an integer may have: "Integer encodings that exceed implementation limits -- in value or octet
/// length -- MUST be treated as decoding errors" (RFC 7541 §5.1). Four carry 28 bits, more than anything here has.
const LONGEST: usize = 4;

/// The integer whose prefix is the low `bits` bits of the first byte, and how many bytes it takes. `None` if it is
/// truncated or too large.
#[inline]
pub(super) fn decode(input: &[u8], bits: u32) -> Option<(u32, usize)> {
    let most = (1u32 << bits) - 1;
    let prefix = u32::from(*input.first()?) & most;
    if prefix < most { Some((prefix, 1)) } else { continued(&input[1..], most) }
}

fn continued(input: &[u8], prefix: u32) -> Option<(u32, usize)> {
    let mut value = 0u32;
    for (at, &byte) in input.iter().take(LONGEST).enumerate() {
        value |= u32::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value + prefix, at + 2));
        }
    }
    None
}

/// Appends an integer whose prefix is the low `bits` bits of a byte with these high bits.
#[inline]
pub(super) fn encode(value: usize, bits: u32, high: u8, out: &mut Vec<u8>) {
    let most = (1usize << bits) - 1;
    if value < most {
        return out.push(high | value as u8);
    }
    out.push(high | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push(0x80 | (rest & 0x7f) as u8);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(value: usize, bits: u32) -> Vec<u8> {
        let mut out = Vec::new();
        encode(value, bits, 0, &mut out);
        out
    }

    #[test]
    fn rfc7541_c_1_examples() {
        assert_eq!(encoded(10, 5), [0b01010]);
        assert_eq!(encoded(1337, 5), [0b11111, 0b1001_1010, 0b0000_1010]);
        assert_eq!(encoded(42, 8), [0b10_1010]);
        assert_eq!(decode(&[0b1110_1010], 5), Some((10, 1)));
        assert_eq!(decode(&[0b1111_1111, 0b1001_1010, 0b0000_1010, 9], 5), Some((1337, 3)));
    }

    #[test]
    fn integers_read_back_with_every_prefix() {
        for bits in 1..=8 {
            for value in (0..600).chain([16_383, 16_384, 65_535, 1 << 20, (1 << 28) - 1]) {
                let bytes = encoded(value, bits);
                assert_eq!(decode(&bytes, bits), Some((u32::try_from(value).unwrap(), bytes.len())));
                assert_eq!(decode(&bytes[..bytes.len() - 1], bits), None, "truncated");
            }
        }
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
