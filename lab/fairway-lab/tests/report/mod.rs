//! The report as readers meet it: as a file, and in README. Results are synthetic ([`fixture`]).

mod file;
mod fixture;
mod published;
mod readme;

use std::path::Path;
use std::process::Command;

/// Runs the command in a folder; returns its exit status and output.
fn laboratory(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairway-lab"));
    let output = command.args(arguments).current_dir(folder).output().unwrap();
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}
