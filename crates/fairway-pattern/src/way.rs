//! A compiled clause: an automaton with those of its look-around.

use crate::automaton::Automaton;
use crate::look_around::{self, Clause};
use crate::lower;
use crate::refusal::Refusal;

/// How a pattern is anchored in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Anchor {
    /// At the start, as with a leading `^`: of several alternatives, only the first is anchored.
    Start,
    /// It must match the whole text.
    Both,
}

/// A compiled clause.
#[derive(Clone, Debug)]
pub(crate) struct CompiledClause {
    main: Automaton,
    guards: Box<[CompiledGuard]>,
}

#[derive(Clone, Debug)]
struct CompiledGuard {
    automaton: Automaton,
    negative: bool,
}

impl CompiledClause {
    pub(crate) fn new(clause: &Clause, anchor: Anchor) -> Result<Self, Refusal> {
        let main = match anchor {
            Anchor::Start => lower::after_circumflex(&clause.branches),
            Anchor::Both => lower::whole_text(&clause.branches),
        };
        let guard = |guard: &look_around::Guard| {
            let automaton = Automaton::new(&lower::anchored(&guard.node))?;
            Ok(CompiledGuard { automaton, negative: guard.negative })
        };
        let guards = clause.guards.iter().map(guard).collect::<Result<_, Refusal>>()?;
        Ok(Self { main: Automaton::new(&main)?, guards })
    }

    #[inline]
    pub(crate) fn is_match(&self, text: &[u8]) -> bool {
        self.main.is_match(text)
            && self.guards.iter().all(|guard| guard.automaton.is_match(text) != guard.negative)
    }

    pub(crate) fn automata(&self) -> impl Iterator<Item = &Automaton> {
        [&self.main].into_iter().chain(self.guards.iter().map(|guard| &guard.automaton))
    }
}
