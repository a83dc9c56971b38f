//! The whole of `results.json`: what a run was made on and with, what it was to measure, and what it found.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::results::figure;
use crate::results::measure::Settings;
use crate::results::run::Run;

/// The number of the schema. It grows when a reader of the one before would misread a file.
pub const SCHEMA: u32 = 1;

/// Everything that one `fairway-lab run` found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// [`SCHEMA`] of the program that wrote it.
    pub schema: u32,
    /// Whether every scenario ended as planned.
    pub completeness: Completeness,
    /// When the run began, RFC 3339 in UTC.
    pub begun: String,
    /// How long it took, seconds; with all of its parts where it was continued.
    #[serde(deserialize_with = "figure::one")]
    pub seconds: f64,
    /// The command line as it was given.
    pub command: Vec<String>,
    /// The machine and the programs.
    pub environment: Environment,
    /// What was measured.
    pub peers: Vec<PeerRecord>,
    /// What should have been measured and could not be.
    pub absent: Vec<Absent>,
    /// One for each scenario, or for each scenario and round.
    pub runs: Vec<Run>,
    /// What a reader must know before believing a figure, one sentence each.
    pub limitations: Vec<String>,
    /// What was to be measured, so that a partial run can be continued; older files have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<RunPlan>,
}

/// Whether a run ended as planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum Completeness {
    /// Every scenario with every peer that can be had.
    Complete,
    /// It ended before its end.
    Partial {
        /// Why, e.g. `interrupted by Ctrl-C in dynamic, peer envoy`.
        reason: String,
    },
}

/// The machine and the programs of the laboratory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Environment {
    /// The model of the CPU as the kernel names it.
    pub cpu: String,
    /// Logical CPUs that the run could use.
    pub cpus: u32,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// The distribution's name and version.
    pub system: String,
    /// `testbed`, `local` (no cluster) or the name of the user's context.
    pub place: String,
    /// Kubernetes' version where there is a cluster.
    pub kubernetes: Option<String>,
    /// The laboratory's version and revision.
    pub laboratory: String,
    /// More facts by name, e.g. `load average before the run`, `open files`, `clock source`.
    pub facts: BTreeMap<String, String>,
}

/// What kind of thing a peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PeerKind {
    /// A real controller.
    Controller,
    /// A proxy under the laboratory's own adapter, which does what a controller of that proxy does.
    Adapter,
    /// A controller that the user described and that runs in the user's cluster.
    Described,
    /// No proxy: straight to the pods. What the machine itself does.
    Direct,
}

/// A peer as it was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PeerRecord {
    /// The name that measures use: `fairway`, `nginx-reload`, `haproxy`, `envoy`, `caddy`, `contour`, `traefik`, `direct`.
    pub name: String,
    /// For people, e.g. `nginx 1.22.1 under the adapter (reload)`.
    pub title: String,
    /// What kind of thing it is.
    pub kind: PeerKind,
    /// What it stands for among controllers, e.g. `NGINX OSS`.
    pub stands_for: String,
    /// Versions by program.
    pub versions: BTreeMap<String, String>,
    /// Full configurations and manifests, as they were used.
    pub configurations: Vec<NamedText>,
}

/// A text with its name: a configuration, a manifest, a command line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NamedText {
    /// Its name, e.g. `nginx.conf (recommended)`.
    pub name: String,
    /// The whole text.
    pub text: String,
}

/// A peer that could not be had, or a scenario that it could not take part in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absent {
    /// The peer.
    pub peer: String,
    /// The scenario, if it is about one.
    pub scenario: Option<String>,
    /// The round of that scenario, if there are rounds; else 0.
    #[serde(default, skip_serializing_if = "crate::results::run::is_zero")]
    pub round: u32,
    /// Why, in a sentence that names what was tried.
    pub reason: String,
}

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
    let keys: BTreeSet<_> = now.keys().chain(before.keys()).collect();
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
        // Programs that are not known yet are no difference.
        let early = RunPlan { programs: BTreeMap::new(), ..plan() };
        assert_eq!([plan(), early].map(|one| one.differences(&plan()).len()), [0, 0]);
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
}
