//! The snapshots that a worker served by a moment ago. A request that fails is compared with them, to see whether a change made it fail.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use fairway_connection::sides::Hop;
use fairway_net::clock::Instant;
use fairway_routing::CompiledRule;

use crate::fault::Fault;
use crate::worker::adopted::Adopted;

/// How long after its adoption a change may be to blame for a request that fails: long enough for somebody to see the mistake of a pipeline
/// in the numbers, and for pods that a rollout replaces to end or begin; short enough that what was meant is no error for ever.
pub(crate) const CHANGE_WINDOW: Duration = Duration::from_secs(10);

/// How many replaced snapshots are kept. Snapshots share what did not change.
const MAX_SNAPSHOTS: usize = 32;

/// How many failed requests are compared with older snapshots each second: a flood of refusals must not cost more because the configuration changes often.
const MAX_COMPARISONS_PER_SECOND: u32 = 256;

/// Snapshots that were replaced, the last one first.
pub(crate) struct History<H> {
    replaced: RefCell<VecDeque<Rc<Adopted<H>>>>,
    /// How many more requests are compared before the next second begins.
    comparisons_left: Cell<u32>,
    /// What the last one was about, and the version whose change was to blame.
    last: Cell<Option<(Subject, Option<u64>)>>,
}

/// What failed requests have in common that fail in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    fault: Fault,
    /// Where their rule is in memory; 0 without one.
    rule: usize,
}

impl Subject {
    /// Of requests of this rule.
    pub(crate) fn of(fault: Fault, rule: Option<&CompiledRule>) -> Self {
        Self { fault, rule: rule.map_or(0, |rule| std::ptr::from_ref(rule).addr()) }
    }
}

impl<H> Default for History<H> {
    fn default() -> Self {
        Self {
            replaced: RefCell::default(),
            comparisons_left: Cell::new(MAX_COMPARISONS_PER_SECOND),
            last: Cell::new(None),
        }
    }
}

impl<H: Hop> History<H> {
    /// The version whose change is to blame for a failed request, as `compare` finds by looking at older snapshots. Where there were too
    /// many in this second, it is as for the one before, if that failed in the same way under the same rule. Requests without a rule have
    /// nothing in common: then nothing is to blame.
    pub(crate) fn compare(&self, subject: Subject, compare: impl FnOnce() -> Option<u64>) -> Option<u64> {
        if self.is_empty() {
            return None;
        }
        let Some(left) = self.comparisons_left.get().checked_sub(1) else {
            let alike = self.last.get().filter(|(last, _)| *last == subject && subject.rule != 0);
            return alike.and_then(|(_, version)| version);
        };
        self.comparisons_left.set(left);
        let version = compare();
        self.last.set(Some((subject, version)));
        version
    }

    /// The worker serves by a newer one.
    pub(super) fn replaced(&self, older: Rc<Adopted<H>>) {
        let mut kept = self.replaced.borrow_mut();
        kept.push_front(older);
        if kept.len() > MAX_SNAPSHOTS {
            // Of the older half every other one goes: their changes are still seen, though not told apart.
            let mut place = 0..;
            kept.retain(|_| place.next().is_some_and(|at| at < MAX_SNAPSHOTS / 2 || at % 2 == 0));
        }
    }

    /// Once a second. Lets go of those whose successor has been in use for longer than a change may be to blame; `current` is the last one's.
    pub(super) fn forget_old(&self, current: &Adopted<H>, now: Instant) {
        self.comparisons_left.set(MAX_COMPARISONS_PER_SECOND);
        self.last.set(None);
        let mut kept = self.replaced.borrow_mut();
        while let Some(last) = kept.len().checked_sub(1) {
            let successor = last.checked_sub(1).map_or(current, |before| &*kept[before]);
            if is_recent(successor, now) {
                return;
            }
            kept.pop_back();
        }
    }

    /// `current` and those before it, the newest first, as far back as a change may be to blame for what happens at `now`. The last one is
    /// only there for comparison.
    pub(super) fn recent(&self, current: Rc<Adopted<H>>, now: Instant) -> Vec<Rc<Adopted<H>>> {
        let mut recent = vec![current];
        for older in self.replaced.borrow().iter() {
            if !recent.last().is_some_and(|successor| is_recent(successor, now)) {
                break;
            }
            recent.push(Rc::clone(older));
        }
        recent
    }

    /// Whether there is nothing to compare with.
    pub(super) fn is_empty(&self) -> bool {
        self.replaced.borrow().is_empty()
    }
}

fn is_recent<H>(adopted: &Adopted<H>, now: Instant) -> bool {
    now.saturating_duration_since(adopted.since) <= CHANGE_WINDOW
}
