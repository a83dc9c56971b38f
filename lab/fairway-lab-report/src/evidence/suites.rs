//! The published results: a JSON file for each suite in docs/results, compressed if large. Runs of the laboratory are
//! parsed to their types, all others to plain JSON; ratios and intervals are part of the files.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use fairway_lab_measure::results::{Results, read_kept};
use minijinja::value::{Serde, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value as Json, json};

use super::super::number;
use super::origin::{Origin, RESULTS, Repository};

/// Runs of the paired benchmark, in the order in which their scenarios are shown.
pub(super) const BENCHES: [&str; 5] = ["cpu", "http2", "study2", "tcp-udp", "memory"];

/// All suites, by name.
pub(super) struct Suites {
    /// Those of the benchmark and of the tests in a cluster, by name.
    pub by_name: BTreeMap<String, Json>,
    /// Runs of the laboratory.
    pub runs: Vec<Results>,
    /// Where each is from.
    origins: Vec<Origin>,
}

/// Tells a run of the laboratory from other results.
#[derive(Deserialize)]
struct Form {
    runs: Option<IgnoredAny>,
}

impl Suites {
    pub(super) fn read(root: &Path) -> anyhow::Result<Self> {
        let mut found = Self { by_name: BTreeMap::new(), runs: Vec::new(), origins: Vec::new() };
        let entries = root.join(RESULTS).read_dir().with_context(|| format!("read {RESULTS}"))?;
        let mut files = Vec::new();
        for entry in entries {
            files.push(entry?.file_name().to_string_lossy().into_owned());
        }
        files.sort();
        for file in files {
            let Some(suite) = file.trim_end_matches(".gz").strip_suffix(".json") else { continue };
            let failed = || format!("read {RESULTS}/{file}");
            let text = read_kept(&root.join(RESULTS).join(format!("{suite}.json")))?;
            let form: Form = serde_json::from_slice(&text).with_context(failed)?;
            let text_of = |value: &Json| value.as_str().map(str::to_owned);
            let (date, revision) = if form.runs.is_some() {
                let run: Results = serde_json::from_slice(&text).with_context(failed)?;
                let from = (
                    run.begun.split('T').next().map(str::to_owned),
                    run.environment.facts.get("revision").cloned(),
                );
                found.runs.push(run);
                from
            } else {
                let all: Json = serde_json::from_slice(&text).with_context(failed)?;
                let from = (text_of(&all["origin"]["date"]), text_of(&all["origin"]["revision"]));
                found.by_name.insert(suite.to_owned(), all);
                from
            };
            found.origins.push(Origin::new(suite, &file, date, revision));
        }
        Ok(found)
    }

    /// Where each file is from, as the history knows it.
    pub(super) fn origins(&self, repository: &Repository) -> Vec<Origin> {
        self.origins.iter().map(|origin| origin.clone().counted(repository)).collect()
    }

    /// The runs of the paired benchmark that have results, as one: all scenarios, in the order of [`BENCHES`], and the versions of all peers.
    pub(super) fn bench(&self) -> Json {
        let (mut results, mut versions, mut origins) = (Vec::new(), serde_json::Map::new(), Vec::new());
        for suite in BENCHES {
            let Some(all) = self.by_name.get(suite) else { continue };
            results.extend(all["results"].as_array().into_iter().flatten().cloned());
            versions.extend(all["versions"].as_object().cloned().unwrap_or_default());
            origins.push(all["origin"].clone());
        }
        json!({ "results": results, "versions": versions, "origins": origins })
    }

    /// The runs of the paired benchmark that have a scenario, with their names and dates.
    pub(super) fn benches(&self) -> anyhow::Result<Vec<Bench>> {
        let mut benches = Vec::new();
        for (suite, all) in self.by_name.iter().filter(|(_, all)| all.get("results").is_some()) {
            let mut bench = Bench::deserialize(all).with_context(|| format!("read {suite}"))?;
            bench.suite.clone_from(suite);
            benches.push(bench);
        }
        benches.sort_by(|one, other| one.origin.date.cmp(&other.origin.date));
        Ok(benches)
    }
}

/// A run of `fairway-bench run`.
#[derive(Deserialize)]
pub(super) struct Bench {
    #[serde(default)]
    pub suite: String,
    pub origin: BenchOrigin,
    pub versions: BTreeMap<String, String>,
    pub results: Vec<Findings>,
}

#[derive(Deserialize)]
pub(super) struct BenchOrigin {
    pub date: String,
}

#[derive(Deserialize)]
pub(super) struct Findings {
    pub scenario: Scenario,
    pub summary: Vec<Summary>,
    #[serde(default)]
    pub memory: Vec<Memory>,
}

#[derive(Deserialize)]
pub(super) struct Scenario {
    pub name: String,
    /// The date in words.
    pub title: String,
}

/// A proxy in a scenario.
#[derive(Deserialize)]
pub(super) struct Summary {
    pub peer: String,
    pub distance: String,
    pub user_us: f64,
    pub total_us: f64,
    pub kept: u64,
    pub to_base: Option<Ratio>,
}

#[derive(Deserialize)]
pub(super) struct Memory {
    peer: String,
    open: u64,
    before_bytes: u64,
    after_bytes: u64,
}

/// CPU of a peer divided by Fairway's.
#[derive(Clone, Copy, Deserialize)]
pub(super) struct Ratio {
    pub median: f64,
    pub low: f64,
    pub high: f64,
    pub pairs: usize,
}

impl Ratio {
    /// With its interval.
    pub(super) fn text(self) -> String {
        let Self { median, low, high, .. } = self;
        format!("{} [{}, {}]", number::ratio(median), number::ratio(low), number::ratio(high))
    }

    pub(super) fn inverse(self) -> Self {
        Self { median: 1.0 / self.median, low: 1.0 / self.high, high: 1.0 / self.low, pairs: self.pairs }
    }
}

/// Where the CPUs were, in words.
pub(super) fn distance(name: &str) -> &'static str {
    match name {
        "one_core" => "one core",
        "two_cores" => "two cores",
        _ => "unknown",
    }
}

/// The version number in the version line of a program.
pub(super) fn version(text: &str) -> &str {
    let parts = text.split(|letter: char| !(letter.is_ascii_digit() || letter == '.'));
    let mut numbers = parts.map(|part| part.trim_matches('.')).filter(|part| part.contains('.'));
    numbers.next().unwrap_or_default()
}

/// The ratio of a peer in a scenario, of the distance of CPUs with most pairs, and that distance.
pub(super) fn best<'a>(results: &'a [Findings], scenario: &str, peer: &str) -> Option<(Ratio, &'a str)> {
    let findings = results.iter().find(|findings| findings.scenario.name == scenario)?;
    let own_summaries = findings.summary.iter().filter(|row| row.peer == peer);
    let found = own_summaries.filter_map(|row| Some((row.to_base?, row.distance.as_str())));
    found.max_by_key(|(ratio, _)| ratio.pairs)
}

/// For goals: the median bytes of Fairway's memory for each connection or stream of a scenario.
pub(super) fn each_value(Serde(results): Serde<Vec<Findings>>, scenario: &str) -> Result<f64, Error> {
    let findings = results.iter().find(|findings| findings.scenario.name == scenario);
    let memory = findings.map_or(&[] as &[Memory], |findings| &findings.memory).iter();
    let mut sizes: Vec<f64> = memory
        .filter(|row| row.peer == "fairway")
        .map(|row| row.after_bytes.saturating_sub(row.before_bytes) as f64 / row.open.max(1) as f64)
        .collect();
    sizes.sort_by(f64::total_cmp);
    sizes.get(sizes.len() / 2).copied().ok_or_else(|| Error::new(ErrorKind::UndefinedError, "no memory"))
}

/// Connections of HTTP/2, and by how many times each worker had how many.
#[derive(Deserialize)]
pub(super) struct Spread {
    connections: u64,
    times: Vec<Once>,
}

#[derive(Deserialize)]
struct Once {
    connections: Vec<u64>,
}

/// For goals: how many times one of two workers had more than its share and one.
pub(super) fn uneven(Serde(all): Serde<Vec<Spread>>) -> usize {
    let uneven = |spread: &Spread| {
        let limit = spread.connections.div_ceil(2) + 1;
        spread.times.iter().filter(|once| once.connections.iter().any(|count| *count > limit)).count()
    };
    all.iter().map(uneven).sum()
}

/// For templates: the sum of all counts in a value, however deep.
pub(super) fn total(value: &Value) -> u64 {
    let field = |part: Value| match value.kind() {
        ValueKind::Map => value.get_item(&part).unwrap_or_default(),
        _ => part,
    };
    let parts = || value.try_iter().into_iter().flatten();
    u64::try_from(value.clone()).unwrap_or_else(|_| parts().map(|part| total(&field(part))).sum())
}

/// Filters and functions for templates and goals, in addition to the built-in ones.
pub(super) fn environment() -> Environment<'static> {
    let mut environment = number::environment();
    environment.add_filter("total", total);
    environment.add_filter("version", |text: &str| version(text).to_owned());
    environment.add_filter("each", each_value);
    environment.add_filter("uneven", uneven);
    environment.add_filter("interval", |Serde(ratio): Serde<Ratio>| ratio.text());
    environment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_output_of_programs() {
        for (said, expected) in [
            ("nginx version: nginx/1.22.1", "1.22.1"),
            ("HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https://haproxy.org/", "2.6.12"),
            ("envoy  version: 9e5580933/1.40.0/Clean/RELEASE/BoringSSL", "1.40.0"),
            ("Version:      v3.6.7", "3.6.7"),
        ] {
            assert_eq!(version(said), expected);
        }
    }

    #[test]
    fn goals_for_memory_are_about_fairway_whatever_peers_need() {
        let memory = |peer: &str, after: u64| serde_json::json!({"peer": peer, "open": 10, "before_bytes": 100, "after_bytes": after});
        let results = serde_json::json!([{
            "scenario": {"name": "idle", "title": ""}, "summary": [],
            "memory": [memory("envoy", 9_100), memory("fairway", 300), memory("envoy", 8_100), memory("fairway", 200)],
        }]);
        let findings: Vec<Findings> = serde_json::from_value(results).unwrap();
        assert_eq!(each_value(Serde(findings), "idle").unwrap(), 20.0);
    }
}
