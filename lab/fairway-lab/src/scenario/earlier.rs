//! The results that a run's folder has from an earlier run: continued, replaced, or in the way. What takes hours is never
//! replaced without being asked to.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context;
use fairway_lab_measure::results::{Absent, Completeness, RESULTS, Results, Run, RunPlan};
use fairway_lab_traffic::load::keep_histograms;

use super::arguments::FolderArguments;

/// How a run begins.
#[derive(Debug)]
pub(super) enum Beginning {
    /// With nothing; why an earlier run is replaced, where that needs a word.
    Afresh(Option<String>),
    /// With what the earlier one has finished.
    Continue(Box<Results>),
    /// There is nothing to do: the earlier one is the same and complete.
    Done(Box<Results>),
}

/// Looks at the results in the folder of a run.
///
/// # Errors
/// There is a partial run that must not be replaced unasked, or one to continue that differs.
pub(super) fn beginning(
    folder: &Path,
    options: &FolderArguments,
    plan: &RunPlan,
) -> anyhow::Result<Beginning> {
    let shown = folder.display();
    if !folder.join(RESULTS).exists() {
        anyhow::ensure!(
            !options.resume || options.replace,
            "--resume: {shown} has no {RESULTS}, so there is no run to continue"
        );
        return Ok(Beginning::Afresh(None));
    }
    let earlier = match fairway_lab_measure::results::read(folder) {
        Ok(earlier) => earlier,
        Err(error) if options.replace => {
            return Ok(Beginning::Afresh(Some(format!("{error:#}; it is replaced"))));
        }
        Err(error) => return Err(error.context("--replace starts over")),
    };
    if options.resume {
        return resumed(earlier, options, plan).with_context(|| format!("--resume: {shown}"));
    }
    let finished = earlier.runs.iter().filter(|run| run.is_finished()).count();
    let is_partial = earlier.completeness != Completeness::Complete;
    anyhow::ensure!(
        !is_partial || finished == 0 || options.replace,
        "{shown} has a partial run: {}. Say --resume to continue it, --replace to start over, or another --out",
        progress(&earlier)
    );
    Ok(Beginning::Afresh(None))
}

fn resumed(earlier: Results, options: &FolderArguments, plan: &RunPlan) -> anyhow::Result<Beginning> {
    let is_complete = earlier.completeness == Completeness::Complete;
    if is_complete && options.replace {
        return Ok(Beginning::Afresh(Some("the run there is complete; a new one replaces it".to_owned())));
    }
    let differences = match &earlier.plan {
        Some(before) => plan.differences(before),
        None => vec!["it was made by a version of the laboratory that could not continue runs".to_owned()],
    };
    if !differences.is_empty() {
        let reason = format!("the run there cannot be continued, it differs: {}", differences.join("; "));
        anyhow::ensure!(options.replace, "{reason}");
        return Ok(Beginning::Afresh(Some(format!("{reason}. A new one replaces it"))));
    }
    Ok(if is_complete { Beginning::Done(earlier.into()) } else { Beginning::Continue(earlier.into()) })
}

/// How far a run has come.
pub(super) fn progress(earlier: &Results) -> String {
    let finished = earlier.runs.iter().filter(|run| run.is_finished());
    let titles: Vec<_> = finished.map(|run| super::rounds::titled(&run.scenario, run.round)).collect();
    match titles.len() {
        0 => "nothing is finished".to_owned(),
        count => format!("{count} finished, the last is {}", titles[count - 1]),
    }
}

/// What of an earlier run is kept: finished pieces, the peers that were absent in them, and their raw histograms.
///
/// # Errors
/// The log of histograms cannot be read or written.
pub(super) fn kept(mut earlier: Results, folder: &Path) -> anyhow::Result<Results> {
    earlier.runs.retain(Run::is_finished);
    let runs = &earlier.runs;
    let is_of = |absent: &Absent, run: &Run| {
        absent.scenario.as_ref() == Some(&run.scenario) && absent.round == run.round
    };
    earlier.absent.retain(|absent| runs.iter().any(|run| is_of(absent, run)));
    let loads = runs.iter().flat_map(|run| &run.measures).map(|measure| &measure.load);
    let names: BTreeSet<String> = loads
        .flat_map(|load| [&load.latency, &load.service])
        .filter_map(|one| one.histogram.clone())
        .collect();
    keep_histograms(folder, &names)?;
    Ok(earlier)
}

#[cfg(test)]
mod tests {
    use fairway_lab_measure::results::{SCHEMA, Settings};
    use serde_json::json;

    use super::*;

    fn plan(rounds: u32) -> RunPlan {
        RunPlan { rounds, settings: vec![Settings::Recommended], ..RunPlan::default() }
    }

    fn run(round: u32, seconds: f64) -> Run {
        Run { scenario: "dynamic".to_owned(), round, seconds, ..Run::default() }
    }

    /// A folder with results of two rounds, the second of which was interrupted.
    fn folder(completeness: Completeness, plan: Option<RunPlan>) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let absent =
            |round: u32| json!({"peer": "caddy", "scenario": "dynamic", "round": round, "reason": "?"});
        let mut results: Results = serde_json::from_value(json!({
            "schema": SCHEMA, "completeness": {"state": "complete"}, "begun": "", "seconds": 60.0, "command": [],
            "environment": fairway_lab_measure::results::Environment::default(), "peers": [],
            "absent": [{"peer": "envoy", "scenario": null, "reason": "?"}, absent(1), absent(2)],
            "runs": [], "limitations": [],
        }))
        .unwrap();
        results.completeness = completeness;
        results.plan = plan;
        results.runs = vec![run(1, 30.0), run(2, 0.0)];
        fairway_lab_measure::results::write(folder.path(), &results).unwrap();
        folder
    }

    fn partial() -> Completeness {
        Completeness::Partial { reason: "interrupted".to_owned() }
    }

    fn options(resume: bool, replace: bool) -> FolderArguments {
        FolderArguments { out: None, resume, replace }
    }

    #[test]
    fn a_partial_run_is_neither_replaced_nor_continued_unasked() {
        let folder = folder(partial(), Some(plan(2)));
        let begin = |resume, replace| beginning(folder.path(), &options(resume, replace), &plan(2));
        let error = begin(false, false).unwrap_err().to_string();
        assert!(error.contains("1 finished, the last is dynamic, round 1"), "{error}");
        assert!(error.contains("--resume") && error.contains("--replace"), "{error}");
        assert!(matches!(begin(false, true).unwrap(), Beginning::Afresh(None)));
        assert!(matches!(begin(true, false).unwrap(), Beginning::Continue(_)));
        assert!(matches!(begin(true, true).unwrap(), Beginning::Continue(_)));
    }

    #[test]
    fn a_run_that_differs_is_not_continued_and_the_difference_is_named() {
        let folder = folder(partial(), Some(plan(2)));
        let begin = |replace| beginning(folder.path(), &options(true, replace), &plan(4));
        let error = format!("{:#}", begin(false).unwrap_err());
        assert!(error.contains("rounds: 2 there, 4 now"), "{error}");
        let Beginning::Afresh(Some(why)) = begin(true).unwrap() else { panic!("it starts over") };
        assert!(why.contains("rounds: 2 there, 4 now"), "{why}");
    }

    #[test]
    fn results_of_a_version_without_plans_are_not_continued() {
        let folder = folder(partial(), None);
        let error = beginning(folder.path(), &options(true, false), &plan(2)).unwrap_err();
        assert!(format!("{error:#}").contains("could not continue runs"), "{error:#}");
    }

    #[test]
    fn a_complete_run_is_done_or_replaced_as_before() {
        let folder = folder(Completeness::Complete, Some(plan(2)));
        let begin = |resume, replace| beginning(folder.path(), &options(resume, replace), &plan(2)).unwrap();
        assert!(matches!(begin(false, false), Beginning::Afresh(None)));
        assert!(matches!(begin(true, false), Beginning::Done(_)));
        assert!(matches!(begin(true, true), Beginning::Afresh(Some(_))));
    }

    #[test]
    fn a_folder_without_results_or_with_broken_ones() {
        let folder = tempfile::tempdir().unwrap();
        let begin = |resume, replace| beginning(folder.path(), &options(resume, replace), &plan(1));
        assert!(matches!(begin(false, false).unwrap(), Beginning::Afresh(None)));
        assert!(matches!(begin(true, true).unwrap(), Beginning::Afresh(None)));
        assert!(begin(true, false).unwrap_err().to_string().contains("no run to continue"));
        std::fs::write(folder.path().join(RESULTS), "{").unwrap();
        assert!(begin(false, false).unwrap_err().to_string().contains("--replace"));
        assert!(matches!(begin(true, true).unwrap(), Beginning::Afresh(Some(_))));
    }

    #[test]
    fn what_was_not_finished_is_not_kept_and_neither_are_its_absences() {
        let folder = folder(partial(), Some(plan(2)));
        let earlier = fairway_lab_measure::results::read(folder.path()).unwrap();
        let kept = kept(earlier, folder.path()).unwrap();
        assert_eq!(kept.runs.iter().map(|run| run.round).collect::<Vec<_>>(), [1]);
        let absent: Vec<_> = kept.absent.iter().map(|one| (one.peer.as_str(), one.round)).collect();
        assert_eq!(absent, [("caddy", 1)]);
    }
}
