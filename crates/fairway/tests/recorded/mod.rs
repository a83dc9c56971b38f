//! Replays the recorded exchanges of the real ingress-nginx against the real binary: `cases/` has the recording, README.md
//! describes its origin. Every exchange is replayed; one whose Ingress needs an unsupported annotation may differ if `fairway
//! check` names it.

#![allow(clippy::print_stdout, reason = "the summary is for whoever reads the log of the tests")]

mod agreement;
pub(crate) mod case;
pub(crate) mod comparison;
mod differences;
mod environment;

use std::path::Path;
use std::process::Command;

use fairway_testkit::certificates::{Authority, Leaf};
use fairway_testkit::process::Fairway;
use serde_json::Value;

use agreement::Agreement;
use case::{Case, Exchange};
use comparison::{Deviation, replay, send_case};
use differences::{DIFFERENCES, Difference};
use environment::{FLAGS, add_ingresses, environment};

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");

/// No two cases share a host, but all have the same Services. A case whose Ingresses would affect others with these Services has
/// its own process, as in the recording; all others share one.
#[tokio::test]
async fn every_exchange_matches_the_recording_or_differs_by_design_or_needs_an_unsupported_annotation() {
    let cases = Case::all();
    let leaf = certificate();
    let manifests = environment(&leaf).await;
    let mut found = Found::for_cases(cases.len());
    let (apart, together): (Vec<_>, Vec<_>) = cases.iter().partition(|case| case.reaches_others());
    assert!(apart.len() > 10 && together.len() > 80, "{} apart, {} together", apart.len(), together.len());
    for group in apart.into_iter().map(|case| vec![case]).chain([together]) {
        let files = add_ingresses(&manifests, group.iter().copied());
        let fairway = Fairway::ready(Path::new(BINARY), manifests.path(), FLAGS).await;
        for case in group {
            for (number, exchange) in case.exchanges.iter().enumerate() {
                let secured = case.has_certificate_for(&exchange.request.host);
                let deviations = replay(&fairway, exchange, secured.then_some(&leaf.chain_der[0])).await;
                found.judge(case, number, deviations);
            }
        }
        drop(fairway);
        files.iter().for_each(|file| manifests.remove(file));
    }
    let Found { agreement, wrong, met } = found;
    assert!(wrong.is_empty(), "{} deviations:\n{}", wrong.len(), wrong.join("\n"));
    let gone: Vec<_> = DIFFERENCES.iter().zip(met).filter(|(_, met)| !met).map(|(it, _)| named(it)).collect();
    assert!(gone.is_empty(), "no longer different: \n{}", gone.join("\n"));
    agreement.is_documented();
}

/// The results of the exchanges.
struct Found {
    agreement: Agreement,
    /// Deviations that are neither intended nor due to unsupported annotations.
    wrong: Vec<String>,
    /// The intended differences that occurred.
    met: Vec<bool>,
}

impl Found {
    fn for_cases(cases: usize) -> Self {
        Self {
            agreement: Agreement::for_cases(cases),
            wrong: Vec::new(),
            met: vec![false; DIFFERENCES.len()],
        }
    }

    fn judge(&mut self, case: &Case, number: usize, deviations: Vec<Deviation>) {
        let exchange = &case.exchanges[number];
        let differs = !deviations.is_empty();
        let listed_index =
            |found: &Deviation| DIFFERENCES.iter().position(|it| is_meant(it, &case.name, number, found));
        let (meant, other): (Vec<_>, Vec<_>) =
            deviations.into_iter().partition(|found| listed_index(found).is_some());
        meant.iter().filter_map(listed_index).for_each(|at| self.met[at] = true);
        let missing = case.unsupported_for(&exchange.request.host);
        match (differs, other.is_empty(), missing.is_empty()) {
            (false, _, _) => self.agreement.same += 1,
            (true, true, _) => self.agreement.by_design += 1,
            (true, false, false) => self.agreement.leave_out(&missing),
            (true, false, true) => {
                self.wrong.extend(other.iter().map(|found| describe(case, exchange, found)));
            }
        }
    }
}

/// The contents of the recorded Secret.
fn certificate() -> Leaf {
    Authority::new("recorded").leaf(&["*.test"])
}

fn is_meant(it: &Difference, case: &str, exchange: usize, found: &Deviation) -> bool {
    (it.case, it.exchange) == (case, exchange)
        && (it.description, it.recorded, it.now) == (&found.description, &found.recorded, &found.now)
}

fn named(it: &Difference) -> String {
    format!("{} {}: {}: {}", it.case, it.exchange, it.description, it.why)
}

fn describe(case: &Case, exchange: &Exchange, found: &Deviation) -> String {
    let (asked, Deviation { description: what, recorded, now }) = (&exchange.request, found);
    format!(
        "{}: {} {}://{}{}: {what}: recorded {recorded:?}, now {now:?}",
        case.name, asked.method, asked.scheme, asked.host, asked.target
    )
}

#[tokio::test]
async fn every_unsupported_annotation_is_reported_and_protected_hosts_are_closed() {
    let cases: Vec<_> = Case::all().into_iter().filter(|case| !case.later().is_empty()).collect();
    let manifests = environment(&certificate()).await;
    add_ingresses(&manifests, &cases);
    let diagnostics = check(manifests.path());
    let mut closed = Vec::new();
    for case in &cases {
        for (ingress, annotations) in case.later() {
            let found: Vec<_> = annotations.iter().map(|name| at(&diagnostics, &ingress, name)).collect();
            if found.iter().any(|it| it["code"] == "unsupported-protection") {
                closed.push((case, ingress));
            }
        }
    }
    let fairway = Fairway::ready(Path::new(BINARY), manifests.path(), FLAGS).await;
    let mut requests = 0;
    for (case, ingress) in &closed {
        for exchange in case.exchanges.iter().filter(|it| serves(case, ingress, &it.request.host)) {
            let (answer, _) = send_case(&fairway, &exchange.request).await.unwrap();
            // ingress-nginx does not configure an Ingress with a snippet: both return 404.
            assert!(matches!(answer.status, 404 | 503), "{}: {:?}", case.name, exchange.request);
            requests += 1;
        }
    }
    println!(
        "{} cases for later, {requests} exchanges with protected hosts answered 404 or 503",
        cases.len()
    );
    assert!(requests > 0);
}

#[tokio::test]
async fn check_reports_nothing_unsupported_in_the_replayed_cases() {
    let cases: Vec<_> = Case::all().into_iter().filter(|case| case.later().is_empty()).collect();
    let manifests = environment(&certificate()).await;
    add_ingresses(&manifests, &cases);
    for found in check(manifests.path()) {
        let code = found["code"].as_str().unwrap();
        assert!(!code.starts_with("unsupported") && !code.starts_with("unknown"), "{found}");
    }
}

/// The diagnostic that names `annotation` of `ingress`; a note is not sufficient.
fn at<'a>(diagnostics: &'a [Value], ingress: &str, annotation: &str) -> &'a Value {
    let field = format!("metadata.annotations[\"{annotation}\"]");
    let is_at_field = |it: &&Value| it["origin"]["name"] == *ingress && it["origin"]["field"] == *field;
    let found = diagnostics.iter().find(is_at_field);
    let found = found.unwrap_or_else(|| panic!("{annotation} of {ingress} is not named"));
    assert_ne!(found["severity"], "note", "{found}");
    found
}

fn serves(case: &Case, ingress: &str, host: &str) -> bool {
    let object = case.ingresses.iter().find(|it| it["metadata"]["name"] == *ingress).unwrap();
    object["spec"]["rules"].as_array().is_some_and(|rules| rules.iter().any(|rule| rule["host"] == *host))
}

/// The output of `fairway check`, as JSON objects.
fn check(directory: &Path) -> Vec<Value> {
    let output =
        Command::new(BINARY).args(["check", "--output", "json"]).args(FLAGS).arg(directory).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
