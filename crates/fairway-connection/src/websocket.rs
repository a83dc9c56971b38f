//! The key of a WebSocket handshake and its proof (RFC 6455 §4). HTTP/2 has neither (RFC 8441 §5), so a proxy between
//! the two versions must create them.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The GUID that is appended to a key (RFC 6455 §1.3).
const ACCEPT_GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A `Sec-WebSocket-Key` from 16 unique bytes.
#[must_use]
pub fn key(nonce: u128) -> String {
    STANDARD.encode(nonce.to_be_bytes())
}

/// `Sec-WebSocket-Accept` for a key (RFC 6455 §4.2.2, item 5.4).
#[must_use]
pub fn accept(key: &[u8]) -> String {
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &[key, ACCEPT_GUID].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_proven_as_in_the_specification() {
        assert_eq!(accept(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn a_key_stands_for_sixteen_bytes() {
        assert_eq!(key(1), "AAAAAAAAAAAAAAAAAAAAAQ==");
    }
}
