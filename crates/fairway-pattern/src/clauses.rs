//! Decomposes a pattern into clauses, one of which must match, each with look-around guards. Rejects patterns whose
//! meaning is uncertain.

use crate::automaton::Automaton;
use crate::look_around::{self, Clause};
use crate::refusal::Refusal;
use crate::syntax::{Assertion, Node};
use crate::{lower, parse};

/// Longer patterns are rejected unread.
pub(crate) const MAX_PATTERN_BYTES: usize = 8 * 1024;
/// Maximum number of look-around groups in a pattern.
const MAX_LOOKAROUNDS: usize = 8;

/// The clauses of a pattern, and the work of verifying that they are equivalent to it.
pub(crate) fn read(text: &str, ignore_case: bool) -> Result<(Vec<Clause>, u64), Refusal> {
    if text.len() > MAX_PATTERN_BYTES {
        return Err(Refusal::longer_than(MAX_PATTERN_BYTES));
    }
    let clauses = look_around::clauses(parse::parse(text, ignore_case)?)?;
    let mut work = text.len() as u64;
    for clause in &clauses {
        clause.branches.iter().try_for_each(lower::check_ends)?;
        if clause.guards.len() > MAX_LOOKAROUNDS {
            return Err(Refusal::because(format!("it has more than {MAX_LOOKAROUNDS} parts of look-around")));
        }
        for guard in &clause.guards {
            work += check_guard(guard).map_err(|refusal| refusal.with_work(work))?;
        }
    }
    Ok((clauses, work))
}

/// Whether a pattern has top-level alternatives, of which nginx anchors only the first.
#[must_use]
pub fn has_alternatives(text: &str) -> bool {
    text.len() <= MAX_PATTERN_BYTES && parse::parse(text, false).is_ok_and(|parsed| parsed.branches.len() > 1)
}

/// Verifies that a look-ahead applies at a single position; returns the work.
fn check_guard(guard: &look_around::Guard) -> Result<u64, Refusal> {
    let Some(before) = &guard.before else { return Ok(0) };
    [before, &guard.look].into_iter().try_for_each(lower::check_ends)?;
    let (has_one_end, mut work) = Automaton::has_one_end(&lower::anchored(before))?;
    if !has_one_end {
        return Err(look_around::uncertain());
    }
    // `$` may match before a final line feed, which is then consumed; the look-ahead must not need that line feed,
    // nor look back.
    if before.has_end_or_last_line() {
        let looks_back = |node: &Node| matches!(node, Node::Assert(Assertion::Word | Assertion::NotWord));
        if guard.look.any_node(&looks_back) {
            return Err(look_around::uncertain());
        }
        let look = Automaton::new(&lower::anchored(&guard.look))?;
        work += look.work;
        if look.is_match(b"") || look.is_match(b"\n") {
            return Err(look_around::uncertain());
        }
    }
    Ok(work)
}
