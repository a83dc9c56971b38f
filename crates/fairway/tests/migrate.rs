//! The exact output of `migrate values` for values of the ingress-nginx chart. `UPDATE_GOLDEN=1` writes the expected files; the
//! tests of the chart render them.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fairway_objects::manifest::{self, Schema};
use fairway_testkit::{golden, json_schema};
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_path_buf()
}

/// Exit code, standard output and standard error.
fn migrated(arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairway"));
    command.args(["migrate", "values"]).args(arguments);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A missing file is reported without reading standard input.
    _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Fails unless Fairway's chart has these values.
fn assert_in_the_chart(values: &str, name: &str) {
    fn merge(under: &mut Value, over: &Value) {
        match (under, over) {
            (Value::Object(under), Value::Object(over)) => {
                over.iter().for_each(|(key, value)| merge(under.entry(key).or_insert(Value::Null), value));
            }
            (under, over) => *under = over.clone(),
        }
    }
    let chart = |file: &str| fs::read_to_string(root().join("charts/fairway").join(file)).unwrap();
    let read = |text: &str| manifest::parse_single(text, Schema::Yaml11).unwrap().unwrap().to_json();
    let mut all = read(&chart("values.yaml"));
    merge(&mut all, &read(values));
    let schema: Value = serde_json::from_str(&chart("values.schema.json")).unwrap();
    assert_eq!(json_schema::problems(&schema, &all), [""; 0], "{name}");
}

#[test]
fn whole_installations() {
    let cases = root().join("crates/fairway/tests/fixtures/values");
    for case in ["bare-metal", "cloud", "defaults", "internal"] {
        let folder = cases.join(case);
        let (code, out, err) = migrated(&[folder.join("in.yaml").to_str().unwrap()], "");
        assert_in_the_chart(&out, case);
        for (file, text) in [("out.yaml", out), ("said.txt", format!("{err}exit code {code}\n"))] {
            golden::check(folder.join(file), &text);
        }
    }
}

#[test]
fn the_defaults_of_ingress_nginx_lose_nothing() {
    let messages = root().join("crates/fairway/tests/fixtures/values/defaults/said.txt");
    let messages = fs::read_to_string(messages).unwrap();
    assert!(!messages.contains("lost:") && messages.ends_with("exit code 0\n"), "{messages}");
}

#[test]
fn the_documented_example_matches_the_output() {
    let text = fs::read_to_string(root().join("docs/migrate.md")).unwrap();
    let section =
        text.split("\n## ").find(|section| section.starts_with("The values of its chart\n")).unwrap();
    let mut blocks: Vec<String> = Vec::new();
    let mut inside = false;
    for line in section.lines() {
        match line.strip_prefix("    ") {
            Some(line) if inside => *blocks.last_mut().unwrap() += &format!("{line}\n"),
            Some(line) => blocks.push(format!("{line}\n")),
            None => {}
        }
        inside = line.starts_with("    ");
    }
    let [input, command, messages, values, ..] = &blocks[..] else { panic!("{blocks:?}") };
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("ingress-nginx.yaml"), input).unwrap();
    let words: Vec<_> = command.split_whitespace().skip(1).collect();
    let run = Command::new(env!("CARGO_BIN_EXE_fairway")).args(words).current_dir(&folder).output().unwrap();
    assert_eq!(String::from_utf8(run.stderr).unwrap(), *messages);
    assert_eq!(fs::read_to_string(folder.path().join("fairway.yaml")).unwrap(), *values);
    assert_eq!(run.status.code(), Some(1));
    assert_in_the_chart(values, "the example");
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
    let (code, _, err) = migrated(&["-"], "controller: {hostNetwork: true}");
    assert_eq!(code, 0, "{err}");
    assert!(err.starts_with("note: controller.hostNetwork: "), "{err}");
    let (code, out, err) = migrated(&["-"], "controller: {config: {server-tokens: 'true'}}");
    assert_eq!((code, out.contains("server-tokens")), (1, true), "{err}");
}

#[test]
fn flags_are_read_as_the_program_reads_them() {
    let flags =
        "{stream-port: 1, v: 3, enable-topology-aware-routing: '', annotations-prefix: a.test, new: x}";
    let (code, out, err) = migrated(&["-"], &format!("controller: {{extraArgs: {flags}}}"));
    assert_eq!(code, 1);
    assert!(out.contains("extraArgs:\n- --annotations-prefix=a.test\n"), "{out}");
    let messages: Vec<_> =
        err.lines().filter_map(|line| line.split(": ").nth(1)?.rsplit('.').next()).collect();
    assert_eq!(messages, ["new", "enable-topology-aware-routing", "stream-port", "v"], "{err}");
}

/// Values, and names of values, that reorder or end a line, or are invisible.
#[test]
fn no_output_contains_deceptive_characters() {
    let hidden = "5\u{202e}0\u{200b}\u{e0041}\u{1b}[2J";
    let input =
        serde_json::json!({ "controller": { hidden: 1, "affinity": { hidden: hidden } } }).to_string();
    let (code, out, err) = migrated(&["-"], &input);
    assert_eq!(code, 1, "{err}");
    assert!(err.starts_with("lost: controller.5?0???[2J: "), "{err}");
    for text in [&out, &err] {
        assert!(!text.contains(['\u{202e}', '\u{200b}', '\u{e0041}', '\u{1b}']), "{text}");
    }
    let values = manifest::parse_single(&out, Schema::Yaml11).unwrap().unwrap().to_json();
    assert_eq!(values["affinity"][hidden], hidden, "{out}");
}

#[test]
fn findings_with_the_same_text_are_grouped() {
    let (_, _, err) = migrated(&["-"], "controller: {image: {tag: a, registry: b}, name: c}");
    let lines: Vec<_> = err.lines().collect();
    assert_eq!(lines.len(), 2, "{err}");
    assert!(
        lines[0].starts_with("note: controller.image.registry, controller.image.tag: it concerns"),
        "{err}"
    );
}

#[test]
fn input_other_than_a_mapping_is_reported_with_file_and_line() {
    for (input, line) in [("- a\n", 1), ("text", 1), ("a: 1\na: 2\n", 2), ("a: b\nc: [1\n", 2)] {
        let (code, out, err) = migrated(&["-"], input);
        assert_eq!((code, out.as_str()), (2, ""), "{input}");
        assert!(err.starts_with(&format!("fairway: standard input:{line}: ")), "{input}: {err}");
        assert!(!err.contains("DuplicateKeyPolicy"), "advice for programmers: {err}");
    }
    let (code, _, err) = migrated(&["missing.yaml"], "");
    assert_eq!(code, 2);
    assert!(err.contains("cannot read missing.yaml"), "{err}");
}

/// YAML 1.1: `0644` is octal, `on` is a boolean, and quoted text is a string.
#[test]
fn values_are_read_as_helm_reads_them_and_within_the_limits_of_manifests() {
    let (code, out, err) = migrated(&["-"], "controller: {affinity: {a: 0644, b: on, c: 'on', d: 1_000}}");
    assert!(out.starts_with("affinity:\n  a: 420\n  b: true\n  c: \"on\"\n  d: 1000\n"), "{out}");
    assert_eq!((code, err.as_str()), (0, ""));
    let (code, _, err) = migrated(&["-"], &format!("a: {}", "[".repeat(100)));
    assert_eq!(
        (code, err.as_str()),
        (2, "fairway: standard input:1: this is nested deeper than 64 levels\n")
    );
    let (code, _, err) = migrated(&["-"], "a: 1\n---\nb: 2\n");
    let expected = "fairway: standard input:2: this has more than one document, and one is expected\n";
    assert_eq!((code, err.as_str()), (2, expected));
}

#[test]
fn the_output_may_be_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fairway.yaml");
    let (code, out, _) =
        migrated(&["-", "--output", file.to_str().unwrap()], "controller: {replicaCount: 3}");
    assert_eq!((code, out.as_str()), (0, ""));
    assert!(fs::read_to_string(file).unwrap().contains("replicas: 3"));
    let (code, _, err) = migrated(&["-", "--output", folder.path().to_str().unwrap()], "");
    assert_eq!(code, 2);
    assert!(err.contains("cannot write"), "{err}");
}
