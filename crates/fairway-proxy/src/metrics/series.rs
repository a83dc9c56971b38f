//! The request metrics of ingress-nginx: one series per rule, method and status, at most so many.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Duration;

use fairway_http1::Method;
use fairway_model::RuleLabels;

use super::histogram::{Histogram, LENGTH, SIZE, TIME};
use crate::exchange::record::Record;

/// Series a worker keeps; what comes beyond is counted under empty labels.
const MOST: usize = 10_000;

/// Labels of a series.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SeriesLabels {
    pub(crate) rule: RuleLabels,
    pub(crate) host: String,
    pub(crate) method: Method,
    pub(crate) status: u16,
}

/// What is observed of the exchanges of one series.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) labels: SeriesLabels,
    pub(crate) requests: u64,
    pub(crate) request_time: Histogram<11>,
    pub(crate) response_time: Histogram<11>,
    pub(crate) header_time: Histogram<11>,
    pub(crate) connect_time: Histogram<11>,
    pub(crate) request_size: Histogram<10>,
    pub(crate) response_size: Histogram<10>,
    pub(crate) bytes_sent: Histogram<7>,
}

/// Rule, method and status in one number: rule identifiers are small and never reused.
type Key = u64;

/// All series of a worker.
#[derive(Clone, Default)]
pub(crate) struct SeriesTable {
    by_key: HashMap<Key, Series, BuildHasherDefault<KeyHasher>>,
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
        let status = record.status;
        let mut key = record.rule.map_or(0, |rule| rule.id().0) << 16
            | (record.method as u64) << 12
            | u64::from(status);
        if self.by_key.len() >= MOST && !self.by_key.contains_key(&key) {
            key = u64::from(status);
        }
        self.by_key
            .entry(key)
            .or_insert_with(|| Series::new(record, key > u64::from(u16::MAX)))
            .observe(record);
    }

    /// Adds another worker's; rules are told apart by their labels, since equal labels are one series to the reader.
    pub(crate) fn merge(&mut self, other: Self) {
        for (key, series) in other.by_key {
            match self.by_key.get_mut(&key) {
                Some(own) => own.merge(&series),
                None => {
                    self.by_key.insert(key, series);
                }
            }
        }
    }

    /// One series per set of labels.
    pub(crate) fn into_merged(self) -> Vec<Series> {
        let mut by_labels: HashMap<SeriesLabels, Series> = HashMap::new();
        for series in self.by_key.into_values() {
            match by_labels.get_mut(&series.labels) {
                Some(own) => own.merge(&series),
                None => {
                    by_labels.insert(series.labels.clone(), series);
                }
            }
        }
        by_labels.into_values().collect()
    }
}

impl Series {
    fn new(record: &Record<'_>, with_labels: bool) -> Self {
        let rule =
            record.rule.filter(|_| with_labels).map(|rule| rule.rule().labels.clone()).unwrap_or_default();
        let host = if with_labels {
            record.host_label.map(ToString::to_string).unwrap_or_default()
        } else {
            String::new()
        };
        let labels = SeriesLabels { rule, host, method: record.method, status: record.status };
        Self {
            labels,
            requests: 0,
            request_time: Histogram::default(),
            response_time: Histogram::default(),
            header_time: Histogram::default(),
            connect_time: Histogram::default(),
            request_size: Histogram::default(),
            response_size: Histogram::default(),
            bytes_sent: Histogram::default(),
        }
    }

    fn observe(&mut self, record: &Record<'_>) {
        self.requests += 1;
        self.request_time.observe(&TIME, micros(record.took()));
        self.request_size.observe(&LENGTH, record.request_bytes);
        self.bytes_sent.observe(&SIZE, record.sent_bytes);
        if let Some(upstream) = &record.upstream {
            self.response_time.observe(&TIME, micros(upstream.response.duration()));
            self.header_time.observe(&TIME, micros(upstream.header.duration()));
            self.connect_time.observe(&TIME, micros(upstream.connect.duration()));
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

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
