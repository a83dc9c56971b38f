//! Limits by client address: who may connect, how often, and how many requests at a time.

use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::default::is_default;
use crate::identity::LimitKey;

/// Client addresses that may pass; all others get 403.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessList {
    /// Checked first; matching addresses are refused.
    pub deny: Vec<IpNet>,
    /// If not empty, only these addresses pass.
    pub allow: Vec<IpNet>,
}

/// Request rate limit per client. A client is an IPv4 address or an IPv6 /64. The count is shared by all workers of a
/// process; [`LimitScope`] says whether it is shared by replicas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateLimit {
    /// Identifies the counter: rules with the same policy share it, and it survives changes to the rule.
    pub policy: Arc<str>,
    /// Requests per `per`, evenly spread; not 0.
    pub requests: u32,
    /// Period that `requests` applies to.
    pub per: Duration,
    /// Requests that may arrive ahead of the even rate.
    pub burst: u32,
    /// Status of rejected requests, 400..=599.
    pub status: u16,
    /// Clients that are not limited.
    pub exempt: Vec<IpNet>,
    /// How requests are grouped for counting.
    #[serde(default, skip_serializing_if = "is_default")]
    pub key: LimitKey,
    /// Whether the limit applies per replica or to the fleet.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scope: LimitScope,
}

/// Scope of a [`RateLimit`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LimitScope {
    /// Each replica counts for itself, as in ingress-nginx.
    #[default]
    Replica,
    /// All replicas together: each admits an equal share of the rate and of the burst.
    Fleet,
}

/// Maximum number of concurrent requests per client. Clients are identified as for [`RateLimit`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConcurrencyLimit {
    /// As in [`RateLimit`].
    pub policy: Arc<str>,
    /// Maximum number of requests in flight; not 0.
    #[serde(rename = "most")]
    pub max: u32,
    /// Status of rejected requests, 400..=599.
    pub status: u16,
    /// Clients that are not limited.
    pub exempt: Vec<IpNet>,
}
