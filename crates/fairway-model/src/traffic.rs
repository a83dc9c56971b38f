//! What holds for the clients of one listener, or towards the endpoints of one backend, instead of what holds everywhere.

use std::num::{NonZeroU8, NonZeroU32};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::circuit::{BackendLimits, RetryBudget};
use crate::health::EndpointHealth;
use crate::introduction::Introduction;
use crate::place::TrafficDistribution;
use crate::policy::Retry;
use crate::settings::{ForwardedTrust, HeaderNames};
use crate::tracing::Tracing;
use crate::value_test::BlockedClients;

/// What holds for the clients of a listener. `None` is as [`crate::Settings`] and the flags have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientTraffic {
    /// How connections begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub introduction: Option<Introduction>,
    /// Whose `X-Forwarded-*` headers are believed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forwarded: Option<ForwardedTrust>,
    /// How long an idle connection is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<Duration>,
    /// How long the head of a request may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_timeout: Option<Duration>,
    /// How long TLS may take to be agreed on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handshake_timeout: Option<Duration>,
    /// Requests per connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_connection: Option<u64>,
    /// Connections that may be open at a time, of all workers together; one more is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<NonZeroU32>,
    /// Streams of HTTP/2 that a connection may have open at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<NonZeroU32>,
    /// Whether HTTP/3 is spoken; without meaning for listeners that do not end the TLS of HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http3: Option<bool>,
    /// Whether HTTP/3 takes requests in early data (0-RTT), those that are safe and whose rules ask nothing of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_data: Option<bool>,
    /// Which names the headers of a request may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_names: Option<HeaderNames>,
    /// Whether TLS clients are refused that ask for no name, or for one that no host has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reject_unknown_names: Option<bool>,
    /// Clients that are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Arc<BlockedClients>>,
    /// The largest request body in bytes; larger is answered 413. The smaller of this and a rule's `max_body` counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_body: Option<u64>,
    /// How requests are traced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracing: Option<Arc<Tracing>>,
}

/// How the endpoints of a backend are used. `None` is as everywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct BackendTraffic {
    /// Which failures are tried again, whatever the rule says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// When an endpoint is not used for a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ejection: Option<Ejection>,
    /// When an endpoint that answers slowly is not used for a time, as long as [`Self::ejection`] says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyEjection>,
    /// What all workers together may have under way with all endpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<BackendLimits>,
    /// How many attempts may follow another one, instead of what the worker allows all backends together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_budget: Option<RetryBudget>,
    /// Requests, or forwarded connections, that a worker may have under way with one endpoint; where all endpoints have as
    /// many, one more is refused with 503.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<NonZeroU32>,
    /// How long a connect may take before another endpoint is tried as well; zero never does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hedge: Option<Duration>,
    /// Which endpoints are preferred; as the hints of their EndpointSlices say where this is `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distribution: Option<TrafficDistribution>,
    /// What makes an endpoint fit for requests, besides its Service and [`Self::ejection`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<Arc<EndpointHealth>>,
}

/// When an endpoint that fails is not used for a time (passive outlier ejection).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Ejection {
    /// It is always used.
    Never,
    /// After so many failures in a row before the head of an answer, for `first`, twice as long each further time, up to
    /// `longest`.
    After {
        /// Failures in a row; a connect that fails ejects at once.
        failures: NonZeroU8,
        /// How long the first time is.
        first: Duration,
        /// How long it is at most.
        longest: Duration,
    },
}

/// When an endpoint answers so slowly that it is not used for a time: after an interval in which it and others have had enough responses,
/// and its mean time to the head of a response was so many times the median of theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LatencyEjection {
    /// How many times as slow it is.
    pub factor: NonZeroU8,
    /// Responses of an endpoint below which an interval says nothing about it.
    pub responses: NonZeroU32,
    /// How long is measured.
    pub interval: Duration,
}

static AS_EVERYWHERE: BackendTraffic = BackendTraffic {
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
    /// As a backend keeps it: nothing where all is as everywhere, which most backends are.
    #[must_use]
    pub fn kept(self) -> Option<Arc<Self>> {
        (self != AS_EVERYWHERE).then(|| Arc::new(self))
    }

    /// What [`Self::kept`] stands for.
    #[must_use]
    pub fn of(kept: Option<&Arc<Self>>) -> &Self {
        kept.map_or(&AS_EVERYWHERE, |kept| kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_is_read_as_it_was_written_and_nothing_is_written_of_what_is_as_everywhere() {
        assert_eq!(serde_json::to_string(&ClientTraffic::default()).unwrap(), "{}");
        assert_eq!(serde_json::to_string(&BackendTraffic::default()).unwrap(), "{}");
        let clients = ClientTraffic {
            introduction: Some(Introduction::ProxyProtocol { trusted: vec!["10.0.0.0/8".parse().unwrap()] }),
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
