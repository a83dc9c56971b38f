//! What the real ingress-nginx answered, asked again of the real binary: `cases/` says what, README.md where it comes
//! from. Every case is either replayed or shown to be named by `fairway check`; none is left out.

mod case;
mod comparison;
mod differences;
mod environment;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use fairway_testkit::process::Fairway;
use serde_json::Value;

use case::Case;
use comparison::{ask, replay};
use differences::DIFFERENCES;
use environment::{FLAGS, add_ingresses, environment};

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");

#[tokio::test]
async fn every_supported_case_is_answered_as_recorded_but_for_the_differences_by_design() {
    let cases = Case::all();
    let (now, later): (Vec<_>, Vec<_>) = cases.iter().partition(|case| case.later().is_empty());
    let manifests = environment().await;
    add_ingresses(&manifests, now.iter().copied());
    let fairway = Fairway::ready(Path::new(BINARY), manifests.path(), FLAGS).await;
    let (mut exchanges, mut met, mut wrong) = (0, BTreeSet::new(), Vec::new());
    for case in &now {
        for (number, exchange) in case.exchanges.iter().enumerate() {
            exchanges += 1;
            for found in replay(&fairway, exchange).await {
                let meant = DIFFERENCES.iter().position(|it| {
                    (it.case, it.exchange) == (case.name.as_str(), number)
                        && (it.what, it.recorded, it.now) == (&found.what, &found.recorded, &found.now)
                });
                match meant {
                    Some(meant) => drop(met.insert(meant)),
                    None => {
                        let asked = &exchange.request;
                        wrong.push(format!(
                            "{} {number} ({} {}://{}{}): {}: recorded {:?}, now {:?}",
                            case.name,
                            asked.method,
                            asked.scheme,
                            asked.host,
                            asked.target,
                            found.what,
                            found.recorded,
                            found.now
                        ));
                    }
                }
            }
        }
    }
    println!(
        "{} cases with {exchanges} exchanges replayed, {} differences by design, {} cases for later",
        now.len(),
        met.len(),
        later.len()
    );
    assert!(wrong.is_empty(), "{} deviations:\n{}", wrong.len(), wrong.join("\n"));
    for (at, it) in DIFFERENCES.iter().enumerate() {
        assert!(
            met.contains(&at),
            "{} {} {}: no difference any more ({})",
            it.case,
            it.exchange,
            it.what,
            it.why
        );
    }
}

#[tokio::test]
async fn every_annotation_that_comes_later_is_named_and_protected_hosts_are_closed() {
    let cases: Vec<_> = Case::all().into_iter().filter(|case| !case.later().is_empty()).collect();
    let manifests = environment().await;
    add_ingresses(&manifests, &cases);
    let told = diagnostics(manifests.path());
    let mut closed = Vec::new();
    for case in &cases {
        for (ingress, annotations) in case.later() {
            for annotation in &annotations {
                let field = format!("metadata.annotations[\"{annotation}\"]");
                let of_field =
                    |it: &&Value| it["origin"]["name"] == *ingress && it["origin"]["field"] == *field;
                let found = told.iter().find(of_field);
                let Some(found) = found else {
                    panic!("{}: {annotation} of {ingress} is not named", case.name)
                };
                assert_ne!(found["severity"], "note", "{found}");
                if found["code"] == "unsupported-protection" {
                    closed.push((case, ingress.clone()));
                }
            }
        }
    }
    let fairway = Fairway::ready(Path::new(BINARY), manifests.path(), FLAGS).await;
    let mut asked = 0;
    for (case, ingress) in &closed {
        for exchange in case.exchanges.iter().filter(|it| serves(case, ingress, &it.request.host)) {
            let answer = ask(&fairway, &exchange.request).await.unwrap();
            assert_eq!(answer.status, 503, "{}: {:?}", case.name, exchange.request);
            asked += 1;
        }
    }
    println!("{} cases for later, {asked} exchanges with protected paths answered 503", cases.len());
    assert!(asked > 0);
}

fn serves(case: &Case, ingress: &str, host: &str) -> bool {
    let object = case.ingresses.iter().find(|it| it["metadata"]["name"] == *ingress).unwrap();
    object["spec"]["rules"].as_array().is_some_and(|rules| rules.iter().any(|rule| rule["host"] == *host))
}

/// What `fairway check` says, one JSON object each.
fn diagnostics(directory: &Path) -> Vec<Value> {
    let output =
        Command::new(BINARY).args(["check", "--output", "json"]).args(FLAGS).arg(directory).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
