//! Settings for the clients of one listener, or the endpoints of one backend, that override global settings.

use std::num::{NonZeroU8, NonZeroU32};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::circuit::{BackendLimits, RetryBudget};
use crate::health::EndpointHealth;
use crate::introduction::ProxyProtocolMode;
use crate::policy::Retry;
use crate::settings::{ForwardedTrust, HeaderNames};
use crate::topology::TrafficDistribution;
use crate::tracing::Tracing;
use crate::value_test::BlockedClients;

/// Settings for the clients of a listener. `None` uses [`crate::Settings`] and the flags.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientTraffic {
    /// Whether connections begin with a PROXY protocol header.
    #[serde(rename = "introduction", skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<ProxyProtocolMode>,
    /// Which peers' `X-Forwarded-*` headers are trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forwarded: Option<ForwardedTrust>,
    /// Idle timeout of a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<Duration>,
    /// Timeout for a request head.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_timeout: Option<Duration>,
    /// Timeout of a TLS handshake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handshake_timeout: Option<Duration>,
    /// Requests per connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_connection: Option<u64>,
    /// Open connections across all workers; further ones are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<NonZeroU32>,
    /// Concurrent HTTP/2 streams per connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<NonZeroU32>,
    /// Whether HTTP/3 is enabled; ignored for listeners that do not terminate HTTPS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http3: Option<bool>,
    /// Whether HTTP/3 accepts requests in early data (0-RTT): only safe ones whose rules do not authenticate the
    /// client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_data: Option<bool>,
    /// Header names that requests may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_names: Option<HeaderNames>,
    /// Whether TLS clients with a missing or unknown server name are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reject_unknown_names: Option<bool>,
    /// Clients that are blocked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Arc<BlockedClients>>,
    /// Maximum request body in bytes; larger requests get 413. The smaller of this and a rule's `max_body` applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_body: Option<u64>,
    /// Tracing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracing: Option<Arc<Tracing>>,
}

/// Settings for the endpoints of a backend. `None` uses the defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct BackendTraffic {
    /// Retries, overriding the rule's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// When a failing endpoint is ejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ejection: Option<Ejection>,
    /// When a slow endpoint is ejected; the duration is that of [`Self::ejection`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyEjection>,
    /// Limits for all endpoints, across all workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<BackendLimits>,
    /// Retry budget, instead of the worker's budget for all backends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_budget: Option<RetryBudget>,
    /// Requests, or forwarded connections, of a worker in flight with one endpoint; if all endpoints are at the
    /// limit, further requests get 503.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<NonZeroU32>,
    /// How long a connect may take before another endpoint is tried in parallel; zero disables this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hedge: Option<Duration>,
    /// Preferred endpoints; `None` follows the hints of their EndpointSlices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distribution: Option<TrafficDistribution>,
    /// Active health checks, in addition to the readiness of the Service and [`Self::ejection`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<Arc<EndpointHealth>>,
}

/// When a failing endpoint is ejected (passive outlier ejection).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Ejection {
    /// Never.
    Never,
    /// After consecutive failures before a response head, for `first`, doubling each time up to `longest`.
    After {
        /// Consecutive failures; a failed connect ejects at once.
        failures: NonZeroU8,
        /// Duration of the first ejection.
        first: Duration,
        /// Maximum duration.
        longest: Duration,
    },
}

/// When a slow endpoint is ejected: after an interval in which it and others had enough responses, if its mean time
/// to the response head was at least `factor` times the median of theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LatencyEjection {
    /// How many times the median.
    pub factor: NonZeroU8,
    /// Minimum number of responses of an endpoint in an interval.
    pub responses: NonZeroU32,
    /// The interval that is measured.
    pub interval: Duration,
}

static DEFAULT_TRAFFIC: BackendTraffic = BackendTraffic {
    retry: None,
    ejection: None,
    latency: None,
    limits: None,
    retry_budget: None,
    in_flight: None,
    hedge: None,
    distribution: None,
    health: None,
};

impl BackendTraffic {
    /// `None` if everything has its default, as most backends store it.
    #[must_use]
    pub fn if_not_empty(self) -> Option<Arc<Self>> {
        (self != DEFAULT_TRAFFIC).then(|| Arc::new(self))
    }

    /// The settings, or the defaults for `None`.
    #[must_use]
    pub fn or_default(settings: Option<&Arc<Self>>) -> &Self {
        settings.map_or(&DEFAULT_TRAFFIC, |kept| kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_round_trips_and_omits_defaults() {
        assert_eq!(serde_json::to_string(&ClientTraffic::default()).unwrap(), "{}");
        assert_eq!(serde_json::to_string(&BackendTraffic::default()).unwrap(), "{}");
        let clients = ClientTraffic {
            proxy_protocol: Some(ProxyProtocolMode::Required {
                trusted: vec!["10.0.0.0/8".parse().unwrap()],
            }),
            connections: NonZeroU32::new(7),
            http3: Some(true),
            early_data: Some(false),
            ..ClientTraffic::default()
        };
        let json = serde_json::to_string(&clients).unwrap();
        assert_eq!(serde_json::from_str::<ClientTraffic>(&json).unwrap(), clients);
        let failures = NonZeroU8::MIN;
        let (first, longest) = (Duration::from_secs(1), Duration::from_secs(9));
        for ejection in [Ejection::Never, Ejection::After { failures, first, longest }] {
            let traffic = BackendTraffic { ejection: Some(ejection), ..BackendTraffic::default() };
            let json = serde_json::to_string(&traffic).unwrap();
            assert_eq!(serde_json::from_str::<BackendTraffic>(&json).unwrap(), traffic);
        }
    }
}
