//! Compiled patterns and their cost.

use std::sync::{Arc, LazyLock};

use crate::clauses::read;
use crate::cost::Cost;
use crate::literal;
use crate::refusal::Refusal;
use crate::shared::PatternCache;
use crate::way::{Anchor, CompiledClause};

static SHARED: LazyLock<PatternCache<Pattern>> =
    LazyLock::new(|| PatternCache::new(|pattern: &Pattern| pattern.cost().memory));

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct Pattern {
    start: Box<[u8]>,
    /// `None` if the literal prefix decides.
    ways: Option<Box<[CompiledClause]>>,
    work: u64,
}

impl Pattern {
    /// Compiles `text`.
    ///
    /// # Errors
    /// Why it is unusable.
    pub fn new(text: &str, anchor: Anchor, ignore_case: bool) -> Result<Self, Refusal> {
        let (clauses, work) = read(text, ignore_case)?;
        let start = match (anchor, &clauses[..]) {
            (Anchor::Start, [clause]) => literal::common_start(&clause.branches),
            _ => literal::LiteralStart::default(),
        };
        let bare = clauses.iter().all(|clause| clause.guards.is_empty());
        if bare && start.is_all && anchor == Anchor::Start {
            return Ok(Self { start: start.text.into(), ways: None, work });
        }
        let ways = clauses
            .iter()
            .map(|clause| CompiledClause::new(clause, anchor))
            .collect::<Result<Box<[_]>, _>>()?;
        let work = work
            + ways.iter().flat_map(CompiledClause::automata).map(|automaton| automaton.work).sum::<u64>();
        Ok(Self { start: start.text.into(), ways: Some(ways), work })
    }

    /// As [`Self::new`], but returns a shared result while it is or recently was in use.
    ///
    /// # Errors
    /// Why it is unusable.
    pub fn shared(text: &str, anchor: Anchor, ignore_case: bool) -> Result<Arc<Self>, Refusal> {
        SHARED.get_or_compile((text.into(), anchor, ignore_case), || Self::new(text, anchor, ignore_case))
    }

    /// A pattern that matches anywhere in a text, as nginx matches variables (`~`, and `~*` ignoring case).
    ///
    /// # Errors
    /// Why it is unusable. Look-around is supported only if its position is unambiguous.
    pub fn anywhere(text: &str, ignore_case: bool) -> Result<Arc<Self>, Refusal> {
        // Also compiled by itself: unbalanced parentheses would change the meaning of the surrounding group.
        Self::shared(text, Anchor::Start, ignore_case)?;
        Self::shared(&format!("(?s:.*)(?:{text})"), Anchor::Start, ignore_case)
    }

    /// Whether `text` matches. Allocates nothing.
    #[inline]
    #[must_use]
    pub fn is_match(&self, text: &[u8]) -> bool {
        let begins =
            text.get(..self.start.len()).is_some_and(|start| start.eq_ignore_ascii_case(&self.start));
        begins && self.ways.as_ref().is_none_or(|ways| ways.iter().any(|way| way.is_match(text)))
    }

    /// The literal prefix of all matches, in lower case; compared case-insensitively.
    #[must_use]
    pub fn start(&self) -> &[u8] {
        &self.start
    }

    /// Whether the literal prefix alone decides.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        self.ways.is_none()
    }

    /// What it costs.
    #[must_use]
    pub fn cost(&self) -> Cost {
        let automata = || self.ways.iter().flatten().flat_map(CompiledClause::automata);
        Cost {
            steps: automata().map(|automaton| automaton.max_read as u64).sum(),
            memory: automata().map(|automaton| automaton.memory() as u64).sum::<u64>()
                + self.start.len() as u64,
            work: self.work,
        }
    }
}
