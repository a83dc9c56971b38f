//! The long form: runs all suites against the binary and every installed peer, with real servers as readers of the forwarded
//! bytes. Writes `conformance/conformance.json` with all results, and `docs/conformance.md`, which `page` generates from it.

mod gateway;
mod otel;
mod page;
mod peers;
mod scan;

use std::path::{Path, PathBuf};

use fairway_testkit::golden;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::conformance::fronts::{self, Front, Spoken, fairway_before_http2};
use crate::conformance::recorder::Recorder;
use crate::conformance::smuggling::{self, Direction, servers};
use crate::conformance::{http1, websocket};

pub(crate) fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

const RESULTS: &str = "conformance/conformance.json";
const DOCUMENT: &str = "docs/conformance.md";

/// The path for a file that the repository keeps: the file itself with `UPDATE=1`, otherwise a copy in the target folder, so that
/// a run does not modify the checkout.
pub(crate) fn output(default_name: &str) -> PathBuf {
    if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
        return checkout().join(default_name);
    }
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(default_name);
    std::fs::create_dir_all(path.parent().expect("the file is in a folder")).unwrap();
    println!("this run writes {}; UPDATE=1 writes {default_name} instead", path.display());
    path
}

#[tokio::test]
#[ignore = "minutes, and Go, Node, Python, nginx, HAProxy and Envoy where they are: make conformance"]
async fn report() {
    let mut reports = Vec::new();
    let revision = revision().await;
    // Written after each proxy, so that an interrupted run keeps its results.
    for name in fronts::names() {
        // A separate recorder, so that late bytes of one proxy are not attributed to another.
        let recorder = Recorder::start().await;
        let front = fronts::named(name, recorder.address, Spoken::Http1).await.unwrap();
        println!("{name} {}", front.version);
        let mut report = rules(&front, &recorder).await;
        if reports.is_empty() {
            add_own_results(&front, &recorder, &mut report).await;
        }
        reports.push(report);
        write(&json!({"command": "make conformance", "revision": revision, "proxies": reports}));
    }
    let fairway = &reports[0];
    for direction in fairway["smuggling"].as_array().unwrap() {
        let (name, found) = (&direction["direction"], &direction["ambiguities"]);
        assert!(found.is_null() || *found == 0, "{name}: {direction:#}");
        assert_eq!(direction["given_up_early"], json!([]), "{name}: answered later");
    }
    for run in fairway["websocket"].as_array().unwrap() {
        assert_eq!(run["same"], run["cases"], "{run:#}");
    }
    assert_eq!(fairway["http1"]["as_expected"], fairway["http1"]["cases"], "{:#}", fairway["http1"]);
    assert_eq!(scan::weaknesses(&fairway["tls_scan"]), Vec::<String>::new(), "{:#}", fairway["tls_scan"]);
}

/// Endpoints of HTTP/2.
async fn towards_http2() -> Vec<Value> {
    let recorder = Recorder::start_http2().await;
    let front = fairway_before_http2(recorder.address).await;
    smuggling::report(&front, &recorder, &Direction::TO_HTTP2, &[]).await
}

fn write(found: &Value) {
    let text = format!("{found:#}\n");
    std::fs::write(output(RESULTS), &text).unwrap();
    std::fs::write(output(DOCUMENT), page::render_page(&serde_json::from_str(&text).unwrap())).unwrap();
}

/// The cases that peers run too; their known deviations are listed case by case.
async fn rules(front: &Front, recorder: &Recorder) -> Value {
    let (cleartext, tls) =
        (h2spec(front.http.to_string(), None).await, h2spec(front.https.to_string(), Some("--tls")).await);
    let http1 = http1::report(front, recorder).await;
    json!({"name": front.name, "version": front.version, "h2spec": {"cleartext": cleartext, "tls": tls},
        "http1": http1})
}

/// The cases that only Fairway runs.
async fn add_own_results(front: &Front, recorder: &Recorder, report: &mut Value) {
    let servers = servers::all().await;
    let mut smuggled = smuggling::report(front, recorder, &Direction::TO_HTTP1, &servers).await;
    smuggled.extend(towards_http2().await);
    report["smuggling"] = json!(smuggled);
    report["websocket"] =
        websocket::report(async |backend, spoken| fronts::named(front.name, backend, spoken).await).await;
    report["tls_scan"] = scan::run_scanners(&checkout(), front.https).await;
}

/// The results of h2spec; null if there is no Go to build it.
async fn h2spec(address: String, tls: Option<&str>) -> Value {
    if Command::new("go").arg("version").output().await.is_err() {
        return Value::Null;
    }
    let out = tempfile::NamedTempFile::new().unwrap();
    let mut command = Command::new(checkout().join("conformance/h2spec/run"));
    command.args(tls).arg(address).env("H2SPEC_OUT", out.path()).output().await.unwrap();
    let text = std::fs::read_to_string(out.path()).unwrap();
    let sum = text.lines().rev().find(|line| line.contains(" tests, ")).unwrap_or_default();
    let numbers: Vec<u64> =
        sum.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect();
    let [tests, passed, _, _] = numbers[..] else { return json!({"error": text.lines().last()}) };
    json!({"tests": tests, "passed": passed, "failed": failed_cases(&text)})
}

/// `section: case` of each failure.
fn failed_cases(text: &str) -> Vec<String> {
    let (mut section, mut cases) = (String::new(), Vec::new());
    for line in text.split("Failures:").nth(1).unwrap_or_default().lines().map(str::trim) {
        match line.strip_prefix("× ") {
            Some(case) => cases.push(format!("{section} {case}")),
            None if line.starts_with(|c: char| c.is_ascii_digit()) => {
                section = line.split(". ").next().unwrap_or_default().to_owned();
            }
            None => {}
        }
    }
    cases
}

pub(crate) async fn revision() -> String {
    let git = async |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(checkout()).output().await.ok()?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let revision = git(&["rev-parse", "--short=12", "HEAD"]).await.unwrap_or_default();
    let changed =
        git(&["status", "--porcelain", "--", "crates", "Cargo.lock"]).await.is_some_and(|it| !it.is_empty());
    if changed { format!("{revision} with changes") } else { revision }
}

#[test]
fn the_document_is_made_of_the_results() {
    let text = std::fs::read_to_string(checkout().join(RESULTS)).unwrap();
    let page = page::render_page(&serde_json::from_str(&text).unwrap());
    golden::check(checkout().join(DOCUMENT), &page);
}

#[test]
fn every_difference_of_a_peer_is_described() {
    let text = std::fs::read_to_string(checkout().join(RESULTS)).unwrap();
    let results: Value = serde_json::from_str(&text).unwrap();
    let proxies: Vec<&Value> = results["proxies"].as_array().unwrap().iter().collect();
    let mut page = String::new();
    let mut unknown = peers::accepted_by(&mut page, &proxies);
    unknown.extend(peers::otherwise(&mut page, &proxies));
    unknown.extend(proxies[1..].iter().flat_map(|proxy| peers::http2(&mut page, proxy)));
    assert_eq!(unknown, Vec::<String>::new(), "conformance/peers.md says how they are looked at");
}
