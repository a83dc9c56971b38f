//! Every flag that the chart and its plain manifest use exists. The tests in charts/tools check what the chart renders; no cluster
//! is needed here.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The flags in a text: words that start with two dashes.
fn flags(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_ascii_lowercase() || c == '-'));
    words.filter(|word| word.starts_with("--") && word.len() > 3).collect()
}

#[test]
fn every_flag_that_the_chart_gives_is_one_of_run() {
    let output = Command::new(env!("CARGO_BIN_EXE_fairway")).args(["run", "--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let offered = help.lines().filter_map(|line| line.split_whitespace().next());
    let offered: BTreeSet<_> = offered.filter(|word| word.starts_with("--")).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    for file in ["charts/fairway/templates/_arguments.tpl", "deploy/fairway.yaml"] {
        let text = fs::read_to_string(root.join(file)).unwrap();
        let mut given_flags = flags(&text);
        given_flags.remove("--help");
        assert!(given_flags.len() > 10, "the flags of {file} were found: {given_flags:?}");
        let unknown: Vec<_> = given_flags.difference(&offered).collect();
        assert!(unknown.is_empty(), "{file} gives flags that do not exist: {unknown:?}");
    }
}
