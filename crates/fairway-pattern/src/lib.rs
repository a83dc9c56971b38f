//! Regular expressions of configuration: what PCRE means by them in nginx, at a cost that is known before the first request.
//!
//! A pattern is read (`parse`, `class`) into a tree (`syntax`), its look-around becomes "match and not match" (`look`), and
//! each part becomes a deterministic automaton (`lower`, `automaton`): a match costs one step for each byte of the text,
//! and nothing is built, cached or allocated while requests are served. Only what a rewrite needs of a match, its groups,
//! is found by another `engine`, for the one pattern that decided. What cannot be had at that price is refused with its
//! reason, and [`literal_start`] says which paths it can be meant for. [`budget`] adds up what a host has.

mod automaton;
pub mod budget;
mod class;
mod cursor;
mod engine;
mod literal;
mod look;
mod lower;
#[cfg(test)]
mod naive;
mod parse;
mod refusal;
mod set;
mod shared;
mod start;
mod syntax;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use automaton::Automaton;
use engine::{Engine, Slots};
use look::Clause;
use syntax::{Assertion, Node};

pub use refusal::Refusal;
pub use start::{literal_pattern, literal_start};

/// The longest text that a pattern is compared with, in bytes: costs are counted for it. Longer ones are refused before.
pub const LONGEST_TEXT: usize = 8 * 1024;
/// Patterns that are longer than this are refused unread.
const PATTERN_LENGTH: usize = 8 * 1024;
/// Upper bound of the look-around in one pattern.
const LOOKS: usize = 8;
/// Upper bound of a search for captures, in steps.
const ENGINE_STEPS: u64 = 600_000;

/// Which part of the text a pattern must cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Anchor {
    /// From the start to anywhere, as if `^` stood before it: of several alternatives only the first is held to the start.
    Start,
    /// All of it.
    Both,
}

/// What a pattern costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Of one comparison, at most: one for each byte that an automaton reads.
    pub steps: u64,
    /// In bytes.
    pub memory: u64,
    /// Of compiling it, in steps.
    pub work: u64,
}

/// A pattern, compiled.
#[derive(Clone, Debug)]
pub struct Pattern {
    start: Box<[u8]>,
    /// None where the start is all that matters.
    ways: Option<Box<[Way]>>,
    work: u64,
}

/// One of several ways to match.
#[derive(Clone, Debug)]
struct Way {
    main: Automaton,
    guards: Box<[Guard]>,
}

#[derive(Clone, Debug)]
struct Guard {
    automaton: Automaton,
    negative: bool,
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
        shared::PATTERNS.get((text.into(), anchor, ignore_case), || Self::new(text, anchor, ignore_case))
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

impl Way {
    fn new(clause: &Clause, anchor: Anchor) -> Result<Self, Refusal> {
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
    fn holds(&self, text: &[u8]) -> bool {
        self.main.holds(text) && self.guards.iter().all(|guard| guard.automaton.holds(text) != guard.negative)
    }

    fn automata(&self) -> impl Iterator<Item = &Automaton> {
        [&self.main].into_iter().chain(self.guards.iter().map(|guard| &guard.automaton))
    }
}

/// A pattern whose groups a rewrite asks for.
#[derive(Clone, Debug)]
pub struct Finder {
    ways: Box<[(Option<Way>, Engine)]>,
    /// Of reading it.
    work: u64,
}

/// Where the groups of a pattern matched.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found(Slots);

impl Found {
    /// Where group 0 to 9 matched, if it did.
    #[must_use]
    pub fn group(&self, number: usize) -> Option<Range<usize>> {
        let slot = |at: usize| self.0.get(at).copied().flatten().map(|place| place.get());
        Some(slot(2 * number)?..slot(2 * number + 1)?)
    }
}

impl Finder {
    /// Compiles `text` as nginx's `rewrite` finds it where `^text` has matched: at the start, or anywhere when it has
    /// several alternatives.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn new(text: &str, ignore_case: bool) -> Result<Self, Refusal> {
        let (clauses, work) = read(text, ignore_case)?;
        let ways = clauses.iter().map(|clause| {
            let engine = Engine::new(&match &clause.branches[..] {
                [only] => lower::anchored(only),
                several => lower::anywhere(several),
            })?;
            let way = (!clause.guards.is_empty()).then(|| Way::new(clause, Anchor::Start)).transpose()?;
            Ok((way, engine))
        });
        let finder = Self { ways: ways.collect::<Result<_, Refusal>>()?, work };
        let steps = finder.cost().steps;
        if steps > ENGINE_STEPS {
            let what = format!("{ENGINE_STEPS} steps to find its captures in a path of 8 KiB: {steps}");
            return Err(Refusal::needs(what));
        }
        Ok(finder)
    }

    /// [`Self::new`], or what it gave while the result is in use somewhere, or was a moment ago.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn shared(text: &str, ignore_case: bool) -> Result<Arc<Self>, Refusal> {
        shared::FINDERS.get((text.into(), Anchor::Start, ignore_case), || Self::new(text, ignore_case))
    }

    /// Where the groups match in `text`, or `None` where the pattern does not. Allocates nothing once the thread is warm.
    #[must_use]
    pub fn find(&self, text: &[u8]) -> Option<Found> {
        let mut found = Found::default();
        let mut ways = self.ways.iter().filter(|(way, _)| way.as_ref().is_none_or(|way| way.holds(text)));
        ways.any(|(_, engine)| engine.find(text, &mut found.0)).then_some(found)
    }

    /// What it costs.
    #[must_use]
    pub fn cost(&self) -> Cost {
        let guards = || self.ways.iter().filter_map(|(way, _)| way.as_ref()).flat_map(Way::automata);
        let engines = || self.ways.iter().map(|(_, engine)| engine);
        let (mut memory, mut work) = (0, self.work);
        guards().for_each(|it| (memory, work) = (memory + it.memory() as u64, work + it.work));
        engines().for_each(|it| (memory, work) = (memory + it.memory() as u64, work + it.work));
        let steps = guards().map(|it| it.reads as u64).sum::<u64>()
            + engines().map(|it| it.steps).max().unwrap_or_default();
        Cost { steps, memory, work }
    }
}

/// The clauses of a pattern, and the work it took to tell that they mean what it does.
fn read(text: &str, ignore_case: bool) -> Result<(Vec<Clause>, u64), Refusal> {
    if text.len() > PATTERN_LENGTH {
        return Err(Refusal::longer_than(PATTERN_LENGTH));
    }
    let clauses = look::clauses(parse::parsed(text, ignore_case)?)?;
    let mut work = text.len() as u64;
    for clause in &clauses {
        clause.branches.iter().try_for_each(lower::check_ends)?;
        if clause.guards.len() > LOOKS {
            return Err(Refusal::because(format!("it has more than {LOOKS} parts of look-around")));
        }
        for guard in &clause.guards {
            work += checked(guard).map_err(|refusal| refusal.after(work))?;
        }
    }
    Ok((clauses, work))
}

/// Whether a look-ahead has one place where it looks; the work it took to tell.
fn checked(guard: &look::Guard) -> Result<u64, Refusal> {
    let Some(before) = &guard.before else { return Ok(0) };
    [before, &guard.look].into_iter().try_for_each(lower::check_ends)?;
    let (has_one_end, mut work) = Automaton::has_one_end(&lower::anchored(before))?;
    if !has_one_end {
        return Err(look::uncertain());
    }
    // `$` may stand before the last line feed, which is taken with it; what is looked for must not need that, nor look back.
    if before.has_end_or_last_line() {
        let looks_back = |node: &Node| matches!(node, Node::Assert(Assertion::Word | Assertion::NotWord));
        if guard.look.any(&looks_back) {
            return Err(look::uncertain());
        }
        let look = Automaton::new(&lower::anchored(&guard.look))?;
        work += look.work;
        if look.holds(b"") || look.holds(b"\n") {
            return Err(look::uncertain());
        }
    }
    Ok(work)
}
