//! What one probe saw on one side, over several rounds: a part that is not the same each time says nothing, and is left out.

use std::collections::BTreeSet;

use crate::answer::{Answer, Part};

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
        let parts = self.first.keys().chain(answer.keys());
        let changed = parts.filter(|part| self.first.get(part) != answer.get(part)).cloned();
        self.changing.extend(changed);
    }

    /// Whether enough is known to tell what changes by itself.
    pub(crate) fn is_complete(&self) -> bool {
        self.rounds >= 2
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
    fn one_round_is_not_enough() {
        assert!(!seen(&[&[]]).is_complete());
        assert!(seen(&[&[], &[]]).is_complete());
    }
}
