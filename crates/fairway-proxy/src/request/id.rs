//! The number of a request, by which logs of several hops find it.

use fairway_message::{Head, Known};

/// Gives the request a number, unless its client did.
pub(crate) fn identify(request: &mut Head, id: impl FnOnce() -> u128) {
    if request.first(Known::XRequestId).is_none() {
        request.append_known(Known::XRequestId, |value| write_id(value, id()));
    }
}

/// 32 hexadecimal digits, as nginx's `$request_id`.
fn write_id(into: &mut Vec<u8>, id: u128) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 32];
    for (pair, byte) in text.chunks_exact_mut(2).zip(id.to_be_bytes()) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    into.extend_from_slice(&text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_all_of_its_digits() {
        let mut written = b"x".to_vec();
        write_id(&mut written, 0x00ab_0000_0000_0000_0000_0000_0000_001f);
        assert_eq!(written, b"x00ab000000000000000000000000001f");
    }
}
