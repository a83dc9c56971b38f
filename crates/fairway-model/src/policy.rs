//! Timeouts, body limit and retries of a rule.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::default::is_default;

/// Timeouts, body limit and retries of one rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// Timeouts of each step.
    pub timeouts: Timeouts,
    /// Maximum request body in bytes; larger requests get 413. `None` is unlimited.
    pub max_body: Option<u64>,
    /// Which failures are retried, and how often.
    pub retry: Retry,
    /// Form of the path sent to the backend if no filter rewrites it.
    pub forwarded_path: ForwardedPath,
    /// Whether `Upgrade: websocket` is forwarded.
    pub websocket: bool,
}

/// Timeouts of each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeouts {
    /// One connection attempt.
    pub connect: Duration,
    /// Between two successful writes to the backend.
    pub send: Duration,
    /// Between two successful reads from the backend, including the response head.
    pub read: Duration,
    /// The whole exchange, from the request head to the end of the response (Gateway API `timeouts.request`); then
    /// 504. `None` is limited only by the other timeouts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Duration>,
    /// One attempt, from the start of the request to the end of the response (Gateway API `timeouts.backendRequest`);
    /// then a retry, or 504. `None` is limited only by the other timeouts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_request: Option<Duration>,
}

/// Which failures are retried on another endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Retry {
    /// Maximum number of attempts, including the first; at least 1.
    pub tries: u8,
    /// Time limit for all connection attempts together.
    pub connect_total: Duration,
    /// Who defines the retries.
    #[serde(default, skip_serializing_if = "is_default")]
    pub by: RetrySource,
    /// Minimum time between a failed attempt and the next one (Gateway API `retry.backoff`).
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    pub backoff: Duration,
}

/// Who defines the retries of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RetrySource {
    /// The proxy: after a response, only on endpoints that have not been tried, and within the worker's retry budget.
    #[default]
    Proxy,
    /// The route (Gateway API `retry`): as often as it says, on the same endpoint if there is no other.
    Route,
}

/// Form of the path sent to the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ForwardedPath {
    /// The target as the client sent it (Ingress, as in ingress-nginx).
    AsReceived,
    /// The normalised path (Gateway API).
    Normalised,
}

impl Policy {
    /// As rules store it: all rules with the default policy share one value.
    #[must_use]
    pub fn shared(self) -> Arc<Self> {
        static DEFAULT: LazyLock<Arc<Policy>> = LazyLock::new(Arc::default);
        if self == **DEFAULT { Arc::clone(&DEFAULT) } else { Arc::new(self) }
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
            by: RetrySource::default(),
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
    fn timeouts_and_retries_round_trip() {
        let second = Duration::from_secs(1);
        let timeouts =
            Timeouts { request: Some(second * 3), backend_request: Some(second), ..Timeouts::default() };
        let retry = Retry {
            tries: 4,
            connect_total: Duration::MAX,
            by: RetrySource::Route,
            backoff: Duration::from_millis(100),
        };
        let policy = Policy { timeouts, retry, ..Policy::default() };
        let json = serde_json::to_string(&policy).unwrap();
        assert_eq!(serde_json::from_str::<Policy>(&json).unwrap(), policy);
    }
}
