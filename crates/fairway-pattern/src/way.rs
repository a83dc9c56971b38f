//! One of several ways in which a pattern can match: an automaton, and those of its look-around.

use crate::automaton::Automaton;
use crate::look::{self, Clause};
use crate::lower;
use crate::refusal::Refusal;

/// Which part of the text a pattern must cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Anchor {
    /// From the start to anywhere, as if `^` stood before it: of several alternatives only the first is held to the start.
    Start,
    /// All of it.
    Both,
}

/// One of several ways to match.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    main: Automaton,
    guards: Box<[Guard]>,
}

#[derive(Clone, Debug)]
struct Guard {
    automaton: Automaton,
    negative: bool,
}

impl Way {
    pub(crate) fn new(clause: &Clause, anchor: Anchor) -> Result<Self, Refusal> {
        let main = match anchor {
            Anchor::Start => lower::after_circumflex(&clause.branches),
            Anchor::Both => lower::whole(&clause.branches),
        };
        let guard = |guard: &look::Guard| {
            let automaton = Automaton::new(&lower::anchored(&guard.node))?;
            Ok(Guard { automaton, negative: guard.negative })
        };
        let guards = clause.guards.iter().map(guard).collect::<Result<_, Refusal>>()?;
        Ok(Self { main: Automaton::new(&main)?, guards })
    }

    #[inline]
    pub(crate) fn holds(&self, text: &[u8]) -> bool {
        self.main.holds(text) && self.guards.iter().all(|guard| guard.automaton.holds(text) != guard.negative)
    }

    pub(crate) fn automata(&self) -> impl Iterator<Item = &Automaton> {
        [&self.main].into_iter().chain(self.guards.iter().map(|guard| &guard.automaton))
    }
}
