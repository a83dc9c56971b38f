//! The request metrics of ingress-nginx: one series per rule, method and status, up to a limit.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use fairway_http::Method;
use fairway_model::RuleLabels;

use crate::metrics::histogram::{Histogram, LENGTH_BOUNDS, SIZE_BOUNDS, TIME_BOUNDS};
use crate::metrics::record::ExchangeRecord;
use crate::metrics::totals::Totals;

/// Series per worker; further requests are counted under empty labels.
const MAX_SERIES: usize = 10_000;

/// Labels of a series.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SeriesLabels {
    pub rule: RuleLabels,
    pub host: String,
    /// Backend of the canary that got the requests, as ingress-nginx names it.
    pub canary: String,
    pub method: Method,
    pub status: u16,
}

/// Observations of one series.
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

/// Rule id, canary, method and status in one number: rule ids are small and never reused. A changed rule gets a
/// new id and continues its series through its labels.
type SeriesKey = u64;

/// Keys cached per worker; then all are dropped and looked up by labels again.
const MAX_KEYS: usize = 4 * MAX_SERIES;

/// All series of a worker.
#[derive(Default)]
pub(crate) struct SeriesTable {
    series: Vec<Series>,
    by_labels: HashMap<Arc<SeriesLabels>, usize>,
    by_key: HashMap<SeriesKey, SeriesSlot, BuildHasherDefault<KeyHasher>>,
    /// Exchanges counted without labels because there were too many series.
    folded: u64,
}

/// Where requests are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SeriesSlot {
    /// Index of the series.
    index: usize,
    /// Whether it is the series without labels.
    is_folded: bool,
}

/// A one-multiplication hash: attackers do not control the keys.
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
    pub(crate) fn observe(&mut self, record: &ExchangeRecord<'_>) {
        let key = record.served_by.rule.map_or(0, |rule| rule.id().0) << 17
            | u64::from(record.served_by.canary.is_some()) << 16
            | (record.method as u64) << 12
            | u64::from(record.status);
        let slot = match self.by_key.get(&key) {
            Some(slot) => *slot,
            None => self.slot_for(key, SeriesLabels::from_record(record)),
        };
        self.folded += u64::from(slot.is_folded);
        self.series[slot.index].observe(record);
    }

    /// Exchanges counted without labels.
    pub(crate) fn folded(&self) -> u64 {
        self.folded
    }

    /// A copy of all series.
    pub(crate) fn series(&self) -> AllSeries {
        let line_of = |(labels, at): (&Arc<SeriesLabels>, &usize)| {
            (Arc::clone(labels), Box::new(self.series[*at].clone()))
        };
        AllSeries(self.by_labels.iter().map(line_of).collect())
    }

    /// Adds all series to `totals`.
    pub(crate) fn add_to(&self, totals: &mut Totals) {
        for (labels, at) in &self.by_labels {
            let series = &self.series[*at];
            totals.add(labels.status, series.requests, &series.request_time);
        }
    }

    /// The slot of the series with these labels, cached under `key`.
    fn slot_for(&mut self, key: SeriesKey, mut labels: SeriesLabels) -> SeriesSlot {
        if self.by_key.len() >= MAX_KEYS {
            self.by_key.clear();
        }
        let is_folded = self.series.len() >= MAX_SERIES && !self.by_labels.contains_key(&labels);
        if is_folded {
            labels = SeriesLabels::without_rule(labels.method, labels.status);
        }
        let series = &mut self.series;
        let index = *self.by_labels.entry(Arc::new(labels)).or_insert_with(|| {
            series.push(Series::default());
            series.len() - 1
        });
        let slot = SeriesSlot { index, is_folded };
        self.by_key.insert(key, slot);
        slot
    }
}

/// One series per label set. The labels are shared with the tables they were copied from.
#[derive(Clone, Default)]
pub struct AllSeries(HashMap<Arc<SeriesLabels>, Box<Series>>);

impl AllSeries {
    /// Adds the series of another worker.
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
    fn from_record(record: &ExchangeRecord<'_>) -> Self {
        let (method, status) = (record.method, record.status);
        let Some(rule) = record.served_by.rule else {
            return Self::without_rule(method, status);
        };
        // ingress-nginx has no port label: rules that differ only in their port share a series.
        let rule = RuleLabels { service_port: Arc::default(), ..rule.rule().labels.clone() };
        let host = record.served_by.host.map(ToString::to_string).unwrap_or_default();
        let canary = record.served_by.canary.as_deref().map(|backend| {
            let service = &backend.service;
            format!("{}-{}-{}", service.namespace, service.name, service.port)
        });
        Self { rule, host, canary: canary.unwrap_or_default(), method, status }
    }

    /// Labels of requests without a rule or without their own series.
    fn without_rule(method: Method, status: u16) -> Self {
        Self { rule: RuleLabels::default(), host: String::new(), canary: String::new(), method, status }
    }
}

impl Series {
    fn observe(&mut self, record: &ExchangeRecord<'_>) {
        self.requests += 1;
        self.request_time.observe(&TIME_BOUNDS, record.duration_micros());
        self.request_size.observe(&LENGTH_BOUNDS, record.request_bytes);
        self.bytes_sent.observe(&SIZE_BOUNDS, record.sent_bytes);
        if let Some(upstream) = &record.upstream {
            self.response_time.observe(&TIME_BOUNDS, upstream.response.number());
            self.header_time.observe(&TIME_BOUNDS, upstream.header.number());
            self.connect_time.observe(&TIME_BOUNDS, upstream.connect.number());
            self.response_size.observe(&LENGTH_BOUNDS, record.body_bytes);
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
        SeriesLabels { rule, host: "a.test".to_owned(), ..SeriesLabels::without_rule(Method::Get, 200) }
    }

    #[test]
    fn a_repeatedly_changed_rule_keeps_its_series() {
        let mut table = SeriesTable::new();
        for identifier in 0..3 * MAX_KEYS as u64 {
            assert_eq!(table.slot_for(identifier << 17, labels("/")).index, 0);
        }
        assert_eq!(table.series.len(), 1);
        assert!(table.by_key.len() <= MAX_KEYS);
    }

    #[test]
    fn beyond_the_limit_only_new_rules_lose_their_labels() {
        let mut table = SeriesTable::new();
        for number in 0..MAX_SERIES as u64 {
            table.slot_for(number << 17, labels(&format!("/{number}")));
        }
        let (known, first, second) = (1 << 40, 2 << 40, 3 << 40);
        let slot = table.slot_for(known, labels("/7"));
        assert_eq!(slot, SeriesSlot { index: 7, is_folded: false }, "a changed rule finds its series");
        let nameless = table.slot_for(first, labels("/new"));
        assert_eq!(table.slot_for(second, labels("/newer")), nameless);
        assert!(nameless.is_folded, "what is counted there is counted as folded");
        assert_eq!(table.series.len(), MAX_SERIES + 1);
        assert_eq!(table.by_labels[&SeriesLabels::without_rule(Method::Get, 200)], nameless.index);
    }
}
