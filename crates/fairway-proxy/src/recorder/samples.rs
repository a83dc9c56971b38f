//! Sampled requests of each rule, to compare a change with even when the latest exchanges all belong to other
//! rules.
//!
//! A sample has no address, no identifier and no headers of its client. Samples are taken from the latest
//! exchanges once a second, never on the path of a request. A rule with the maximum number of samples replaces
//! one only after an eighth of the retention time, so that they are spread over it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fairway_net::clock::Instant;

use super::entry::{RecordedEntry, TextPart, format_time};
use super::exchange::{RecordedRule, RecordedSamples, SampledRequest};
use super::ring::EntryRing;
use crate::listener::ListenerId;
use crate::options::RecorderOptions;
use crate::peer::Scheme;

/// Looks up the name of a listener, if it still exists.
pub(crate) type ListenerNames<'n> = &'n dyn Fn(ListenerId) -> Option<Arc<str>>;

/// Rules with samples per worker; the least recently used one is evicted.
pub(super) const MAX_RULES: usize = 1_024;
/// Samples per rule, all different.
pub(super) const SAMPLES_PER_RULE: usize = 8;
/// Latest exchanges examined per second, newest first.
const MAX_SAMPLED_PER_TICK: usize = 256;
/// Maximum retention of a sample; shorter if exchanges are kept for less.
const MAX_AGE: Duration = Duration::from_secs(3_600);
/// Interval in seconds between removals of old samples.
const SWEEP_INTERVAL_SECONDS: u8 = 8;

/// Retention of samples if exchanges are kept for `keep`.
fn sample_retention(keep: Duration) -> Duration {
    keep.min(MAX_AGE)
}

/// Sampled requests of a worker by rule.
pub(super) struct Samples {
    keep: Duration,
    /// By the rule's texts and their ends ([`Texts::write_key`]).
    rules: HashMap<Arc<[u8]>, RuleSamples>,
    /// Reused key buffer, so that lookups allocate nothing.
    key: Vec<u8>,
    /// Number of the latest exchange examined.
    last_sampled: u64,
    /// Seconds until the next removal of old samples.
    until_sweep: u8,
}

/// Samples of one rule, at most [`SAMPLES_PER_RULE`].
struct RuleSamples {
    /// Ends of the rule's texts in its key.
    ends: [u16; RULE_PARTS.len()],
    samples: Vec<Sample>,
    /// When a new sample was last added.
    last_addition: Instant,
    /// End of the latest exchange of the rule.
    last: Instant,
}

struct Sample {
    request: Texts<3>,
    facts: SampleFacts,
    /// End of the latest exchange like it.
    last: Instant,
}

/// Properties of the latest exchange besides its texts.
#[derive(Clone, Copy)]
struct SampleFacts {
    listener: ListenerId,
    scheme: Scheme,
    has_query: bool,
    forwarded: bool,
    status: u16,
}

/// Concatenated texts with their ends.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Texts<const N: usize> {
    bytes: Arc<[u8]>,
    ends: [u16; N],
}

/// The texts of a rule.
const RULE_PARTS: [TextPart; 5] =
    [TextPart::Kind, TextPart::Namespace, TextPart::Name, TextPart::Field, TextPart::Service];
/// The texts of a request.
const REQUEST_PARTS: [TextPart; 3] = [TextPart::Method, TextPart::Host, TextPart::Path];

impl<const N: usize> Texts<N> {
    fn from_entry(entry: &RecordedEntry, parts: [TextPart; N]) -> Self {
        let mut bytes = Vec::new();
        let ends = Self::write(entry, parts, &mut bytes);
        Self { bytes: bytes.into(), ends }
    }

    /// Concatenates the texts; returns the end of each.
    fn write(entry: &RecordedEntry, parts: [TextPart; N], bytes: &mut Vec<u8>) -> [u16; N] {
        parts.map(|part| {
            bytes.extend_from_slice(entry.text_bytes(part));
            // The texts of an entry are shorter than a kilobyte.
            u16::try_from(bytes.len()).unwrap_or(u16::MAX)
        })
    }

    /// Writes texts and ends, so that texts split elsewhere give another key.
    fn write_key(entry: &RecordedEntry, parts: [TextPart; N], key: &mut Vec<u8>) -> [u16; N] {
        key.clear();
        let ends = Self::write(entry, parts, key);
        ends.iter().for_each(|end| key.extend_from_slice(&end.to_le_bytes()));
        ends
    }

    fn to_request(&self, parts: [TextPart; N]) -> [Option<String>; N] {
        let mut start = 0;
        let mut ends = self.ends.into_iter();
        parts.map(|part| {
            let end = ends.next().map_or(start, usize::from);
            let texts = &self.bytes[start..end];
            start = end;
            part.display(texts)
        })
    }
}

impl SampleFacts {
    fn from_entry(entry: &RecordedEntry) -> Self {
        Self {
            listener: entry.listener,
            scheme: entry.scheme,
            has_query: entry.has_query,
            forwarded: entry.was_forwarded(),
            status: entry.status,
        }
    }
}

impl Samples {
    /// For a recorder with this retention.
    pub(super) fn new(keep: Duration) -> Self {
        Self {
            keep: sample_retention(keep),
            rules: HashMap::new(),
            key: Vec::new(),
            last_sampled: 0,
            until_sweep: SWEEP_INTERVAL_SECONDS,
        }
    }

    /// Samples the exchanges recorded since the last call.
    pub(super) fn sample_recent(&mut self, recent: &EntryRing, now: Instant) {
        let before = self.last_sampled;
        let new = recent.newest_first().take_while(|entry| entry.number > before);
        for entry in new.take(MAX_SAMPLED_PER_TICK) {
            self.last_sampled = self.last_sampled.max(entry.number);
            if entry.was_routed() {
                self.add(entry, now);
            }
        }
        self.until_sweep -= 1;
        if self.until_sweep == 0 {
            self.until_sweep = SWEEP_INTERVAL_SECONDS;
            self.drop_older(now);
        }
    }

    /// Drops everything and frees its memory.
    pub(super) fn clear(&mut self) {
        self.rules = HashMap::new();
    }

    /// The current samples; `wall` is the current time.
    pub(super) fn export(
        &self,
        now: Instant,
        wall: SystemTime,
        names: ListenerNames<'_>,
    ) -> Vec<ExportedSample> {
        let of_rule = |(key, rule_samples): (&Arc<[u8]>, &RuleSamples)| {
            let recent = rule_samples.samples.iter().filter(|sample| is_fresh(sample.last, now, self.keep));
            let exported = recent.map(|sample| ExportedSample {
                rule: Texts { bytes: Arc::clone(key), ends: rule_samples.ends },
                request: sample.request.clone(),
                facts: sample.facts,
                listener: names(sample.facts.listener),
                last: wall.checked_sub(now.saturating_duration_since(sample.last)).unwrap_or(wall),
            });
            exported.collect::<Vec<_>>()
        };
        self.rules.iter().flat_map(of_rule).collect()
    }

    fn add(&mut self, entry: &RecordedEntry, now: Instant) {
        let ends = Texts::write_key(entry, RULE_PARTS, &mut self.key);
        let last = entry.ended_at();
        if !self.rules.contains_key(&*self.key) {
            if self.rules.len() >= MAX_RULES {
                self.make_room();
            }
            self.rules.insert(
                (*self.key).into(),
                RuleSamples { ends, samples: Vec::new(), last_addition: now, last },
            );
        }
        if let Some(rule_samples) = self.rules.get_mut(&*self.key) {
            rule_samples.last = rule_samples.last.max(last);
            rule_samples.add(entry, now, self.keep);
        }
    }

    /// Evicts the least recently used rule.
    fn make_room(&mut self) {
        let oldest = self
            .rules
            .iter()
            .min_by_key(|(_, rule_samples)| rule_samples.last)
            .map(|(key, _)| Arc::clone(key));
        if let Some(oldest) = oldest {
            self.rules.remove(&*oldest);
        }
    }

    fn drop_older(&mut self, now: Instant) {
        let keep = self.keep;
        self.rules.retain(|_, rule_samples| {
            rule_samples.samples.retain(|sample| is_fresh(sample.last, now, keep));
            !rule_samples.samples.is_empty()
        });
    }
}

impl RuleSamples {
    fn add(&mut self, entry: &RecordedEntry, now: Instant, keep: Duration) {
        let (last, facts) = (entry.ended_at(), SampleFacts::from_entry(entry));
        if let Some(known) = self.samples.iter_mut().find(|sample| sample.has_same_request(entry)) {
            if known.last <= last {
                (known.last, known.facts) = (last, facts);
            }
            return;
        }
        let sample = || Sample { request: Texts::from_entry(entry, REQUEST_PARTS), facts, last };
        if self.samples.len() < SAMPLES_PER_RULE {
            self.samples.push(sample());
            self.last_addition = now;
        } else if now.saturating_duration_since(self.last_addition) * 8 >= keep
            && let Some(oldest) = self.samples.iter_mut().min_by_key(|sample| sample.last)
        {
            *oldest = sample();
            self.last_addition = now;
        }
    }
}

impl Sample {
    /// Whether an exchange has the same request.
    fn has_same_request(&self, entry: &RecordedEntry) -> bool {
        let mut rest = &*self.request.bytes;
        let same = REQUEST_PARTS.into_iter().all(|part| match rest.strip_prefix(entry.text_bytes(part)) {
            Some(behind) => {
                rest = behind;
                true
            }
            None => false,
        });
        same && rest.is_empty() && self.facts.scheme == entry.scheme && self.facts.listener == entry.listener
    }
}

fn is_fresh(last: Instant, now: Instant, keep: Duration) -> bool {
    now.saturating_duration_since(last) <= keep
}

/// Samples of one worker.
#[derive(Default)]
pub(crate) struct WorkerSamples {
    pub(super) samples: Vec<ExportedSample>,
    /// Age of the oldest recorded exchange.
    pub(super) oldest_age: Option<Duration>,
    /// How far back all are recorded, if any were evicted.
    pub(super) complete_for: Option<Duration>,
}

/// Combines the samples of all workers, recorded with these options.
pub(crate) fn recorded_samples(of_workers: Vec<WorkerSamples>, options: RecorderOptions) -> RecordedSamples {
    let RecorderOptions { exchanges_per_worker, retention } = options;
    let seconds = |time: Duration| time.as_secs();
    RecordedSamples {
        workers: of_workers.len(),
        exchanges: exchanges_per_worker,
        exchange_seconds: retention.as_secs(),
        sample_seconds: sample_retention(retention).as_secs(),
        oldest_seconds: of_workers.iter().filter_map(|worker| worker.oldest_age).max().map(seconds),
        complete_seconds: of_workers.iter().filter_map(|worker| worker.complete_for).min().map(seconds),
        samples: merge_samples(of_workers.into_iter().flat_map(|worker| worker.samples).collect()),
    }
}

/// A sample leaving its worker, sharing its texts.
pub(super) struct ExportedSample {
    rule: Texts<5>,
    request: Texts<3>,
    facts: SampleFacts,
    listener: Option<Arc<str>>,
    last: SystemTime,
}

/// Merges the samples of all workers, each request once, newest first.
pub(super) fn merge_samples(samples: Vec<ExportedSample>) -> Vec<SampledRequest> {
    let mut newest: HashMap<_, ExportedSample> = HashMap::new();
    for sample in samples {
        let scheme = sample.facts.scheme.as_str();
        let key = (sample.rule.clone(), sample.request.clone(), scheme, sample.listener.clone());
        match newest.get(&key) {
            Some(known) if known.last >= sample.last => {}
            _ => drop(newest.insert(key, sample)),
        }
    }
    let mut samples: Vec<_> = newest.into_values().collect();
    samples.sort_by(|one, other| {
        let by_time = other.last.cmp(&one.last);
        by_time.then_with(|| one.request.bytes.cmp(&other.request.bytes))
    });
    samples.iter().map(ExportedSample::to_request).collect()
}

impl ExportedSample {
    fn to_request(&self) -> SampledRequest {
        let SampleFacts { scheme, has_query, forwarded, status, .. } = self.facts;
        let [kind, namespace, name, field, service] = self.rule.to_request(RULE_PARTS);
        let [method, host, path] = self.request.to_request(REQUEST_PARTS).map(Option::unwrap_or_default);
        let rule = kind.map(|kind| RecordedRule {
            kind,
            namespace: namespace.unwrap_or_default(),
            name: name.unwrap_or_default(),
            field: field.unwrap_or_default(),
            service,
        });
        SampledRequest {
            time: format_time(self.last),
            listener: self.listener.as_deref().map(str::to_owned),
            scheme: scheme.as_str().to_owned(),
            method,
            host,
            path,
            has_query,
            status,
            forwarded,
            rule,
        }
    }
}
