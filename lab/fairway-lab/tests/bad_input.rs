//! `fairway-lab run` with unusable input: its messages, and that it leaves nothing behind. Tests that need
//! a cluster belong to `make lab-test`.

#![allow(
    clippy::unwrap_used,
    reason = "tests may panic; clippy does not know that helper functions belong to tests"
)]

use std::fs;
use std::process::Command;

const LABORATORY: &str = env!("CARGO_BIN_EXE_fairway-lab");

fn run_command(arguments: &[&str]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let output =
        Command::new(LABORATORY).arg("run").args(arguments).current_dir(folder.path()).output().unwrap();
    assert!(!folder.path().join("lab-results").exists(), "{arguments:?} left a folder");
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn unusable_input_is_refused_before_anything_is_created() {
    let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    let text = Command::new(LABORATORY).args(["list", "dynamic"]).output().unwrap().stdout;
    let text = String::from_utf8(text).unwrap();
    fs::write(file.path(), text.replacen("\nstatic_s = ", "\nstatic_z = ", 1)).unwrap();
    let file = file.path().to_str().unwrap();
    let existing = tempfile::tempdir().unwrap();
    fs::write(existing.path().join("results.json"), "{}").unwrap();
    let existing = existing.path().to_str().unwrap();
    for (arguments, message) in [
        (vec![file], "unknown field `static_z`"),
        (vec!["nowhere.toml"], "nowhere.toml"),
        (vec!["dynamic", "--peers", "apache"], "there is no peer \"apache\"; there are fairway, "),
        (vec!["dynamic", "--set", "secs=1"], "there is no parameter secs; there are "),
        (vec!["dynamic", "--set", "static_s=nan"], "static_s is NaN; from 0 to"),
        (vec!["dynamic", "--set", "static_s=-1.0"], "static_s is -1; from 0 to"),
        (vec!["dynamic", "--peer", "name=a,class=b,address=192.0.2.1"], "say --cluster too"),
        (vec!["dynamic", "--cluster"], "--peer name=...,class=...,address=..."),
        (
            vec!["dynamic", "--cluster", "--peer", "name=a,class=b,address=192.0.2.1,cpu=top"],
            "cpu=top is neither cgroup nor kubelet",
        ),
        (
            vec![
                "dynamic",
                "--cluster",
                "--yes",
                "--backend-image",
                "none",
                "--peer",
                "name=a,class=b,address=192.0.2.1",
                "--out",
                existing,
            ],
            "has results already: say --replace, or another --out",
        ),
    ] {
        let (code, stderr) = run_command(&arguments);
        assert!(code == Some(2) && stderr.contains(message), "{arguments:?}: {code:?}: {stderr}");
    }
}
