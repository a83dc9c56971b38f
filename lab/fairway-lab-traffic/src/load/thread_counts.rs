//! The counts of one thread. As in wrk2 and vegeta, complete responses of any status have a latency; requests without a
//! response have only an error class. Times are nanoseconds from the start of the stream.

use std::collections::BTreeMap;

use fairway_lab_measure::results::{Class, Counts, Example, Tls};
use hdrhistogram::Histogram;
use rustls::HandshakeKind;

use super::outcomes::Fates;
use super::plan::Plan;
use super::series::Series;

/// Maximum number of examples of each class.
const MAX_EXAMPLES: u64 = 5;
/// The largest latency in histograms, microseconds: 19 hours.
const MAX_LATENCY_MICROS: u64 = 1 << 36;

/// The counts of one thread, or of all after [`Tally::add`].
#[derive(Clone)]
pub(super) struct Tally {
    pub(super) counts: Counts,
    pub(super) errors: BTreeMap<Class, u64>,
    pub(super) examples: Vec<Example>,
    /// Microseconds, like the next two.
    pub(super) latency: Histogram<u64>,
    pub(super) service: Histogram<u64>,
    pub(super) lateness: Histogram<u64>,
    pub(super) series: Series,
    pub(super) tls: Option<Tls>,
    /// Complete responses.
    pub(super) responses: u64,
    /// Complete responses before the end of the plan.
    pub(super) in_time: u64,
    /// The time of the last complete response.
    pub(super) last: u64,
    /// Outcomes of requests with an id; `None` without ids.
    pub(super) fates: Option<Fates>,
}

/// A request in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    /// The time it was due.
    pub(super) due: u64,
    /// The time it was written.
    pub(super) sent: u64,
    /// Its number on this thread; 0 if it was never written.
    pub(super) number: u64,
}

/// The outcome of a request.
pub(super) enum RequestOutcome {
    /// A complete response, with a class if it is not as expected.
    Answered { wrong: Option<(Class, String)> },
    /// No complete response.
    Failed(Class, String),
}

impl Tally {
    pub(super) fn new(plan: &Plan, fates: Option<Fates>) -> Self {
        let empty = Histogram::new_with_bounds(1, MAX_LATENCY_MICROS, 3).expect("these bounds are allowed");
        Self {
            counts: Counts::default(),
            errors: BTreeMap::new(),
            examples: Vec::new(),
            latency: empty.clone(),
            service: empty.clone(),
            lateness: empty,
            series: Series::new(u64::try_from(plan.records.bucket.as_nanos()).unwrap_or(u64::MAX)),
            tls: None,
            responses: 0,
            in_time: 0,
            last: 0,
            fates,
        }
    }

    /// Counts a request that was due, noticed `late` nanoseconds afterwards.
    pub(super) fn due(&mut self, at: u64, late: u64) {
        self.counts.requests += 1;
        self.series.due(at);
        self.lateness.saturating_record(late / 1_000);
    }

    /// Counts an opened connection.
    pub(super) fn connected(&mut self, settled: Option<(HandshakeKind, Tls)>) {
        self.counts.connections += 1;
        let Some((kind, tls)) = settled else { return };
        match kind {
            HandshakeKind::Resumed => self.counts.resumed_handshakes += 1,
            _ => self.counts.full_handshakes += 1,
        }
        // A resumed TLS 1.2 session may not know the certificate.
        if self.tls.as_ref().is_none_or(|known| known.key.is_none()) {
            self.tls = Some(tls);
        }
    }

    /// Records a request that ended at `now`; the plan ends at `end`.
    pub(super) fn record_exchange(&mut self, exchange: Exchange, fate: RequestOutcome, now: u64, end: u64) {
        if let Some(fates) = self.fates.as_mut().filter(|_| exchange.number > 0) {
            fates.record(exchange.number, matches!(fate, RequestOutcome::Answered { wrong: None, .. }));
        }
        match fate {
            RequestOutcome::Answered { wrong } => {
                self.responses += 1;
                self.in_time += u64::from(now <= end);
                self.last = self.last.max(now);
                let latency = now.saturating_sub(exchange.due) / 1_000;
                self.latency.saturating_record(latency);
                self.service.saturating_record(now.saturating_sub(exchange.sent) / 1_000);
                self.series.record_response(exchange.due, latency);
                match wrong {
                    None => self.counts.ok += 1,
                    Some((class, text)) => self.error(class, exchange.due, now, text),
                }
            }
            RequestOutcome::Failed(class, text) => self.error(class, exchange.due, now, text),
        }
    }

    fn error(&mut self, class: Class, due: u64, now: u64, text: String) {
        self.series.record_failure(due);
        let count = self.errors.entry(class).or_default();
        *count += 1;
        if *count <= MAX_EXAMPLES {
            let after_ms = now.saturating_sub(due) as f64 / 1e6;
            self.examples.push(Example { class, at_s: due as f64 / 1e9, after_ms, text });
        }
    }

    /// Adds the counts of another thread.
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
        for (sum, more) in [
            (&mut self.latency, &other.latency),
            (&mut self.service, &other.service),
            (&mut self.lateness, &other.lateness),
        ] {
            sum.add(more).expect("the bounds are the same");
        }
        self.series.add(other.series);
        self.tls = self.tls.take().or(other.tls);
        self.responses += other.responses;
        self.in_time += other.in_time;
        self.last = self.last.max(other.last);
        if let (Some(fates), Some(more)) = (&mut self.fates, &other.fates) {
            fates.add(more);
        }
    }

    /// The first examples of each class, by time.
    pub(super) fn first_examples(&mut self) -> Vec<Example> {
        let mut examples = std::mem::take(&mut self.examples);
        examples.sort_by(|one, other| one.at_s.total_cmp(&other.at_s));
        let mut by_class: BTreeMap<Class, u64> = BTreeMap::new();
        examples.retain(|example| {
            let count = by_class.entry(example.class).or_default();
            *count += 1;
            *count <= MAX_EXAMPLES
        });
        examples
    }
}
