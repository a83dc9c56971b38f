//! The configurations of the last day: what changed in each, when it was published, and when every worker had it. What they cost is counted
//! by the data plane, under the same versions.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;

use crate::changed::ChangedObjects;
use crate::digest::Digest;
use crate::pipeline::{Freshness, Publication};

/// How many are remembered, as many as a worker keeps apart.
const MAX_GENERATIONS: usize = 1_000;
/// How long one is remembered after the next one took its place.
const KEPT: Duration = Duration::from_secs(24 * 3_600);

/// How a configuration came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GenerationOrigin {
    /// It is what the source had when the process started.
    First,
    /// It is the last good one of an earlier process.
    Restored,
    /// Something changed.
    Change,
}

/// A configuration that was published.
#[derive(Clone, Debug)]
pub struct Generation {
    /// Its version.
    pub version: u64,
    /// Its content.
    pub digest: Digest,
    /// How it came to be.
    pub origin: GenerationOrigin,
    /// What it differs in from the one before.
    pub changed: ChangedObjects,
    /// When it was published.
    pub published: SystemTime,
    /// From the source's event until every worker served by it, or by a later one; none while one does not.
    pub adopted_after: Option<Duration>,
    heard: Instant,
    /// When the next one took its place.
    replaced: Option<Instant>,
}

/// The configurations of the last day, at most 1,000.
#[derive(Debug, Default)]
pub struct Generations(Mutex<VecDeque<Generation>>);

impl Generations {
    /// A configuration was published.
    pub fn note_publication(&self, publication: &Publication) {
        let Publication { outcome, heard, freshness, .. } = publication;
        let mut kept = self.lock();
        let has_first = kept.iter().any(|it| it.origin != GenerationOrigin::Restored);
        let origin = match (freshness, has_first) {
            (Freshness::Stale, _) => GenerationOrigin::Restored,
            (Freshness::Current, false) => GenerationOrigin::First,
            (Freshness::Current, true) => GenerationOrigin::Change,
        };
        let now = Instant::now();
        if let Some(replaced) = kept.back_mut() {
            replaced.replaced = Some(now);
        }
        kept.push_back(Generation {
            version: outcome.snapshot.version(),
            digest: outcome.digest,
            origin,
            changed: outcome.changed.clone(),
            published: SystemTime::now(),
            adopted_after: None,
            heard: *heard,
            replaced: None,
        });
        forget_old(&mut kept, now);
    }

    /// Every worker serves by this version or a later one.
    pub fn note_adoption(&self, version: u64) {
        let late = |it: &&mut Generation| it.adopted_after.is_none() && it.version <= version;
        self.lock().iter_mut().filter(late).for_each(|it| it.adopted_after = Some(it.heard.elapsed()));
    }

    /// Those of the last day, the newest first.
    #[must_use]
    pub fn last_day(&self) -> Vec<Generation> {
        let mut kept = self.lock();
        forget_old(&mut kept, Instant::now());
        kept.iter().rev().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Generation>> {
        // Every change under the lock leaves whole values: a panic elsewhere leaves good ones.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn forget_old(kept: &mut VecDeque<Generation>, now: Instant) {
    let is_old = |it: &Generation| it.replaced.is_some_and(|at| now.saturating_duration_since(at) > KEPT);
    while kept.len() > MAX_GENERATIONS || kept.front().is_some_and(is_old) {
        kept.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use fairway_objects::options::Options;

    use super::*;
    use crate::engine::Engine;

    fn publication(engine: &Engine, freshness: Freshness) -> Publication {
        let outcome = engine.current().cloned().unwrap();
        Publication { outcome, heard: Instant::now(), written: None, freshness }
    }

    #[test]
    fn each_configuration_is_told_with_its_origin_and_when_it_was_adopted() {
        let (generations, mut engine) = (Generations::default(), Engine::new(Options::default()));
        engine.update(Vec::new(), 0);
        for freshness in [Freshness::Stale, Freshness::Current, Freshness::Current] {
            generations.note_publication(&publication(&engine, freshness));
        }
        generations.note_adoption(0);
        assert!(generations.last_day().iter().all(|it| it.adopted_after.is_none()));
        generations.note_adoption(1);
        let told = generations.last_day();
        let origins: Vec<_> = told.iter().map(|it| it.origin).collect();
        assert_eq!(origins, [GenerationOrigin::Change, GenerationOrigin::First, GenerationOrigin::Restored]);
        assert!(told.iter().all(|it| it.adopted_after.is_some()));
    }

    #[test]
    fn only_so_many_are_remembered_and_none_for_longer_than_a_day_after_it_was_replaced() {
        let (generations, mut engine) = (Generations::default(), Engine::new(Options::default()));
        engine.update(Vec::new(), 0);
        for _ in 0..MAX_GENERATIONS + 3 {
            generations.note_publication(&publication(&engine, Freshness::Current));
        }
        let mut kept = generations.lock();
        assert_eq!(kept.len(), MAX_GENERATIONS);
        let later = Instant::now() + KEPT;
        forget_old(&mut kept, later + Duration::from_secs(60));
        assert_eq!(kept.len(), 1, "the last one is served");
    }
}
