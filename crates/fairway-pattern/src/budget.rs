//! What the patterns of one host may cost together: one path is compared with all of them whose literal start it has.
//!
//! Patterns are admitted one after the other, those of the oldest object first, and what was admitted is never put out by
//! a later one.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;

use crate::cost::{Cost, LONGEST_TEXT};

/// What the patterns that one path is compared with may cost, in steps; a search for captures has what is left of 5 ms.
/// Calibrated in `docs/design/0010-patterns-with-known-cost.md`.
pub(crate) const STEPS: u64 = 1_600_000;
/// What it costs to see that a path has not the literal start of a pattern, in steps.
const PASSING: u64 = 16;
/// Memory of the patterns of one object, in bytes.
pub const MEMORY: u64 = 8 << 20;
/// Work to compile the patterns of one object, in steps.
pub const WORK: u64 = 6_000_000;

/// Which budget is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeded {
    /// Of the host: the steps that this path would cost, and those that are left to the namespace.
    Steps {
        /// What the namespace would need.
        needed: u64,
        /// What it may have.
        left: u64,
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
            Self::Steps { needed, left } => write!(
                f,
                "is one too many: a path of {} KiB could cost {needed} steps with it, and {left} are left to its namespace on \
                 this host",
                LONGEST_TEXT / 1024
            ),
            Self::Memory { needed } => write!(
                f,
                "is one too many: those of this object would have {} KiB with it, and {} KiB is the limit",
                needed / 1024,
                MEMORY / 1024
            ),
            Self::Work => {
                write!(f, "is not compiled: those of this object before it took all of {WORK} steps of work")
            }
        }
    }
}

/// The patterns of a host that were admitted.
#[derive(Clone, Debug, Default)]
pub struct Budget {
    /// By literal start: the steps of each namespace.
    starts: BTreeMap<Arc<[u8]>, Steps>,
    /// What it costs to pass over all patterns.
    passing: Steps,
    /// The most that a path meets of each namespace, passing apart.
    heaviest: Steps,
}

type Steps = HashMap<Arc<str>, u64>;

/// What the patterns of one object need on one host.
#[derive(Clone, Copy, Debug, Default)]
pub struct Account {
    memory: u64,
    work: u64,
}

impl Account {
    /// Adds a pattern of the object; work counts whether it is admitted or not. Something without cost is refused only when
    /// nothing more of the object may be compiled.
    ///
    /// # Errors
    /// What the object would exceed.
    pub fn admit(&mut self, cost: Cost) -> Result<(), Exceeded> {
        self.work += cost.work;
        let memory = self.memory + cost.memory;
        if self.work > WORK {
            return Err(Exceeded::Work);
        }
        if memory > MEMORY {
            return Err(Exceeded::Memory { needed: memory });
        }
        self.memory = memory;
        Ok(())
    }

    /// Counts the work of a pattern that was refused.
    pub fn refused(&mut self, work: u64) {
        self.work += work;
    }
}

impl Budget {
    /// Adds a pattern of `namespace`. On the way of each path, a namespace has seven eighths of what the others have left.
    ///
    /// # Errors
    /// What a path would cost, and how much the namespace has.
    pub fn admit(&mut self, namespace: &Arc<str>, start: &[u8], steps: u64) -> Result<(), Exceeded> {
        let passing = self.passing.get(namespace).copied().unwrap_or_default() + PASSING;
        let of_others = |steps: &Steps| -> u64 {
            steps.iter().filter(|(name, _)| *name != namespace).map(|(_, steps)| steps).sum()
        };
        let others_passing = of_others(&self.passing);
        let mut heaviest = self.heaviest.get(namespace).copied().unwrap_or_default();
        let checked = |own: u64, others: u64| {
            let left = STEPS.saturating_sub(others + others_passing) / 8 * 7;
            if own + passing > left { Err(Exceeded::Steps { needed: own + passing, left }) } else { Ok(()) }
        };
        checked(heaviest, 0)?;
        if steps > 0 {
            self.on_each_way(start, |way| {
                let own = way.get(namespace).copied().unwrap_or_default() + steps;
                heaviest = heaviest.max(own);
                checked(own, of_others(way))
            })?;
            *self.starts.entry(start.into()).or_default().entry(namespace.clone()).or_default() += steps;
        }
        self.passing.insert(namespace.clone(), passing);
        self.heaviest.insert(namespace.clone(), heaviest);
        Ok(())
    }

    /// For each path that begins with `start`, as far as it makes a difference: the steps of each namespace.
    fn on_each_way(
        &self,
        start: &[u8],
        mut check: impl FnMut(&Steps) -> Result<(), Exceeded>,
    ) -> Result<(), Exceeded> {
        let mut above = Steps::new();
        for length in 0..start.len() {
            self.starts.get(&start[..length]).into_iter().for_each(|steps| add(&mut above, steps));
        }
        check(&above)?;
        // A stack of the starts that the one looked at begins with.
        let mut open: Vec<(&[u8], Steps)> = vec![(start, above)];
        for (text, steps) in self.starts.range::<[u8], _>((Included(start), Unbounded)) {
            if !text.starts_with(start) {
                break;
            }
            while open.len() > 1 && open.last().is_some_and(|(last, _)| !text.starts_with(last)) {
                open.pop();
            }
            let mut way = open.last().map(|(_, way)| way.clone()).unwrap_or_default();
            add(&mut way, steps);
            check(&way)?;
            open.push((text, way));
        }
        Ok(())
    }
}

fn add(way: &mut Steps, steps: &Steps) {
    for (namespace, more) in steps {
        *way.entry(namespace.clone()).or_default() += more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: u64 = LONGEST_TEXT as u64;

    fn admitted(budget: &mut Budget, namespace: &str, starts: impl Iterator<Item = String>) -> usize {
        let namespace = Arc::from(namespace);
        starts.take_while(|start| budget.admit(&namespace, start.as_bytes(), WHOLE).is_ok()).count()
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
        assert_eq!(count as u64, STEPS / 8 * 7 / PASSING);
    }

    #[test]
    fn patterns_that_one_path_can_meet_add_up_whatever_their_order() {
        for starts in [["/", "/a", "/a/b"], ["/a/b", "/a", "/"], ["/a", "/a/b", "/"]] {
            let mut budget = Budget::default();
            let endless = (0..10_000).map(|n| starts[n % 3].to_owned());
            let count = admitted(&mut budget, "a", endless);
            assert_eq!(count as u64, STEPS / 8 * 7 / (WHOLE + PASSING), "{starts:?}");
        }
    }

    #[test]
    fn a_namespace_leaves_something_to_each_that_comes_later() {
        let mut budget = Budget::default();
        let greedy = |budget: &mut Budget, name| admitted(budget, name, (0..10_000).map(|_| "/".to_owned()));
        let counts = ["a", "b", "c"].map(|name| greedy(&mut budget, name));
        assert!(counts[0] > 150 && counts[1] > 15 && counts[2] > 0, "{counts:?}");
        assert!((counts.iter().sum::<usize>() as u64) * WHOLE <= STEPS, "{counts:?}");
        assert_eq!(greedy(&mut budget, "a"), 0);
    }

    #[test]
    fn an_object_has_its_memory_and_its_work() {
        let mut account = Account::default();
        let cost = Cost { steps: 1, memory: MEMORY / 2, work: 1 };
        assert_eq!([account.admit(cost), account.admit(cost)], [Ok(()), Ok(())]);
        assert_eq!(account.admit(cost), Err(Exceeded::Memory { needed: MEMORY / 2 * 3 }));
        account.refused(WORK);
        assert_eq!(account.admit(Cost::default()), Err(Exceeded::Work));
    }
}
