//! How patiently and how often a rule's requests are forwarded.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The limits of one rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// How long each step may take.
    pub timeouts: Timeouts,
    /// The largest request body in bytes; larger is answered 413. `None` is unlimited.
    pub max_body: Option<u64>,
    /// Which failures are tried again, and how often.
    pub retry: Retry,
    /// Which form of the path the backend sees when no filter rewrites it.
    pub forwarded_path: ForwardedPath,
    /// Whether `Upgrade: websocket` is let through.
    pub websocket: bool,
}

/// How long each step may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeouts {
    /// One attempt to connect.
    pub connect: Duration,
    /// Between two successful writes to the backend.
    pub send: Duration,
    /// Between two successful reads from the backend, the response head included.
    pub read: Duration,
}

/// Which failures are tried again on another endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// Attempts in all, the first included; at least 1.
    pub tries: u8,
    /// Time for all connection attempts together.
    pub connect_total: Duration,
}

/// Which form of the path the backend sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ForwardedPath {
    /// The target as the client sent it (Ingress, as ingress-nginx).
    AsReceived,
    /// The normalised path (Gateway API).
    Normalised,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            timeouts: Timeouts::default(),
            max_body: None,
            retry: Retry::default(),
            forwarded_path: ForwardedPath::Normalised,
            websocket: true,
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect: Duration::from_secs(1), send: Duration::from_secs(60), read: Duration::from_secs(60) }
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self { tries: 3, connect_total: Duration::from_secs(5) }
    }
}
