//! Recently replaced snapshots of a worker. A failed request is compared with them to find out whether a change
//! made it fail.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use fairway_connection::sides::Hop;
use fairway_net::clock::Instant;
use fairway_routing::CompiledRule;

use crate::fault::Fault;
use crate::worker::adopted::Adopted;

/// How long a change can be blamed for failures: long enough to notice a pipeline's mistake in the metrics and
/// for a rollout to replace pods, short enough that an intended change is not an error forever.
pub(crate) const CHANGE_WINDOW: Duration = Duration::from_secs(10);

/// Replaced snapshots kept. Snapshots share unchanged parts.
const MAX_SNAPSHOTS: usize = 32;

/// Comparisons per second: a flood of refusals must not cost more because the configuration changes often.
const MAX_COMPARISONS_PER_SECOND: u32 = 256;

/// Replaced snapshots, newest first.
pub(crate) struct History<H> {
    replaced: RefCell<VecDeque<Rc<Adopted<H>>>>,
    /// Comparisons left in this second.
    comparisons_left: Cell<u32>,
    /// Signature of the last comparison and the version it blamed.
    last_comparison: Cell<Option<(FailureSignature, Option<u64>)>>,
}

/// What requests that fail in the same way have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FailureSignature {
    fault: Fault,
    /// Address of the rule in memory; 0 without one.
    rule_address: usize,
}

impl FailureSignature {
    /// For failures of this rule.
    pub(crate) fn new(fault: Fault, rule: Option<&CompiledRule>) -> Self {
        Self { fault, rule_address: rule.map_or(0, |rule| std::ptr::from_ref(rule).addr()) }
    }
}

impl<H> Default for History<H> {
    fn default() -> Self {
        Self {
            replaced: RefCell::default(),
            comparisons_left: Cell::new(MAX_COMPARISONS_PER_SECOND),
            last_comparison: Cell::new(None),
        }
    }
}

impl<H: Hop> History<H> {
    /// The version whose change made a request fail, found by `compare`. Beyond the limit per second, reuses
    /// the last result if its request failed in the same way under the same rule. Requests without a rule have
    /// nothing in common: no version is blamed then.
    pub(crate) fn find_blamed_version(
        &self,
        subject: FailureSignature,
        compare: impl FnOnce() -> Option<u64>,
    ) -> Option<u64> {
        if self.is_empty() {
            return None;
        }
        let Some(left) = self.comparisons_left.get().checked_sub(1) else {
            let alike =
                self.last_comparison.get().filter(|(last, _)| *last == subject && subject.rule_address != 0);
            return alike.and_then(|(_, version)| version);
        };
        self.comparisons_left.set(left);
        let version = compare();
        self.last_comparison.set(Some((subject, version)));
        version
    }

    /// Remembers a snapshot that a newer one replaced.
    pub(super) fn push_replaced(&self, older: Rc<Adopted<H>>) {
        let mut replaced = self.replaced.borrow_mut();
        replaced.push_front(older);
        if replaced.len() > MAX_SNAPSHOTS {
            // Thin out the older half: its changes are still detected, but merged.
            let mut position = 0..;
            replaced.retain(|_| position.next().is_some_and(|at| at < MAX_SNAPSHOTS / 2 || at % 2 == 0));
        }
    }

    /// Once a second: drops snapshots whose successor was adopted longer ago than a change can be blamed;
    /// `current` succeeds the latest of them.
    pub(super) fn forget_old(&self, current: &Adopted<H>, now: Instant) {
        self.comparisons_left.set(MAX_COMPARISONS_PER_SECOND);
        self.last_comparison.set(None);
        let mut replaced = self.replaced.borrow_mut();
        while let Some(last) = replaced.len().checked_sub(1) {
            let successor = last.checked_sub(1).map_or(current, |before| &*replaced[before]);
            if is_recent(successor, now) {
                return;
            }
            replaced.pop_back();
        }
    }

    /// `current` and the snapshots before it, newest first, as far back as a change can be blamed at `now`. The
    /// last one only serves for comparison.
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

    /// Whether there are no snapshots to compare with.
    pub(super) fn is_empty(&self) -> bool {
        self.replaced.borrow().is_empty()
    }
}

fn is_recent<H>(adopted: &Adopted<H>, now: Instant) -> bool {
    now.saturating_duration_since(adopted.adopted_at) <= CHANGE_WINDOW
}
