//! Which bodies are buffered, and where.

use serde::{Deserialize, Serialize};

use crate::default::is_default;

/// Buffering of bodies, which keeps a slow client from occupying an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Buffering {
    /// Request bodies: an endpoint is chosen once the body is complete. A body larger than the buffer gets 413.
    #[serde(skip_serializing_if = "is_default")]
    pub requests: Option<BodyBuffer>,
    /// Response bodies: they are read ahead of a slow client for as long as the buffer has room.
    #[serde(skip_serializing_if = "is_default")]
    pub responses: Option<BodyBuffer>,
}

/// The buffer for one body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BodyBuffer {
    /// Bytes in memory; the rest goes to disk.
    pub memory: u32,
    /// Maximum bytes on disk; 0 disables it.
    pub disk: u64,
}

impl Buffering {
    /// This buffering, with the settings of `more` taking precedence.
    #[must_use]
    pub(crate) fn overridden_by(self, policy: Self) -> Self {
        Self { requests: policy.requests.or(self.requests), responses: policy.responses.or(self.responses) }
    }
}

impl BodyBuffer {
    /// Maximum number of bytes it holds.
    #[must_use]
    pub fn capacity(self) -> u64 {
        u64::from(self.memory).saturating_add(self.disk)
    }
}
