//! The number of a request, by which logs of several hops find it.

use crate::head::{Head, Known};

/// Gives the request a number, unless its client did.
pub fn identify(request: &mut Head, id: impl FnOnce() -> u128) {
    if request.first(Known::XRequestId).is_none() {
        request.append_known(Known::XRequestId, |value| write_id(value, id()));
    }
}

/// 32 hexadecimal digits, as nginx's `$request_id`.
fn write_id(into: &mut Vec<u8>, id: u128) {
    let pairs = id.to_be_bytes().map(|byte| PAIRS[usize::from(byte)]);
    into.extend_from_slice(pairs.as_flattened());
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
    fn an_id_has_all_of_its_digits() {
        let mut written = b"x".to_vec();
        write_id(&mut written, 0x00ab_0000_0000_0000_0000_0000_0000_001f);
        assert_eq!(written, b"x00ab000000000000000000000000001f");
        for id in [0, u128::MAX, 0x0123_4567_89ab_cdef_fedc_ba98_7654_3210] {
            written.clear();
            write_id(&mut written, id);
            assert_eq!(written, format!("{id:032x}").into_bytes());
        }
    }
}
