//! What one thread counted. Complete answers of whatever status have a latency, as wrk2 and vegeta have it; failures
//! without an answer have only their class. Times are nanoseconds from the beginning of the stream.

use std::collections::BTreeMap;

use fairway_lab_measure::results::{Class, Counts, Example, Tls};
use hdrhistogram::Histogram;
use rustls::HandshakeKind;

use super::fates::Fates;
use super::plan::Plan;
use super::series::{Samples, Series};

/// Examples of each class at most.
const EXAMPLES: u64 = 5;
/// The largest latency that histograms tell apart, microseconds: 19 hours.
const LARGEST: u64 = 1 << 36;

/// The sums of one thread, and after [`Tally::add`] of all.
#[derive(Clone)]
pub(super) struct Tally {
    pub(super) counts: Counts,
    pub(super) errors: BTreeMap<Class, u64>,
    pub(super) examples: Vec<Example>,
    pub(super) distributions: Distributions,
    pub(super) series: Series,
    pub(super) samples: Samples,
    pub(super) tls: Option<Tls>,
    pub(super) answers: Answers,
    /// Of requests with an id; none where there are no ids.
    pub(super) fates: Option<Fates>,
}

/// Microseconds.
#[derive(Clone)]
pub(super) struct Distributions {
    pub(super) latency: Histogram<u64>,
    pub(super) service: Histogram<u64>,
    pub(super) lateness: Histogram<u64>,
}

/// Complete answers.
#[derive(Clone, Copy, Default)]
pub(super) struct Answers {
    pub(super) all: u64,
    /// Those before the end of the plan.
    pub(super) in_time: u64,
    /// When the last one was complete.
    pub(super) last: u64,
}

/// A request on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    /// When it was due.
    pub(super) due: u64,
    /// When it was written.
    pub(super) sent: u64,
    /// Its number on this thread; 0 when it was never written.
    pub(super) number: u64,
}

/// What became of it.
pub(super) enum Fate {
    /// A complete answer; the class says what is wrong with it, if anything.
    Answered { status: u16, wrong: Option<(Class, String)> },
    /// No complete answer.
    Failed(Class, String),
}

/// A histogram of microseconds with three digits.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LARGEST, 3).expect("these bounds are allowed")
}

impl Tally {
    pub(super) fn new(plan: &Plan, fates: Option<Fates>) -> Self {
        Self {
            counts: Counts::default(),
            errors: BTreeMap::new(),
            examples: Vec::new(),
            distributions: Distributions {
                latency: histogram(),
                service: histogram(),
                lateness: histogram(),
            },
            series: Series::new(u64::try_from(plan.records.bucket.as_nanos()).unwrap_or(u64::MAX)),
            samples: Samples::new(plan.records.sample),
            tls: None,
            answers: Answers::default(),
            fates,
        }
    }

    /// A request was due; the generator noticed so much later.
    pub(super) fn due(&mut self, at: u64, late: u64) {
        self.counts.requests += 1;
        self.series.due(at);
        self.distributions.lateness.saturating_record(late / 1_000);
    }

    /// A connection is open.
    pub(super) fn connected(&mut self, settled: Option<(HandshakeKind, Tls)>) {
        self.counts.connections += 1;
        let Some((kind, tls)) = settled else { return };
        match kind {
            HandshakeKind::Resumed => self.counts.resumed_handshakes += 1,
            _ => self.counts.full_handshakes += 1,
        }
        // A resumed session of TLS 1.2 may not know the certificate any more.
        if self.tls.as_ref().is_none_or(|known| known.key.is_none()) {
            self.tls = Some(tls);
        }
    }

    /// A request ended at `now`; the plan's time ends at `end`.
    pub(super) fn ended(&mut self, exchange: Exchange, fate: Fate, now: u64, end: u64) {
        if let Some(fates) = self.fates.as_mut().filter(|_| exchange.number > 0) {
            fates.ended(exchange.number, matches!(fate, Fate::Answered { wrong: None, .. }));
        }
        match fate {
            Fate::Answered { status, wrong } => {
                self.answers.all += 1;
                self.answers.in_time += u64::from(now <= end);
                self.answers.last = self.answers.last.max(now);
                let latency = now.saturating_sub(exchange.due) / 1_000;
                self.distributions.latency.saturating_record(latency);
                self.distributions.service.saturating_record(now.saturating_sub(exchange.sent) / 1_000);
                self.series.answered(exchange.due, latency);
                self.samples.offer(exchange.due, now.saturating_sub(exchange.due), status);
                match wrong {
                    None => self.counts.ok += 1,
                    Some((class, text)) => self.error(class, exchange.due, now, text),
                }
            }
            Fate::Failed(class, text) => {
                self.samples.offer(exchange.due, now.saturating_sub(exchange.due), 0);
                self.error(class, exchange.due, now, text);
            }
        }
    }

    fn error(&mut self, class: Class, due: u64, now: u64, text: String) {
        self.series.failed(due);
        let count = self.errors.entry(class).or_default();
        *count += 1;
        if *count <= EXAMPLES {
            let after_ms = now.saturating_sub(due) as f64 / 1e6;
            self.examples.push(Example { class, at_s: due as f64 / 1e9, after_ms, text });
        }
    }

    /// Adds what another thread counted.
    pub(super) fn add(&mut self, other: Self) {
        self.counts.requests += other.counts.requests;
        self.counts.ok += other.counts.ok;
        self.counts.connections += other.counts.connections;
        self.counts.full_handshakes += other.counts.full_handshakes;
        self.counts.resumed_handshakes += other.counts.resumed_handshakes;
        self.counts.tickets += other.counts.tickets;
        self.counts.bytes += other.counts.bytes;
        for (class, count) in other.errors {
            *self.errors.entry(class).or_default() += count;
        }
        self.examples.extend(other.examples);
        self.distributions.add(&other.distributions);
        self.series.add(other.series);
        self.samples.add(other.samples);
        self.tls = self.tls.take().or(other.tls);
        self.answers.all += other.answers.all;
        self.answers.in_time += other.answers.in_time;
        self.answers.last = self.answers.last.max(other.answers.last);
        if let (Some(fates), Some(more)) = (&mut self.fates, other.fates) {
            fates.add(more);
        }
    }

    /// The first examples of each class, by time.
    pub(super) fn first_examples(&mut self) -> Vec<Example> {
        let mut examples = std::mem::take(&mut self.examples);
        examples.sort_by(|one, other| one.at_s.total_cmp(&other.at_s));
        let mut kept: BTreeMap<Class, u64> = BTreeMap::new();
        examples.retain(|example| {
            let count = kept.entry(example.class).or_default();
            *count += 1;
            *count <= EXAMPLES
        });
        examples
    }
}

impl Distributions {
    fn add(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.latency, &other.latency),
            (&mut self.service, &other.service),
            (&mut self.lateness, &other.lateness),
        ] {
            sum.add(more).expect("the bounds are the same");
        }
    }
}
