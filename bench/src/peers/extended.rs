//! What peers with extensions have a service do; Fairway and Envoy are configured for the same. Configures neither.

use super::peer::{Need, ONLY_REQUESTS};

/// The longest body that is held, in bytes: more than any scenario's.
pub(super) const MAX_BUFFERED_BYTES: u32 = 4 * 1024 * 1024;

/// How long the service may take for an answer, in milliseconds.
pub(super) const TIMEOUT_MS: u32 = 1000;

/// Where there are no peers with extensions.
pub(super) const PLAIN_REQUESTS_ALONE: [(Need, &str); 4] = [
    (Need::Connections, ONLY_REQUESTS),
    (Need::Datagrams, ONLY_REQUESTS),
    (Need::Tokens, "extensions are compared without other edits"),
    (Need::Edits, "extensions are compared without other edits"),
];

/// What the service is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Extended {
    /// `ext_proc` with the headers of requests and responses.
    Headers,
    /// The same, and both bodies piece by piece.
    Streamed,
    /// The same, and both bodies as a whole.
    Buffered,
    /// `ext_authz`, without the body.
    Authorization,
}
