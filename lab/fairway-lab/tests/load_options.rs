//! Every option of `fairway-lab load` by what it changes, as a user sees it: on the wire, in the JSON, in the summary.

#![allow(
    clippy::unwrap_used,
    reason = "tests may panic; clippy does not know that helper functions belong to tests"
)]

use std::collections::BTreeSet;
use std::process::{Command, Output};

use fairway_echo::{EchoOptions, EchoServer};
use fairway_lab_traffic::backend::{Options, Server};
use fairway_testkit::{Authority, Backend, BackendResponse, ScriptStep};
use serde_json::Value;

fn command(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fairway-lab")).arg("load").args(arguments).output().unwrap()
}

/// The output of the process, served by the test's backend.
async fn load(arguments: &[&str]) -> Output {
    let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
    tokio::task::spawn_blocking(move || command(&arguments.iter().map(String::as_str).collect::<Vec<_>>()))
        .await
        .unwrap()
}

/// Its output as JSON; asserts that it succeeds.
async fn json(arguments: &[&str]) -> Value {
    let output = load(&[arguments, &["--json", "-"]].concat()).await;
    assert!(output.status.success(), "{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
    serde_json::from_slice::<Value>(&output.stdout).unwrap()["load"].take()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

async fn echo() -> (Backend, String) {
    let backend = Backend::http(|_| BackendResponse::with_headers(200, &[("X-Route", "a")], "hello")).await;
    let url = format!("http://{}/first", backend.address());
    (backend, url)
}

/// The long options of the help.
fn options() -> BTreeSet<String> {
    let help = text(&command(&["--help"]).stdout);
    help.lines()
        .filter_map(|line| {
            line.trim_start().split("--").nth(1).filter(|_| line.trim_start().starts_with('-'))
        })
        .map(|rest| format!("--{}", rest.split([' ', '<', ',']).next().unwrap()))
        .filter(|option| option != "--help")
        .collect()
}

#[test]
fn every_option_is_used_by_a_test() {
    let tests = [include_str!("load_options.rs"), include_str!("load_command.rs")].concat();
    let options = options();
    assert!(options.len() > 25, "{options:?}");
    let untried: Vec<_> = options.iter().filter(|option| !tests.contains(&format!("\"{option}\""))).collect();
    assert!(untried.is_empty(), "no test gives {untried:?}");
}

#[tokio::test]
async fn a_request_is_made_from_its_options() {
    let (backend, url) = echo().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), b"from a file").unwrap();
    let file = format!("@{}", file.path().display());
    let common = ["--requests", "2", "--connections", "1", "--method", "PUT", "--path", "/second", "--ids"];
    let fields = ["--header", "X-One: 1", "--header", "X-Two:  two words "];
    json(&[&[url.as_str(), "--body", "typed"], &common[..], &fields[..]].concat()).await;
    json(&[&[url.as_str(), "--body", &file], &common[..]].concat()).await;

    let requests = backend.requests();
    let bodies: Vec<_> = requests.iter().map(|request| text(&request.body)).collect();
    assert_eq!(bodies, ["typed", "typed", "from a file", "from a file"]);
    let targets: Vec<_> = requests.iter().map(|request| request.target.as_str()).collect();
    assert_eq!(targets, ["/first", "/second", "/first", "/second"]);
    assert!(requests.iter().all(|request| request.method == "PUT"));
    assert_eq!(
        (requests[1].header("x-one"), requests[1].header("x-two"), requests[2].header("x-one")),
        (Some("1"), Some("two words"), None)
    );
    let ids: BTreeSet<_> = requests.iter().map(|request| request.header("x-lab-id").unwrap()).collect();
    assert_eq!(ids.len(), 4, "{ids:?}");
}

#[tokio::test]
async fn an_interim_response_is_not_the_response() {
    let responses = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let backend = Backend::scripted([
        ScriptStep::ReadRequest,
        ScriptStep::Send(responses.as_bytes().to_vec()),
        ScriptStep::Repeat,
    ])
    .await;
    let url = format!("http://{}/", backend.address());
    let stdout =
        json(&[&url, "-n", "3", "-c", "1", "-X", "POST", "--body", "abc", "-H", "Expect: 100-continue"])
            .await;
    assert_eq!(
        (stdout["counts"]["ok"].as_u64(), stdout["counts"]["connections"].as_u64()),
        (Some(3), Some(1))
    );
    assert_eq!(backend.requests()[2].header("expect"), Some("100-continue"));
}

#[tokio::test]
async fn the_expected_response_can_be_configured() {
    let backend = Backend::http(|_| BackendResponse::with_headers(404, &[("X-Route", "a")], "")).await;
    let url = format!("http://{}/", backend.address());
    for (list, header, class) in [
        ("200-299", "X-Route: a", Some("status-404")),
        ("200,400-404", "X-Route: a", None),
        ("404", "X-Route: b", Some("wrong-route")),
    ] {
        let arguments =
            [url.as_str(), "-n", "1", "--expect-status", list, "--expect-header", header, "--json", "-"];
        let output = load(&arguments).await;
        assert_eq!(output.status.success(), class.is_none(), "{list} {header}");
        let results: Value = serde_json::from_slice(&output.stdout).unwrap();
        let errors: Vec<_> = results["load"]["errors"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(errors.first().map(String::as_str), class, "{list} {header}");
    }
}

#[tokio::test]
async fn connections_use_the_configured_addresses() {
    let (first, _) = echo().await;
    let (second, _) = echo().await;
    let (one, other) = (first.address().to_string(), second.address().to_string());
    let both = ["--connect", &one, "--connect", &other, "-n", "8", "-c", "4", "--rate", "400"];
    json(&[&["http://shop.test/"], &both[..]].concat()).await;
    assert!(first.request_count() > 0 && second.request_count() > 0);
    assert_eq!(second.requests()[0].header("host"), Some("shop.test"));
}

#[tokio::test]
async fn pace_and_shape_are_configurable() {
    let server = Server::start(Options::default()).unwrap();
    let url = format!("http://{}/", server.addresses()[0]);
    let shape = ["--connections", "6", "--threads", "2", "--bucket", "100ms"];
    let results = json(&[&[url.as_str(), "--rate", "200", "--duration", "1s"], &shape[..]].concat()).await;
    assert_eq!(
        (results["offered"]["connections"].as_u64(), results["offered"]["threads"].as_u64()),
        (Some(6), Some(2))
    );
    assert_eq!(results["counts"]["requests"], 200);
    assert_eq!(results["over_time"]["series"].as_array().unwrap().len(), 10);
    let output = load(&[&url, "-R", "200", "-n", "20", "--poisson"]).await;
    assert!(text(&output.stdout).contains("200 requests/s (open loop, Poisson)"));
    let results = json(&[&url, "--new-connections", "-n", "12", "-c", "2"]).await;
    assert_eq!(results["counts"]["connections"], 12);
    server.end();
}

#[tokio::test]
async fn http2_uses_the_configured_number_of_streams() {
    let listen = vec!["127.0.0.1:0".parse().unwrap()];
    let server = EchoServer::bind(EchoOptions { listen, ..EchoOptions::default() }).await.unwrap();
    let url = format!("http://{}/", server.addresses()[0]);
    let (shutdown, told) = tokio::sync::oneshot::channel::<()>();
    let task = tokio::spawn(server.run(async move { told.await.unwrap_or(()) }));
    let output = load(&[&url, "--http2", "--streams", "3", "-c", "2", "-n", "60"]).await;
    let stdout = text(&output.stdout);
    assert!(output.status.success(), "{stdout}");
    assert!(
        stdout.contains("2 connections of HTTP/2 with 3 streams") && stdout.contains("2 connections opened")
    );
    let output = load(&[&url, "--streams", "3"]).await;
    assert!(text(&output.stderr).contains("--http2"), "{}", text(&output.stderr));
    // If the server ended on its own, the next line fails.
    _ = shutdown.send(());
    task.await.unwrap();
}

#[tokio::test]
async fn tls_options_are_applied() {
    let authority = Authority::new("lab");
    let leaf = authority.leaf(&["a.test"]);
    let backend = Backend::https(leaf.server_config(&["http/1.1"]), |_| BackendResponse::ok("")).await;
    let address = backend.address().to_string();
    let ca = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(ca.path(), authority.pem()).unwrap();
    let ca = ca.path().to_str().unwrap();
    let common =
        ["https://a.test/", "--connect", &address, "--ca", ca, "-n", "6", "-c", "1", "--new-connections"];

    let results = json(&[&common[..], &["--tls-version", "1.2", "--no-resumption"]].concat()).await;
    assert_eq!(results["tls"]["version"], "TLSv1.2");
    assert_eq!(
        (results["counts"]["full_handshakes"].as_u64(), &results["errors"]),
        (Some(6), &serde_json::json!({}))
    );
    let cipher = "TLS_AES_256_GCM_SHA384";
    let results = json(&[&common[..], &["--tls-version", "1.3", "--cipher", cipher]].concat()).await;
    assert_eq!(
        (results["tls"]["version"].as_str(), results["tls"]["cipher"].as_str()),
        (Some("TLSv1.3"), Some(cipher))
    );
    assert_eq!(results["counts"]["resumed_handshakes"], 5);

    let output = load(&["https://b.test/", "--connect", &address, "--ca", ca, "-n", "1"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("not valid for name"), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("(see --ca and --insecure)"), "{}", text(&output.stderr));
    json(&["https://b.test/", "--connect", &address, "--insecure", "-n", "1"]).await;
    let output = load(&["https://a.test/", "--connect", &address, "-k", "--http2", "-n", "1"]).await;
    assert!(text(&output.stderr).contains("ALPN"), "{}", text(&output.stderr));
}

#[tokio::test]
async fn the_timeout_is_configurable() {
    let backend = Backend::http(|_| BackendResponse::Silence).await;
    let url = format!("http://{}/", backend.address());
    let output = load(&[&url, "-n", "1", "--timeout", "150ms", "--json", "-"]).await;
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let example = &results["load"]["examples"][0];
    assert_eq!(example["class"], "head-timeout");
    let after = example["after_ms"].as_f64().unwrap();
    assert!((149.0..1_500.0).contains(&after), "{after}");
}

#[tokio::test]
async fn quiet_prints_nothing_and_the_histogram_has_the_latencies() {
    let (_backend, url) = echo().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let output = load(&[&url, "-n", "30", "--quiet", "--histogram", path]).await;
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty());
    let bytes = std::fs::read(path).unwrap();
    let read: hdrhistogram::Histogram<u64> =
        hdrhistogram::serialization::Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
    assert_eq!(read.len(), 30);
    let output = load(&[&url, "-n", "1", "--histogram", "/nowhere/at/all"]).await;
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--histogram /nowhere/at/all: the file cannot be written"));
}

#[tokio::test]
async fn options_without_effect_are_refused() {
    let (backend, url) = echo().await;
    for (arguments, named) in [
        (&["--requests", "0"][..], "nothing to send"),
        (&["--duration", "0s"], "nothing to send"),
        (&["--connections", "0"], "--connections"),
        (&["--bucket", "0s"], "--bucket"),
        (&["--poisson"], "--rate"),
        (&["--cipher", "TLS_AES_256_GCM_SHA384"], "--cipher is about TLS"),
        (&["--header", "Host: x"], "Host"),
    ] {
        let output = load(&[&[url.as_str()], arguments].concat()).await;
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(named), "{arguments:?}: {}", text(&output.stderr));
    }
    assert_eq!(backend.connection_count(), 0);
}

#[tokio::test]
async fn the_summary_counts_failures_in_the_columns_of_wrk() {
    let close = Backend::scripted([ScriptStep::ReadRequest, ScriptStep::Close]).await;
    let silent = Backend::scripted([ScriptStep::ReadRequest]).await;
    for (backend, timeout, line) in [
        (&close, "10s", "Socket errors: connect 0, read 2, write 0, timeout 0"),
        (&silent, "150ms", "Socket errors: connect 0, read 0, write 0, timeout 2"),
    ] {
        let url = format!("http://{}/", backend.address());
        let output = load(&[&url, "-n", "2", "-c", "1", "--timeout", timeout]).await;
        let stdout = text(&output.stdout);
        assert!(stdout.contains(line) && stdout.contains("No complete answer"), "{stdout}");
        assert!(stdout.contains("Success       [ratio]  0.0000%"), "{stdout}");
    }
}

#[tokio::test]
async fn a_confirmed_target_is_loaded() {
    // Loopback needs no confirmation. Other addresses cannot be tested without sending load to them.
    let (backend, url) = echo().await;
    json(&[&url, "-n", "1", "--yes"]).await;
    assert_eq!(backend.request_count(), 1);
}
