//! Splits a benchmark into scenario rounds and orders the peers within a round. The results store each scenario round
//! as a separate run.
//!
//! The order of the peers is reversed in even rounds (A B, then B A), so that a machine that becomes slower over time
//! favours no peer. All scenarios run in one round before the next round starts, so that an interrupted benchmark has
//! measured every scenario in each complete round.

use super::catalogue::Scenario;

/// One scenario in one round: the unit that is measured and stored.
#[derive(Clone, Copy)]
pub(super) struct ScenarioRound<'a> {
    pub(super) scenario: &'a Scenario,
    /// The number of the round, from 1; 0 if the benchmark is not divided into rounds.
    pub(super) round: u32,
}

/// Lists all scenario rounds in the order in which they run. With at most one round, the benchmark is not divided.
pub(super) fn scenario_rounds(scenarios: &[Scenario], rounds: u32) -> Vec<ScenarioRound<'_>> {
    if rounds <= 1 {
        return scenarios.iter().map(|scenario| ScenarioRound { scenario, round: 0 }).collect();
    }
    let all_in_round = |round| scenarios.iter().map(move |scenario| ScenarioRound { scenario, round });
    (1..=rounds).flat_map(all_in_round).collect()
}

/// Lists the peers in the order of a round: reversed in even rounds, except in round 0.
pub(super) fn in_alternating_order<T>(peers: &[T], round: u32) -> Vec<&T> {
    let is_reversed = round > 0 && round.is_multiple_of(2);
    if is_reversed { peers.iter().rev().collect() } else { peers.iter().collect() }
}

impl ScenarioRound<'_> {
    /// The title in progress messages: `dynamic`, or `dynamic, round 2`.
    pub(super) fn title(&self) -> String {
        round_title(self.scenario.name(), self.round)
    }
}

/// The title of a scenario with this name in this round, without the number of round 0.
pub(super) fn round_title(scenario: &str, round: u32) -> String {
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

    fn titles(listed_rounds: &[ScenarioRound<'_>]) -> Vec<String> {
        listed_rounds.iter().map(ScenarioRound::title).collect()
    }

    #[test]
    fn a_round_runs_all_scenarios_before_the_next_round_starts() {
        let all = scenarios(&["dynamic", "timeline"]);
        let expected = ["dynamic, round 1", "timeline, round 1", "dynamic, round 2", "timeline, round 2"];
        assert_eq!(titles(&scenario_rounds(&all, 2)), expected);
        assert_eq!(titles(&scenario_rounds(&all, 1)), ["dynamic", "timeline"]);
    }

    #[test]
    fn the_order_of_peers_alternates_for_each_setting() {
        let contenders = ["A recommended", "B recommended", "A defaults", "B defaults"];
        let orders: Vec<_> = (1..=4).map(|round| in_alternating_order(&contenders, round)).collect();
        for setting in ["recommended", "defaults"] {
            let peers_of_setting: String = orders
                .iter()
                .flatten()
                .filter(|name| name.ends_with(setting))
                .filter_map(|name| name.chars().next())
                .collect();
            assert_eq!(peers_of_setting, "ABBAABBA", "expected alternating peers with {setting} settings");
        }
        assert_eq!(in_alternating_order(&contenders, 0), orders[0], "expected no reversal without rounds");
    }
}
