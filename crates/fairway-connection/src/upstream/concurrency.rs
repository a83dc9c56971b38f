//! How many requests may await a response of one Service and port at a time, all workers of the process together, where a backend lets Fairway
//! find that out: from how long response heads take, compared with how long they take while few requests are under way
//! (docs/design/0080-adaptive-concurrency.md).

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fairway_model::AdaptiveConcurrency;
use fairway_net::clock::Instant;

use super::gate::Gate;

/// How often a worker tells the others what it measured.
const REPORT_INTERVAL: Duration = Duration::from_millis(50);
/// The least and the most time between two moves of the limit; in between, it is twice the response time, so that most responses of an interval
/// belong to requests that began within it.
const MOVE_INTERVAL: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(10)];
/// Responses below which an interval goes on.
const MIN_RESPONSES: u32 = 50;
/// How much longer than the baseline responses may take: as many times, and this much besides, in seconds. The wake-ups of a busy host are late by
/// as much.
const TOLERATED_FACTOR: f64 = 1.5;
const TOLERATED_SECONDS: f64 = 0.002;
/// By what the limit is multiplied at least and at most.
const GRADIENTS: [f64; 2] = [0.5, 1.5];
/// How often a limit is halved that is reached and does not grow, because the baseline may have been measured when there was a queue already.
const PROBE_INTERVAL: Duration = Duration::from_secs(30);
/// A limit that would be multiplied by more than this grows.
const GROWING: f64 = 1.25;

/// The limit of one Service and port.
pub(super) struct Concurrency {
    /// Those that await a response.
    pub(super) gate: Gate,
    limit: AtomicU32,
    /// Microseconds above which a request without a response says something.
    tolerated: AtomicU64,
    gradient: Mutex<Gradient>,
}

impl Concurrency {
    pub(super) fn new(bounds: AdaptiveConcurrency, now: Instant) -> Self {
        Self {
            gate: Gate::default(),
            limit: AtomicU32::new(bounds.minimum.get()),
            tolerated: AtomicU64::new(u64::MAX),
            gradient: Mutex::new(Gradient::new(bounds, now)),
        }
    }

    pub(super) fn limit(&self) -> u32 {
        self.limit.load(Ordering::Relaxed)
    }

    /// The limit for a backend with these bounds; others of the same Service may have wider ones.
    pub(super) fn limit_within(&self, bounds: AdaptiveConcurrency) -> u32 {
        self.limit().clamp(bounds.minimum.get(), bounds.maximum.get())
    }

    /// Whether a request that waited for this long without a response is slow: what becomes of a faster one is not known.
    pub(super) fn is_slow(&self, waited: Duration) -> bool {
        waited.as_micros() > u128::from(self.tolerated.load(Ordering::Relaxed))
    }

    /// What a worker measured. Says when it is to tell more.
    #[cold]
    pub(super) fn report(&self, tally: Tally, bounds: AdaptiveConcurrency, now: Instant) -> Instant {
        let mut gradient = self.gradient.lock().unwrap_or_else(PoisonError::into_inner);
        let is_moved = gradient.add(tally, bounds, now);
        let next = if gradient.is_urgent { now } else { now + REPORT_INTERVAL };
        if is_moved {
            self.tolerated.store((gradient.tolerated() * 1e6) as u64, Ordering::Relaxed);
            let limit = gradient.limit();
            let before = self.limit.swap(limit, Ordering::Relaxed);
            drop(gradient);
            for _ in before..limit {
                if self.gate.first().is_none() {
                    break;
                }
                self.gate.call();
            }
        }
        next
    }
}

/// What was measured.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// Responses, and requests that waited for one too long.
    count: u32,
    /// The latter.
    unanswered: u32,
    /// The binary logarithms of their seconds: the mean of ratios is that of their logarithms, and few slow ones weigh little.
    logarithms: f64,
    /// The most requests that awaited a response at a time.
    peak: u32,
}

impl Tally {
    /// One that took this long, of which `awaiting` awaited a response with it.
    pub(super) fn note(&mut self, took: Duration, is_answered: bool, awaiting: u32) {
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

/// How the limit moves. Times are in seconds.
struct Gradient {
    limit: f64,
    /// What responses take without a queue, as far as is known.
    baseline: Option<f64>,
    /// The limit that was last seen to grow or to be halved, and what responses took there.
    compared: Compared,
    /// The interval, and when it may end.
    interval: Tally,
    ends: Instant,
    /// Whether the limit has only grown so far.
    is_starting: bool,
    /// Whether the next response may let the limit of a new backend grow: it is in use, and waits for no interval.
    is_urgent: bool,
    probe_at: Instant,
}

#[derive(Clone, Copy)]
struct Compared {
    limit: f64,
    time: f64,
}

impl Gradient {
    fn new(bounds: AdaptiveConcurrency, now: Instant) -> Self {
        Self {
            limit: bounds.minimum.get().into(),
            baseline: None,
            compared: Compared { limit: 0.0, time: 0.0 },
            interval: Tally::default(),
            ends: now,
            is_starting: true,
            is_urgent: false,
            probe_at: now + PROBE_INTERVAL,
        }
    }

    fn limit(&self) -> u32 {
        self.limit.round() as u32
    }

    fn tolerated(&self) -> f64 {
        self.baseline.map_or(f64::MAX, |baseline| baseline * TOLERATED_FACTOR + TOLERATED_SECONDS)
    }

    /// Whether so many requests at a time are near the limit: otherwise it is not what they meet, and stays.
    fn is_near(&self, peak: u32) -> bool {
        peak.saturating_mul(2) >= self.limit()
    }

    /// Whether the limit may have moved: the interval is over.
    fn add(&mut self, tally: Tally, bounds: AdaptiveConcurrency, now: Instant) -> bool {
        self.interval.merge(&tally);
        let is_in_use = self.is_near(self.interval.peak);
        let is_over = now >= self.ends || (self.is_starting && is_in_use);
        let is_moved = is_over && self.interval.count >= MIN_RESPONSES;
        if is_moved {
            let tally = std::mem::take(&mut self.interval);
            let time = tally.mean();
            self.learn(&tally, time, bounds);
            if is_in_use {
                self.step(&tally, time, now);
            }
            let [minimum, maximum] = [bounds.minimum, bounds.maximum].map(|bound| f64::from(bound.get()));
            self.limit = self.limit.clamp(minimum, maximum);
            self.is_starting &= self.limit < maximum;
            let [least, most] = MOVE_INTERVAL;
            self.ends = now + Duration::from_secs_f64(time * 2.0).clamp(least, most);
        }
        self.is_urgent = self.is_starting && is_in_use;
        is_moved
    }

    /// What the interval says about the baseline: it is lower where responses are faster, and it is what they take where fewer requests did not make
    /// them faster. Timeouts raise no baseline: an endpoint that hangs is no slow one.
    fn learn(&mut self, tally: &Tally, time: f64, bounds: AdaptiveConcurrency) {
        let is_answered = tally.unanswered <= tally.count / 2;
        let before = self.compared;
        let mut rises = false;
        if self.limit >= before.limit {
            self.compared = Compared { limit: self.limit, time };
        } else if self.limit * 2.0 <= before.limit {
            // In a queue, time is in proportion to the limit: half of that is what makes a difference.
            let is_faster = time * 2.0 * before.limit < before.time * (before.limit + self.limit);
            rises = !is_faster;
            self.compared = Compared { limit: self.limit, time };
        } else {
            self.compared.time = before.time.max(time);
        }
        // Nothing lower can be tried.
        rises |= self.limit() <= bounds.minimum.get();
        let baseline = self.baseline.unwrap_or(time);
        self.baseline = Some(if rises && is_answered { time } else { baseline.min(time) });
    }

    /// Moves a limit that is in use.
    fn step(&mut self, tally: &Tally, time: f64, now: Instant) {
        let gradient = (self.tolerated() / time).clamp(GRADIENTS[0], GRADIENTS[1]);
        self.is_starting &= gradient >= 1.0;
        let is_held = tally.peak >= self.limit() && gradient < GROWING;
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
