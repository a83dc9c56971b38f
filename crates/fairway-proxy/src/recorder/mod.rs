//! The flight recorder: what a worker remembers of its last exchanges, so that one of them can be explained after the fact.
//!
//! A quarter of the entries are the last exchanges of all, and a quarter those that clients made fail. The other half are those that
//! failed otherwise or took more than one attempt, each with the few exchanges before and after it. Of both kinds only so many are kept
//! each second, so that the first failures of a burst are still there when somebody looks, and no client pushes them out.
//!
//! Entries have no credentials: neither header values besides the few that [`exchange::RecordedExchange`] lists, nor the query,
//! nor any byte of a body. They never leave memory, and are erased when they are older than the options allow. Each worker has a
//! recorder of its own; nothing on the path of a request that succeeds waits, locks or, once the rings are full, allocates for it.
//!
//! Once a second, [`samples`] takes a few of the last exchanges of each rule: less of each, so that there is something of rules that
//! are rarely asked for, too.

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
use crate::metrics::record::Record;
use crate::options::RecorderOptions;
use crate::peer::Peer;
use entry::Entry;
use ring::Ring;
use samples::{ListenerNames, Samples};

pub use exchange::{
    RecordedAttempt, RecordedExchange, RecordedRule, RecordedSamples, RecordedUpstream, SampledRequest,
};
pub use query::{Before, QueryError, RecordedQuery};
pub(crate) use samples::{WorkerSamples, recorded_samples};

/// How many exchanges before and after a failed one are kept with it.
const NEIGHBOURS: u8 = 4;
/// How many exchanges are kept each second that failed otherwise than by their client, or took more than one attempt.
const FAILURES_PER_SECOND: u32 = 32;
/// How many exchanges are kept each second that their client made fail.
const CLIENT_FAULTS_PER_SECOND: u32 = 8;

/// A worker's recorder.
pub(crate) struct Recorder(Option<RefCell<Rings>>);

struct Rings {
    /// How long an exchange is kept.
    keep: Duration,
    recent: Ring,
    failed: Ring,
    /// Those that clients made fail.
    client_faults: Ring,
    /// Exchanges so far.
    exchanges: u64,
    /// The number of the last exchange that is in `failed`.
    last_kept: u64,
    /// How many of the next exchanges are kept with the failure before them.
    following: u8,
    /// How many more of them are kept before the next second begins.
    left: u32,
    /// The same for those that clients make fail.
    client_faults_left: u32,
    /// Failed exchanges that were not kept because there were too many of them.
    passed_over: u64,
    /// A few exchanges of each rule.
    samples: Samples,
}

impl Recorder {
    pub(crate) fn new(options: RecorderOptions) -> Self {
        let RecorderOptions { exchanges, keep } = options;
        let rings = || Rings {
            keep,
            recent: Ring::new(exchanges / 4),
            failed: Ring::new(exchanges / 2),
            client_faults: Ring::new(exchanges / 4),
            exchanges: 0,
            last_kept: 0,
            following: 0,
            left: FAILURES_PER_SECOND,
            client_faults_left: CLIENT_FAULTS_PER_SECOND,
            passed_over: 0,
            samples: Samples::new(keep),
        };
        Self((exchanges > 0).then(|| RefCell::new(rings())))
    }

    /// Notes an exchange that is over, which was served by the configuration with this version.
    #[inline]
    pub(crate) fn note(&self, record: &Record<'_>, buffers: &Buffers, peer: &Peer, configuration: u64) {
        if let Some(rings) = &self.0 {
            rings.borrow_mut().note(record, buffers, peer, configuration);
        }
    }

    /// Takes samples, and erases what is too old. Once a second.
    pub(crate) fn tick(&self, now: Instant) {
        if let Some(rings) = &self.0 {
            rings.borrow_mut().tick(now);
        }
    }

    /// Forgets everything, and frees its memory.
    pub(crate) fn forget(&self) {
        if let Some(rings) = &self.0 {
            let mut rings = rings.borrow_mut();
            rings.all().into_iter().for_each(Ring::forget);
            rings.samples.forget();
        }
    }

    /// The exchanges of worker number `worker` that the query asks for, the last ones first.
    pub(crate) fn find(
        &self,
        worker: usize,
        query: &RecordedQuery,
        names: ListenerNames<'_>,
    ) -> Vec<RecordedExchange> {
        let Some(rings) = &self.0 else { return Vec::new() };
        rings.borrow().find(worker, query, Instant::now(), names)
    }

    /// A few requests of each rule, and since when there are exchanges.
    pub(crate) fn samples(&self, names: ListenerNames<'_>) -> WorkerSamples {
        let Some(rings) = &self.0 else { return WorkerSamples::default() };
        let (rings, now) = (rings.borrow(), Instant::now());
        WorkerSamples {
            samples: rings.samples.kept(now, SystemTime::now(), names),
            oldest: rings.oldest(now),
            complete: rings.complete(now),
        }
    }

    /// Failed exchanges that were not kept because there were too many of them in one second.
    pub(crate) fn passed_over(&self) -> u64 {
        self.0.as_ref().map_or(0, |rings| rings.borrow().passed_over)
    }
}

impl Rings {
    fn note(&mut self, record: &Record<'_>, buffers: &Buffers, peer: &Peer, configuration: u64) {
        self.exchanges += 1;
        let entry = self.recent.next(record.began);
        entry.write(self.exchanges, record, buffers, peer, configuration);
        if entry.is_client_fault() {
            self.keep_client_fault();
        } else if entry.is_failed() {
            self.keep_failure();
        } else if self.following > 0 {
            self.following -= 1;
            self.keep_last(1);
        }
    }

    /// Keeps the last exchange, which its client made fail.
    #[cold]
    fn keep_client_fault(&mut self) {
        let Some(left) = self.client_faults_left.checked_sub(1) else {
            self.passed_over += 1;
            return;
        };
        self.client_faults_left = left;
        if let Some(entry) = self.recent.newest_first().next() {
            *self.client_faults.next(entry.began) = entry.clone();
        }
    }

    /// Keeps the last exchange, which failed, and those before it.
    #[cold]
    fn keep_failure(&mut self) {
        let Some(left) = self.left.checked_sub(1) else {
            self.passed_over += 1;
            return;
        };
        self.left = left;
        self.following = NEIGHBOURS;
        self.keep_last(usize::from(NEIGHBOURS) + 1);
    }

    /// Keeps the last `count` exchanges, but none a second time.
    fn keep_last(&mut self, count: usize) {
        let last_kept = self.last_kept;
        let known =
            self.recent.newest_first().take(count).take_while(|entry| entry.number > last_kept).count();
        for back in (0..known).rev() {
            if let Some(entry) = self.recent.newest_first().nth(back) {
                self.last_kept = entry.number;
                *self.failed.next(entry.began) = entry.clone();
            }
        }
    }

    fn tick(&mut self, now: Instant) {
        self.left = FAILURES_PER_SECOND;
        self.client_faults_left = CLIENT_FAULTS_PER_SECOND;
        self.samples.take(&self.recent, now);
        let keep = self.keep;
        self.all().into_iter().for_each(|ring| ring.erase_older(now, keep));
    }

    fn all(&mut self) -> [&mut Ring; 3] {
        [&mut self.recent, &mut self.failed, &mut self.client_faults]
    }

    /// How long ago the oldest exchange began that is remembered.
    fn oldest(&self, now: Instant) -> Option<Duration> {
        let rings = [&self.recent, &self.failed, &self.client_faults];
        let began = rings.into_iter().flat_map(Ring::newest_first).map(|entry| entry.began);
        began.min().map(|began| now.saturating_duration_since(began))
    }

    /// For how long all exchanges are remembered, where some had to make room.
    fn complete(&self, now: Instant) -> Option<Duration> {
        let oldest = self.recent.newest_first().last().filter(|_| self.recent.is_full())?;
        Some(now.saturating_duration_since(oldest.ended()))
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
        let kept = self.failed.newest_first().chain(self.client_faults.newest_first());
        let mut kept: Vec<_> = kept.filter(|entry| entry.number < oldest_recent).collect();
        kept.sort_unstable_by_key(|entry| Reverse(entry.number));
        // A neighbour of a failure may be a failure of its client.
        kept.dedup_by_key(|entry| entry.number);
        let is_kept = |entry: &&Entry| now.saturating_duration_since(entry.ended()) <= self.keep;
        let all = self.recent.newest_first().chain(kept).filter(is_kept);
        let wanted = all.filter(|entry| query.wants(entry, now)).take(query.limit);
        wanted
            .map(|entry| {
                let age = now.saturating_duration_since(entry.began);
                let began = wall.checked_sub(age).unwrap_or(wall);
                entry.exchange(worker, began, names(entry.listener).as_deref())
            })
            .collect()
    }
}
