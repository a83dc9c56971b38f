//! What a run was to measure and with which programs: whether another run continues it or is a different one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::results::environment::Settings;

/// What a run was to measure, with which programs and where. A run may be continued only by one with the same plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunPlan {
    /// How often each scenario in a cluster runs; 1 means that there are no rounds.
    pub rounds: u32,
    /// The settings, in the order of odd rounds.
    pub settings: Vec<Settings>,
    /// The peers that were asked for, absent ones too, in the order of odd rounds.
    pub peers: Vec<String>,
    /// The scenarios, in their order.
    pub scenarios: Vec<PlannedScenario>,
    /// Version, revision and digest of each program, and the machine; empty while they are not known.
    pub programs: BTreeMap<String, String>,
}

/// A scenario of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedScenario {
    /// Its name.
    pub name: String,
    /// Its parameters as they are used: scaled, shortened and set.
    pub parameters: BTreeMap<String, String>,
}

impl RunPlan {
    /// How this plan differs from an earlier one, one sentence each. Programs are compared only if both are known.
    #[must_use]
    pub fn differences(&self, earlier: &Self) -> Vec<String> {
        let mut found = Vec::new();
        let mut compare = |what: &str, now: String, before: String| {
            if now != before {
                found.push(format!("{what}: {before} there, {now} now"));
            }
        };
        let names = |plan: &Self| {
            plan.scenarios.iter().map(|scenario| scenario.name.as_str()).collect::<Vec<_>>().join(", ")
        };
        compare("scenarios", names(self), names(earlier));
        compare("rounds", self.rounds.to_string(), earlier.rounds.to_string());
        compare("settings", format!("{:?}", self.settings), format!("{:?}", earlier.settings));
        compare("peers", self.peers.join(", "), earlier.peers.join(", "));
        for (now, before) in self.scenarios.iter().zip(&earlier.scenarios) {
            if now.name == before.name {
                let label = format!("{}, ", now.name);
                found.extend(maps(&label, &now.parameters, &before.parameters));
            }
        }
        if !self.programs.is_empty() && !earlier.programs.is_empty() {
            found.extend(maps("", &self.programs, &earlier.programs));
        }
        found
    }
}

fn maps(label: &str, now: &BTreeMap<String, String>, before: &BTreeMap<String, String>) -> Vec<String> {
    let keys: std::collections::BTreeSet<_> = now.keys().chain(before.keys()).collect();
    let said = |value: Option<&String>| value.map_or("none", String::as_str).to_owned();
    keys.into_iter()
        .filter(|key| now.get(*key) != before.get(*key))
        .map(|key| format!("{label}{key}: {} there, {} now", said(before.get(key)), said(now.get(key))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> RunPlan {
        let map = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        RunPlan {
            rounds: 4,
            settings: vec![Settings::Recommended],
            peers: vec!["fairway".to_owned()],
            scenarios: vec![PlannedScenario { name: "dynamic".to_owned(), parameters: map("rate", "1500") }],
            programs: map("fairway", "fairway 1, revision a"),
        }
    }

    #[test]
    fn every_difference_is_named_with_both_values() {
        assert_eq!(plan().differences(&plan()), Vec::<String>::new());
        let mut other = plan();
        other.rounds = 2;
        other.peers.push("envoy".to_owned());
        other.scenarios[0].parameters.insert("rate".to_owned(), "300".to_owned());
        other.programs.insert("fairway".to_owned(), "fairway 1, revision b".to_owned());
        assert_eq!(
            other.differences(&plan()),
            [
                "rounds: 4 there, 2 now",
                "peers: fairway there, fairway, envoy now",
                "dynamic, rate: 1500 there, 300 now",
                "fairway: fairway 1, revision a there, fairway 1, revision b now",
            ]
        );
    }

    #[test]
    fn programs_that_are_not_known_yet_are_no_difference() {
        let mut early = plan();
        early.programs.clear();
        assert_eq!(early.differences(&plan()), Vec::<String>::new());
    }
}
