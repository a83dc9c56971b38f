//! A response of a collector, as far as it is read.

use ::http::{HeaderMap, StatusCode};
use bytes::Bytes;

/// Bytes of a response at most: what a collector says about rejected items.
pub(super) const MAX_RESPONSE_BYTES: usize = 64 * 1024;

/// A response, as far as it is read.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// `None`: it is longer than a response may be, or broke off.
    pub(super) body: Option<Bytes>,
    pub(super) trailers: HeaderMap,
}
