//! What one probe saw on one side, over several rounds: a part that is not the same each time says nothing, and is left out.

use std::collections::BTreeSet;

use crate::answer::{Answer, LATE, NOT_ASKED, Part};

/// The answers of one side to one probe.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    first: Answer,
    changing: BTreeSet<Part>,
    rounds: u32,
}

/// A part that differs between the sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unequal {
    pub(crate) part: Part,
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
}

impl Observed {
    /// Adds the answer of another round.
    pub(crate) fn add(&mut self, answer: Answer) {
        self.rounds += 1;
        if self.rounds == 1 {
            self.first = answer;
            return;
        }
        // Whether it is late itself, or was not asked because others were, is the same silence.
        if is_silence(&self.first) && is_silence(&answer) {
            return;
        }
        let parts = self.first.keys().chain(answer.keys());
        let changed = parts.filter(|part| self.first.get(part) != answer.get(part)).cloned();
        self.changing.extend(changed);
    }

    /// Whether enough is known to tell what changes by itself.
    pub(crate) fn is_complete(&self) -> bool {
        self.rounds >= 2
    }

    /// Whether there was no answer in time, which says nothing about what it would be.
    pub(crate) fn is_unanswered(&self) -> bool {
        is_silence(&self.first)
    }

    /// Whether it answered in some rounds only, or failed in several ways: no part is then the same each time.
    pub(crate) fn is_unsteady(&self) -> bool {
        self.changing.contains(&Part::Exchange)
    }

    /// What it says of a part.
    pub(crate) fn of(&self, part: &Part) -> Option<&str> {
        self.first.get(part).map(String::as_str)
    }

    /// The parts that change by themselves.
    pub(crate) fn changing(&self) -> &BTreeSet<Part> {
        &self.changing
    }
}

/// Whether this stands for an answer that did not come in time.
fn is_silence(answer: &Answer) -> bool {
    answer.get(&Part::Exchange).is_some_and(|said| said == NOT_ASKED || said.starts_with(LATE))
}

/// Whether nobody can say if the sides differ: both are silent, or one fails in some rounds only.
pub(crate) fn is_unknown(from: &Observed, to: &Observed) -> bool {
    (from.is_unanswered() && to.is_unanswered()) || from.is_unsteady() || to.is_unsteady()
}

/// The parts that differ though each side is always the same.
pub(crate) fn unequal(from: &Observed, to: &Observed) -> Vec<Unequal> {
    let parts: BTreeSet<&Part> = from.first.keys().chain(to.first.keys()).collect();
    let steady =
        parts.into_iter().filter(|part| !from.changing.contains(part) && !to.changing.contains(part));
    let other = steady.filter(|part| from.of(part) != to.of(part));
    let text = |side: &Observed, part: &Part| side.of(part).map(str::to_owned);
    other.map(|part| Unequal { part: part.clone(), from: text(from, part), to: text(to, part) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(rounds: &[&[(&str, &str)]]) -> Observed {
        let mut observed = Observed::default();
        for round in rounds {
            let parts =
                round.iter().map(|(name, value)| (Part::Field((*name).to_owned()), (*value).to_owned()));
            observed.add(parts.collect());
        }
        observed
    }

    fn names(from: &Observed, to: &Observed) -> Vec<String> {
        unequal(from, to).into_iter().map(|it| it.part.to_string()).collect()
    }

    #[test]
    fn what_changes_by_itself_on_either_side_is_no_difference() {
        let steady = seen(&[&[("a", "1"), ("b", "1")], &[("a", "1"), ("b", "1")]]);
        let restless = seen(&[&[("a", "2"), ("b", "2")], &[("a", "2"), ("b", "3")]]);
        assert_eq!(names(&steady, &restless), ["header a"]);
        assert_eq!(names(&restless, &steady), ["header a"]);
        assert_eq!(names(&steady, &steady), [""; 0]);
    }

    #[test]
    fn a_part_that_comes_and_goes_changes_by_itself() {
        let one = seen(&[&[("a", "1")], &[]]);
        let other = seen(&[&[], &[]]);
        assert_eq!(names(&one, &other), [""; 0]);
        assert!(one.changing().contains(&Part::Field("a".to_owned())));
        let always = seen(&[&[("a", "1")], &[("a", "1")]]);
        assert_eq!(
            unequal(&always, &other),
            [Unequal { part: Part::Field("a".to_owned()), from: Some("1".to_owned()), to: None }]
        );
    }

    #[test]
    fn what_is_late_or_was_not_asked_is_no_answer() {
        let said = |text: &str| {
            let mut observed = Observed::default();
            observed.add(crate::answer::without(text));
            observed.is_unanswered()
        };
        let late = crate::client::Failure::Late(std::time::Duration::from_secs(10));
        assert!(said(&late.to_string()) && said(NOT_ASKED));
        assert!(!said(&crate::client::Failure::Closed.to_string()) && !said("answered"));
    }

    #[test]
    fn a_side_that_answers_in_some_rounds_only_cannot_be_compared() {
        let answered = || Answer::from([(Part::Exchange, "answered".to_owned())]);
        let failed = || crate::answer::without(&crate::client::Failure::Closed.to_string());
        let seen = |one: Answer, other: Answer| {
            let mut observed = Observed::default();
            observed.add(one);
            observed.add(other);
            observed
        };
        let steady = seen(answered(), answered());
        for unsteady in [seen(answered(), failed()), seen(failed(), answered())] {
            assert!(is_unknown(&steady, &unsteady) && is_unknown(&unsteady, &steady));
        }
        let late = seen(crate::answer::without(LATE), crate::answer::without(NOT_ASKED));
        assert!(!is_unknown(&steady, &late) && !is_unknown(&steady, &seen(failed(), failed())));
        assert_eq!(names(&steady, &late), ["answer"]);
    }

    #[test]
    fn one_round_is_not_enough() {
        assert!(!seen(&[&[]]).is_complete());
        assert!(seen(&[&[], &[]]).is_complete());
    }
}
