//! The total cost of the patterns of a host: a path is compared with all patterns whose literal prefix it has.
//!
//! Patterns are admitted one by one, those of the oldest object first, and a later pattern never displaces an earlier
//! one.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;

use crate::cost::{Cost, LONGEST_TEXT};

/// Step limit for the patterns that one path is compared with; a search for captures gets the rest of 5 ms.
/// Calibrated in `docs/design/0010-patterns-with-known-cost.md`.
pub(crate) const MAX_PATH_STEPS: u64 = 1_600_000;
/// Steps to find that a path does not have a pattern's literal prefix.
const PREFIX_CHECK_STEPS: u64 = 16;
/// Memory limit for the patterns of one object, in bytes.
pub const MAX_OBJECT_MEMORY: u64 = 8 << 20;
/// Compile work limit for the patterns of one object, in steps.
pub const MAX_OBJECT_WORK: u64 = 6_000_000;

/// The exceeded limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeded {
    /// Of the host.
    Steps {
        /// Steps that the namespace would need.
        needed: u64,
        /// Steps that are left for the namespace.
        nodes_left: u64,
    },
    /// Of the object.
    Memory {
        /// In bytes.
        needed: u64,
    },
    /// Of the object.
    Work,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Steps { needed, nodes_left: left } => write!(
                f,
                "is one too many: a path of {} KiB could cost {needed} steps with it, and {left} are left to its namespace on \
                 this host",
                LONGEST_TEXT / 1024
            ),
            Self::Memory { needed } => write!(
                f,
                "is one too many: those of this object would have {} KiB with it, and {} KiB is the limit",
                needed / 1024,
                MAX_OBJECT_MEMORY / 1024
            ),
            Self::Work => {
                write!(
                    f,
                    "is not compiled: those of this object before it took all of {MAX_OBJECT_WORK} steps of work"
                )
            }
        }
    }
}

/// The admitted patterns of a host.
#[derive(Clone, Debug, Default)]
pub struct Budget {
    /// Steps by literal prefix and namespace.
    starts: BTreeMap<Arc<[u8]>, StepsByNamespace>,
    /// Steps for checking the literal prefixes of all patterns.
    prefix_checks: StepsByNamespace,
    /// For each namespace, the maximum over all paths, without prefix checks.
    heaviest: StepsByNamespace,
}

type StepsByNamespace = HashMap<Arc<str>, u64>;

/// Resources used by the patterns of one object on one host.
#[derive(Clone, Copy, Debug, Default)]
pub struct Account {
    memory: u64,
    work: u64,
}

impl Account {
    /// Adds a pattern of the object; its work counts even if it is rejected. A pattern without cost is rejected only
    /// if the object has no compile work left.
    ///
    /// # Errors
    /// The limit that the object would exceed.
    pub fn admit(&mut self, cost: Cost) -> Result<(), Exceeded> {
        self.work += cost.work;
        let memory = self.memory + cost.memory;
        if self.work > MAX_OBJECT_WORK {
            return Err(Exceeded::Work);
        }
        if memory > MAX_OBJECT_MEMORY {
            return Err(Exceeded::Memory { needed: memory });
        }
        self.memory = memory;
        Ok(())
    }

    /// Counts the work of a rejected pattern.
    pub fn refused(&mut self, work: u64) {
        self.work += work;
    }
}

impl Budget {
    /// Adds a pattern of `namespace`. For every path, a namespace may use seven eighths of what the others leave.
    ///
    /// # Errors
    /// The required and the remaining steps.
    pub fn admit(&mut self, namespace: &Arc<str>, start: &[u8], steps: u64) -> Result<(), Exceeded> {
        let passing = self.prefix_checks.get(namespace).copied().unwrap_or_default() + PREFIX_CHECK_STEPS;
        let of_others = |steps: &StepsByNamespace| -> u64 {
            steps.iter().filter(|(name, _)| *name != namespace).map(|(_, steps)| steps).sum()
        };
        let others_passing = of_others(&self.prefix_checks);
        let mut heaviest = self.heaviest.get(namespace).copied().unwrap_or_default();
        let checked = |own_steps: u64, others: u64| {
            let budget = MAX_PATH_STEPS.saturating_sub(others + others_passing) / 8 * 7;
            if own_steps + passing > budget {
                Err(Exceeded::Steps { needed: own_steps + passing, nodes_left: budget })
            } else {
                Ok(())
            }
        };
        checked(heaviest, 0)?;
        if steps > 0 {
            self.for_each_path(start, |way| {
                let own_steps = way.get(namespace).copied().unwrap_or_default() + steps;
                heaviest = heaviest.max(own_steps);
                checked(own_steps, of_others(way))
            })?;
            *self.starts.entry(start.into()).or_default().entry(namespace.clone()).or_default() += steps;
        }
        self.prefix_checks.insert(namespace.clone(), passing);
        self.heaviest.insert(namespace.clone(), heaviest);
        Ok(())
    }

    /// Calls `check` with the steps per namespace of every path that begins with `start`, once per distinct
    /// combination.
    fn for_each_path(
        &self,
        start: &[u8],
        mut check: impl FnMut(&StepsByNamespace) -> Result<(), Exceeded>,
    ) -> Result<(), Exceeded> {
        let mut above = StepsByNamespace::new();
        for length in 0..start.len() {
            self.starts.get(&start[..length]).into_iter().for_each(|steps| add_steps(&mut above, steps));
        }
        check(&above)?;
        // The stack of prefixes of the current one.
        let mut open: Vec<(&[u8], StepsByNamespace)> = vec![(start, above)];
        for (text, steps) in self.starts.range::<[u8], _>((Included(start), Unbounded)) {
            if !text.starts_with(start) {
                break;
            }
            while open.len() > 1 && open.last().is_some_and(|(last, _)| !text.starts_with(last)) {
                open.pop();
            }
            let mut way = open.last().map(|(_, way)| way.clone()).unwrap_or_default();
            add_steps(&mut way, steps);
            check(&way)?;
            open.push((text, way));
        }
        Ok(())
    }
}

fn add_steps(way: &mut StepsByNamespace, steps: &StepsByNamespace) {
    for (namespace, more) in steps {
        *way.entry(namespace.clone()).or_default() += more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL_TEXT: u64 = LONGEST_TEXT as u64;

    fn admitted(budget: &mut Budget, namespace: &str, starts: impl Iterator<Item = String>) -> usize {
        let namespace = Arc::from(namespace);
        starts.take_while(|start| budget.admit(&namespace, start.as_bytes(), FULL_TEXT).is_ok()).count()
    }

    #[test]
    fn patterns_that_no_path_meets_together_do_not_add_up() {
        let mut budget = Budget::default();
        assert_eq!(admitted(&mut budget, "a", (0..2000).map(|n| format!("/{n}/"))), 2000);
    }

    #[test]
    fn even_literal_paths_are_counted() {
        let mut budget = Budget::default();
        let namespace = Arc::from("a");
        let count = (0..1_000_000).take_while(|_| budget.admit(&namespace, b"/a", 0).is_ok()).count();
        assert_eq!(count as u64, MAX_PATH_STEPS / 8 * 7 / PREFIX_CHECK_STEPS);
    }

    #[test]
    fn patterns_that_one_path_can_meet_add_up_whatever_their_order() {
        for starts in [["/", "/a", "/a/b"], ["/a/b", "/a", "/"], ["/a", "/a/b", "/"]] {
            let mut budget = Budget::default();
            let endless = (0..10_000).map(|n| starts[n % 3].to_owned());
            let count = admitted(&mut budget, "a", endless);
            assert_eq!(count as u64, MAX_PATH_STEPS / 8 * 7 / (FULL_TEXT + PREFIX_CHECK_STEPS), "{starts:?}");
        }
    }

    #[test]
    fn a_namespace_leaves_budget_for_later_ones() {
        let mut budget = Budget::default();
        let greedy = |budget: &mut Budget, name| admitted(budget, name, (0..10_000).map(|_| "/".to_owned()));
        let counts = ["a", "b", "c"].map(|name| greedy(&mut budget, name));
        assert!(counts[0] > 150 && counts[1] > 15 && counts[2] > 0, "{counts:?}");
        assert!((counts.iter().sum::<usize>() as u64) * FULL_TEXT <= MAX_PATH_STEPS, "{counts:?}");
        assert_eq!(greedy(&mut budget, "a"), 0);
    }

    #[test]
    fn an_object_has_its_memory_and_its_work() {
        let mut account = Account::default();
        let cost = Cost { steps: 1, memory: MAX_OBJECT_MEMORY / 2, work: 1 };
        assert_eq!([account.admit(cost), account.admit(cost)], [Ok(()), Ok(())]);
        assert_eq!(account.admit(cost), Err(Exceeded::Memory { needed: MAX_OBJECT_MEMORY / 2 * 3 }));
        account.refused(MAX_OBJECT_WORK);
        assert_eq!(account.admit(Cost::default()), Err(Exceeded::Work));
    }
}
