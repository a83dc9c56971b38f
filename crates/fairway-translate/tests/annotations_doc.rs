//! `docs/annotations.md` says of every annotation what the code does with it.

#![allow(clippy::unwrap_used, reason = "a test may end at what cannot happen")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use fairway_translate::{Class, Support, known_annotations};

#[test]
fn the_table_and_the_code_agree() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/annotations.md");
    let text = fs::read_to_string(file).unwrap();
    let rows: BTreeMap<&str, Vec<&str>> = text.lines().filter_map(row).collect();
    for known in known_annotations() {
        let row = rows.get(known.name).unwrap_or_else(|| panic!("{} has no row", known.name));
        let [state, effect, paths] = row[..] else { panic!("{}: {row:?}", known.name) };
        match known.support {
            Support::Done => {
                assert!(["done", "done differently"].contains(&state), "{}: {state}", known.name);
            }
            Support::Missing { class, effect: lost, .. } => {
                assert_eq!(state, "not yet", "{}", known.name);
                assert!(effect.starts_with(lost), "{}: {effect}", known.name);
                let expected = if class == Class::Protection { "503" } else { "served" };
                assert_eq!(paths, expected, "{}", known.name);
            }
        }
    }
    assert_eq!(rows.len(), known_annotations().len(), "the table has a row that the code does not know");
}

fn row(line: &str) -> Option<(&str, Vec<&str>)> {
    let mut cells = line.strip_prefix("| `")?.strip_suffix('|')?.split(" | ").map(str::trim);
    let name = cells.next()?.trim_end_matches('`');
    Some((name, cells.map(|cell| cell.trim_matches('|').trim()).collect()))
}
