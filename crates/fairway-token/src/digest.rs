//! SHA-256 digests, stored in place of the text.

use aws_lc_rs::digest::{SHA256, digest as compute};

/// A SHA-256.
pub type Digest = [u8; 32];

/// The SHA-256 of some bytes.
#[must_use]
pub fn digest(bytes: &[u8]) -> Digest {
    let mut value = Digest::default();
    value.copy_from_slice(compute(&SHA256, bytes).as_ref());
    value
}
