//! Which requests are traced, and where their spans go (W3C Trace Context, OpenTelemetry).

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::default::is_default;
use crate::template::Template;

/// How the requests of a listener or a rule are traced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tracing {
    /// Which of the traces that begin here are sampled; of traces that clients began, too, where `parent_based` is not set.
    pub ratio: SampleRatio,
    /// Whether the decision of whoever began the trace counts instead of `ratio`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub parent_based: bool,
    /// Whether the trace of a client is continued. Otherwise its headers are removed, and a trace begins here.
    #[serde(default, skip_serializing_if = "is_default")]
    pub trust_incoming: bool,
    /// In which headers contexts are read and sent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub propagation: Propagation,
    /// What server spans are called; method and route where there is nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span_name: Option<Arc<Template>>,
}

/// A share of all traces, as a number of 2³² equal parts: 0 samples none, and 2³² all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SampleRatio(u64);

/// In which headers the context of a trace travels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Propagation {
    /// `traceparent` and `tracestate` (W3C Trace Context).
    #[default]
    W3c,
    /// These and B3: `b3`, or `X-B3-TraceId` and the headers beside it. A context is read from `traceparent` where there is one, and sent
    /// in both forms.
    W3cAndB3,
}

/// Where spans, and on request metrics and logs, are sent (OTLP).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collector {
    /// Its address: `http://HOST:PORT` or `https://HOST:PORT`, and for [`OtlpProtocol::Http`] a path before `/v1/traces`.
    pub endpoint: Arc<str>,
    /// What is spoken there.
    pub protocol: OtlpProtocol,
    /// The attribute `service.name`.
    pub service_name: Arc<str>,
    /// Spans that may wait to be sent; more are dropped and counted.
    pub max_queue: u32,
    /// The longest time that a span waits before it is sent.
    pub max_delay: Duration,
    /// Spans of one message.
    pub max_batch: u32,
}

/// What is spoken with a collector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OtlpProtocol {
    /// OTLP/gRPC, usually on port 4317.
    #[default]
    Grpc,
    /// OTLP/HTTP with Protocol Buffers, usually on port 4318.
    Http,
}

impl SampleRatio {
    /// No trace.
    pub const NONE: Self = Self(0);
    /// Every trace.
    pub const ALL: Self = Self(1 << 32);

    /// That of a number between 0 and 1; `None` for any other.
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

    /// Whether the trace with this random number is sampled: all that use this ratio and the trace's lowest 32 bits decide alike.
    #[inline]
    #[must_use]
    pub fn samples(self, random: u32) -> bool {
        u64::from(random) < self.0
    }
}

impl Tracing {
    /// That nothing is traced, and the headers of a trace pass as they come.
    #[must_use]
    pub fn off() -> Self {
        Self { trust_incoming: true, ..Self::default() }
    }

    /// Whether nothing is traced. The headers of a trace pass as they come, or where clients are not trusted, not at all.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.ratio == SampleRatio::NONE && !self.parent_based
    }
}

impl Collector {
    /// The usual bounds of OpenTelemetry's batch processor, for a collector at this address.
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
