//! The figures of README: at most six, each with the versions of the peers and the page that has the command. What was missed, and
//! where a peer did better, is all on that page. Chosen once, here, and not by what they say.

use std::path::Path;

use fairway_lab_measure::results::{Results, Settings};
use serde_json::Value;

use super::super::gather::{Scenario, gather};
use super::super::number;
use super::super::palette::Palette;
use super::super::pool::{Pool, whole};
use super::bench::{self, Bench};
use super::{cluster, json, table};

/// The scenarios of the paired benchmark that are in README, and the peers that they name.
const PAIRED: [(&str, &[&str]); 4] = [
    ("http-1k-50", &["nginx", "haproxy", "envoy"]),
    ("https-1k-50", &["nginx", "haproxy", "envoy"]),
    ("tls13-handshakes", &["nginx", "haproxy", "envoy"]),
    ("h2-1k-10x10", &["nginx", "haproxy", "h2o", "envoy"]),
];
/// The case of the laboratory in which pods come and go.
const CHANGING: (&str, &str) = ("dynamic", "dynamic");

/// The region of README; `unclean` of `all` results files are excused from naming a clean revision.
pub(super) fn page(
    root: &Path,
    bench: &Bench,
    runs: &[Results],
    unclean: usize,
    all: usize,
) -> anyhow::Result<String> {
    let mut rows: Vec<Vec<String>> =
        PAIRED.iter().filter_map(|(scenario, peers)| paired(bench, scenario, peers)).collect();
    rows.extend(lost(runs));
    rows.push(visible(root)?);
    let mut text = String::from("\n");
    text += &table(&["figure", "found", "how"], &rows);
    text += &format!(
        "\nA ratio is a peer's CPU time divided by Fairway's, with its 95% interval; above 1, Fairway spends less.\n\
         [Missed goals and better peers](docs/performance.md#missed-goals-and-better-peers) are listed there, and results files\n\
         [to be measured again](docs/performance.md#origin-of-the-results): {unclean} of {all}.\n"
    );
    Ok(text)
}

/// The region of the page of all figures with what was missed and where a peer did better: all of it.
pub(super) fn shortfalls(root: &Path, bench: &Bench, runs: &[Results]) -> anyhow::Result<String> {
    let mut text = String::from("\nGoals that were missed:\n\n");
    let missed = bench.missed().into_iter().chain(cluster::missed(root)?);
    missed.for_each(|missed| text += &format!("* {missed}\n"));
    text += "\nWhere a peer did better than Fairway:\n\n";
    bench.lighter().iter().chain(&behind(runs)).for_each(|behind| text += &format!("* {behind}\n"));
    Ok(text)
}

fn how(link: &str, command: &str) -> String {
    format!("[`{command}`](docs/performance.md#{link})")
}

fn paired(bench: &Bench, scenario: &str, peers: &[&str]) -> Option<Vec<String>> {
    let found: Vec<String> = peers
        .iter()
        .filter_map(|peer| {
            let (ratio, _) = bench.ratio(scenario, peer)?;
            Some(format!("{peer} {}: {}", bench.version(peer), ratio.text()))
        })
        .collect();
    let command = how("cpu-per-request", "make bench");
    (!found.is_empty())
        .then(|| vec![format!("CPU ratio: {}", bench::title(scenario)), found.join("<br>"), command])
}

/// Requests that were lost while pods came and went, of every peer.
fn lost(runs: &[Results]) -> Option<Vec<String>> {
    let (scenario, case) = CHANGING;
    let palette = Palette::of(runs);
    let scenarios = gather(runs);
    let run = scenarios.iter().find(|run| run.scenario == scenario)?;
    let results = of(runs, run)?;
    let mut pools = whole(run, &palette);
    pools.retain(|pool| {
        pool.case == case && pool.settings == Settings::Recommended && !palette.is_neutral(pool.peer)
    });
    let found: Vec<String> = pools.iter().map(|pool| lost_by(results, pool)).collect();
    let what = "failed requests while pods are scaled 5, 7, 5";
    Some(vec![what.to_owned(), found.join("<br>"), how("compared-with-other-controllers", "make lab")])
}

/// The results that a scenario comes from; those of all of its rounds have the same versions.
fn of<'a>(runs: &'a [Results], run: &Scenario) -> Option<&'a Results> {
    runs.get(*run.sources.first()?)
}

fn lost_by(results: &Results, pool: &Pool<'_>) -> String {
    let (failed, requests) = (number::count(pool.failed()), number::count(pool.requests()));
    format!("{}: {failed} of {requests}", named(results, pool.peer))
}

/// A peer with its versions.
fn named(results: &Results, peer: &str) -> String {
    let Some(record) = results.peers.iter().find(|record| record.name == peer) else {
        return peer.to_owned();
    };
    let with = |(program, text): (&String, &String)| match bench::version(text) {
        version if record.versions.len() == 1 || program == peer => version.to_owned(),
        version => format!("with {program} {version}"),
    };
    format!("{peer} {}", record.versions.iter().map(with).collect::<Vec<_>>().join(" "))
}

/// How soon a change is visible.
fn visible(root: &Path) -> anyhow::Result<Vec<String>> {
    let changes: Value = json(root, "bench/results/changes.json")?;
    let visible = &changes["findings"]["visible"];
    let count = number::count(visible["count"].as_u64().unwrap_or(0));
    let took = format!(
        "p50 {} ms, p99 {} ms, slowest {} ms of {count} changes",
        bench::ms(&visible["p50_ms"]),
        bench::ms(&visible["p99_ms"]),
        bench::ms(&visible["max_ms"])
    );
    let what = "time from a changed file to every worker".to_owned();
    Ok(vec![what, took, how("promises", "fairway-bench changes")])
}

/// Cases at a held rate in which a peer's p99 was lower than Fairway's.
fn behind(runs: &[Results]) -> Vec<String> {
    let palette = Palette::of(runs);
    let mut found = Vec::new();
    for run in &gather(runs) {
        let Some(results) = of(runs, run) else { continue };
        let mut pools = whole(run, &palette);
        let is_held = |pool: &Pool<'_>| pool.measures.iter().all(|one| one.load.offered.rate.is_some());
        pools.retain(|pool| {
            pool.settings == Settings::Recommended && is_held(pool) && !palette.is_neutral(pool.peer)
        });
        for own in pools.iter().filter(|pool| pool.peer == "fairway") {
            let Some(p99) = p99(own) else { continue };
            let better = pools.iter().filter(|pool| pool.case == own.case && pool.peer != own.peer);
            let better = better.filter_map(|pool| Some((pool.peer, self::p99(pool)?)));
            let better: Vec<String> = better
                .filter(|(_, other)| *other < p99)
                .map(|(peer, other)| format!("{} {} ms", named(results, peer), number::figure(other)))
                .collect();
            if !better.is_empty() {
                let place = format!("p99 latency in `{}`, case {}", run.scenario, own.case);
                let own = number::figure(p99);
                found.push(format!("{place}: Fairway {own} ms, {}", better.join(", ")));
            }
        }
    }
    found
}

/// A percentile needs ten samples above it.
fn p99(pool: &Pool<'_>) -> Option<f64> {
    pool.percentile(99.0).map(|point| point.ms)
}
