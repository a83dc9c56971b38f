//! What a run is to measure and with which programs, in the words of the results: a run is continued only by the same.
//! Never measures.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use fairway_lab_measure::results::{PeerRecord, PlannedScenario, RunPlan};

use super::arguments::RunArguments;
use super::catalogue::Scenario;
use super::earlier::{self, Beginning, beginning};
use super::handover::Handover;
use super::progress::Progress;
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

/// Completes the plan of a run whose peers are prepared, and finds out whether it begins afresh, continues an earlier one, or
/// has nothing left to do.
pub(super) fn is_done(handover: &mut Handover, arguments: &RunArguments) -> anyhow::Result<bool> {
    let progress = Progress::begin();
    handover.plan.programs = programs(&handover.peers, &handover.artifacts);
    match beginning(&handover.folder, &arguments.results, &handover.plan)? {
        Beginning::Afresh(why) => {
            if let Some(why) = why {
                progress.say(&why);
            }
            handover.preparation.resumes = false;
            Ok(false)
        }
        Beginning::Continue(earlier) => {
            progress.say(&format!("the run there is continued: {}", earlier::progress(&earlier)));
            handover.preparation.resumes = true;
            Ok(false)
        }
        Beginning::Done(_) => {
            progress.say("the run there is complete: nothing is left to measure");
            Ok(true)
        }
    }
}

/// Versions of the peers, the revision of the checkout, digests of Fairway and of the laboratory, and the machine.
fn programs(peers: &[PeerRecord], artifacts: &Artifacts) -> BTreeMap<String, String> {
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
