//! What is remembered of an exchange for metrics and the access log.

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

/// One exchange, when it is over.
pub struct Record<'a> {
    /// When its head was complete.
    pub began: Instant,
    /// How long it took, in nanoseconds and one more; none while it is not over.
    took: Option<NonZeroU64>,
    /// The method of the request.
    pub method: Method,
    /// The status of the answer; 0 where there is none.
    pub status: u16,
    /// Head and body of the request.
    pub request_bytes: u64,
    /// The answer's body, without its framing.
    pub body_bytes: u64,
    /// Everything that was sent to the client.
    pub sent_bytes: u64,
    /// Why the answer is not the endpoint's, or incomplete.
    pub fault: Option<Fault>,
    /// On whose account it failed or was repeated, once that was judged.
    pub(crate) attribution: Option<Attribution>,
    /// What of the configuration served it.
    pub served_by: ServedBy<'a>,
    /// The last attempt, where there was one.
    pub upstream: Option<UpstreamRecord>,
    /// What became of it as a call of gRPC.
    pub call: Call,
    /// How long it waited for the word of others before it was forwarded.
    waited: Micros,
    /// Whether it is part of a trace, sampled or not.
    pub(crate) is_traced: bool,
}

/// What of the configuration a request belongs to.
#[derive(Default)]
pub struct ServedBy<'a> {
    /// The rule.
    pub rule: Option<&'a CompiledRule>,
    /// The host of the rule.
    pub host: Option<&'a HostPattern>,
    /// The backend of the rule's canary, where it got the request.
    pub canary: Option<Arc<Backend>>,
}

/// Microseconds, at most 71 minutes: a quarter of a `Duration`, of which every idle connection has room for several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Micros(u32);

impl Micros {
    /// None.
    pub(crate) const ZERO: Self = Self(0);

    /// The same as a duration.
    pub fn duration(self) -> Duration {
        Duration::from_micros(self.number())
    }

    /// How many they are.
    pub(crate) fn number(self) -> u64 {
        u64::from(self.0)
    }
}

impl From<Duration> for Micros {
    fn from(time: Duration) -> Self {
        Self(u32::try_from(time.as_micros()).unwrap_or(u32::MAX))
    }
}

/// The last attempt, which gave the answer or the failure.
#[derive(Clone, Copy, Debug)]
pub struct UpstreamRecord {
    /// The endpoint.
    pub endpoint: SocketAddr,
    /// 0 when no answer came.
    pub status: u16,
    /// When its request was sent, counted from when forwarding began; 0 where no answer came.
    pub sent: Micros,
    /// 0 for a reused connection.
    pub connect: Micros,
    /// From the first byte sent to the answer's head.
    pub header: Micros,
    /// From the first byte sent to the answer's last.
    pub response: Micros,
    /// How many attempts it took.
    pub attempts: u8,
    /// Whether a late connect made the attempt look at another endpoint as well.
    pub hedged: bool,
}

/// An attempt that brought no response that the client got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FailedAttempt {
    /// The endpoint.
    pub(crate) endpoint: SocketAddr,
    /// What went wrong, or the status that made Fairway ask another endpoint.
    pub(crate) outcome: AttemptOutcome,
    /// From the beginning of the first attempt to that of this one.
    pub(crate) began: Micros,
    /// From the beginning of the first attempt to the end of this one.
    pub(crate) after: Micros,
}

/// Why another attempt followed, or none could.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptOutcome {
    Fault(Fault),
    Status(u16),
}

impl UpstreamRecord {
    /// An attempt that brought no answer in `took`.
    pub fn failed(endpoint: SocketAddr, attempts: u8, took: Duration) -> Self {
        let none = Micros::default();
        Self {
            endpoint,
            status: 0,
            sent: none,
            connect: none,
            header: none,
            response: took.into(),
            attempts,
            hedged: false,
        }
    }
}

impl Record<'_> {
    /// The endpoint's answer ended so long after its head.
    pub fn answered(&mut self, body: Duration) {
        if let Some(upstream) = &mut self.upstream {
            upstream.response = (upstream.header.duration() + body).into();
        }
    }

    /// Another backend made the answer: what it was counts.
    pub(crate) fn take_answer_of(&mut self, other: &Record<'_>) {
        self.took = None;
        if let Some(ended) = other.ended() {
            self.end(ended);
        }
        self.status = other.status;
        self.body_bytes = other.body_bytes;
        self.fault = other.fault;
        self.upstream = other.upstream;
    }

    /// From the request's head to the answer's last byte.
    pub fn took(&self) -> Duration {
        self.took.map_or(Duration::ZERO, |took| Duration::from_nanos(took.get() - 1))
    }

    /// The same in microseconds.
    pub(crate) fn took_micros(&self) -> u64 {
        self.took.map_or(0, |took| (took.get() - 1) / 1_000)
    }

    /// All that it waited for is known by now: it is forwarded from here on.
    pub(crate) fn waited_until(&mut self, now: Instant) {
        self.waited = now.saturating_duration_since(self.began).into();
    }

    /// How long it waited for the word of others before it was forwarded.
    pub(crate) fn waited(&self) -> Duration {
        self.waited.duration()
    }

    /// When forwarding began: with the exchange, where it waited for nobody.
    #[inline]
    #[must_use]
    pub(crate) fn forwarding_began(&self) -> Instant {
        self.began + self.waited.duration()
    }

    /// It is over.
    pub fn end(&mut self, at: Instant) {
        let took = u64::try_from(at.saturating_duration_since(self.began).as_nanos()).unwrap_or(u64::MAX);
        self.took = NonZeroU64::new(took.saturating_add(1));
    }

    /// When it was over; none while it is not.
    #[must_use]
    pub fn ended(&self) -> Option<Instant> {
        self.took.map(|_| self.began + self.took())
    }

    /// Nothing known yet but when it began.
    pub fn new(began: Instant, head_bytes: u32) -> Self {
        Self {
            began,
            took: None,
            method: Method::Other,
            status: 0,
            request_bytes: u64::from(head_bytes),
            body_bytes: 0,
            sent_bytes: 0,
            fault: None,
            attribution: None,
            served_by: ServedBy::default(),
            upstream: None,
            call: Call::default(),
            waited: Micros::default(),
            is_traced: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_microseconds_is_that_of_the_duration() {
        let began = Instant::now();
        let mut record = Record::new(began, 0);
        assert_eq!(record.took_micros(), 0);
        for nanos in [0, 999, 1_000, 1_999, 999_999_999, 10_000_001_000] {
            let took = Duration::from_nanos(nanos);
            record.end(began + took);
            assert_eq!(u128::from(record.took_micros()), took.as_micros());
            assert_eq!(u128::from(Micros::from(took).number()), took.as_micros());
        }
    }
}
