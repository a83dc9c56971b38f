//! A collector's response, as far as it is read.

use ::http::{HeaderMap, StatusCode};
use bytes::Bytes;

/// The maximum size of a response body: a text about rejected items.
pub(super) const MAX_RESPONSE_BYTES: usize = 64 * 1024;

/// A response, as far as it is read.
pub(super) struct CollectorResponse {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// `None` if it is too long or incomplete.
    pub(super) body: Option<Bytes>,
    pub(super) trailers: HeaderMap,
}
