//! The table of `docs/annotations.md` is what the families of annotations say.
//!
//! `UPDATE_GOLDEN=1 cargo test -p fairway-translate --test annotations_doc` writes the table anew.

#![allow(clippy::unwrap_used, reason = "a test may end at what cannot happen")]

use std::fs;
use std::path::Path;

use fairway_translate::{Class, Known, Support, known_annotations};

#[test]
fn the_table_and_the_code_agree() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/annotations.md");
    let text = fs::read_to_string(&file).unwrap();
    let is_row = |line: &&str| line.starts_with("| `");
    // The first table: those of Fairway's own annotations come later.
    let written: Vec<&str> = text.lines().skip_while(|line| !is_row(line)).take_while(is_row).collect();
    let rows: Vec<String> = known_annotations().iter().map(row).collect();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let before = text.lines().take_while(|line| !is_row(line));
        let after = text.lines().skip_while(|line| !is_row(line)).skip_while(is_row);
        let lines: Vec<&str> = before.chain(rows.iter().map(String::as_str)).chain(after).collect();
        fs::write(&file, lines.join("\n") + "\n").unwrap();
        return;
    }
    for (row, written) in rows.iter().zip(&written) {
        assert_eq!(row, written);
    }
    assert_eq!(rows.len(), written.len(), "the table has as many rows as there are annotations");
}

fn row(known: &Known) -> String {
    let (state, text, paths) = match known.support {
        Support::Done => ("done", "", ""),
        Support::Differs { how } => ("done differently", how, ""),
        Support::Needless { why } => ("nothing to do", why, ""),
        Support::Missing { class: Class::Protection, effect, .. } => ("not yet", effect, "503 "),
        Support::Missing { class: Class::Feature | Class::Purpose, effect, .. } => {
            ("not yet", effect, "served ")
        }
    };
    let alias = known.alias_of.map(|newer| format!(" (another name of `{newer}`)")).unwrap_or_default();
    format!("| `{}` | {state} | {text}{alias} | {paths}|", known.name)
}
