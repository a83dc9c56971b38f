//! The figures of README.md and docs/performance.md, and the table of floods in docs/limits.md: made from the results that
//! the repository keeps, never by hand. A check refuses documents that say something else and results of which nobody knows
//! what was measured.
//!
//! ```text
//! docs/results/*, bench/results/*.json, e2e/results/ci.json ─► origin: which revision, clean or excused
//!                                                           └► bench, cluster, highlights ─► regions of the documents
//! ```

mod bench;
mod cluster;
pub mod command;
pub mod condense;
mod floods;
mod git;
mod highlights;
mod origin;
mod stray;

use std::path::Path;

use anyhow::Context;
use serde::de::DeserializeOwned;

/// The published runs of the laboratory, in the order in which they are shown.
pub const RUNS: [&str; 2] = ["docs/results/capacity", "docs/results/long"];
/// The page of all figures.
const PAGE: &str = "docs/performance.md";
/// The page with the table of floods.
const LIMITS: &str = "docs/limits.md";
/// The page with some of them.
const README: &str = "README.md";

/// A part of a document that is generated: between `<!-- NAME:begin -->` and `<!-- NAME:end -->`.
struct Region {
    file: &'static str,
    name: &'static str,
    text: String,
}

/// A file that may be kept compressed.
fn json<T: DeserializeOwned>(root: &Path, file: &str) -> anyhow::Result<T> {
    let text = fairway_lab_measure::results::read_kept(&root.join(file))?;
    serde_json::from_slice(&text).with_context(|| format!("read {file}"))
}

/// A Markdown table.
fn table(columns: &[&str], rows: &[Vec<String>]) -> String {
    let line =
        |cells: &mut dyn Iterator<Item = &str>| format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "));
    let mut text = line(&mut columns.iter().copied()) + &line(&mut columns.iter().map(|_| "---"));
    for row in rows {
        text += &line(&mut row.iter().map(String::as_str));
    }
    text
}
