//! Tracing of requests and export of spans (W3C Trace Context, OpenTelemetry).

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::default::is_default;
use crate::template::Template;

/// How requests of a listener or rule are traced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tracing {
    /// Share of traces that start here that is sampled; without `parent_based`, it also applies to traces started by
    /// clients.
    pub ratio: SampleRatio,
    /// Whether the decision of the trace's originator overrides `ratio`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub parent_based: bool,
    /// Whether a client's trace is continued; otherwise its headers are removed and a new trace starts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub trust_incoming: bool,
    /// Headers that carry the trace context.
    #[serde(default, skip_serializing_if = "is_default")]
    pub propagation: Propagation,
    /// Name of server spans; `None` uses method and route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span_name: Option<Arc<Template>>,
}

/// Share of traces, in units of 2⁻³²: 0 samples none, and 2³² all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SampleRatio(u64);

/// Headers that carry the trace context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Propagation {
    /// `traceparent` and `tracestate` (W3C Trace Context).
    #[default]
    W3c,
    /// Also B3: `b3`, or `X-B3-TraceId` and related headers. A context is read from `traceparent` if present, and
    /// sent in both forms.
    W3cAndB3,
}

/// Where spans, and optionally metrics and logs, are sent (OTLP).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collector {
    /// Its address: `http://HOST:PORT` or `https://HOST:PORT`; for [`OtlpProtocol::Http`] also a path prefix of
    /// `/v1/traces`.
    pub endpoint: Arc<str>,
    /// The protocol.
    pub protocol: OtlpProtocol,
    /// The attribute `service.name`.
    pub service_name: Arc<str>,
    /// Maximum number of queued spans; more are dropped and counted.
    pub max_queue: u32,
    /// Maximum time that a span is queued.
    pub max_delay: Duration,
    /// Maximum number of spans per message.
    pub max_batch: u32,
}

/// The protocol spoken with a collector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OtlpProtocol {
    /// OTLP/gRPC, usually on port 4317.
    #[default]
    Grpc,
    /// OTLP/HTTP with Protocol Buffers, usually on port 4318.
    Http,
}

impl SampleRatio {
    /// Samples no trace.
    pub const NONE: Self = Self(0);
    /// Samples every trace.
    pub const ALL: Self = Self(1 << 32);

    /// From a number between 0 and 1; `None` for any other.
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the number is between 0 and 2³²"
    )]
    pub fn new(ratio: f64) -> Option<Self> {
        (0.0..=1.0).contains(&ratio).then(|| Self((ratio * (1_u64 << 32) as f64).round() as u64))
    }

    /// As a number between 0 and 1.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "both numbers have 33 bits at most")]
    pub fn ratio(self) -> f64 {
        self.0 as f64 / Self::ALL.0 as f64
    }

    /// Whether the trace with this random number is sampled. Every party that applies the ratio to the trace's lowest
    /// 32 bits decides alike.
    #[inline]
    #[must_use]
    pub fn samples(self, random: u32) -> bool {
        u64::from(random) < self.0
    }
}

impl Tracing {
    /// Tracing disabled; trace headers pass unchanged.
    #[must_use]
    pub fn off() -> Self {
        Self { trust_incoming: true, ..Self::default() }
    }

    /// Whether tracing is disabled. Trace headers then pass unchanged, or are removed if clients are not trusted.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.ratio == SampleRatio::NONE && !self.parent_based
    }
}

impl Collector {
    /// A collector at this address with the default limits of OpenTelemetry's batch processor.
    #[must_use]
    pub fn at(endpoint: impl Into<Arc<str>>) -> Self {
        Self {
            endpoint: endpoint.into(),
            protocol: OtlpProtocol::default(),
            service_name: "fairway".into(),
            max_queue: 2_048,
            max_delay: Duration::from_secs(5),
            max_batch: 512,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_samples_its_share_of_all_numbers() {
        for (ratio, below) in [(0.0, 0_u64), (0.25, 1 << 30), (1.0, 1 << 32)] {
            let ratio = SampleRatio::new(ratio).unwrap();
            for random in [0, 1 << 30, (1 << 30) - 1, u32::MAX] {
                assert_eq!(ratio.samples(random), u64::from(random) < below, "{ratio:?} of {random}");
            }
        }
        for outside in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert_eq!(SampleRatio::new(outside), None);
        }
        assert_eq!(SampleRatio::new(1.0), Some(SampleRatio::ALL));
        assert!((SampleRatio::new(0.01).unwrap().ratio() - 0.01).abs() < 1e-9);
    }
}
