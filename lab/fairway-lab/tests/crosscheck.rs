//! `fairway-lab crosscheck` as a process, with fake tools: how it reads their output, and its report of missing
//! tools.

#![allow(
    clippy::unwrap_used,
    reason = "tests may panic; clippy does not know that helper functions belong to tests"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// A program that prints `text`.
fn program(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n/bin/cat <<'END'\n{text}\nEND\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs it with nothing in PATH but the programs of `folder`: its exit code, its table, what it complains of.
fn crosscheck(folder: &Path, rate: &str) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_fairway-lab"))
        .args(["crosscheck", "--duration", "1", "--connections", "5", "--rate", rate])
        .env("PATH", folder)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_missing_or_unreadable_tool_is_absent_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    program(folder.path(), "wrk", "unable to connect");
    let (code, table, told) = crosscheck(folder.path(), "200");
    assert_eq!(code, Some(0), "{told}");
    for (name, reason) in
        [("wrk", "it printed no line with"), ("hey", "apt-get install hey"), ("oha", "cargo install oha")]
    {
        let line = table.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(line.contains("absent: ") && line.contains(reason), "{table}");
    }
}

#[test]
fn a_tool_that_measures_something_else_disagrees_and_makes_it_fail() {
    let folder = tempfile::tempdir().unwrap();
    program(folder.path(), "hey", "  Requests/sec:\t100.0\n  50% in 0.0060 secs\n  99% in 0.0070 secs");
    let (code, table, told) = crosscheck(folder.path(), "200");
    assert_eq!(code, Some(1), "{table}{told}");
    assert!(table.contains("hey against own: -") && table.contains("rate DISAGREES"), "{table}");
}

#[test]
fn a_rate_that_connections_cannot_share_evenly_is_refused() {
    let (code, _, told) = crosscheck(tempfile::tempdir().unwrap().path(), "201");
    assert!(code == Some(2) && told.contains("not a multiple"), "{told}");
}
