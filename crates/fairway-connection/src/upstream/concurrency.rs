//! The adaptive limit of requests awaiting a response from one Service port, across all workers of the process. It is
//! derived from the time to the response head, compared with that under low load
//! (docs/design/0080-adaptive-concurrency.md).

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fairway_model::AdaptiveConcurrency;
use fairway_net::clock::Instant;

use super::gate::Gate;

/// How often a worker shares its measurements.
const REPORT_INTERVAL: Duration = Duration::from_millis(50);
/// The minimum and maximum time between two updates of the limit. In between, it is twice the response time, so that
/// most responses of an interval belong to requests that began within it.
const UPDATE_INTERVAL_RANGE: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(10)];
/// An interval continues until it has this many responses.
const MIN_RESPONSES: u32 = 50;
/// How much longer than the baseline responses may take: this factor, plus a constant in seconds, which is how late a
/// busy host wakes threads.
const TOLERATED_FACTOR: f64 = 1.5;
const TOLERATED_SECONDS: f64 = 0.002;
/// The minimum and maximum factor of one update.
const GRADIENT_RANGE: [f64; 2] = [0.5, 1.5];
/// How often a limit that is reached and does not grow is halved, because the baseline may have been measured while
/// there was a queue.
const PROBE_INTERVAL: Duration = Duration::from_secs(30);
/// The limit counts as growing if the factor of its last update is above this.
const MIN_GROWING_GRADIENT: f64 = 1.25;

/// The limit of one Service port.
pub(super) struct Concurrency {
    /// The requests awaiting a response.
    pub(super) gate: Gate,
    limit: AtomicU32,
    /// Microseconds after which a request without a response counts as slow.
    tolerated_micros: AtomicU64,
    gradient: Mutex<Gradient>,
}

impl Concurrency {
    pub(super) fn new(bounds: AdaptiveConcurrency, now: Instant) -> Self {
        Self {
            gate: Gate::default(),
            limit: AtomicU32::new(bounds.minimum.get()),
            tolerated_micros: AtomicU64::new(u64::MAX),
            gradient: Mutex::new(Gradient::new(bounds, now)),
        }
    }

    pub(super) fn limit(&self) -> u32 {
        self.limit.load(Ordering::Relaxed)
    }

    /// The limit within the bounds of one backend; others of the same Service may have wider ones.
    pub(super) fn limit_within(&self, bounds: AdaptiveConcurrency) -> u32 {
        self.limit().clamp(bounds.minimum.get(), bounds.maximum.get())
    }

    /// Whether a request that waited this long without a response counts as slow. A request that has waited less says nothing about the backend.
    pub(super) fn is_slow(&self, waited: Duration) -> bool {
        waited.as_micros() > u128::from(self.tolerated_micros.load(Ordering::Relaxed))
    }

    /// Reports the measurements of a worker. Returns when to report next.
    #[cold]
    pub(super) fn report(&self, tally: Tally, bounds: AdaptiveConcurrency, now: Instant) -> Instant {
        let mut gradient = self.gradient.lock().unwrap_or_else(PoisonError::into_inner);
        let interval_ended = gradient.add(tally, bounds, now);
        let next = if gradient.is_urgent { now } else { now + REPORT_INTERVAL };
        if interval_ended {
            self.tolerated_micros.store((gradient.tolerated_seconds() * 1e6) as u64, Ordering::Relaxed);
            let limit = gradient.limit();
            let before = self.limit.swap(limit, Ordering::Relaxed);
            drop(gradient);
            for _ in before..limit {
                if self.gate.first_worker().is_none() {
                    break;
                }
                self.gate.wake_first();
            }
        }
        next
    }
}

/// Measurements of a worker since its last report.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// Responses, and requests that waited too long for one.
    count: u32,
    /// The requests that waited too long.
    unanswered: u32,
    /// The sum of the binary logarithms of the times in seconds: their mean is the
    /// geometric mean, in which a few slow responses weigh little.
    logarithms: f64,
    /// The most requests awaiting a response at the same time.
    peak: u32,
}

impl Tally {
    /// Adds a request that took this long, with `awaiting` requests in flight.
    pub(super) fn record(&mut self, took: Duration, is_answered: bool, awaiting: u32) {
        self.count += 1;
        self.unanswered += u32::from(!is_answered);
        self.logarithms += took.as_secs_f64().max(1e-6).log2();
        self.peak = self.peak.max(awaiting);
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.unanswered += other.unanswered;
        self.logarithms += other.logarithms;
        self.peak = self.peak.max(other.peak);
    }

    /// The geometric mean, in seconds.
    fn mean(&self) -> f64 {
        (self.logarithms / f64::from(self.count)).exp2()
    }
}

/// How the limit changes. Times are in seconds.
struct Gradient {
    limit: f64,
    /// The response time without a queue, as far as known.
    baseline: Option<f64>,
    /// The limit that was last seen to grow or to be halved, and its response time.
    reference: Reference,
    /// The measurements of the current interval, and when it may end.
    interval: Tally,
    ends_at: Instant,
    /// Whether the limit has only grown so far.
    is_starting: bool,
    /// Whether a new backend's limit is in use, so that the next response may raise it before the interval ends.
    is_urgent: bool,
    probe_at: Instant,
}

#[derive(Clone, Copy)]
struct Reference {
    limit: f64,
    time: f64,
}

impl Gradient {
    fn new(bounds: AdaptiveConcurrency, now: Instant) -> Self {
        Self {
            limit: bounds.minimum.get().into(),
            baseline: None,
            reference: Reference { limit: 0.0, time: 0.0 },
            interval: Tally::default(),
            ends_at: now,
            is_starting: true,
            is_urgent: false,
            probe_at: now + PROBE_INTERVAL,
        }
    }

    fn limit(&self) -> u32 {
        self.limit.round() as u32
    }

    fn tolerated_seconds(&self) -> f64 {
        self.baseline.map_or(f64::MAX, |baseline| baseline * TOLERATED_FACTOR + TOLERATED_SECONDS)
    }

    /// Whether this many concurrent requests are near the limit. Below it, the limit has no effect and does not change.
    fn is_near(&self, peak: u32) -> bool {
        peak.saturating_mul(2) >= self.limit()
    }

    /// Adds measurements. Returns whether the interval ended and the limit may have changed.
    fn add(&mut self, tally: Tally, bounds: AdaptiveConcurrency, now: Instant) -> bool {
        self.interval.merge(&tally);
        let is_in_use = self.is_near(self.interval.peak);
        let is_over = now >= self.ends_at || (self.is_starting && is_in_use);
        let interval_ended = is_over && self.interval.count >= MIN_RESPONSES;
        if interval_ended {
            let tally = std::mem::take(&mut self.interval);
            let time = tally.mean();
            self.update_baseline(&tally, time, bounds);
            if is_in_use {
                self.update_limit(&tally, time, now);
            }
            let [minimum, maximum] = [bounds.minimum, bounds.maximum].map(|bound| f64::from(bound.get()));
            self.limit = self.limit.clamp(minimum, maximum);
            self.is_starting &= self.limit < maximum;
            let [least, most] = UPDATE_INTERVAL_RANGE;
            self.ends_at = now + Duration::from_secs_f64(time * 2.0).clamp(least, most);
        }
        self.is_urgent = self.is_starting && is_in_use;
        interval_ended
    }

    /// Updates the baseline: faster responses lower it, and it rises to the current time if fewer requests did not make
    /// responses faster. Timeouts never raise it: an endpoint that hangs is not a slow one.
    fn update_baseline(&mut self, tally: &Tally, time: f64, bounds: AdaptiveConcurrency) {
        let is_answered = tally.unanswered <= tally.count / 2;
        let before = self.reference;
        let mut rises = false;
        if self.limit >= before.limit {
            self.reference = Reference { limit: self.limit, time };
        } else if self.limit * 2.0 <= before.limit {
            // While requests queue, the response time is proportional to the limit. Half of the expected decrease counts as
            // faster.
            let is_faster = time * 2.0 * before.limit < before.time * (before.limit + self.limit);
            rises = !is_faster;
            self.reference = Reference { limit: self.limit, time };
        } else {
            self.reference.time = before.time.max(time);
        }
        // At its minimum, the limit cannot be lowered to measure a baseline without a queue.
        rises |= self.limit() <= bounds.minimum.get();
        let baseline = self.baseline.unwrap_or(time);
        self.baseline = Some(if rises && is_answered { time } else { baseline.min(time) });
    }

    /// Updates a limit that is in use.
    fn update_limit(&mut self, tally: &Tally, time: f64, now: Instant) {
        let gradient = (self.tolerated_seconds() / time).clamp(GRADIENT_RANGE[0], GRADIENT_RANGE[1]);
        self.is_starting &= gradient >= 1.0;
        let is_held = tally.peak >= self.limit() && gradient < MIN_GROWING_GRADIENT;
        if is_held && now >= self.probe_at {
            self.limit /= 2.0;
            self.probe_at = now + PROBE_INTERVAL;
        } else {
            self.limit *= gradient;
        }
    }
}

#[cfg(test)]
#[path = "concurrency_tests.rs"]
mod tests;
