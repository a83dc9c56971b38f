//! `fairway-lab load` as a process: refused arguments, output, exit status.

#![allow(
    clippy::unwrap_used,
    reason = "tests may panic; clippy does not know that helper functions belong to tests"
)]

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use fairway_lab_traffic::backend::{Faults, Options, Server};
use fairway_testkit::free_port;

fn load(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fairway-lab")).arg("load").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn server(faults: Faults) -> (Server, String) {
    let server = Server::start(Options { faults, ..Options::default() }).unwrap();
    let url = format!("http://{}/", server.addresses()[0]);
    (server, url)
}

#[test]
fn a_foreign_target_must_be_confirmed() {
    // TEST-NET-1 of RFC 5737: no host has this address.
    let output = load(&["http://192.0.2.1/", "-n", "1"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("192.0.2.1") && text(&output.stderr).contains("--yes"));
}

#[test]
fn a_refusing_target_is_reported_in_a_sentence() {
    let output = load(&[&format!("http://127.0.0.1:{}/", free_port())]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("nothing listens on 127.0.0.1") && stderr.lines().count() == 1, "{stderr}");
}

#[test]
fn an_untrusted_certificate_is_reported_in_a_sentence() {
    let server = Server::start(Options { tls: true, ..Options::default() }).unwrap();
    let address = server.addresses()[0].to_string();
    let url = format!("https://localhost:{}/", server.addresses()[0].port());
    let ca = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(ca.path(), fairway_testkit::Authority::new("other").pem()).unwrap();
    let ca = ca.path().to_str().unwrap();
    let output = load(&[&url, "--connect", &address, "--ca", ca, "-n", "1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("do not agree on TLS"), "{}", text(&output.stderr));
    let output = load(&[&url, "--connect", &address, "--insecure", "-n", "1"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    server.end();
}

#[test]
fn the_summary_has_the_lines_that_users_of_other_tools_look_for() {
    let (server, url) = server(Faults::default());
    let output = load(&[&url, "--rate", "500", "--requests", "200", "--connections", "4"]);
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{stdout}");
    for line in [
        "Latency Distribution (HdrHistogram",
        " 99.9990%",
        "Requests/sec:",
        "Transfer/sec:",
        "Socket errors: connect 0, read 0, write 0, timeout 0",
        "Status code distribution:",
        "Success       [ratio]  100.0000%",
        "Latencies     [mean, 50, 90, 95, 99, max]",
        "Lateness of the generator",
        "200 requests in",
    ] {
        assert!(stdout.contains(line), "{line:?} is not in\n{stdout}");
    }
    server.end();
}

#[test]
fn errors_make_the_command_fail_and_are_listed_by_class() {
    let (server, url) = server(Faults { statuses: vec![(503, 1.0)], ..Faults::default() });
    let output = load(&[&url, "-n", "20", "--json", "-"]);
    assert_eq!(output.status.code(), Some(1));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["partial"], false);
    assert_eq!(document["load"]["errors"]["status-503"], 20);
    server.end();
}

#[test]
fn ctrl_c_ends_the_run_with_partial_results() {
    let (server, url) = server(Faults::default());
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_fairway-lab"))
        .args(["load", &url, "--rate", "100", "--duration", "60s", "--json", file.path().to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut progress = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut progress).unwrap();
    assert!(progress.contains("requests/s") && progress.contains("errors"), "{progress}");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).starts_with("PARTIAL"), "{}", text(&output.stdout));
    let document: serde_json::Value = serde_json::from_slice(&std::fs::read(file.path()).unwrap()).unwrap();
    assert_eq!(document["partial"], true);
    server.end();
}

#[test]
fn a_full_disk_is_reported() {
    let (server, url) = server(Faults::default());
    let output = load(&[&url, "-n", "5", "--json", "/dev/full"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("is the disk full?"), "{}", text(&output.stderr));
    server.end();
}

#[test]
fn unusable_arguments_are_reported_before_anything_is_sent() {
    for (arguments, named) in [
        (["ftp://127.0.0.1/", "-n", "1"], "http://"),
        (["http://127.0.0.1:1/", "--expect-status", "2xx"], "2xx"),
        (["http://127.0.0.1:1/", "-H", "no colon"], "no colon"),
        (["http://127.0.0.1:1/", "--rate", "0"], "rate"),
    ] {
        let output = load(&arguments);
        let stderr = text(&output.stderr);
        assert!(output.status.code() != Some(0) && stderr.contains(named), "{arguments:?}: {stderr}");
    }
}
