//! Who may ask by address, how often, and how much at a time.

use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::default::is_default;
use crate::identity::LimitKey;

/// Which client addresses may pass; others are answered 403.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessList {
    /// Refused first.
    pub deny: Vec<IpNet>,
    /// When not empty, nothing else passes.
    pub allow: Vec<IpNet>,
}

/// How often each client may ask. Clients are addresses, and in IPv6 the networks of 64 bits that they are in. All workers
/// of a process count together; whether replicas do is the [`LimitScope`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateLimit {
    /// What the count belongs to: rules that name the same policy share it, and it survives changes of the rule.
    pub policy: Arc<str>,
    /// So many requests, evenly spread over `per`; not 0.
    pub requests: u32,
    /// The time for them.
    pub per: Duration,
    /// So many may come early, at once.
    pub burst: u32,
    /// What is answered above it: 400..=599.
    pub status: u16,
    /// Clients that are not counted.
    pub exempt: Vec<IpNet>,
    /// Whose requests are counted together.
    #[serde(default, skip_serializing_if = "is_default")]
    pub key: LimitKey,
    /// What it holds for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scope: LimitScope,
}

/// What a [`RateLimit`] holds for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LimitScope {
    /// Each replica, as in ingress-nginx.
    #[default]
    Replica,
    /// All replicas together: each lets through its equal share of the rate and of what may come early.
    Fleet,
}

/// How many requests of each client may be under way at a time. Clients are what they are to a [`RateLimit`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConcurrencyLimit {
    /// As that of a [`RateLimit`].
    pub policy: Arc<str>,
    /// At most so many; not 0.
    pub most: u32,
    /// What is answered above it: 400..=599.
    pub status: u16,
    /// Clients that are not counted.
    pub exempt: Vec<IpNet>,
}
