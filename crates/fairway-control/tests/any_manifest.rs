//! Any text as manifests, all the way to the configuration: nothing panics, the result does not depend on the steps in which a
//! text arrives, and a valid object is served as if it were alone, whatever surrounds it. `PROPTEST_CASES` sets the number of
//! cases.

use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::checks::{check_input, manifest};

/// Manifests of the translation's own tests.
fn texts() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fairway-ingress/tests/golden");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let texts: Vec<_> =
        files.into_iter().filter_map(|file| std::fs::read_to_string(file.join("in.yaml")).ok()).collect();
    assert!(texts.len() >= 30);
    texts
}

/// Values that may appear in the wrong place.
const VALUES: [&str; 30] = [
    "",
    "~",
    "null",
    "0",
    "-1",
    "65536",
    "99999999999999999999",
    "1e400",
    "true",
    "[]",
    "{}",
    "[[[[[[[[[[[[]]]]]]]]]]]]",
    "'*'",
    "'*.*.example.com'",
    "'a..b'",
    "/",
    "'/((((a+)+)+)+)$'",
    "'/[a'",
    "'/%zz'",
    "\"\\u0000\"",
    "\"a\\nb: c\"",
    "'$host$request_uri'",
    "'}; return 200;'",
    "&a [*a]",
    "*a",
    "!!binary aGk=",
    "|\n  x\n y",
    "\u{feff}",
    "'\u{202e}'",
    "\"",
];

#[derive(Clone, Debug)]
enum Edit {
    /// Another value after the colon of a line.
    Value(Index, &'static str),
    /// A line removed, duplicated, or moved.
    Gone(Index),
    Doubled(Index),
    Moved(Index, Index),
    /// Changed bytes in a line.
    Text(Index, Index, String),
    /// Another indentation.
    Indented(Index, usize),
}

fn edits() -> impl Strategy<Value = Edit> {
    prop_oneof![
        6 => (any::<Index>(), select(&VALUES[..])).prop_map(|(line, value)| Edit::Value(line, value)),
        1 => any::<Index>().prop_map(Edit::Gone),
        1 => any::<Index>().prop_map(Edit::Doubled),
        1 => (any::<Index>(), any::<Index>()).prop_map(|(line, to)| Edit::Moved(line, to)),
        2 => (any::<Index>(), any::<Index>(), "[ -~\t\u{e9}\u{0}]{0,6}").prop_map(|(line, at, text)| Edit::Text(line, at, text)),
        1 => (any::<Index>(), 0..6usize).prop_map(|(line, blanks)| Edit::Indented(line, blanks)),
    ]
}

fn edited(text: &str, edits: Vec<Edit>) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for edit in edits {
        let count = lines.len();
        if count < 2 {
            break;
        }
        match edit {
            Edit::Value(line, value) => {
                let line = &mut lines[line.index(count)];
                if let Some(colon) = line.find(": ") {
                    line.truncate(colon + 2);
                    line.push_str(value);
                }
            }
            Edit::Gone(line) => drop(lines.remove(line.index(count))),
            Edit::Doubled(line) => lines.insert(line.index(count), lines[line.index(count)].clone()),
            Edit::Moved(line, to) => {
                let line = lines.remove(line.index(count));
                lines.insert(to.index(count - 1), line);
            }
            Edit::Text(line, at, text) => {
                let line = &mut lines[line.index(count)];
                let at =
                    line.char_indices().map(|(at, _)| at).nth(at.index(line.len() + 1)).unwrap_or(line.len());
                line.insert_str(at, &text);
            }
            Edit::Indented(line, blanks) => {
                let line = &mut lines[line.index(count)];
                *line = format!("{}{}", " ".repeat(blanks), line.trim_start());
            }
        }
    }
    lines.join("\n") + "\n"
}

#[test]
fn deep_and_wide_documents_hold() {
    for text in [
        "[".repeat(100_000),
        "a: {".repeat(100_000),
        "- ".repeat(100_000),
        format!(
            "kind: Ingress\napiVersion: networking.k8s.io/v1\nmetadata: {}{}\n",
            "[".repeat(5_000),
            "]".repeat(5_000)
        ),
        format!("kind: List\napiVersion: v1\nitems: {}{}\n", "[".repeat(200), "]".repeat(200)),
        "kind: List\napiVersion: v1\nitems:\n- kind: List\n  apiVersion: v1\n  items: [{}]\n".to_owned(),
        "x: ".to_owned() + &"y".repeat(1 << 20) + "\n",
    ] {
        check_input(&text);
    }
}

#[test]
fn the_corpus_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/manifest");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().collect();
    assert!(!files.is_empty());
    for file in files {
        manifest(&std::fs::read(file.unwrap().path()).unwrap());
    }
}

#[test]
fn every_golden_manifest_is_read_unchanged() {
    texts().iter().for_each(|text| check_input(text));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(
        std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(150),
    ) })]

    #[test]
    fn manifests_with_mistakes_hold(text in select(texts()), edits in vec(edits(), 0..6)) {
        check_input(&edited(&text, edits));
    }

    #[test]
    fn any_text_holds(text in "[-{}\\[\\]:,&*!|>'\"#%@`a-c \n\t\u{e9}]{0,80}") {
        check_input(&text);
    }
}
