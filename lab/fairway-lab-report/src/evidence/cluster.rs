//! The end-to-end tests on a real Kubernetes (`e2e/results/ci.json`) as a table: every stream, with what it counts apart,
//! and every figure with its promise.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;

use super::super::number;
use super::{json, table};

/// Where the scenarios are.
const FILE: &str = "e2e/results/ci.json";
/// The table that the long form of some of them printed.
pub(super) const LONG: &str = "e2e/results/long.txt";

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
    repeated_by_client: u64,
    doubled_posts: u64,
    max_ms: f64,
    #[serde(default)]
    figures: Vec<Figure>,
}

/// What is counted apart from failures, in the words of the tests and as the head of a column of its own. Whatever else the
/// tests count has a column with their words.
const APART: [(&str, &str); 3] = [
    ("POST already written to a dying pod", "POSTs lost with a dying pod (502 or 504)"),
    ("refused by a killed Fairway container", "refused by a killed Fairway"),
    ("inside a Fairway process killed with -9", "cut by a killed Fairway"),
];

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
    let text = std::fs::read_to_string(root.join(LONG)).with_context(|| format!("read {LONG}"))?;
    let mut text = format!(
        "\nThe `{}` form, made by `make e2e`. Its long form ran for some scenarios. What is not a failure, but was seen by a\n\
         client, has columns of its own.\n\n{}\n",
        report.form,
        streams(&report.scenarios, &longs(&text)?)
    );
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

/// The row of all scenarios.
const ALL: &str = "all";

/// The sums of a scenario's long form.
#[derive(Debug, Default, PartialEq)]
struct Long {
    requests: u64,
    apart: u64,
    max_ms: f64,
}

/// Reads the table that the tests print: a scenario, its stream, and nine figures.
fn longs(text: &str) -> anyhow::Result<BTreeMap<String, Long>> {
    let mut found: BTreeMap<String, Long> = BTreeMap::new();
    for line in
        text.lines().skip(1).take_while(|line| !line.is_empty() && !line.contains(": counted apart: "))
    {
        let words: Vec<&str> = line.split_whitespace().collect();
        anyhow::ensure!(words.len() > 10, "{LONG} has a line that is no row of its table: {line}");
        let figures = &words[words.len() - 9..];
        let number = |at: usize| {
            figures[at].parse::<f64>().with_context(|| format!("{LONG}: {} is no number", figures[at]))
        };
        let long = found.entry(words[0].to_owned()).or_default();
        long.requests += number(0)? as u64;
        long.apart += number(2)? as u64;
        long.max_ms = long.max_ms.max(number(7)?);
    }
    Ok(found)
}

fn streams(all: &[Stream], longs: &BTreeMap<String, Long>) -> String {
    let mut names: Vec<&str> = Vec::new();
    let mut apart: Vec<&str> = APART.iter().map(|(what, _)| *what).collect();
    for one in all.iter().filter(|one| one.requests > 0) {
        if !names.contains(&one.scenario.as_str()) {
            names.push(&one.scenario);
        }
        for what in one.counted_apart.iter().flat_map(BTreeMap::keys) {
            if !apart.contains(&what.as_str()) {
                apart.push(what);
            }
        }
    }
    let mut columns = vec!["scenario", "requests", "POSTs", "failed", "duplicated POSTs"];
    columns.extend(apart.iter().map(|what| titled(what)));
    columns.extend([
        "GETs that the client sent again",
        "slowest ms",
        "long form: requests",
        "counted apart",
        "slowest ms",
    ]);
    let sum = longs.values().fold(Long::default(), |sum, one| Long {
        requests: sum.requests + one.requests,
        apart: sum.apart + one.apart,
        max_ms: sum.max_ms.max(one.max_ms),
    });
    let long = |name: &str| if name == ALL { Some(&sum) } else { longs.get(name) };
    let row = |name: &str, own: &[&Stream]| row(name, own, &apart, long(name));
    let mut rows: Vec<_> = names
        .iter()
        .map(|name| row(name, &all.iter().filter(|one| one.scenario == *name).collect::<Vec<_>>()))
        .collect();
    rows.push(row(ALL, &all.iter().collect::<Vec<_>>()));
    table(&columns, &rows)
}

/// What a column of something counted apart is called.
fn titled(what: &str) -> &str {
    APART.iter().find(|(words, _)| *words == what).map_or(what, |(_, title)| title)
}

fn row(name: &str, streams: &[&Stream], apart: &[&str], long: Option<&Long>) -> Vec<String> {
    let sum = |of: &dyn Fn(&Stream) -> u64| number::count(streams.iter().map(|one| of(one)).sum());
    let slowest = streams.iter().map(|one| one.max_ms).fold(0.0, f64::max);
    let mut cells = vec![
        name.to_owned(),
        sum(&|one| one.requests),
        sum(&|one| one.posts),
        sum(&|one| one.failed),
        sum(&|one| one.doubled_posts),
    ];
    let counted = |one: &Stream, what: &str| one.counted_apart.as_ref()?.get(what).copied();
    cells.extend(apart.iter().map(|what| sum(&|one| counted(one, what).unwrap_or(0))));
    cells.extend([sum(&|one| one.repeated_by_client), number::figure(slowest)]);
    cells.extend(match long {
        Some(long) => [number::count(long.requests), number::count(long.apart), number::figure(long.max_ms)],
        None => ["not run", "not run", "not run"].map(str::to_owned),
    });
    cells
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

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(scenario: &str, apart: &[(&str, u64)], repeated_by_client: u64) -> Stream {
        Stream {
            scenario: scenario.to_owned(),
            requests: 1_000,
            posts: 200,
            failed: 0,
            counted_apart: Some(apart.iter().map(|(what, count)| ((*what).to_owned(), *count)).collect()),
            repeated_by_client,
            doubled_posts: 0,
            max_ms: 12.0,
            figures: Vec::new(),
        }
    }

    #[test]
    fn what_is_counted_apart_has_columns_of_its_own_and_so_has_what_nobody_foresaw() {
        let all = [
            stream("leader", &[], 0),
            stream("kill", &[(APART[1].0, 287), (APART[2].0, 7)], 11),
            stream("kill", &[(APART[1].0, 22), ("eaten by a grue", 3)], 0),
        ];
        let longs = longs(
            "scenario stream requests failed apart doubled repeated p50 p99 max s\n\
             kill keep-alive 144716 0 65 0 0 11.4 74.3 278 345\n\
             kill new connections 60882 0 22 0 0 11.7 876.1 2665 345\n\
             kill keep-alive: counted apart: 65 POST already written to a dying pod\n",
        )
        .unwrap();
        assert_eq!(longs["kill"], Long { requests: 205_598, apart: 87, max_ms: 2_665.0 });
        let text = streams(&all, &longs);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].contains("| refused by a killed Fairway | cut by a killed Fairway | eaten by a grue |")
        );
        assert!(lines[2].ends_with("| 12.0 | not run | not run | not run |"), "{text}");
        assert_eq!(
            lines[3],
            "| kill | 2,000 | 400 | 0 | 0 | 0 | 309 | 7 | 3 | 11 | 12.0 | 205,598 | 87 | 2,665 |"
        );
        assert!(lines[4].starts_with("| all | 3,000 |") && lines[4].ends_with("| 205,598 | 87 | 2,665 |"));
    }
}
