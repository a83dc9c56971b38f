//! `fairway-lab run` with input that cannot be used, with a disk that fills and with Ctrl-C in the middle: what it says,
//! what it leaves. Without a cluster; `make lab-test` runs in one.

#![allow(
    clippy::unwrap_used,
    reason = "a test may; clippy does not see that functions beside tests are tests"
)]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fairway_lab_measure::results::{Completeness, Results};
use fairway_testkit::process::fairway_binary;

const LABORATORY: &str = env!("CARGO_BIN_EXE_fairway-lab");

/// Blocks of a tenth of a second, one worker, plain HTTP.
const SHORT: [&str; 8] = [
    "--set",
    "workers=[1]",
    "--set",
    "seconds=0.1",
    "--set",
    "connections=2",
    "--set",
    r#"cases=[{ name = "http", tls = "none", bytes = 1024, connect = "keep-alive" }]"#,
];

/// `run capacity` with Fairway alone. The archive of its image is no image: capacity starts the binary.
fn capacity(mut command: Command, folder: &Path, more: &[&str]) -> Command {
    let archive = folder.join("image.tar");
    fs::write(&archive, "").unwrap();
    command.args(["run", "capacity", "--peers", "fairway"]).args(SHORT);
    command.arg("--fairway").arg(fairway_binary()).arg("--fairway-image").arg(archive).args(more);
    // A group of its own, so that what it leaves can be told from others' processes.
    command.stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    command
}

fn ordered(arguments: &[&str]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let output =
        Command::new(LABORATORY).arg("run").args(arguments).current_dir(folder.path()).output().unwrap();
    assert!(!folder.path().join("lab-results").exists(), "{arguments:?} left a folder");
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
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

fn nothing_is_left_of(leader: u32) {
    let end = Instant::now() + Duration::from_secs(30);
    while !group(leader).is_empty() {
        assert!(Instant::now() < end, "left: {:?}", group(leader));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn partial(results: &Results) -> &str {
    match &results.completeness {
        Completeness::Partial { reason } => reason,
        Completeness::Complete => panic!("the run is not marked as partial"),
    }
}

#[test]
fn input_that_cannot_be_used_is_refused_before_anything_is_made() {
    let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    let text = Command::new(LABORATORY).args(["list", "capacity"]).output().unwrap().stdout;
    let text = String::from_utf8(text).unwrap();
    fs::write(file.path(), text.replacen("\nseconds = ", "\nsecondz = ", 1)).unwrap();
    let file = file.path().to_str().unwrap();
    for (arguments, named) in [
        (vec![file], "unknown field `secondz`"),
        (vec!["nowhere.toml"], "nowhere.toml"),
        (vec!["capacity", "--peers", "apache"], "there is no peer \"apache\"; there are fairway, "),
        (vec!["capacity", "--set", "secs=1"], "there is no parameter secs; there are "),
        (vec!["capacity", "--set", "seconds=nan"], "seconds is NaN; from 0 to"),
        (vec!["capacity", "--set", "seconds=-1.0"], "seconds is -1; from 0 to"),
        (vec!["dynamic", "--peer", "name=a,class=b,address=192.0.2.1"], "say --cluster too"),
        (vec!["dynamic", "--cluster"], "--peer name=...,class=...,address=..."),
        (
            vec!["dynamic", "--cluster", "--peer", "name=a,class=b,address=192.0.2.1,cpu=top"],
            "cpu=top is neither cgroup nor kubelet",
        ),
    ] {
        let (code, said) = ordered(&arguments);
        assert!(code == Some(2) && said.contains(named), "{arguments:?}: {code:?}: {said}");
    }
}

#[test]
fn a_peer_that_is_not_installed_is_absent_with_the_reason() {
    let out = tempfile::tempdir().unwrap();
    let output = Command::new(LABORATORY)
        .args(["run", "capacity", "--peers", "fairway", "--fairway", "/nowhere/fairway"])
        .args(["--fairway-image", "/nowhere/image.tar", "--out"])
        .arg(out.path())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let results = fairway_lab_measure::results::read(out.path()).unwrap();
    assert_eq!(results.absent.len(), 1, "{said}");
    assert!(said.contains(&format!("fairway is absent: {}", results.absent[0].reason)), "{said}");
    assert!(results.runs.iter().all(|run| run.measures.is_empty()));
}

#[test]
fn ctrl_c_in_the_middle_leaves_a_partial_report_and_no_process() {
    let (folder, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut command = capacity(Command::new(LABORATORY), folder.path(), &["--set", "blocks=500", "--out"]);
    let mut child = command.arg(out.path()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("capacity: fairway: http") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "it ended before its first block");
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{rest}");
    nothing_is_left_of(child.id());
    let results = fairway_lab_measure::results::read(out.path()).unwrap();
    assert!(partial(&results).starts_with("interrupted at "), "{}", partial(&results));
    assert!(rest.contains("the run is partial: interrupted"), "{rest}");
    let page = fs::read_to_string(out.path().join("report.html")).unwrap();
    assert!(page.contains("class=\"partial\""));
    let left: Vec<_> = fs::read_dir(out.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with('.')), "{left:?}");
}

/// A folder on a filesystem of so many KiB, for one command, in a mount namespace that ends with it.
fn on_a_small_disk(place: &Path, kib: u32) -> Command {
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let order = "mount -t tmpfs -o size=$1k lab \"$0\" && shift && \"$@\"; code=$?
        cd \"$0\" && tar -cf \"$0.tar\" out && exit $code";
    command.args(["--mount", "--", "sh", "-c", order]).arg(place).arg(kib.to_string()).arg(LABORATORY);
    command
}

#[test]
fn a_disk_that_is_full_from_the_start_is_said_with_its_folder() {
    let (folder, disk) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let disk = disk.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let mut command = capacity(on_a_small_disk(&disk, 1_024), folder.path(), &["--out"]);
    let output = command.arg(disk.join("out")).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(disk.to_str().unwrap()) && said.contains("has no room for them"), "{said}");
    assert!(said.contains("No space left on device"), "{said}");
}

#[test]
fn a_disk_that_fills_in_the_middle_leaves_a_partial_report_and_no_process() {
    let (folder, disk) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let disk = disk.path().join("disk");
    fs::create_dir(&disk).unwrap();
    // Room for the end of a run and some blocks' histograms.
    let small = on_a_small_disk(&disk, 32 * 1_024 + 100);
    let mut command = capacity(small, folder.path(), &["--set", "blocks=500", "--out"]);
    let mut child = command.arg(disk.join("out")).spawn().unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{said}");
    nothing_is_left_of(child.id());
    assert!(said.contains("No space left on device") && said.contains("out/histograms.hlog"), "{said}");
    // What was on the disk, as it was when the command ended.
    let kept = tempfile::tempdir().unwrap();
    let archive = disk.with_extension("tar");
    let unpacked = Command::new("tar").arg("-xf").arg(archive).current_dir(kept.path()).status().unwrap();
    assert!(unpacked.success());
    let results = fairway_lab_measure::results::read(&kept.path().join("out")).unwrap();
    assert!(partial(&results).contains("No space left on device"), "{}", partial(&results));
    let page = fs::read_to_string(kept.path().join("out/report.html")).unwrap();
    assert!(page.contains("class=\"partial\""));
}
