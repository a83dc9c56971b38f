//! How much one backend is asked for at most: limits at which the circuit breaks, whichever worker asks.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

/// What all workers of a process together may have under way with all endpoints of a Service and port. `None` is without a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct BackendLimits {
    /// Connections that are open or being made, idle ones included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<NonZeroU32>,
    /// Requests, and forwarded connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<NonZeroU32>,
    /// Requests that await a response, a number that moves with how long responses take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<AdaptiveConcurrency>,
    /// Requests that wait because one of these limits is reached.
    #[serde(skip_serializing_if = "is_zero")]
    pub pending: u32,
    /// Requests of which an attempt follows another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
}

/// Between which numbers a limit moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AdaptiveConcurrency {
    /// The limit is never lower; it begins here.
    pub minimum: NonZeroU32,
    /// The limit is never higher; at least the minimum.
    pub maximum: NonZeroU32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// How many attempts of a worker may follow another one with a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RetryBudget {
    /// Of its requests, in percent.
    pub percent: u8,
    /// Besides, every second.
    pub per_second: u16,
}
