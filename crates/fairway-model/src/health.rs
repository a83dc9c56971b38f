//! Which endpoints are fit for requests, beyond what their Service says.

use std::num::NonZeroU8;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What makes an endpoint fit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct EndpointHealth {
    /// What Fairway asks each endpoint by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<Arc<HealthCheck>>,
    /// How long an endpoint that is new, or fit again, takes to get its whole share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_start: Option<Duration>,
    /// Where more than this share of the endpoints fail their checks, in percent, checks do not count: they would take more from the
    /// others than these can carry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub panic_threshold: Option<u8>,
}

/// A request of Fairway's own to each endpoint, again and again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HealthCheck {
    /// What is asked.
    pub probe: Probe,
    /// From the beginning of one to the beginning of the next.
    pub interval: Duration,
    /// How long one may take, with its connect.
    pub timeout: Duration,
    /// Failures in a row after which an endpoint is out.
    pub failures: NonZeroU8,
    /// Successes in a row after which it is in again.
    pub successes: NonZeroU8,
}

/// What an endpoint is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Probe {
    /// Whether it accepts connections.
    Tcp,
    /// A GET request.
    Http {
        /// Path and query.
        path: Arc<str>,
        /// The `Host`; the address of the endpoint where there is none.
        host: Option<Arc<str>>,
        /// The statuses that are a success; 200 to 399 where there are none.
        statuses: Vec<u16>,
    },
    /// `grpc.health.v1.Health/Check`.
    Grpc {
        /// The service that is asked about; empty for the server as a whole.
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
