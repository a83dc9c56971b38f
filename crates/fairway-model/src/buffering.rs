//! Which bodies are held before they go on, and where.

use serde::{Deserialize, Serialize};

use crate::default::is_default;

/// Bodies of a rule that are held, so that a slow client does not keep an endpoint busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Buffering {
    /// Those of requests: an endpoint is chosen when the body is whole. A larger body than the buffer is answered 413.
    #[serde(skip_serializing_if = "is_default")]
    pub requests: Option<BodyBuffer>,
    /// Those of answers: they are read ahead of a client that is slower than its endpoint, as far as the buffer has room.
    #[serde(skip_serializing_if = "is_default")]
    pub responses: Option<BodyBuffer>,
}

/// Where one body is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BodyBuffer {
    /// Bytes in memory; what is beyond goes to disk.
    pub memory: u32,
    /// The most bytes on disk; 0 is none.
    pub disk: u64,
}

impl Buffering {
    /// The same, where what `more` says comes first.
    #[must_use]
    pub(crate) fn with(self, more: Self) -> Self {
        Self { requests: more.requests.or(self.requests), responses: more.responses.or(self.responses) }
    }
}

impl BodyBuffer {
    /// The most bytes that it holds.
    #[must_use]
    pub fn most(self) -> u64 {
        u64::from(self.memory).saturating_add(self.disk)
    }
}
