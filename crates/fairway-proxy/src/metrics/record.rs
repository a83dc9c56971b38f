//! The record of an exchange for metrics and the access log.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use fairway_http::Method;
use fairway_model::{Backend, HostPattern};
use fairway_net::clock::Instant;
use fairway_routing::CompiledRule;

use crate::attribution::Attribution;
use crate::fault::Fault;
use crate::grpc::Call;

/// A finished exchange.
pub struct ExchangeRecord<'a> {
    /// When the request head was complete.
    pub started_at: Instant,
    /// Duration in nanoseconds plus one; `None` until finished.
    nanos_plus_one: Option<NonZeroU64>,
    /// The method of the request.
    pub method: Method,
    /// Response status; 0 without a response.
    pub status: u16,
    /// Bytes of request head and body.
    pub request_bytes: u64,
    /// Bytes of the response body, without framing.
    pub body_bytes: u64,
    /// All bytes sent to the client.
    pub sent_bytes: u64,
    /// Why the response is not the endpoint's, or incomplete.
    pub fault: Option<Fault>,
    /// Attribution of a failure or retry, once determined.
    pub(crate) attribution: Option<Attribution>,
    /// The part of the configuration that served it.
    pub served_by: ServedBy<'a>,
    /// The last attempt, if any.
    pub upstream: Option<UpstreamRecord>,
    /// Its outcome as a gRPC call.
    pub grpc_call: Call,
    /// Time that guards waited for other services before forwarding.
    guard_wait: Microseconds,
    /// Whether it is part of a trace, sampled or not.
    pub(crate) is_traced: bool,
}

/// The part of the configuration a request belongs to.
#[derive(Default)]
pub struct ServedBy<'a> {
    /// The rule.
    pub rule: Option<&'a CompiledRule>,
    /// Host of the rule.
    pub host: Option<&'a HostPattern>,
    /// Backend of the rule's canary, if it got the request.
    pub canary: Option<Arc<Backend>>,
}

/// Microseconds, up to 71 minutes: a quarter of the size of a `Duration`, of which every idle connection has
/// several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Microseconds(u32);

impl Microseconds {
    /// Zero.
    pub(crate) const ZERO: Self = Self(0);

    /// As a `Duration`.
    pub fn duration(self) -> Duration {
        Duration::from_micros(self.number())
    }

    /// As a number.
    pub(crate) fn number(self) -> u64 {
        u64::from(self.0)
    }
}

impl From<Duration> for Microseconds {
    fn from(time: Duration) -> Self {
        Self(u32::try_from(time.as_micros()).unwrap_or(u32::MAX))
    }
}

/// The last attempt, which produced the response or the failure.
#[derive(Clone, Copy, Debug)]
pub struct UpstreamRecord {
    /// The endpoint.
    pub endpoint: SocketAddr,
    /// Status; 0 without a response.
    pub status: u16,
    /// When its request was sent, from the start of forwarding; 0 without a response.
    pub sent: Microseconds,
    /// Connect time; 0 for a reused connection.
    pub connect: Microseconds,
    /// From the first byte sent to the response head.
    pub header: Microseconds,
    /// From the first byte sent to the last byte of the response.
    pub response: Microseconds,
    /// Number of attempts.
    pub attempts: u8,
    /// Whether a slow connect made the attempt try a second endpoint.
    pub hedged: bool,
}

/// An attempt whose response the client did not get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FailedAttempt {
    /// The endpoint.
    pub(crate) endpoint: SocketAddr,
    /// What went wrong, or the status that caused a retry.
    pub(crate) outcome: AttemptOutcome,
    /// Start, from the start of the first attempt.
    pub(crate) started_after: Microseconds,
    /// End, from the start of the first attempt.
    pub(crate) ended_after: Microseconds,
}

/// Why an attempt was retried, or would have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptOutcome {
    Fault(Fault),
    Status(u16),
}

impl UpstreamRecord {
    /// An attempt without a response, which took `took`.
    pub fn failed(endpoint: SocketAddr, attempts: u8, duration: Duration) -> Self {
        let none = Microseconds::default();
        Self {
            endpoint,
            status: 0,
            sent: none,
            connect: none,
            header: none,
            response: duration.into(),
            attempts,
            hedged: false,
        }
    }
}

impl ExchangeRecord<'_> {
    /// Sets the response time from the duration of the body.
    pub fn set_response_time(&mut self, body: Duration) {
        if let Some(upstream) = &mut self.upstream {
            upstream.response = (upstream.header.duration() + body).into();
        }
    }

    /// Takes over the response that another backend made.
    pub(crate) fn take_response_of(&mut self, other: &ExchangeRecord<'_>) {
        self.nanos_plus_one = None;
        if let Some(ended) = other.ended() {
            self.finish(ended);
        }
        self.status = other.status;
        self.body_bytes = other.body_bytes;
        self.fault = other.fault;
        self.upstream = other.upstream;
    }

    /// From the request head to the last byte of the response.
    pub fn duration(&self) -> Duration {
        self.nanos_plus_one.map_or(Duration::ZERO, |took| Duration::from_nanos(took.get() - 1))
    }

    /// The same in microseconds.
    pub(crate) fn duration_micros(&self) -> u64 {
        self.nanos_plus_one.map_or(0, |took| (took.get() - 1) / 1_000)
    }

    /// Guards have finished: forwarding starts now.
    pub(crate) fn finish_waiting(&mut self, now: Instant) {
        self.guard_wait = now.saturating_duration_since(self.started_at).into();
    }

    /// Time that guards waited for other services before forwarding.
    pub(crate) fn guard_wait(&self) -> Duration {
        self.guard_wait.duration()
    }

    /// When forwarding started: with the exchange, unless guards waited.
    #[inline]
    #[must_use]
    pub(crate) fn forwarding_started_at(&self) -> Instant {
        self.started_at + self.guard_wait.duration()
    }

    /// Finishes the record.
    pub fn finish(&mut self, at: Instant) {
        let nanos =
            u64::try_from(at.saturating_duration_since(self.started_at).as_nanos()).unwrap_or(u64::MAX);
        self.nanos_plus_one = NonZeroU64::new(nanos.saturating_add(1));
    }

    /// End time; `None` until finished.
    #[must_use]
    pub fn ended(&self) -> Option<Instant> {
        self.nanos_plus_one.map(|_| self.started_at + self.duration())
    }

    /// A record of an exchange that just started.
    pub fn new(started_at: Instant, head_bytes: u32) -> Self {
        Self {
            started_at,
            nanos_plus_one: None,
            method: Method::Other,
            status: 0,
            request_bytes: u64::from(head_bytes),
            body_bytes: 0,
            sent_bytes: 0,
            fault: None,
            attribution: None,
            served_by: ServedBy::default(),
            upstream: None,
            grpc_call: Call::default(),
            guard_wait: Microseconds::default(),
            is_traced: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_equal_those_of_the_duration() {
        let began = Instant::now();
        let mut record = ExchangeRecord::new(began, 0);
        assert_eq!(record.duration_micros(), 0);
        for nanos in [0, 999, 1_000, 1_999, 999_999_999, 10_000_001_000] {
            let took = Duration::from_nanos(nanos);
            record.finish(began + took);
            assert_eq!(u128::from(record.duration_micros()), took.as_micros());
            assert_eq!(u128::from(Microseconds::from(took).number()), took.as_micros());
        }
    }
}
