//! The flight recorder: the last exchanges of a worker, to explain one after the fact.
//!
//! A quarter of the entries are the latest exchanges, and a quarter those failed by their clients. The other
//! half are other failures and exchanges with more than one attempt, each with a few exchanges before and after
//! it. Both kinds of failures are limited per second, so that the first failures of a burst are still there
//! when somebody looks, and no client can push them out.
//!
//! Entries contain no credentials: no header values besides the few in [`exchange::RecordedExchange`], no query
//! and no byte of a body. They never leave memory, and are erased after the retention time. Each worker has its
//! own recorder; on the path of a successful request nothing waits, locks or, once the rings are full,
//! allocates.
//!
//! Once a second, [`samples`] takes a few of the latest exchanges of each rule: less detail, but also for rules
//! with rare requests.

pub(crate) mod entry;
pub(crate) mod exchange;
mod query;
mod ring;
mod samples;
#[cfg(test)]
mod samples_tests;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::cmp::Reverse;
use std::time::{Duration, SystemTime};

use fairway_net::clock::Instant;

use crate::buffers::Buffers;
use crate::metrics::record::ExchangeRecord;
use crate::options::RecorderOptions;
use crate::peer::Peer;
use entry::RecordedEntry;
use ring::EntryRing;
use samples::{ListenerNames, Samples};

pub use exchange::{
    RecordedAttempt, RecordedExchange, RecordedRule, RecordedSamples, RecordedUpstream, SampledRequest,
};
pub use query::{BeforeExchange, QueryError, RecordedQuery};
pub(crate) use samples::{WorkerSamples, recorded_samples};

/// Exchanges before and after a failure that are kept with it.
const NEIGHBOURS_PER_FAILURE: u8 = 4;
/// Failures not caused by clients, or exchanges with more than one attempt, kept per second.
const FAILURES_PER_SECOND: u32 = 32;
/// Failures caused by clients kept per second.
const CLIENT_FAULTS_PER_SECOND: u32 = 8;

/// A worker's recorder.
pub(crate) struct Recorder(Option<RefCell<RecorderRings>>);

struct RecorderRings {
    /// How long an exchange is kept.
    retention: Duration,
    recent: EntryRing,
    failed: EntryRing,
    /// Failures caused by clients.
    client_faults: EntryRing,
    /// Exchanges so far.
    exchanges: u64,
    /// Number of the latest exchange in `failed`.
    last_kept_number: u64,
    /// Following exchanges to keep with the previous failure.
    keep_next: u8,
    /// Failures that may still be kept this second.
    failures_left: u32,
    /// The same for failures caused by clients.
    client_faults_left: u32,
    /// Failures not kept because of the limits per second.
    dropped_failures: u64,
    /// Samples of each rule.
    samples: Samples,
}

impl Recorder {
    pub(crate) fn new(options: RecorderOptions) -> Self {
        let RecorderOptions { exchanges_per_worker, retention } = options;
        let rings = || RecorderRings {
            retention,
            recent: EntryRing::new(exchanges_per_worker / 4),
            failed: EntryRing::new(exchanges_per_worker / 2),
            client_faults: EntryRing::new(exchanges_per_worker / 4),
            exchanges: 0,
            last_kept_number: 0,
            keep_next: 0,
            failures_left: FAILURES_PER_SECOND,
            client_faults_left: CLIENT_FAULTS_PER_SECOND,
            dropped_failures: 0,
            samples: Samples::new(retention),
        };
        Self((exchanges_per_worker > 0).then(|| RefCell::new(rings())))
    }

    /// Records a finished exchange, served by this version of the configuration.
    #[inline]
    pub(crate) fn record(
        &self,
        record: &ExchangeRecord<'_>,
        buffers: &Buffers,
        peer: &Peer,
        configuration: u64,
    ) {
        if let Some(rings) = &self.0 {
            rings.borrow_mut().record(record, buffers, peer, configuration);
        }
    }

    /// Takes samples and erases old entries. Once a second.
    pub(crate) fn tick(&self, now: Instant) {
        if let Some(rings) = &self.0 {
            rings.borrow_mut().tick(now);
        }
    }

    /// Drops everything and frees its memory.
    pub(crate) fn clear(&self) {
        if let Some(rings) = &self.0 {
            let mut rings = rings.borrow_mut();
            rings.rings_mut().into_iter().for_each(EntryRing::clear);
            rings.samples.clear();
        }
    }

    /// Exchanges of worker `worker` that match the query, newest first.
    pub(crate) fn find(
        &self,
        worker: usize,
        query: &RecordedQuery,
        names: ListenerNames<'_>,
    ) -> Vec<RecordedExchange> {
        let Some(rings) = &self.0 else { return Vec::new() };
        rings.borrow().find(worker, query, Instant::now(), names)
    }

    /// Sampled requests of each rule, and how far back the records reach.
    pub(crate) fn samples(&self, names: ListenerNames<'_>) -> WorkerSamples {
        let Some(rings) = &self.0 else { return WorkerSamples::default() };
        let (rings, now) = (rings.borrow(), Instant::now());
        WorkerSamples {
            samples: rings.samples.export(now, SystemTime::now(), names),
            oldest_age: rings.oldest_age(now),
            complete_for: rings.complete_for(now),
        }
    }

    /// Failures not kept because of the limits per second.
    pub(crate) fn dropped_failures(&self) -> u64 {
        self.0.as_ref().map_or(0, |rings| rings.borrow().dropped_failures)
    }
}

impl RecorderRings {
    fn record(&mut self, record: &ExchangeRecord<'_>, buffers: &Buffers, peer: &Peer, configuration: u64) {
        self.exchanges += 1;
        let entry = self.recent.next_slot(record.started_at);
        entry.write(self.exchanges, record, buffers, peer, configuration);
        if entry.is_client_fault() {
            self.keep_client_fault();
        } else if entry.is_failed() {
            self.keep_failure();
        } else if self.keep_next > 0 {
            self.keep_next -= 1;
            self.keep_last(1);
        }
    }

    /// Keeps the latest exchange, failed by its client.
    #[cold]
    fn keep_client_fault(&mut self) {
        let Some(left) = self.client_faults_left.checked_sub(1) else {
            self.dropped_failures += 1;
            return;
        };
        self.client_faults_left = left;
        if let Some(entry) = self.recent.newest_first().next() {
            *self.client_faults.next_slot(entry.started_at) = entry.clone();
        }
    }

    /// Keeps the latest exchange, which failed, and those before it.
    #[cold]
    fn keep_failure(&mut self) {
        let Some(left) = self.failures_left.checked_sub(1) else {
            self.dropped_failures += 1;
            return;
        };
        self.failures_left = left;
        self.keep_next = NEIGHBOURS_PER_FAILURE;
        self.keep_last(usize::from(NEIGHBOURS_PER_FAILURE) + 1);
    }

    /// Keeps the latest `count` exchanges, none twice.
    fn keep_last(&mut self, count: usize) {
        let last_kept = self.last_kept_number;
        let known =
            self.recent.newest_first().take(count).take_while(|entry| entry.number > last_kept).count();
        for back in (0..known).rev() {
            if let Some(entry) = self.recent.newest_first().nth(back) {
                self.last_kept_number = entry.number;
                *self.failed.next_slot(entry.started_at) = entry.clone();
            }
        }
    }

    fn tick(&mut self, now: Instant) {
        self.failures_left = FAILURES_PER_SECOND;
        self.client_faults_left = CLIENT_FAULTS_PER_SECOND;
        self.samples.sample_recent(&self.recent, now);
        let keep = self.retention;
        self.rings_mut().into_iter().for_each(|ring| ring.erase_older_than(now, keep));
    }

    fn rings_mut(&mut self) -> [&mut EntryRing; 3] {
        [&mut self.recent, &mut self.failed, &mut self.client_faults]
    }

    /// Age of the oldest recorded exchange.
    fn oldest_age(&self, now: Instant) -> Option<Duration> {
        let rings = [&self.recent, &self.failed, &self.client_faults];
        let started_at = rings.into_iter().flat_map(EntryRing::newest_first).map(|entry| entry.started_at);
        started_at.min().map(|started_at| now.saturating_duration_since(started_at))
    }

    /// How far back all exchanges are recorded, if any were evicted.
    fn complete_for(&self, now: Instant) -> Option<Duration> {
        let oldest = self.recent.newest_first().last().filter(|_| self.recent.is_full())?;
        Some(now.saturating_duration_since(oldest.ended_at()))
    }

    fn find(
        &self,
        worker: usize,
        query: &RecordedQuery,
        now: Instant,
        names: ListenerNames<'_>,
    ) -> Vec<RecordedExchange> {
        let wall = SystemTime::now();
        let oldest_recent = self.recent.newest_first().last().map_or(u64::MAX, |entry| entry.number);
        let failed = self.failed.newest_first().chain(self.client_faults.newest_first());
        let mut older_failed: Vec<_> = failed.filter(|entry| entry.number < oldest_recent).collect();
        older_failed.sort_unstable_by_key(|entry| Reverse(entry.number));
        // A neighbour of a failure may itself be a client's failure.
        older_failed.dedup_by_key(|entry| entry.number);
        let is_kept =
            |entry: &&RecordedEntry| now.saturating_duration_since(entry.ended_at()) <= self.retention;
        let all = self.recent.newest_first().chain(older_failed).filter(is_kept);
        let matching = all.filter(|entry| query.matches(entry, now)).take(query.limit);
        matching
            .map(|entry| {
                let age = now.saturating_duration_since(entry.started_at);
                let started_at = wall.checked_sub(age).unwrap_or(wall);
                entry.to_recorded(worker, started_at, names(entry.listener).as_deref())
            })
            .collect()
    }
}
