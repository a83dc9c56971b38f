//! The request ID, which correlates the logs of several hops.

use crate::bytes::push_hex;
use crate::head::{Head, Known};

/// Sets a request ID, unless the client sent one.
pub fn identify(request: &mut Head, id: impl FnOnce() -> u128) {
    if request.first(Known::XRequestId).is_none() {
        request.append_known(Known::XRequestId, |value| write_id(value, id()));
    }
}

/// 32 hexadecimal digits, like nginx's `$request_id`.
fn write_id(into: &mut Vec<u8>, id: u128) {
    push_hex(id.to_be_bytes(), into);
}

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
