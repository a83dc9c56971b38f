//! What `migrate values` makes of values of the chart of ingress-nginx, word for word.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

/// Exit code, standard output and standard error.
fn migrated(arguments: &[&str], input: &str) -> (i32, String, String) {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/values");
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairway"));
    command.args(["migrate", "values"]).args(arguments).current_dir(fixtures);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Every path of `values` is one of `chart`; below an empty mapping or a scalar of the chart anything goes.
fn within(values: &Value, chart: &Value, path: &str) {
    let (Some(values), Some(chart)) = (values.as_object(), chart.as_object().filter(|it| !it.is_empty()))
    else {
        return;
    };
    for (key, value) in values {
        let below = chart.get(key).unwrap_or_else(|| panic!("{path}.{key} is no value of the chart"));
        if !matches!(key.as_str(), "updateStrategy" | "resources") {
            within(value, below, &format!("{path}.{key}"));
        }
    }
}

#[test]
fn installations_in_a_cloud_and_on_bare_metal() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let chart = std::fs::read_to_string(root.join("charts/fairway/values.yaml")).unwrap();
    let chart: Value = serde_saphyr::from_str(&chart).unwrap();
    for case in ["cloud", "bare-metal"] {
        let (code, out, err) = migrated(&[&format!("{case}.yaml")], "");
        within(&serde_saphyr::from_str(&out).unwrap(), &chart, "");
        insta::assert_snapshot!(format!("values-{case}"), format!("{out}---\n{err}exit code {code}\n"));
    }
}

#[test]
fn exit_codes_say_whether_something_is_lost() {
    let compat = "ingressClass:\n  compat: true\n";
    assert_eq!(migrated(&["-"], ""), (0, compat.to_owned(), String::new()));
    let (code, out, err) = migrated(&["-"], "controller: {replicaCount: 3}");
    assert_eq!((code, out, err), (0, format!("{compat}replicas: 3\n"), String::new()));
    let (code, _, err) = migrated(&["-"], "controller: {hpa: 3}");
    assert_eq!(code, 1);
    assert!(err.starts_with("lost: controller.hpa: "), "{err}");
}

#[test]
fn input_that_is_no_mapping_is_named_with_file_and_line() {
    for (input, line) in [("- a\n", 1), ("text", 1), ("a: 1\na: 2\n", 2), ("a: b\nc: [1\n", 2)] {
        let (code, out, err) = migrated(&["-"], input);
        assert_eq!((code, out.as_str()), (2, ""), "{input}");
        assert!(err.starts_with(&format!("fairway: standard input:{line}: ")), "{input}: {err}");
    }
    let (code, _, err) = migrated(&["missing.yaml"], "");
    assert_eq!(code, 2);
    assert!(err.contains("cannot read missing.yaml"), "{err}");
}

#[test]
fn the_output_may_be_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fairway.yaml");
    let (code, out, _) =
        migrated(&["-", "--output", file.to_str().unwrap()], "controller: {replicaCount: 3}");
    assert_eq!((code, out.as_str()), (0, ""));
    assert!(std::fs::read_to_string(file).unwrap().contains("replicas: 3"));
}
