//! What the conditions of a snippet cost a request, in steps of regular expressions.

use fairway_model::{AnswerEdit, Condition, Guard, Phases, Test};
use fairway_pattern::Pattern;

use crate::problem::Problem;

/// Steps that the conditions of a snippet may cost a request: a third of what the patterns of a host may.
const MAX_STEPS: u64 = 500_000;

/// All conditions of these phases.
pub(crate) fn conditions(phases: &Phases) -> impl Iterator<Item = &Condition> {
    let guards = phases.guards.iter().filter_map(|guard| match guard {
        Guard::Respond(respond) => Some(&respond.when),
        _ => None,
    });
    let forwarding = phases.forwarding.iter().flat_map(|forwarding| &forwarding.chosen);
    let requests = forwarding.map(|chosen| &chosen.when);
    guards.chain(requests).chain(of_edits(&phases.answers.edits)).flatten()
}

/// The conditions of edits, edit by edit.
pub(crate) fn of_edits(edits: &[AnswerEdit]) -> impl Iterator<Item = &Vec<Condition>> {
    edits.iter().filter_map(|edit| match edit {
        AnswerEdit::Chosen(chosen) => Some(&chosen.when),
        _ => None,
    })
}

/// Refuses a snippet whose conditions cost too much together.
pub(crate) fn check<'c>(conditions: impl Iterator<Item = &'c Condition>) -> Result<(), Problem> {
    let steps = |condition: &Condition| match &condition.test {
        Test::Pattern { pattern, ignore_case } => {
            Pattern::anywhere(pattern, *ignore_case).map_or(0, |pattern| pattern.cost().steps)
        }
        _ => 0,
    };
    let needed: u64 = conditions.map(steps).sum();
    match needed <= MAX_STEPS {
        true => Ok(()),
        false => {
            let reason = format!(
                "its regular expressions could cost a request {needed} steps, and {MAX_STEPS} are the limit"
            );
            Err(Problem::new(1, "", reason))
        }
    }
}
