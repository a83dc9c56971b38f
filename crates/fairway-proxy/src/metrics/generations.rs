//! What each version of the configuration cost: how many requests it served, and how many of them failed or were repeated, on whose
//! account. A request that goes well costs one increment of a number that its snapshot points to.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use fairway_net::clock::Instant;

use crate::attribution::{Attribution, Costs, RequestOutcome};

/// How many versions are kept apart.
const MAX_GENERATIONS: usize = 1_000;
/// A day.
const HOURS: usize = 24;

/// The numbers of one version in one worker.
#[derive(Debug)]
pub(crate) struct Generation {
    version: u64,
    requests: Cell<u64>,
    /// Boxed: most versions cost nothing.
    costs: RefCell<Option<Box<Costs>>>,
}

impl Generation {
    /// A request that it served is over.
    #[inline]
    pub(crate) fn count_request(&self) {
        self.requests.set(self.requests.get() + 1);
    }
}

/// What one version of the configuration cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GenerationCounts {
    /// The version.
    pub version: u64,
    /// The requests that it served.
    pub requests: u64,
    /// Those that failed or were repeated; what a change is to blame for counts for the version that it made, whichever one served the
    /// request.
    pub costs: Costs,
}

impl GenerationCounts {
    /// Adds those of another worker.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.costs.merge(&other.costs);
    }
}

/// The versions of one worker, and what all of them cost together.
pub(crate) struct Generations {
    /// The oldest first.
    kept: RefCell<VecDeque<Rc<Generation>>>,
    total: RefCell<Costs>,
    day: RefCell<Day>,
}

impl Default for Generations {
    /// None yet.
    fn default() -> Self {
        let day = RefCell::new(Day { began: Instant::now(), newest: 0, hours: [0; HOURS] });
        Self { kept: RefCell::default(), total: RefCell::default(), day }
    }
}

impl Generations {
    /// The worker serves by this version from now on.
    pub(crate) fn begin(&self, version: u64) -> Rc<Generation> {
        let mut kept = self.kept.borrow_mut();
        // The same snapshot comes again when an address was bound late.
        if let Some(known) = kept.back().filter(|known| known.version == version) {
            return Rc::clone(known);
        }
        if kept.len() == MAX_GENERATIONS {
            kept.pop_front();
        }
        let generation = Generation { version, requests: Cell::default(), costs: RefCell::default() };
        let generation = Rc::new(generation);
        kept.push_back(Rc::clone(&generation));
        generation
    }

    /// A request failed or was repeated, which counts for this version.
    #[cold]
    pub(crate) fn note(&self, version: u64, attribution: Attribution, outcome: RequestOutcome) {
        self.total.borrow_mut().add(attribution, outcome);
        if attribution.is_self_inflicted() && outcome == RequestOutcome::Failed {
            self.day.borrow_mut().add(Instant::now());
        }
        let kept = self.kept.borrow();
        if let Some(generation) = kept.iter().rev().find(|it| it.version == version) {
            generation.costs.borrow_mut().get_or_insert_default().add(attribution, outcome);
        }
    }

    /// What all versions cost together.
    pub(crate) fn total(&self) -> Costs {
        *self.total.borrow()
    }

    /// Self-inflicted errors of the last day.
    pub(crate) fn last_day(&self) -> u64 {
        self.day.borrow_mut().sum(Instant::now())
    }

    /// What each version cost, the oldest first.
    pub(crate) fn counts(&self) -> Vec<GenerationCounts> {
        let count = |it: &Rc<Generation>| GenerationCounts {
            version: it.version,
            requests: it.requests.get(),
            costs: it.costs.borrow().as_deref().copied().unwrap_or_default(),
        };
        self.kept.borrow().iter().map(count).collect()
    }
}

/// Counts by the hour, of one day.
#[derive(Debug)]
struct Day {
    began: Instant,
    /// The hour that was counted in last, since it began.
    newest: u64,
    /// By hour, over and over.
    hours: [u64; HOURS],
}

impl Day {
    fn add(&mut self, now: Instant) {
        self.go_on(now);
        self.hours[Self::place(self.newest)] += 1;
    }

    fn sum(&mut self, now: Instant) -> u64 {
        self.go_on(now);
        self.hours.iter().sum()
    }

    /// Forgets the hours that are older than a day.
    fn go_on(&mut self, now: Instant) {
        let hour = now.saturating_duration_since(self.began).as_secs() / 3_600;
        for passed in (self.newest + 1..=hour).take(HOURS) {
            self.hours[Self::place(passed)] = 0;
        }
        self.newest = self.newest.max(hour);
    }

    fn place(hour: u64) -> usize {
        (hour % HOURS as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn failed(generations: &Generations, version: u64) {
        generations.note(version, Attribution::ConfigurationChange, RequestOutcome::Failed);
    }

    #[test]
    fn late_requests_and_costs_count_for_the_version_that_they_belong_to() {
        let generations = Generations::default();
        let (first, second) = (generations.begin(1), generations.begin(2));
        second.count_request();
        first.count_request();
        first.count_request();
        assert!(Rc::ptr_eq(&generations.begin(2), &second), "the same snapshot again");
        failed(&generations, 1);
        generations.note(2, Attribution::Client, RequestOutcome::Failed);
        let counts = generations.counts();
        let found: Vec<_> =
            counts.iter().map(|it| (it.version, it.requests, it.costs.self_inflicted())).collect();
        assert_eq!(found, [(1, 2, 1), (2, 1, 0)]);
        assert_eq!(generations.total().count(Attribution::Client, RequestOutcome::Failed), 1);
    }

    #[test]
    fn versions_are_bounded_and_what_they_cost_stays_in_the_total() {
        let generations = Generations::default();
        let oldest = generations.begin(1);
        for version in 2..=MAX_GENERATIONS as u64 + 5 {
            generations.begin(version);
        }
        failed(&generations, 1);
        oldest.count_request();
        let counts = generations.counts();
        assert_eq!((counts.len(), counts[0].version), (MAX_GENERATIONS, 6));
        assert_eq!((generations.total().self_inflicted(), generations.last_day()), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_day_later_errors_are_forgotten_hour_by_hour() {
        let generations = Generations::default();
        for _ in 0..3 {
            failed(&generations, 1);
            tokio::time::advance(Duration::from_secs(3_600)).await;
        }
        generations.note(1, Attribution::Endpoint, RequestOutcome::Failed);
        generations.note(1, Attribution::ConfigurationChange, RequestOutcome::Repeated);
        assert_eq!(generations.last_day(), 3);
        tokio::time::advance(Duration::from_secs(21 * 3_600)).await;
        assert_eq!(generations.last_day(), 2, "the first one is a day old");
        tokio::time::advance(Duration::from_secs(1_000 * 3_600)).await;
        assert_eq!(generations.last_day(), 0);
        failed(&generations, 1);
        assert_eq!(generations.last_day(), 1);
    }
}
