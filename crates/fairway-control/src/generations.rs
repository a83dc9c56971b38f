//! The configurations of the last day: what changed in each, when it was published, and when every worker had it. The data plane
//! counts their costs under the same versions.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;

use crate::changed::ChangedObjects;
use crate::digest::Digest;
use crate::pipeline::{Freshness, Publication};

/// The number of remembered configurations; workers distinguish the same number.
const MAX_GENERATIONS: usize = 1_000;
/// How long a configuration is remembered after it was replaced.
const RETENTION: Duration = Duration::from_secs(24 * 3_600);

/// How a configuration came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GenerationOrigin {
    /// The objects that the source had when the process started.
    First,
    /// The last configuration of an earlier process.
    Restored,
    /// A change of objects.
    Change,
}

/// A configuration that was published.
#[derive(Clone, Debug)]
pub struct Generation {
    /// Its version.
    pub version: u64,
    /// Its content.
    pub digest: Digest,
    /// How it came about.
    pub origin: GenerationOrigin,
    /// What changed since the previous one.
    pub changed: ChangedObjects,
    /// When it was published.
    pub published: SystemTime,
    /// From the source's event until every worker served by it or a later one; `None` while one does not.
    pub adopted_after: Option<Duration>,
    received_at: Instant,
    /// When it was replaced.
    replaced: Option<Instant>,
}

/// The configurations of the last day, at most 1,000.
#[derive(Debug, Default)]
pub struct Generations(Mutex<VecDeque<Generation>>);

impl Generations {
    /// Records the publication of a configuration.
    pub fn record_publication(&self, publication: &Publication) {
        let Publication { outcome, received_at, freshness, .. } = publication;
        let mut generations = self.lock();
        let has_first = generations.iter().any(|it| it.origin != GenerationOrigin::Restored);
        let origin = match (freshness, has_first) {
            (Freshness::Stale, _) => GenerationOrigin::Restored,
            (Freshness::Current, false) => GenerationOrigin::First,
            (Freshness::Current, true) => GenerationOrigin::Change,
        };
        let now = Instant::now();
        if let Some(replaced) = generations.back_mut() {
            replaced.replaced = Some(now);
        }
        generations.push_back(Generation {
            version: outcome.snapshot.version(),
            digest: outcome.digest,
            origin,
            changed: outcome.changed.clone(),
            published: SystemTime::now(),
            adopted_after: None,
            received_at: *received_at,
            replaced: None,
        });
        forget_old(&mut generations, now);
    }

    /// Records that every worker serves by this version or a later one.
    pub fn record_adoption(&self, version: u64) {
        let late = |it: &&mut Generation| it.adopted_after.is_none() && it.version <= version;
        self.lock().iter_mut().filter(late).for_each(|it| it.adopted_after = Some(it.received_at.elapsed()));
    }

    /// The configurations of the last day, newest first.
    #[must_use]
    pub fn last_day(&self) -> Vec<Generation> {
        let mut generations = self.lock();
        forget_old(&mut generations, Instant::now());
        generations.iter().rev().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Generation>> {
        // Every change under the lock leaves valid values, even if another thread panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn forget_old(generations: &mut VecDeque<Generation>, now: Instant) {
    let is_old =
        |it: &Generation| it.replaced.is_some_and(|at| now.saturating_duration_since(at) > RETENTION);
    while generations.len() > MAX_GENERATIONS || generations.front().is_some_and(is_old) {
        generations.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use fairway_objects::options::Options;

    use super::*;
    use crate::engine::Engine;

    fn publication(engine: &Engine, freshness: Freshness) -> Publication {
        let outcome = engine.current().cloned().unwrap();
        Publication { outcome, received_at: Instant::now(), written: None, freshness }
    }

    #[test]
    fn each_configuration_has_its_origin_and_adoption_time() {
        let (generations, mut engine) = (Generations::default(), Engine::new(Options::default()));
        engine.update(Vec::new(), 0);
        for freshness in [Freshness::Stale, Freshness::Current, Freshness::Current] {
            generations.record_publication(&publication(&engine, freshness));
        }
        generations.record_adoption(0);
        assert!(generations.last_day().iter().all(|it| it.adopted_after.is_none()));
        generations.record_adoption(1);
        let reported = generations.last_day();
        let origins: Vec<_> = reported.iter().map(|it| it.origin).collect();
        assert_eq!(origins, [GenerationOrigin::Change, GenerationOrigin::First, GenerationOrigin::Restored]);
        assert!(reported.iter().all(|it| it.adopted_after.is_some()));
    }

    #[test]
    fn configurations_are_limited_in_number_and_age() {
        let (generations, mut engine) = (Generations::default(), Engine::new(Options::default()));
        engine.update(Vec::new(), 0);
        for _ in 0..MAX_GENERATIONS + 3 {
            generations.record_publication(&publication(&engine, Freshness::Current));
        }
        let mut locked = generations.lock();
        assert_eq!(locked.len(), MAX_GENERATIONS);
        let later = Instant::now() + RETENTION;
        forget_old(&mut locked, later + Duration::from_secs(60));
        assert_eq!(locked.len(), 1, "the last one is served");
    }
}
