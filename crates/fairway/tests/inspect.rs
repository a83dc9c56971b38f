//! What `check` and `explain` print, word for word.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::path::Path;
use std::process::{Command, Output};

use fairway_testkit::certificates::Authority;

fn fairway(arguments: &[&str]) -> Output {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    Command::new(env!("CARGO_BIN_EXE_fairway")).args(arguments).current_dir(fixtures).output().unwrap()
}

fn printed(arguments: &[&str]) -> String {
    let output = fairway(arguments);
    let code = output.status.code().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    format!("{out}{err}exit code {code}\n")
}

#[test]
fn check_names_file_line_object_field_problem_and_consequence() {
    insta::assert_snapshot!("check-broken", printed(&["check", "broken"]));
}

#[test]
fn check_says_what_a_working_directory_still_lacks() {
    insta::assert_snapshot!("check-shop", printed(&["check", "shop"]));
}

#[test]
fn check_writes_one_json_object_per_line() {
    let output = fairway(&["check", "shop", "--output", "json"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.is_empty());
    for line in text.lines() {
        let diagnostic: serde_json::Value = serde_json::from_str(line).unwrap();
        for field in ["severity", "code", "problem", "consequence", "origin"] {
            assert!(!diagnostic[field].is_null(), "{field} in {line}");
        }
        assert!(diagnostic["origin"]["source"]["line"].is_u64(), "{line}");
    }
}

#[test]
fn explain_tells_the_chain_and_why_others_lost() {
    let url = "http://shop.example.com/cart/../cart?x=1";
    insta::assert_snapshot!("explain-exact", printed(&["explain", url, "--manifests", "shop"]));
}

#[test]
fn explain_tells_of_wildcards_and_missing_services() {
    let url = "https://other.example.com/";
    insta::assert_snapshot!("explain-wildcard", printed(&["explain", url, "--manifests", "shop"]));
}

#[test]
fn explain_tells_that_nothing_serves_a_name() {
    insta::assert_snapshot!(
        "explain-nobody",
        printed(&["explain", "http://nobody.test/", "--manifests", "shop"])
    );
}

#[test]
fn explain_chooses_the_certificate_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/quickstart");
    for name in ["shop.yaml", "machine.yaml"] {
        std::fs::copy(examples.join(name), dir.path().join(name)).unwrap();
    }
    let leaf = Authority::new("test").leaf(&["shop.example.com"]);
    std::fs::write(dir.path().join("tls.yaml"), leaf.secret_yaml("shop", "shop-tls")).unwrap();
    let dir = dir.path().to_str().unwrap();
    let told = printed(&["explain", "https://shop.example.com/cart", "--manifests", dir]);
    assert!(told.contains("certificate  Secret shop/shop-tls"), "{told}");
    assert!(told.contains("chosen by the name shop.example.com (SNI)"), "{told}");
    assert!(told.contains("127.0.0.1:3003 echo-3"), "{told}");
    let checked = printed(&["check", dir]);
    assert!(
        checked.ends_with("exit code 0\n"),
        "the quickstart is clean once it has its certificate: {checked}"
    );
}
