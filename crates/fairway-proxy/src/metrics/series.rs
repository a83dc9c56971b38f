//! The request metrics of ingress-nginx: one series per rule, method and status, at most so many.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use fairway_http::Method;
use fairway_model::RuleLabels;

use crate::metrics::histogram::{Histogram, LENGTH, SIZE, TIME};
use crate::metrics::record::Record;
use crate::metrics::totals::Totals;

/// Series a worker keeps; what comes beyond is counted under empty labels.
const MOST: usize = 10_000;

/// Labels of a series.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SeriesLabels {
    pub rule: RuleLabels,
    pub host: String,
    /// Where a canary got the requests, its backend by the name that ingress-nginx gives it.
    pub canary: String,
    pub method: Method,
    pub status: u16,
}

/// What is observed of the exchanges of one series.
#[derive(Clone, Debug, Default)]
pub struct Series {
    pub requests: u64,
    pub request_time: Histogram<11>,
    pub response_time: Histogram<11>,
    pub header_time: Histogram<11>,
    pub connect_time: Histogram<11>,
    pub request_size: Histogram<10>,
    pub response_size: Histogram<10>,
    pub bytes_sent: Histogram<7>,
}

/// Rule, canary or not, method and status in one number: rule identifiers are small and never reused. A rule that changes gets another
/// identifier, and goes on with its series by its labels.
type Key = u64;

/// Identifiers a worker remembers; then it forgets all of them, and finds the series by their labels once more.
const MOST_KEYS: usize = 4 * MOST;

/// All series of a worker.
#[derive(Default)]
pub(crate) struct SeriesTable {
    series: Vec<Series>,
    by_labels: HashMap<Arc<SeriesLabels>, usize>,
    by_key: HashMap<Key, Place, BuildHasherDefault<KeyHasher>>,
    /// Exchanges that were counted without their labels, because there were too many series.
    folded: u64,
}

/// Where requests are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    /// The series.
    at: usize,
    /// Whether it is not their own.
    folded: bool,
}

/// One multiplication: the keys are ours, not an attacker's.
#[derive(Clone, Copy, Default)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, key: u64) {
        let mixed = (self.0 ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

impl SeriesTable {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Counts an exchange.
    pub(crate) fn observe(&mut self, record: &Record<'_>) {
        let key = record.served_by.rule.map_or(0, |rule| rule.id().0) << 17
            | u64::from(record.served_by.canary.is_some()) << 16
            | (record.method as u64) << 12
            | u64::from(record.status);
        let place = match self.by_key.get(&key) {
            Some(place) => *place,
            None => self.place(key, SeriesLabels::of(record)),
        };
        self.folded += u64::from(place.folded);
        self.series[place.at].observe(record);
    }

    /// Exchanges that were counted without their labels.
    pub(crate) fn folded(&self) -> u64 {
        self.folded
    }

    /// Everything, copied.
    pub(crate) fn series(&self) -> AllSeries {
        let of = |(labels, at): (&Arc<SeriesLabels>, &usize)| {
            (Arc::clone(labels), Box::new(self.series[*at].clone()))
        };
        AllSeries(self.by_labels.iter().map(of).collect())
    }

    /// Adds everything to `totals`.
    pub(crate) fn add_to(&self, totals: &mut Totals) {
        for (labels, at) in &self.by_labels {
            let series = &self.series[*at];
            totals.add(labels.status, series.requests, &series.request_time);
        }
    }

    /// Where the series of these labels is, which `key` stands for from now on.
    fn place(&mut self, key: Key, mut labels: SeriesLabels) -> Place {
        if self.by_key.len() >= MOST_KEYS {
            self.by_key.clear();
        }
        let folded = self.series.len() >= MOST && !self.by_labels.contains_key(&labels);
        if folded {
            labels = SeriesLabels::nameless(labels.method, labels.status);
        }
        let series = &mut self.series;
        let at = *self.by_labels.entry(Arc::new(labels)).or_insert_with(|| {
            series.push(Series::default());
            series.len() - 1
        });
        let place = Place { at, folded };
        self.by_key.insert(key, place);
        place
    }
}

/// One series per set of labels. The labels are those of the tables they were copied from.
#[derive(Clone, Default)]
pub struct AllSeries(HashMap<Arc<SeriesLabels>, Box<Series>>);

impl AllSeries {
    /// Adds those of another worker, which has its own series for the same labels.
    pub(crate) fn merge(&mut self, other: Self) {
        if self.0.is_empty() {
            *self = other;
            return;
        }
        for (labels, series) in other.0 {
            match self.0.get_mut(&labels) {
                Some(own) => own.merge(&series),
                None => drop(self.0.insert(labels, series)),
            }
        }
    }

    /// Requests of all series.
    pub(crate) fn requests(&self) -> u64 {
        self.0.values().map(|series| series.requests).sum()
    }
}

impl IntoIterator for AllSeries {
    type Item = (Arc<SeriesLabels>, Box<Series>);
    type IntoIter = std::collections::hash_map::IntoIter<Arc<SeriesLabels>, Box<Series>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl SeriesLabels {
    fn of(record: &Record<'_>) -> Self {
        let (method, status) = (record.method, record.status);
        let Some(rule) = record.served_by.rule else {
            return Self::nameless(method, status);
        };
        // The port is no label of ingress-nginx: rules that differ in it alone share a series.
        let rule = RuleLabels { service_port: Arc::default(), ..rule.rule().labels.clone() };
        let host = record.served_by.host.map(ToString::to_string).unwrap_or_default();
        let canary = record.served_by.canary.as_deref().map(|backend| {
            let service = &backend.service;
            format!("{}-{}-{}", service.namespace, service.name, service.port)
        });
        Self { rule, host, canary: canary.unwrap_or_default(), method, status }
    }

    /// Of requests that no rule served, or that have no series of their own.
    fn nameless(method: Method, status: u16) -> Self {
        Self { rule: RuleLabels::default(), host: String::new(), canary: String::new(), method, status }
    }
}

impl Series {
    fn observe(&mut self, record: &Record<'_>) {
        self.requests += 1;
        self.request_time.observe(&TIME, record.took_micros());
        self.request_size.observe(&LENGTH, record.request_bytes);
        self.bytes_sent.observe(&SIZE, record.sent_bytes);
        if let Some(upstream) = &record.upstream {
            self.response_time.observe(&TIME, upstream.response.number());
            self.header_time.observe(&TIME, upstream.header.number());
            self.connect_time.observe(&TIME, upstream.connect.number());
            self.response_size.observe(&LENGTH, record.body_bytes);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.request_time.merge(&other.request_time);
        self.response_time.merge(&other.response_time);
        self.header_time.merge(&other.header_time);
        self.connect_time.merge(&other.connect_time);
        self.request_size.merge(&other.request_size);
        self.response_size.merge(&other.response_size);
        self.bytes_sent.merge(&other.bytes_sent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(path: &str) -> SeriesLabels {
        let rule = RuleLabels { path: path.into(), ..RuleLabels::default() };
        SeriesLabels { rule, host: "a.test".to_owned(), ..SeriesLabels::nameless(Method::Get, 200) }
    }

    #[test]
    fn a_rule_that_changes_again_and_again_keeps_its_one_series() {
        let mut table = SeriesTable::new();
        for identifier in 0..3 * MOST_KEYS as u64 {
            assert_eq!(table.place(identifier << 17, labels("/")).at, 0);
        }
        assert_eq!(table.series.len(), 1);
        assert!(table.by_key.len() <= MOST_KEYS);
    }

    #[test]
    fn beyond_the_bound_only_new_rules_lose_their_labels() {
        let mut table = SeriesTable::new();
        for number in 0..MOST as u64 {
            table.place(number << 17, labels(&format!("/{number}")));
        }
        let (known, first, second) = (1 << 40, 2 << 40, 3 << 40);
        let place = table.place(known, labels("/7"));
        assert_eq!(place, Place { at: 7, folded: false }, "a changed rule finds its series");
        let nameless = table.place(first, labels("/new"));
        assert_eq!(table.place(second, labels("/newer")), nameless);
        assert!(nameless.folded, "what is counted there is counted as folded");
        assert_eq!(table.series.len(), MOST + 1);
        assert_eq!(table.by_labels[&SeriesLabels::nameless(Method::Get, 200)], nameless.at);
    }
}
