//! Character classes of RFC 9110 §5.6.2 and RFC 3986 §2.

use crate::swar::{ByteLanes, any_byte};

const fn table(extra: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut at = 0;
    while at < extra.len() {
        table[extra[at] as usize] = true;
        at += 1;
    }
    table
}

static TOKEN: [bool; 256] = table(b"!#$%&'*+-.^_`|~");
static UNRESERVED: [bool; 256] = table(b"-._~");
static REG_NAME: [bool; 256] = table(b"-._~!$&'()*+,;=");
static PLAIN_NAME: [bool; 256] = table(b"-");

/// `token = 1*tchar` (RFC 9110 §5.6.2).
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&byte| TOKEN[usize::from(byte)])
}

/// Whether a name has only letters, digits and `-`, so that no program confuses it with another one.
#[inline]
pub fn is_plain_name(name: &[u8]) -> bool {
    // Without an early exit: names are short, and nearly all of them are plain.
    name.iter().fold(true, |plain, &byte| plain & PLAIN_NAME[usize::from(byte)])
}

/// `unreserved` (RFC 3986 §2.3).
#[inline]
pub(crate) fn is_unreserved(byte: u8) -> bool {
    UNRESERVED[usize::from(byte)]
}

/// `unreserved / sub-delims`: the bytes of a `reg-name` besides escapes (RFC 3986 §3.2.2).
#[inline]
pub(crate) fn is_reg_name(byte: u8) -> bool {
    REG_NAME[usize::from(byte)]
}

/// Whether all bytes are `VCHAR`, as in a request target.
#[inline]
pub fn is_visible(bytes: &[u8]) -> bool {
    !any_byte(bytes, ByteLanes::invisible)
}

/// A byte of `field-content` or the white space inside (RFC 9110 §5.5): no CR, LF, NUL or other control.
#[inline]
pub fn is_value_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// The bytes without optional white space (`OWS`, RFC 9110 §5.6.3) at both ends.
#[inline]
pub fn trimmed(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// The value of a hexadecimal digit.
#[inline]
pub(crate) fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// The byte that `%` and these two digits encode.
#[inline]
pub fn escaped(high: Option<&u8>, low: Option<&u8>) -> Option<u8> {
    Some(hex_digit(*high?)? << 4 | hex_digit(*low?)?)
}

/// Appends `%XX` with upper-case digits (RFC 3986 §2.1).
pub fn push_escape(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

/// Appends the two lower-case hexadecimal digits of each byte.
#[inline]
pub fn push_hex<const N: usize>(bytes: [u8; N], out: &mut Vec<u8>) {
    let pairs = bytes.map(|byte| PAIRS[usize::from(byte)]);
    out.extend_from_slice(pairs.as_flattened());
}

/// The two digits of each byte.
static PAIRS: [[u8; 2]; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < pairs.len() {
        pairs[byte] = [DIGITS[byte >> 4], DIGITS[byte & 15]];
        byte += 1;
    }
    pairs
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_bytes_are_those_of_rfc_9110() {
        let tokens: Vec<u8> = (0..=255).filter(|&byte| is_token(&[byte])).collect();
        assert_eq!(tokens.len(), 10 + 52 + 15);
        assert!(!is_token(b"") && !is_token(b"a b") && !is_token(b"a:") && !is_token(b"a\0"));
    }

    #[test]
    fn plain_names_have_letters_digits_and_hyphens() {
        let plain: Vec<u8> = (0..=255).filter(|&byte| is_plain_name(&[b'a', byte, b'Z'])).collect();
        assert!(plain.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'-'));
        assert_eq!(plain.len(), 10 + 52 + 1);
    }

    #[test]
    fn visible_excludes_space_controls_delete_and_high_bytes() {
        for byte in 0..=255u8 {
            assert_eq!(is_visible(&[b'a', byte]), byte.is_ascii_graphic(), "{byte:#x}");
        }
    }

    #[test]
    fn escapes_read_back() {
        for byte in 0..=255u8 {
            let mut out = Vec::new();
            push_escape(byte, &mut out);
            assert_eq!(escaped(out.get(1), out.get(2)), Some(byte));
        }
        assert_eq!(escaped(Some(&b'g'), Some(&b'0')), None);
        assert_eq!(escaped(Some(&b'0'), None), None);
    }
}
