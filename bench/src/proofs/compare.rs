//! `fairway compare` of many Ingresses: its time, and its report where nothing differs, compared with what is promised.

use fairway_testkit::proof::compare::{self as proof, CompareFindings};

use super::arguments::CompareArguments;
use super::outcome::ProofReport;
use super::run::to_the_end;

/// Maximum time of a comparison, seconds.
const MAX_SECONDS: f64 = 120.0;
/// The number of Ingresses.
const PROMISED_FOR: usize = 1_000;

/// Runs the proof: the time to compare two controllers that serve the same.
pub(crate) fn compare(arguments: &CompareArguments) -> anyhow::Result<()> {
    let binary = arguments.place.binary()?;
    let ingresses = arguments.ingresses as usize;
    let found =
        to_the_end(proof::compare(&binary, ingresses), || format!("comparing {ingresses} Ingresses"))??;
    let rows = vec![
        ("Ingresses".to_owned(), ingresses.to_string()),
        ("requests".to_owned(), found.probes.to_string()),
        ("differences".to_owned(), found.differences.to_string()),
        ("time".to_owned(), format!("{:.1} s", found.seconds)),
    ];
    let broken = broken_promises(&found);
    ProofReport::new(&binary, found, broken)?.conclude(&rows, &arguments.place.file("compare"))
}

fn broken_promises(found: &CompareFindings) -> Vec<String> {
    let mut broken = Vec::new();
    if found.differences > 0 {
        broken.push(format!("{} differences between two that serve the same", found.differences));
    }
    if found.seconds > MAX_SECONDS && found.ingresses <= PROMISED_FOR {
        broken.push(format!("comparing took {:.1} s, not {MAX_SECONDS} s", found.seconds));
    }
    broken
}
