//! The pieces of a run, each of which is a run of its own in the results: a scenario, or a scenario in a round. Peers go
//! forwards in odd rounds and backwards in even ones (A B B A), so that a machine that becomes slower favours none of them.
//! Rounds are the outermost loop: what an interrupted run has finished is whole rounds of every scenario, and then some of
//! the next one. Never measures.

use super::catalogue::Scenario;

/// What is measured and kept as a whole.
#[derive(Clone, Copy)]
pub(super) struct Piece<'a> {
    pub(super) scenario: &'a Scenario,
    /// From 1; 0 without rounds.
    pub(super) round: u32,
}

/// All pieces in their order.
pub(super) fn pieces(scenarios: &[Scenario], rounds: u32) -> Vec<Piece<'_>> {
    if rounds <= 1 {
        return scenarios.iter().map(|scenario| Piece { scenario, round: 0 }).collect();
    }
    let of_round = |round| scenarios.iter().map(move |scenario| Piece { scenario, round });
    (1..=rounds).flat_map(of_round).collect()
}

/// The order in which everything has its turn in a round.
pub(super) fn in_order<T>(all: &[T], round: u32) -> Vec<&T> {
    let is_backwards = round > 0 && round.is_multiple_of(2);
    if is_backwards { all.iter().rev().collect() } else { all.iter().collect() }
}

impl Piece<'_> {
    /// For people: `dynamic`, or `dynamic, round 2`.
    pub(super) fn title(&self) -> String {
        titled(self.scenario.name(), self.round)
    }
}

/// A scenario and its round for people.
pub(super) fn titled(scenario: &str, round: u32) -> String {
    if round == 0 { scenario.to_owned() } else { format!("{scenario}, round {round}") }
}

#[cfg(test)]
mod tests {
    use super::super::catalogue;
    use super::super::definition::{Form, Scaling};
    use super::*;

    fn scenarios(names: &[&str]) -> Vec<Scenario> {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let scaling = Scaling { form: Form::Long, scale: 0.05, set: Vec::new() };
        catalogue::named(&names, &scaling).unwrap()
    }

    fn titles(pieces: &[Piece<'_>]) -> Vec<String> {
        pieces.iter().map(Piece::title).collect()
    }

    #[test]
    fn a_round_goes_through_all_scenarios() {
        let all = scenarios(&["dynamic", "timeline"]);
        let wanted = ["dynamic, round 1", "timeline, round 1", "dynamic, round 2", "timeline, round 2"];
        assert_eq!(titles(&pieces(&all, 2)), wanted);
        assert_eq!(titles(&pieces(&all, 1)), ["dynamic", "timeline"]);
    }

    #[test]
    fn peers_go_a_b_b_a_in_each_setting() {
        let contenders = ["A recommended", "B recommended", "A defaults", "B defaults"];
        let orders: Vec<_> = (1..=4).map(|round| in_order(&contenders, round)).collect();
        for setting in ["recommended", "defaults"] {
            let of_setting: String = orders
                .iter()
                .flatten()
                .filter(|name| name.ends_with(setting))
                .filter_map(|name| name.chars().next())
                .collect();
            assert_eq!(of_setting, "ABBAABBA", "{setting}");
        }
        assert_eq!(in_order(&contenders, 0), orders[0], "without rounds peers go forwards");
    }
}
