//! A compiled pattern: whether a text matches it, and what that costs.

use std::sync::{Arc, LazyLock};

use crate::clauses::read;
use crate::cost::Cost;
use crate::literal;
use crate::refusal::Refusal;
use crate::shared::Shared;
use crate::way::{Anchor, Way};

static SHARED: LazyLock<Shared<Pattern>> =
    LazyLock::new(|| Shared::new(|pattern: &Pattern| pattern.cost().memory));

/// A pattern, compiled.
#[derive(Clone, Debug)]
pub struct Pattern {
    start: Box<[u8]>,
    /// None where the start is all that matters.
    ways: Option<Box<[Way]>>,
    work: u64,
}

impl Pattern {
    /// Compiles `text`.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn new(text: &str, anchor: Anchor, ignore_case: bool) -> Result<Self, Refusal> {
        let (clauses, work) = read(text, ignore_case)?;
        let start = match (anchor, &clauses[..]) {
            (Anchor::Start, [clause]) => literal::start(&clause.branches),
            _ => literal::Start::default(),
        };
        let bare = clauses.iter().all(|clause| clause.guards.is_empty());
        if bare && start.is_all && anchor == Anchor::Start {
            return Ok(Self { start: start.text.into(), ways: None, work });
        }
        let ways = clauses.iter().map(|clause| Way::new(clause, anchor)).collect::<Result<Box<[_]>, _>>()?;
        let work = work + ways.iter().flat_map(Way::automata).map(|automaton| automaton.work).sum::<u64>();
        Ok(Self { start: start.text.into(), ways: Some(ways), work })
    }

    /// [`Self::new`], or what it gave while the result is in use somewhere, or was a moment ago.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn shared(text: &str, anchor: Anchor, ignore_case: bool) -> Result<Arc<Self>, Refusal> {
        SHARED.get((text.into(), anchor, ignore_case), || Self::new(text, anchor, ignore_case))
    }

    /// A pattern that may match anywhere in a text, as nginx matches variables (`~`, and `~*` without regard to case).
    ///
    /// # Errors
    /// Why it cannot be used. Look-around cannot, unless it has one place in every text.
    pub fn anywhere(text: &str, ignore_case: bool) -> Result<Arc<Self>, Refusal> {
        // By itself too: parentheses that do not match would change what the group around them means.
        Self::shared(text, Anchor::Start, ignore_case)?;
        Self::shared(&format!("(?s:.*)(?:{text})"), Anchor::Start, ignore_case)
    }

    /// Whether `text` matches. Allocates nothing.
    #[inline]
    #[must_use]
    pub fn is_match(&self, text: &[u8]) -> bool {
        let begins =
            text.get(..self.start.len()).is_some_and(|start| start.eq_ignore_ascii_case(&self.start));
        begins && self.ways.as_ref().is_none_or(|ways| ways.iter().any(|way| way.holds(text)))
    }

    /// The text with which every match begins, in lower case and without regard to case.
    #[must_use]
    pub fn start(&self) -> &[u8] {
        &self.start
    }

    /// Whether the comparison reads no more than the start.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        self.ways.is_none()
    }

    /// What it costs.
    #[must_use]
    pub fn cost(&self) -> Cost {
        let automata = || self.ways.iter().flatten().flat_map(Way::automata);
        Cost {
            steps: automata().map(|automaton| automaton.reads as u64).sum(),
            memory: automata().map(|automaton| automaton.memory() as u64).sum::<u64>()
                + self.start.len() as u64,
            work: self.work,
        }
    }
}
