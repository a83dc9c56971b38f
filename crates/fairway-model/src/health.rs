//! Active health checks, slow start and panic mode.

use std::num::NonZeroU8;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// When an endpoint receives requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct EndpointHealth {
    /// Active health check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<Arc<HealthCheck>>,
    /// How long a new or recovered endpoint takes to receive its full share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_start: Option<Duration>,
    /// If more than this percentage of endpoints fail their checks, checks are ignored: the remaining endpoints could
    /// not carry the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub panic_threshold: Option<u8>,
}

/// A periodic health check of each endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HealthCheck {
    /// The request sent.
    pub probe: Probe,
    /// Time between the starts of two checks.
    pub interval: Duration,
    /// Timeout of a check, including the connect.
    pub timeout: Duration,
    /// Consecutive failures after which an endpoint is unhealthy.
    pub failures: NonZeroU8,
    /// Consecutive successes after which it is healthy again.
    pub successes: NonZeroU8,
}

/// The request of a health check.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Probe {
    /// Opens a TCP connection.
    Tcp,
    /// A GET request.
    Http {
        /// Path and query.
        path: Arc<str>,
        /// `Host`; `None` uses the address of the endpoint.
        host: Option<Arc<str>>,
        /// Statuses that count as success; empty accepts 200 to 399.
        statuses: Vec<u16>,
    },
    /// `grpc.health.v1.Health/Check`.
    Grpc {
        /// The service to check; empty checks the whole server.
        service: Arc<str>,
    },
}

impl Probe {
    /// Whether a response with this status is a success.
    #[must_use]
    pub fn accepts(&self, status: u16) -> bool {
        match self {
            Self::Http { statuses, .. } if !statuses.is_empty() => statuses.contains(&status),
            Self::Tcp | Self::Http { .. } | Self::Grpc { .. } => (200..400).contains(&status),
        }
    }
}
