//! The cost of a snippet's conditions per request, in steps of regular expressions.

use fairway_model::{Condition, ConditionTest, Guard, Phases, ResponseEdit};
use fairway_pattern::Pattern;

use crate::problem::Problem;

/// Step limit for the conditions of a snippet: a third of the limit for the patterns of a host.
const MAX_STEPS: u64 = 500_000;

/// All conditions in these phases.
pub(crate) fn conditions_of_phases(phases: &Phases) -> impl Iterator<Item = &Condition> {
    let guards = phases.guards.iter().filter_map(|guard| match guard {
        Guard::Respond(respond) => Some(&respond.when),
        _ => None,
    });
    let forwarding = phases.forwarding.iter().flat_map(|forwarding| &forwarding.chosen);
    let requests = forwarding.map(|chosen| &chosen.when);
    guards.chain(requests).chain(conditions_of_edits(&phases.answers.edits)).flatten()
}

/// The conditions of each edit.
pub(crate) fn conditions_of_edits(edits: &[ResponseEdit]) -> impl Iterator<Item = &Vec<Condition>> {
    edits.iter().filter_map(|edit| match edit {
        ResponseEdit::Chosen(chosen) => Some(&chosen.when),
        _ => None,
    })
}

/// Rejects a snippet whose conditions together cost too much.
pub(crate) fn check_cost<'c>(conditions: impl Iterator<Item = &'c Condition>) -> Result<(), Problem> {
    let steps = |condition: &Condition| match &condition.test {
        ConditionTest::Pattern { pattern, ignore_case } => {
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
