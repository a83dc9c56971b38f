//! The work that peers with extensions send to a service; Fairway and Envoy get the same configuration.

use super::peer::{Need, ONLY_REQUESTS};

/// The longest buffered body, in bytes; all bodies of the scenarios are shorter.
pub(super) const MAX_BUFFERED_BYTES: u32 = 4 * 1024 * 1024;

/// Timeout of the service's response, milliseconds.
pub(super) const TIMEOUT_MS: u32 = 1000;

/// Scenarios without peers with extensions.
pub(super) const PLAIN_REQUESTS_ALONE: [(Need, &str); 4] = [
    (Need::Connections, ONLY_REQUESTS),
    (Need::Datagrams, ONLY_REQUESTS),
    (Need::Tokens, "extensions are compared without other edits"),
    (Need::Edits, "extensions are compared without other edits"),
];

/// The requests to the service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Extended {
    /// `ext_proc` with the headers of requests and responses.
    Headers,
    /// Headers, and both bodies in pieces.
    Streamed,
    /// The same, and both bodies complete.
    Buffered,
    /// `ext_authz`, without the body.
    Authorization,
}
