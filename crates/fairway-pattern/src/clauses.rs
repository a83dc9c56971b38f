//! What a pattern says once it is read: ways to match of which one must hold, each with what must be around it. Judges
//! what cannot be answered for certain.

use crate::automaton::Automaton;
use crate::look::{self, Clause};
use crate::refusal::Refusal;
use crate::syntax::{Assertion, Node};
use crate::{lower, parse};

/// Patterns that are longer than this are refused unread.
pub(crate) const PATTERN_LENGTH: usize = 8 * 1024;
/// Upper bound of the look-around in one pattern.
const LOOKS: usize = 8;

/// The clauses of a pattern, and the work it took to tell that they mean what it does.
pub(crate) fn read(text: &str, ignore_case: bool) -> Result<(Vec<Clause>, u64), Refusal> {
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

/// Whether a pattern has alternatives outside of groups, of which nginx anchors only the first.
#[must_use]
pub fn has_alternatives(text: &str) -> bool {
    text.len() <= PATTERN_LENGTH && parse::parsed(text, false).is_ok_and(|parsed| parsed.branches.len() > 1)
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
