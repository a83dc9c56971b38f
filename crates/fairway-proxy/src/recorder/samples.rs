//! A few requests of each rule: what there is to compare a change with where the last exchanges are all of other rules.
//!
//! A sample has no address, no identifier and no header of its client. Samples are taken from the last exchanges once a second, never on
//! the path of a request. A rule that has as many as it may keeps those that it has: a new one takes the place of another only after an
//! eighth of the time, so that they are spread over it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fairway_net::clock::Instant;

use super::entry::{Entry, Part, shown_time};
use super::exchange::{RecordedRule, RecordedSamples, SampledRequest};
use super::ring::Ring;
use crate::listener::ListenerId;
use crate::options::RecorderOptions;
use crate::peer::Scheme;

/// What a listener is called, while there is one of this number.
pub(crate) type ListenerNames<'n> = &'n dyn Fn(ListenerId) -> Option<Arc<str>>;

/// How many rules a worker has samples of; the one that was asked for least recently makes room.
pub(super) const MAX_RULES: usize = 1_024;
/// How many samples a rule has, all of them different.
pub(super) const SAMPLES_PER_RULE: usize = 8;
/// How many of the last exchanges are looked at each second, the last ones first.
const MAX_LOOKED_AT: usize = 256;
/// How long a sample is kept, where exchanges are not kept for less.
const MAX_AGE: Duration = Duration::from_secs(3_600);
/// How often what is too old is dropped, in seconds.
const SWEEP: u8 = 8;

/// How long samples are kept where exchanges are kept for this time.
fn sample_time(keep: Duration) -> Duration {
    keep.min(MAX_AGE)
}

/// A few requests of each rule of a worker.
pub(super) struct Samples {
    keep: Duration,
    /// By the texts of the rule and their ends ([`Texts::write_key`]).
    rules: HashMap<Arc<[u8]>, OfRule>,
    /// A key in the making: looking a rule up allocates nothing.
    key: Vec<u8>,
    /// The number of the last exchange that was looked at.
    looked_at: u64,
    /// Seconds until what is too old is dropped.
    until_sweep: u8,
}

/// Those of one rule, at most [`SAMPLES_PER_RULE`].
struct OfRule {
    /// Where the texts of the rule end in its key.
    ends: [u16; OF_RULE.len()],
    samples: Vec<Sample>,
    /// When the last one came that was unlike the others.
    grown: Instant,
    /// When the last exchange of the rule was over.
    last: Instant,
}

struct Sample {
    request: Texts<3>,
    facts: Facts,
    /// When the last exchange like it was over.
    last: Instant,
}

/// What is kept of the last exchange besides its texts.
#[derive(Clone, Copy)]
struct Facts {
    listener: ListenerId,
    scheme: Scheme,
    has_query: bool,
    forwarded: bool,
    status: u16,
}

/// Texts, one behind the other, each with its end.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Texts<const N: usize> {
    bytes: Arc<[u8]>,
    ends: [u16; N],
}

/// The texts of a rule, in their order.
const OF_RULE: [Part; 5] = [Part::Kind, Part::Namespace, Part::Name, Part::Field, Part::Service];
/// Those of a request.
const OF_REQUEST: [Part; 3] = [Part::Method, Part::Host, Part::Path];

impl<const N: usize> Texts<N> {
    fn of(entry: &Entry, parts: [Part; N]) -> Self {
        let mut bytes = Vec::new();
        let ends = Self::write(entry, parts, &mut bytes);
        Self { bytes: bytes.into(), ends }
    }

    /// Writes the texts behind one another. Gives the end of each.
    fn write(entry: &Entry, parts: [Part; N], bytes: &mut Vec<u8>) -> [u16; N] {
        parts.map(|part| {
            bytes.extend_from_slice(entry.kept(part));
            // The texts of an entry are shorter than a kilobyte.
            u16::try_from(bytes.len()).unwrap_or(u16::MAX)
        })
    }

    /// The same with the ends behind the texts, so that others that are cut elsewhere give another key.
    fn write_key(entry: &Entry, parts: [Part; N], key: &mut Vec<u8>) -> [u16; N] {
        key.clear();
        let ends = Self::write(entry, parts, key);
        ends.iter().for_each(|end| key.extend_from_slice(&end.to_le_bytes()));
        ends
    }

    fn shown(&self, parts: [Part; N]) -> [Option<String>; N] {
        let mut start = 0;
        let mut ends = self.ends.into_iter();
        parts.map(|part| {
            let end = ends.next().map_or(start, usize::from);
            let kept = &self.bytes[start..end];
            start = end;
            part.shown(kept)
        })
    }
}

impl Facts {
    fn of(entry: &Entry) -> Self {
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
    /// Of a recorder that keeps exchanges for this time.
    pub(super) fn new(keep: Duration) -> Self {
        Self {
            keep: sample_time(keep),
            rules: HashMap::new(),
            key: Vec::new(),
            looked_at: 0,
            until_sweep: SWEEP,
        }
    }

    /// Takes samples of the exchanges that came since the last time.
    pub(super) fn take(&mut self, recent: &Ring, now: Instant) {
        let before = self.looked_at;
        let new = recent.newest_first().take_while(|entry| entry.number > before);
        for entry in new.take(MAX_LOOKED_AT) {
            self.looked_at = self.looked_at.max(entry.number);
            if entry.was_routed() {
                self.add(entry, now);
            }
        }
        self.until_sweep -= 1;
        if self.until_sweep == 0 {
            self.until_sweep = SWEEP;
            self.drop_older(now);
        }
    }

    /// Forgets everything, and frees its memory.
    pub(super) fn forget(&mut self) {
        self.rules = HashMap::new();
    }

    /// Those of now; the clock says `wall`.
    pub(super) fn kept(&self, now: Instant, wall: SystemTime, names: ListenerNames<'_>) -> Vec<KeptSample> {
        let of_rule = |(key, of): (&Arc<[u8]>, &OfRule)| {
            let fresh = of.samples.iter().filter(|sample| is_fresh(sample.last, now, self.keep));
            let kept = fresh.map(|sample| KeptSample {
                rule: Texts { bytes: Arc::clone(key), ends: of.ends },
                request: sample.request.clone(),
                facts: sample.facts,
                listener: names(sample.facts.listener),
                last: wall.checked_sub(now.saturating_duration_since(sample.last)).unwrap_or(wall),
            });
            kept.collect::<Vec<_>>()
        };
        self.rules.iter().flat_map(of_rule).collect()
    }

    fn add(&mut self, entry: &Entry, now: Instant) {
        let ends = Texts::write_key(entry, OF_RULE, &mut self.key);
        let last = entry.ended();
        if !self.rules.contains_key(&*self.key) {
            if self.rules.len() >= MAX_RULES {
                self.make_room();
            }
            self.rules.insert((*self.key).into(), OfRule { ends, samples: Vec::new(), grown: now, last });
        }
        if let Some(of) = self.rules.get_mut(&*self.key) {
            of.last = of.last.max(last);
            of.add(entry, now, self.keep);
        }
    }

    /// Drops those of the rule that was asked for least recently.
    fn make_room(&mut self) {
        let oldest = self.rules.iter().min_by_key(|(_, of)| of.last).map(|(key, _)| Arc::clone(key));
        if let Some(oldest) = oldest {
            self.rules.remove(&*oldest);
        }
    }

    fn drop_older(&mut self, now: Instant) {
        let keep = self.keep;
        self.rules.retain(|_, of| {
            of.samples.retain(|sample| is_fresh(sample.last, now, keep));
            !of.samples.is_empty()
        });
    }
}

impl OfRule {
    fn add(&mut self, entry: &Entry, now: Instant, keep: Duration) {
        let (last, facts) = (entry.ended(), Facts::of(entry));
        if let Some(known) = self.samples.iter_mut().find(|sample| sample.is_like(entry)) {
            if known.last <= last {
                (known.last, known.facts) = (last, facts);
            }
            return;
        }
        let sample = || Sample { request: Texts::of(entry, OF_REQUEST), facts, last };
        if self.samples.len() < SAMPLES_PER_RULE {
            self.samples.push(sample());
            self.grown = now;
        } else if now.saturating_duration_since(self.grown) * 8 >= keep
            && let Some(oldest) = self.samples.iter_mut().min_by_key(|sample| sample.last)
        {
            *oldest = sample();
            self.grown = now;
        }
    }
}

impl Sample {
    /// Whether an exchange asked for the same.
    fn is_like(&self, entry: &Entry) -> bool {
        let mut rest = &*self.request.bytes;
        let same = OF_REQUEST.into_iter().all(|part| match rest.strip_prefix(entry.kept(part)) {
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

/// What a worker has to say of its samples.
#[derive(Default)]
pub(crate) struct WorkerSamples {
    pub(super) samples: Vec<KeptSample>,
    /// How long ago the oldest exchange began that is remembered.
    pub(super) oldest: Option<Duration>,
    /// For how long all are, where some had to make room.
    pub(super) complete: Option<Duration>,
}

/// What all workers have to say, of recorders with these options.
pub(crate) fn recorded_samples(of_workers: Vec<WorkerSamples>, options: RecorderOptions) -> RecordedSamples {
    let RecorderOptions { exchanges, keep } = options;
    let seconds = |time: Duration| time.as_secs();
    RecordedSamples {
        workers: of_workers.len(),
        exchanges,
        exchange_seconds: keep.as_secs(),
        sample_seconds: sample_time(keep).as_secs(),
        oldest_seconds: of_workers.iter().filter_map(|of| of.oldest).max().map(seconds),
        complete_seconds: of_workers.iter().filter_map(|of| of.complete).min().map(seconds),
        samples: merged_samples(of_workers.into_iter().flat_map(|of| of.samples).collect()),
    }
}

/// A sample on its way out of its worker, which shares its texts.
pub(super) struct KeptSample {
    rule: Texts<5>,
    request: Texts<3>,
    facts: Facts,
    listener: Option<Arc<str>>,
    last: SystemTime,
}

/// The samples of all workers, each request once, the last ones first.
pub(super) fn merged_samples(samples: Vec<KeptSample>) -> Vec<SampledRequest> {
    let mut newest: HashMap<_, KeptSample> = HashMap::new();
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
    samples.iter().map(KeptSample::shown).collect()
}

impl KeptSample {
    fn shown(&self) -> SampledRequest {
        let Facts { scheme, has_query, forwarded, status, .. } = self.facts;
        let [kind, namespace, name, field, service] = self.rule.shown(OF_RULE);
        let [method, host, path] = self.request.shown(OF_REQUEST).map(Option::unwrap_or_default);
        let rule = kind.map(|kind| RecordedRule {
            kind,
            namespace: namespace.unwrap_or_default(),
            name: name.unwrap_or_default(),
            field: field.unwrap_or_default(),
            service,
        });
        SampledRequest {
            time: shown_time(self.last),
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
