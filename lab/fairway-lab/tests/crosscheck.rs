//! `fairway-lab crosscheck` as a process, with tools that a test wrote: what it takes from them, and what it says of
//! those that are not there.

#![allow(
    clippy::unwrap_used,
    reason = "a test may; clippy does not see that functions beside tests are tests"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// A program that prints what `text` is.
fn program(folder: &Path, name: &str, text: &str) {
    let place = folder.join(name);
    fs::write(&place, format!("#!/bin/sh\ncat <<'END'\n{text}\nEND\n")).unwrap();
    fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Puts programs of the system into a folder.
fn link(folder: &Path, names: &[&str]) {
    for name in names {
        let found =
            ["/bin", "/usr/bin"].iter().map(|bin| Path::new(bin).join(name)).find(|place| place.exists());
        std::os::unix::fs::symlink(found.unwrap(), folder.join(name)).unwrap();
    }
}

/// A `cargo` that does what this script does.
fn cargo(folder: &Path, script: &str) {
    let place = folder.join("cargo");
    fs::write(&place, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
    link(folder, &["nice", "mkdir", "cp"]);
}

fn report(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Runs it with nothing in PATH but a shell's own programs and those of `folder`. No cargo, so that oha is not built.
fn crosscheck(folder: &Path, arguments: &[&str]) -> Output {
    let shell = tempfile::tempdir().unwrap();
    link(shell.path(), &["sh", "cat"]);
    let path = format!("{}:{}", folder.display(), shell.path().display());
    Command::new(env!("CARGO_BIN_EXE_fairway-lab"))
        .args(["crosscheck", "--duration", "1", "--connections", "5", "--lateness-rate", "300"])
        .args(if arguments.contains(&"--rate") {
            arguments.to_vec()
        } else {
            [&["--rate", "200"], arguments].concat()
        })
        .env("PATH", path)
        .env("XDG_CACHE_HOME", folder)
        .output()
        .unwrap()
}

#[test]
fn a_tool_that_is_not_there_is_absent_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let output = crosscheck(folder.path(), &["--json", "-"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let absent: Vec<_> =
        report["absent"].as_array().unwrap().iter().map(|tool| tool[0].as_str().unwrap()).collect();
    assert_eq!(absent, ["wrk", "hey", "h2load", "oha"]);
    assert!(report["absent"][0][1].as_str().unwrap().contains("Debian's package wrk"));
    assert!(report["absent"][3][1].as_str().unwrap().contains("cannot be built"));
    assert!(report["lateness"]["p50_ms"].is_number());
}

#[test]
fn a_tool_that_measures_something_else_disagrees_and_makes_it_fail() {
    let folder = tempfile::tempdir().unwrap();
    program(folder.path(), "hey", "  Requests/sec:\t100.0\n  50% in 0.0060 secs\n  99% in 0.0070 secs");
    let output = crosscheck(folder.path(), &[]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("hey against ours") && said.contains("rate DISAGREES"), "{said}");
    assert!(said.contains("noise floor") && said.contains("lateness of our own at 300/s"), "{said}");
}

#[test]
fn a_tool_that_prints_nonsense_is_absent_and_not_guessed() {
    let folder = tempfile::tempdir().unwrap();
    program(folder.path(), "wrk", "unable to connect");
    let output = crosscheck(folder.path(), &["--json", "-"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["blocks"].as_array().unwrap().is_empty());
    assert!(report["absent"][0][1].as_str().unwrap().contains("Requests/sec:"));
}

#[test]
fn a_rate_that_connections_cannot_share_evenly_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let output = crosscheck(folder.path(), &["--rate", "201"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("not a multiple"));
}

#[test]
fn oha_is_built_once_into_the_cache_and_found_there_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let built =
        r#"{"summary": {"requestsPerSec": 200.0}, "latencyPercentiles": {"p50": 0.006, "p99": 0.007}}"#;
    program(folder.path(), "built", built);
    let built = folder.path().join("built");
    cargo(
        folder.path(),
        &format!(
            "while [ \"$1\" != --root ]; do shift; done; mkdir -p \"$2/bin\" && cp '{}' \"$2/bin/oha\"",
            built.display()
        ),
    );
    let first = crosscheck(folder.path(), &["--json", "-"]);
    assert_eq!(report(&first)["blocks"][0]["tool"], "oha", "{}", String::from_utf8_lossy(&first.stdout));
    assert!(String::from_utf8_lossy(&first.stderr).contains("building oha"));
    fs::remove_file(folder.path().join("cargo")).unwrap();
    let second = crosscheck(folder.path(), &["--json", "-"]);
    assert_eq!(report(&second)["blocks"][0]["tool"], "oha");
    assert!(!String::from_utf8_lossy(&second.stderr).contains("building oha"));
}

#[test]
fn a_registry_that_cannot_be_reached_is_told_with_its_cause() {
    let folder = tempfile::tempdir().unwrap();
    cargo(
        folder.path(),
        "cat >&2 <<'END'\n    Updating crates.io index\nerror: download of config.json failed\n\nCaused by:\n  failed to \
         download\n\nCaused by:\n  [7] Could not connect to server\nEND\nexit 101",
    );
    let output = crosscheck(folder.path(), &["--json", "-"]);
    let why = report(&output)["absent"][3][1].as_str().unwrap().to_owned();
    assert!(
        why.contains("cannot be built: download of config.json failed: [7] Could not connect to server"),
        "{why}"
    );
}
