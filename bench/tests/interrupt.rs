//! An interrupted `fairway-bench run`: its message, and that it leaves no process behind.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The program `floor` is built with the benchmark and needs no other program.
fn run(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairway-bench"));
    command.args([
        "run",
        "--peers",
        "floor",
        "--scenario",
        "http-1k-50",
        "--blocks",
        "200",
        "--seconds",
        "0.1",
    ]);
    // Its own process group, so that processes it leaves behind can be identified.
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    command
}

/// The processes of a group that are no zombies, by their command lines.
fn group(leader: u32) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let of_group = |process: &std::path::PathBuf| {
        let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
        let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let (state, group) = (fields.next(), fields.nth(1));
        state.is_some_and(|state| state != "Z") && group == Some(leader.to_string().as_str())
    };
    let line = |process: std::path::PathBuf| fs::read_to_string(process.join("cmdline")).unwrap_or_default();
    processes.filter(of_group).map(line).collect()
}

#[test]
fn ctrl_c_in_the_middle_leaves_no_process_and_no_results() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results.json");
    let mut child = run(&["--out", out.to_str().unwrap()]).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("http-1k-50 1/200") {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended before its first round");
    }
    assert!(group(child.id()).len() > 1, "the proxy is in its group");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    assert!(!child.wait().unwrap().success(), "{rest}");
    assert!(rest.contains("interrupted"), "{rest}");
    let end = Instant::now() + Duration::from_secs(30);
    while !group(child.id()).is_empty() {
        assert!(Instant::now() < end, "left: {:?}", group(child.id()));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!out.exists());
}

#[test]
fn results_that_cannot_be_written_are_known_before_anything_is_measured() {
    let out = "/proc/results.json";
    let output = run(&["--out", out]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && stderr.contains(out), "{stderr}");
    assert!(!stderr.contains("http-1k-50 1/"), "{stderr}");
}
