//! The end-to-end tests on a real Kubernetes (`e2e/results/ci.json`) as a table: every stream, with what it counts apart,
//! and every figure with its promise.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use serde::Deserialize;

use super::super::number;
use super::{json, table};

/// Where the scenarios are.
const FILE: &str = "e2e/results/ci.json";

#[derive(Deserialize)]
struct Report {
    form: String,
    scenarios: Vec<Stream>,
}

#[derive(Deserialize)]
struct Stream {
    scenario: String,
    requests: u64,
    posts: u64,
    failed: u64,
    counted_apart: Option<BTreeMap<String, u64>>,
    doubled_posts: u64,
    max_ms: f64,
    #[serde(default)]
    figures: Vec<Figure>,
}

#[derive(Deserialize)]
struct Figure {
    name: String,
    value: f64,
    unit: String,
    promise: Option<f64>,
}

/// All streams of a scenario in one row, then the figures.
pub(super) fn page(root: &Path) -> anyhow::Result<String> {
    let report: Report = json(root, FILE)?;
    let mut names: Vec<&str> = Vec::new();
    for one in report.scenarios.iter().filter(|one| one.requests > 0) {
        if !names.contains(&one.scenario.as_str()) {
            names.push(&one.scenario);
        }
    }
    let mut rows: Vec<_> =
        names.iter().map(|name| row(name, &of(&report, |one| one.scenario == *name))).collect();
    rows.push(row("all", &of(&report, |_| true)));
    let columns =
        ["scenario", "requests", "POSTs", "failed", "duplicated POSTs", "counted apart", "slowest ms"];
    let mut text =
        format!("\nThe `{}` form, made by `make e2e`.\n\n{}\n", report.form, table(&columns, &rows));
    let figures = report.scenarios.iter().flat_map(|one| one.figures.iter().map(move |figure| (one, figure)));
    // Of 60 changes nothing can be said about the slowest hundredth.
    let figures = figures.filter(|(_, figure)| !figure.name.contains("p99"));
    let rows: Vec<_> = figures.map(|(one, figure)| measured(&one.scenario, figure)).collect();
    _ = write!(text, "{}", table(&["scenario", "figure", "measured", "target", "verdict"], &rows));
    Ok(text)
}

/// Figures that are above what was promised.
pub(super) fn missed(root: &Path) -> anyhow::Result<Vec<String>> {
    let report: Report = json(root, FILE)?;
    let figures = report.scenarios.iter().flat_map(|one| one.figures.iter().map(move |figure| (one, figure)));
    let missed = figures.filter_map(|(one, figure)| {
        let promise = figure.promise.filter(|most| figure.value > *most)?;
        let (found, most) = (number::figure(figure.value), number::figure(promise));
        Some(format!(
            "{} in `{}`: {found} {}, goal at most {most} {}",
            figure.name, one.scenario, figure.unit, figure.unit
        ))
    });
    Ok(missed.collect())
}

fn of(report: &Report, which: impl Fn(&Stream) -> bool) -> Vec<&Stream> {
    report.scenarios.iter().filter(|one| which(one)).collect()
}

fn row(name: &str, streams: &[&Stream]) -> Vec<String> {
    let sum = |of: fn(&Stream) -> u64| number::count(streams.iter().map(|one| of(one)).sum());
    let mut apart: BTreeMap<&str, u64> = BTreeMap::new();
    for (what, count) in streams.iter().filter_map(|one| one.counted_apart.as_ref()).flatten() {
        *apart.entry(what).or_default() += count;
    }
    let apart: Vec<_> = apart.iter().map(|(what, count)| format!("{count} {what}")).collect();
    let slowest = streams.iter().map(|one| one.max_ms).fold(0.0, f64::max);
    vec![
        name.to_owned(),
        sum(|one| one.requests),
        sum(|one| one.posts),
        sum(|one| one.failed),
        sum(|one| one.doubled_posts),
        if apart.is_empty() { "none".to_owned() } else { apart.join("; ") },
        number::figure(slowest),
    ]
}

fn measured(scenario: &str, figure: &Figure) -> Vec<String> {
    let unit = |value: f64| format!("{} {}", number::figure(value), figure.unit).trim().to_owned();
    let verdict = figure.promise.map(|most| if figure.value <= most { "met" } else { "**missed**" });
    vec![
        scenario.to_owned(),
        figure.name.clone(),
        if figure.unit.is_empty() { number::count(figure.value as u64) } else { unit(figure.value) },
        figure.promise.map_or_else(|| "none".to_owned(), |most| format!("at most {}", unit(most))),
        verdict.unwrap_or(number::UNKNOWN).to_owned(),
    ]
}
