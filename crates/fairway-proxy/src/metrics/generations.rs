//! Requests and failures per configuration version: how many requests each version served and how many failed
//! or were repeated, by attribution. A successful request costs one increment through a pointer in its
//! snapshot.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use fairway_net::clock::Instant;

use crate::attribution::{Attribution, Costs, RequestOutcome};

/// Versions counted separately.
const MAX_GENERATIONS: usize = 1_000;
const HOURS_PER_DAY: usize = 24;

/// Counts of one version in one worker.
#[derive(Debug)]
pub(crate) struct Generation {
    version: u64,
    requests: Cell<u64>,
    /// Boxed: most versions have none.
    costs: RefCell<Option<Box<Costs>>>,
}

impl Generation {
    /// Counts a finished request.
    #[inline]
    pub(crate) fn count_request(&self) {
        self.requests.set(self.requests.get() + 1);
    }
}

/// Counts of one configuration version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GenerationCounts {
    /// The version.
    pub version: u64,
    /// Requests served.
    pub requests: u64,
    /// Failed or repeated requests. One caused by a change counts for the version that the change made,
    /// whichever version served it.
    pub costs: Costs,
}

impl GenerationCounts {
    /// Adds counts of another worker.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.costs.merge(&other.costs);
    }
}

/// Counts of one worker by version, and in total.
pub(crate) struct Generations {
    /// Oldest first.
    recent: RefCell<VecDeque<Rc<Generation>>>,
    total: RefCell<Costs>,
    last_day: RefCell<LastDay>,
}

impl Default for Generations {
    /// No versions yet.
    fn default() -> Self {
        let last_day =
            RefCell::new(LastDay { started_at: Instant::now(), newest: 0, hours: [0; HOURS_PER_DAY] });
        Self { recent: RefCell::default(), total: RefCell::default(), last_day }
    }
}

impl Generations {
    /// Starts counting for a newly adopted version.
    pub(crate) fn start(&self, version: u64) -> Rc<Generation> {
        let mut recent = self.recent.borrow_mut();
        // The same snapshot is published again when an address was bound late.
        if let Some(known) = recent.back().filter(|known| known.version == version) {
            return Rc::clone(known);
        }
        if recent.len() == MAX_GENERATIONS {
            recent.pop_front();
        }
        let generation = Generation { version, requests: Cell::default(), costs: RefCell::default() };
        let generation = Rc::new(generation);
        recent.push_back(Rc::clone(&generation));
        generation
    }

    /// Counts a failed or repeated request for this version.
    #[cold]
    pub(crate) fn record(&self, version: u64, attribution: Attribution, outcome: RequestOutcome) {
        self.total.borrow_mut().add(attribution, outcome);
        if attribution.is_self_inflicted() && outcome == RequestOutcome::Failed {
            self.last_day.borrow_mut().add(Instant::now());
        }
        let recent = self.recent.borrow();
        if let Some(generation) = recent.iter().rev().find(|it| it.version == version) {
            generation.costs.borrow_mut().get_or_insert_default().add(attribution, outcome);
        }
    }

    /// Costs of all versions.
    pub(crate) fn total(&self) -> Costs {
        *self.total.borrow()
    }

    /// Self-inflicted errors of the last day.
    pub(crate) fn last_day(&self) -> u64 {
        self.last_day.borrow_mut().sum(Instant::now())
    }

    /// Counts per version, oldest first.
    pub(crate) fn counts(&self) -> Vec<GenerationCounts> {
        let count = |it: &Rc<Generation>| GenerationCounts {
            version: it.version,
            requests: it.requests.get(),
            costs: it.costs.borrow().as_deref().copied().unwrap_or_default(),
        };
        self.recent.borrow().iter().map(count).collect()
    }
}

/// Counts per hour over one day.
#[derive(Debug)]
struct LastDay {
    started_at: Instant,
    /// The last counted hour since the start.
    newest: u64,
    /// Ring of hours.
    hours: [u64; HOURS_PER_DAY],
}

impl LastDay {
    fn add(&mut self, now: Instant) {
        self.advance(now);
        self.hours[Self::index_of(self.newest)] += 1;
    }

    fn sum(&mut self, now: Instant) -> u64 {
        self.advance(now);
        self.hours.iter().sum()
    }

    /// Clears hours older than a day.
    fn advance(&mut self, now: Instant) {
        let hour = now.saturating_duration_since(self.started_at).as_secs() / 3_600;
        for passed in (self.newest + 1..=hour).take(HOURS_PER_DAY) {
            self.hours[Self::index_of(passed)] = 0;
        }
        self.newest = self.newest.max(hour);
    }

    fn index_of(hour: u64) -> usize {
        (hour % HOURS_PER_DAY as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn failed(generations: &Generations, version: u64) {
        generations.record(version, Attribution::ConfigurationChange, RequestOutcome::Failed);
    }

    #[test]
    fn late_requests_and_costs_count_for_their_own_version() {
        let generations = Generations::default();
        let (first, second) = (generations.start(1), generations.start(2));
        second.count_request();
        first.count_request();
        first.count_request();
        assert!(Rc::ptr_eq(&generations.start(2), &second), "the same snapshot again");
        failed(&generations, 1);
        generations.record(2, Attribution::Client, RequestOutcome::Failed);
        let counts = generations.counts();
        let found: Vec<_> =
            counts.iter().map(|it| (it.version, it.requests, it.costs.self_inflicted())).collect();
        assert_eq!(found, [(1, 2, 1), (2, 1, 0)]);
        assert_eq!(generations.total().count(Attribution::Client, RequestOutcome::Failed), 1);
    }

    #[test]
    fn the_number_of_versions_is_limited_and_evicted_costs_stay_in_the_total() {
        let generations = Generations::default();
        let oldest = generations.start(1);
        for version in 2..=MAX_GENERATIONS as u64 + 5 {
            generations.start(version);
        }
        failed(&generations, 1);
        oldest.count_request();
        let counts = generations.counts();
        assert_eq!((counts.len(), counts[0].version), (MAX_GENERATIONS, 6));
        assert_eq!((generations.total().self_inflicted(), generations.last_day()), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn errors_expire_hour_by_hour_after_a_day() {
        let generations = Generations::default();
        for _ in 0..3 {
            failed(&generations, 1);
            tokio::time::advance(Duration::from_secs(3_600)).await;
        }
        generations.record(1, Attribution::Endpoint, RequestOutcome::Failed);
        generations.record(1, Attribution::ConfigurationChange, RequestOutcome::Repeated);
        assert_eq!(generations.last_day(), 3);
        tokio::time::advance(Duration::from_secs(21 * 3_600)).await;
        assert_eq!(generations.last_day(), 2, "the first one is a day old");
        tokio::time::advance(Duration::from_secs(1_000 * 3_600)).await;
        assert_eq!(generations.last_day(), 0);
        failed(&generations, 1);
        assert_eq!(generations.last_day(), 1);
    }
}
