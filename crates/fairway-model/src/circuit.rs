//! Circuit breaker limits of a backend, shared by all workers.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

/// Limits for all endpoints of a Service port, across all workers of a process. `None` is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct BackendLimits {
    /// Connections that are open or connecting, including idle ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<NonZeroU32>,
    /// Requests and forwarded connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<NonZeroU32>,
    /// Requests awaiting a response; the limit adapts to response times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<AdaptiveConcurrency>,
    /// Requests that may queue when one of these limits is reached.
    #[serde(skip_serializing_if = "is_zero")]
    pub pending: u32,
    /// Requests that are being retried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
}

/// Bounds of an adaptive limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AdaptiveConcurrency {
    /// Lower bound, and the initial limit.
    pub minimum: NonZeroU32,
    /// Upper bound; not less than the minimum.
    pub maximum: NonZeroU32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// How many attempts of a worker may be retries, per backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RetryBudget {
    /// Percentage of its requests.
    pub percent: u8,
    /// Retries per second allowed in addition.
    pub per_second: u16,
}
