//! How patiently and how often a rule's requests are forwarded.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::default::is_default;

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
    /// The whole exchange, from its request's head to the end of its answer (Gateway API `timeouts.request`); then 504.
    /// `None` is as long as the other steps allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Duration>,
    /// One attempt, from the beginning of the request to the end of the answer (Gateway API `timeouts.backendRequest`);
    /// then another one, or 504. `None` is as long as the other steps allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_request: Option<Duration>,
}

/// Which failures are tried again on another endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Retry {
    /// Attempts in all, the first included; at least 1.
    pub tries: u8,
    /// Time for all connection attempts together.
    pub connect_total: Duration,
    /// Whose word it is.
    #[serde(default, skip_serializing_if = "is_default")]
    pub by: RetryBy,
    /// The least time between an attempt that failed and the next one (Gateway API `retry.backoff`).
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    pub backoff: Duration,
}

/// On whose word a request is tried again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RetryBy {
    /// The proxy's own: after an answer on endpoints that were not tried, and no more often than the worker's budget
    /// for retries allows.
    #[default]
    Proxy,
    /// The route's (Gateway API `retry`): as often as it says, and on the same endpoint where there is no other.
    Route,
}

/// Which form of the path the backend sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ForwardedPath {
    /// The target as the client sent it (Ingress, as ingress-nginx).
    AsReceived,
    /// The normalised path (Gateway API).
    Normalised,
}

impl Policy {
    /// As a rule keeps it: all rules with the default policy share one.
    #[must_use]
    pub fn kept(self) -> Arc<Self> {
        static USUAL: LazyLock<Arc<Policy>> = LazyLock::new(Arc::default);
        if self == **USUAL { Arc::clone(&USUAL) } else { Arc::new(self) }
    }
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
        Self {
            connect: Duration::from_secs(1),
            send: Duration::from_secs(60),
            read: Duration::from_secs(60),
            request: None,
            backend_request: None,
        }
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            tries: 3,
            connect_total: Duration::from_secs(5),
            by: RetryBy::default(),
            backoff: Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_of_an_older_version_has_no_limits_in_time_and_retries_of_the_proxy() {
        let json = serde_json::to_string(&Policy::default()).unwrap();
        for later in ["\"request\"", "backend_request", "\"by\"", "backoff"] {
            assert!(!json.contains(later), "{json}");
        }
        assert_eq!(serde_json::from_str::<Policy>(&json).unwrap(), Policy::default());
    }

    #[test]
    fn times_and_retries_are_read_as_they_were_written() {
        let second = Duration::from_secs(1);
        let timeouts =
            Timeouts { request: Some(second * 3), backend_request: Some(second), ..Timeouts::default() };
        let retry = Retry {
            tries: 4,
            connect_total: Duration::MAX,
            by: RetryBy::Route,
            backoff: Duration::from_millis(100),
        };
        let policy = Policy { timeouts, retry, ..Policy::default() };
        let json = serde_json::to_string(&policy).unwrap();
        assert_eq!(serde_json::from_str::<Policy>(&json).unwrap(), policy);
    }
}
