//! What a run is to measure and with which programs, in the words of the results: a run is continued only by the same.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use fairway_lab_results::{PeerRecord, PlannedScenario, RunPlan};

use super::arguments::RunArguments;
use super::catalogue::Scenario;
use crate::peers::Artifacts;

/// The plan of a run whose programs are not known yet.
pub(super) fn plan(arguments: &RunArguments, scenarios: &[Scenario], peers: Vec<String>) -> RunPlan {
    let planned = |scenario: &Scenario| PlannedScenario {
        name: scenario.name().to_owned(),
        parameters: scenario
            .definition
            .parameters
            .iter()
            .map(|parameter| (parameter.name.clone(), parameter.used.clone()))
            .collect(),
    };
    RunPlan {
        rounds: arguments.scope.rounds(),
        settings: arguments.settings(),
        peers,
        scenarios: scenarios.iter().map(planned).collect(),
        programs: BTreeMap::new(),
    }
}

/// Versions of the peers, the revision of the checkout, digests of Fairway and of the laboratory, and the machine.
pub(super) fn programs(peers: &[PeerRecord], artifacts: &Artifacts) -> BTreeMap<String, String> {
    let versions = peers.iter().flat_map(|peer| {
        peer.versions.iter().map(|(program, version)| (format!("{} ({program})", peer.name), version.clone()))
    });
    let mut all: BTreeMap<_, _> = versions.collect();
    if peers.iter().any(|peer| peer.name == "fairway") {
        all.insert("binary of fairway".to_owned(), digest(&artifacts.fairway));
    }
    all.insert("binary of fairway-lab".to_owned(), digest(&artifacts.laboratory));
    all.insert("revision".to_owned(), fairway_lab_measure::revision());
    let machine = fairway_lab_measure::environment();
    all.insert("machine".to_owned(), format!("{}, {} CPUs, {}", machine.cpu, machine.cpus, machine.kernel));
    all
}

/// The beginning of a file's SHA-256: what was built anew is another program.
fn digest(file: &Path) -> String {
    let output = Command::new("sha256sum").arg("--").arg(file).output().ok();
    let text = output.filter(|output| output.status.success()).map(|output| output.stdout);
    text.and_then(|text| Some(String::from_utf8(text).ok()?.get(..16)?.to_owned()))
        .unwrap_or_else(|| "unknown".to_owned())
}
