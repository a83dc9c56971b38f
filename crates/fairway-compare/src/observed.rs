//! The responses of one side to one probe over several rounds. Parts that change between rounds are ignored.

use std::collections::BTreeSet;

use crate::response::{LATE_PREFIX, NOT_SENT, Part, ResponseParts};

/// The responses of one side to one probe.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    first: ResponseParts,
    changing: BTreeSet<Part>,
    rounds: u32,
}

/// A part that differs between the sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartDifference {
    pub(crate) part: Part,
    pub(crate) from: Option<String>,
    pub(crate) target_text: Option<String>,
}

impl Observed {
    /// Adds the response of another round.
    pub(crate) fn add(&mut self, reply: ResponseParts) {
        self.rounds += 1;
        if self.rounds == 1 {
            self.first = reply;
            return;
        }
        // A late response and a probe that was not sent because others were late count the same.
        if is_missing_response(&self.first) && is_missing_response(&reply) {
            return;
        }
        let parts = self.first.keys().chain(reply.keys());
        let changed = parts.filter(|part| self.first.get(part) != reply.get(part)).cloned();
        self.changing.extend(changed);
    }

    /// Whether there were enough rounds to tell which parts change by themselves.
    pub(crate) fn is_complete(&self) -> bool {
        self.rounds >= 2
    }

    /// Whether there was no response in time, so that it cannot be compared.
    pub(crate) fn is_unanswered(&self) -> bool {
        is_missing_response(&self.first)
    }

    /// Whether there was a response only in some rounds, or there were different failures, so that it cannot be compared.
    pub(crate) fn is_unsteady(&self) -> bool {
        self.changing.contains(&Part::Exchange)
    }

    /// The value of a part.
    pub(crate) fn value_of(&self, part: &Part) -> Option<&str> {
        self.first.get(part).map(String::as_str)
    }

    /// The parts that change between rounds.
    pub(crate) fn changing(&self) -> &BTreeSet<Part> {
        &self.changing
    }
}

/// Whether these parts represent a missing response.
fn is_missing_response(response: &ResponseParts) -> bool {
    response.get(&Part::Exchange).is_some_and(|text| text == NOT_SENT || text.starts_with(LATE_PREFIX))
}

/// Whether the sides cannot be compared: both did not respond, or one responded only in some rounds.
pub(crate) fn is_unknown(from: &Observed, to: &Observed) -> bool {
    (from.is_unanswered() && to.is_unanswered()) || from.is_unsteady() || to.is_unsteady()
}

/// The parts that differ between the sides and are stable on each side.
pub(crate) fn differing_parts(from: &Observed, to: &Observed) -> Vec<PartDifference> {
    let parts: BTreeSet<&Part> = from.first.keys().chain(to.first.keys()).collect();
    let steady =
        parts.into_iter().filter(|part| !from.changing.contains(part) && !to.changing.contains(part));
    let other = steady.filter(|part| from.value_of(part) != to.value_of(part));
    let text = |side: &Observed, part: &Part| side.value_of(part).map(str::to_owned);
    other
        .map(|part| PartDifference {
            part: part.clone(),
            from: text(from, part),
            target_text: text(to, part),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observe(rounds: &[&[(&str, &str)]]) -> Observed {
        let mut observed = Observed::default();
        for round in rounds {
            let parts =
                round.iter().map(|(name, value)| (Part::Header((*name).to_owned()), (*value).to_owned()));
            observed.add(parts.collect());
        }
        observed
    }

    fn names(from: &Observed, to: &Observed) -> Vec<String> {
        differing_parts(from, to).into_iter().map(|it| it.part.to_string()).collect()
    }

    #[test]
    fn parts_that_change_by_themselves_are_not_differences() {
        let steady = observe(&[&[("a", "1"), ("b", "1")], &[("a", "1"), ("b", "1")]]);
        let restless = observe(&[&[("a", "2"), ("b", "2")], &[("a", "2"), ("b", "3")]]);
        assert_eq!(names(&steady, &restless), ["header a"]);
        assert_eq!(names(&restless, &steady), ["header a"]);
        assert_eq!(names(&steady, &steady), [""; 0]);
    }

    #[test]
    fn an_unstable_part_is_not_compared() {
        let observed = observe(&[&[("a", "1")], &[]]);
        let other = observe(&[&[], &[]]);
        assert_eq!(names(&observed, &other), [""; 0]);
        assert!(observed.changing().contains(&Part::Header("a".to_owned())));
        let always = observe(&[&[("a", "1")], &[("a", "1")]]);
        assert_eq!(
            differing_parts(&always, &other),
            [PartDifference {
                part: Part::Header("a".to_owned()),
                from: Some("1".to_owned()),
                target_text: None
            }]
        );
    }

    #[test]
    fn late_and_unsent_probes_have_no_response() {
        let is_missing = |text: &str| {
            let mut observed = Observed::default();
            observed.add(crate::response::failure_parts(text));
            observed.is_unanswered()
        };
        let late = crate::client::Failure::Late(std::time::Duration::from_secs(10));
        assert!(is_missing(&late.to_string()) && is_missing(NOT_SENT));
        assert!(!is_missing(&crate::client::Failure::Closed.to_string()) && !is_missing("answered"));
    }

    #[test]
    fn a_side_that_responds_only_in_some_rounds_cannot_be_compared() {
        let answered = || ResponseParts::from([(Part::Exchange, "answered".to_owned())]);
        let failed = || crate::response::failure_parts(&crate::client::Failure::Closed.to_string());
        let verdict = |first: ResponseParts, other: ResponseParts| {
            let mut observed = Observed::default();
            observed.add(first);
            observed.add(other);
            observed
        };
        let steady = verdict(answered(), answered());
        for unsteady in [verdict(answered(), failed()), verdict(failed(), answered())] {
            assert!(is_unknown(&steady, &unsteady) && is_unknown(&unsteady, &steady));
        }
        let late =
            verdict(crate::response::failure_parts(LATE_PREFIX), crate::response::failure_parts(NOT_SENT));
        assert!(!is_unknown(&steady, &late) && !is_unknown(&steady, &verdict(failed(), failed())));
        assert_eq!(names(&steady, &late), ["answer"]);
    }

    #[test]
    fn one_round_is_not_enough() {
        assert!(!observe(&[&[]]).is_complete());
        assert!(observe(&[&[], &[]]).is_complete());
    }
}
