//! `fairway-lab run` that was interrupted and is continued with `--resume`: what was finished is kept as it was, with its raw
//! histograms, and only the rest is measured. Without a cluster.

#![allow(
    clippy::unwrap_used,
    reason = "a test may; clippy does not see that functions beside tests are tests"
)]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use fairway_lab_measure::results::{Completeness, HISTOGRAMS, Results, Run};
use fairway_testkit::process::fairway_binary;

const LABORATORY: &str = env!("CARGO_BIN_EXE_fairway-lab");

/// A scenario with one case of a few blocks of a tenth of a second.
fn scenario(case: &str) -> String {
    format!(
        "scenario = \"capacity\"\nstudy = \"\"\npurpose = \"?\"\nscaled = []\nown = []\nconnections = 2\nthreads = 1\n\
         seconds = 0.1\nworkers = [1]\nblocks = 2\nbackends = 1\ntimeout_s = 5.0\n\
         cases = [{{ name = \"{case}\", tls = \"none\", bytes = 1024, connect = \"keep-alive\" }}]\n"
    )
}

/// Two scenarios with Fairway alone, outside of any checkout, so that nobody's edit is another revision.
fn two_scenarios(folder: &Path, more: &[&str]) -> Command {
    for name in ["first", "second"] {
        fs::write(folder.join(format!("{name}.toml")), scenario(name)).unwrap();
    }
    let mut command = Command::new(LABORATORY);
    command.current_dir(folder).args(["run", "first.toml", "second.toml", "--peers", "fairway"]);
    command.args(["--out", "out", "--fairway"]).arg(fairway_binary()).args(more);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Interrupts a run in its second scenario.
fn interrupted(folder: &Path) {
    let mut child = two_scenarios(folder, &[]).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let (mut line, mut all) = (String::new(), String::new());
    while !line.contains("capacity: fairway: second") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "it ended before its second scenario: {all}");
        all.push_str(&line);
    }
    assert!(
        all.contains("the plan has 3 steps: prepare fairway; ") && all.contains("step 3 of 3: capacity"),
        "{all}"
    );
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    said.read_to_string(&mut all).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{all}");
    assert!(all.contains("--resume continues it"), "{all}");
}

fn ended(folder: &Path, more: &[&str]) -> (Option<i32>, String) {
    let output = two_scenarios(folder, more).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

fn results(folder: &Path) -> Results {
    fairway_lab_measure::results::read(&folder.join("out")).unwrap()
}

fn text(run: &Run) -> String {
    serde_json::to_string(run).unwrap()
}

/// The names of raw histograms that measures have, and those in the log.
fn histograms(folder: &Path) -> (Vec<String>, Vec<String>) {
    let results = results(folder);
    let loads = results.runs.iter().flat_map(|run| &run.measures).map(|one| &one.load);
    let named: BTreeSet<_> = loads
        .flat_map(|load| [&load.latency, &load.service])
        .filter_map(|one| one.histogram.clone())
        .collect();
    let log = fs::read_to_string(folder.join("out").join(HISTOGRAMS)).unwrap();
    let tag =
        |line: &str| line.strip_prefix("Tag=").and_then(|line| line.split_once(',')).unwrap().0.to_owned();
    let mut listed: Vec<_> = log.lines().map(tag).collect();
    listed.sort();
    (named.into_iter().collect(), listed)
}

#[test]
fn a_run_that_was_interrupted_keeps_what_it_finished_and_measures_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    interrupted(folder.path());
    let before = results(folder.path());
    assert_eq!(before.runs.iter().map(Run::is_finished).collect::<Vec<_>>(), [true, false]);

    let (code, said) = ended(folder.path(), &[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("has a partial run: 1 finished") && said.contains("--replace"), "{said}");
    let (code, said) = ended(folder.path(), &["--resume", "--set", "seconds=0.2"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("capacity, seconds: 0.1 there, 0.2 now"), "{said}");
    assert_eq!(text(&results(folder.path()).runs[0]), text(&before.runs[0]), "neither has changed anything");

    let (code, said) = ended(folder.path(), &["--resume"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("is continued: 1 finished") && !said.contains("fairway: first"), "{said}");
    let after = results(folder.path());
    assert_eq!(after.completeness, Completeness::Complete);
    assert_eq!(after.runs.iter().map(Run::is_finished).collect::<Vec<_>>(), [true, true]);
    assert_eq!(text(&after.runs[0]), text(&before.runs[0]));
    assert!(after.seconds > before.seconds, "{} s and then {} s", before.seconds, after.seconds);
    assert_eq!(after.begun, before.begun);
    assert!(after.limitations.iter().any(|text| text.contains("was interrupted, and continued at")));
    let (named, listed) = histograms(folder.path());
    assert_eq!(named, listed, "each once, and none of the part that was measured again");
    assert!(
        named.iter().any(|name| name.contains("first")) && named.iter().any(|name| name.contains("second"))
    );

    let (code, said) = ended(folder.path(), &["--resume"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("nothing is left to measure"), "{said}");
    assert_eq!(results(folder.path()).seconds, after.seconds);
}

#[test]
fn a_run_that_is_replaced_leaves_nothing_of_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    interrupted(folder.path());
    let begun = results(folder.path()).runs[0].seconds;
    let (code, said) = ended(folder.path(), &["--resume", "--replace", "--set", "connections=1"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("connections: 2 there, 1 now. A new one replaces it"), "{said}");
    let after = results(folder.path());
    assert_eq!((after.completeness.clone(), after.runs.len()), (Completeness::Complete, 2));
    assert_ne!(after.runs[0].seconds, begun);
    assert!(!after.limitations.iter().any(|text| text.contains("continued at")));
    let (named, listed) = histograms(folder.path());
    assert_eq!(named, listed);
}
