//! The figures of README: at most eight, each with its interval, the versions of the peers, and the page that has the
//! command; then what was lost. Chosen once, here, and not by what they say.

use std::path::Path;

use fairway_lab_measure::results::{Results, Settings};
use serde_json::Value;

use super::super::figures::rate_of_loss;
use super::super::gather::{Scenario, gather};
use super::super::number;
use super::super::palette::Palette;
use super::super::pool::{Pool, whole};
use super::bench::{self, Bench, ENOUGH_PAIRS};
use super::{cluster, json, table};

/// The scenarios of the paired benchmark that are in README, and the peers that they name.
const PAIRED: [(&str, &[&str]); 5] = [
    ("http-1k-50", &["nginx", "haproxy", "envoy"]),
    ("https-1k-50", &["nginx", "haproxy", "envoy"]),
    ("tls13-handshakes", &["nginx", "haproxy", "envoy"]),
    ("https-1m", &["nginx", "haproxy", "envoy"]),
    ("h2-1k-10x10", &["nginx", "haproxy", "h2o", "envoy"]),
];
/// The case of the laboratory in which pods come and go.
const CHANGING: (&str, &str) = ("dynamic", "dynamic");

/// The region of README.
pub(super) fn page(
    root: &Path,
    bench: &Bench,
    runs: &[Results],
    excused: (usize, usize),
) -> anyhow::Result<String> {
    let mut rows: Vec<Vec<String>> =
        PAIRED.iter().filter_map(|(scenario, peers)| paired(bench, scenario, peers)).collect();
    rows.extend(lost(runs));
    rows.extend(more(root)?);
    let (unclean, all) = excused;
    let mut text = String::from("\n");
    text += &table(&["figure", "found", "how"], &rows);
    text += &format!(
        "\nA ratio is a peer's CPU time divided by Fairway's, the median of paired blocks with its 95% interval; above 1,\n\
         Fairway spends less. Few pairs make wide intervals: below {ENOUGH_PAIRS} pairs, take a ratio as an indication.\n\
         Results files [without a clean revision](docs/performance.md#origin-of-the-results), to be measured again: {unclean} of\n\
         {all}.\n"
    );
    text += "\nGoals that were missed:\n\n";
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
            let (ratio, cpus) = bench.ratio(scenario, peer)?;
            let version = bench.version(peer);
            Some(format!("{peer} {version}: {} ({} pairs, {cpus})", ratio.text(), ratio.pairs))
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
    let what = "failed requests while pods are scaled 5, 7, 5; with the exact 95% interval";
    Some(vec![what.to_owned(), found.join("<br>"), how("compared-with-other-controllers", "make lab")])
}

/// The results that a scenario comes from; those of all of its rounds have the same versions.
fn of<'a>(runs: &'a [Results], run: &Scenario) -> Option<&'a Results> {
    runs.get(*run.sources.first()?)
}

fn lost_by(results: &Results, pool: &Pool<'_>) -> String {
    let (failed, requests) = (pool.failed(), pool.requests());
    format!(
        "{}: {} of {}, per million {}",
        named(results, pool.peer),
        number::count(failed),
        number::count(requests),
        rate_of_loss(failed, requests)
    )
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

/// What only Fairway was asked.
fn more(root: &Path) -> anyhow::Result<Vec<Vec<String>>> {
    let changes: Value = json(root, "bench/results/changes.json")?;
    let visible = &changes["findings"]["visible"];
    let count = number::count(visible["count"].as_u64().unwrap_or(0));
    let took = format!(
        "p50 {} ms, p99 {} ms, slowest {} ms of {count} changes",
        bench::ms(&visible["p50_ms"]),
        bench::ms(&visible["p99_ms"]),
        bench::ms(&visible["max_ms"])
    );
    let ((plain, connections), (tls, _)) =
        (bench::idle(root, "idle-memory")?, bench::idle(root, "idle-memory-tls")?);
    let sizes = format!("plain {:.1} KiB, TLS {:.1} KiB", plain / 1024.0, tls / 1024.0);
    let connections = number::count(connections);
    Ok(vec![
        vec![
            "time from a changed file to every worker".to_owned(),
            took,
            how("promises", "fairway-bench changes"),
        ],
        vec![
            format!("memory of an idle connection, with {connections}"),
            sizes,
            how("promises", "fairway-bench run --scenario idle-memory,idle-memory-tls"),
        ],
    ])
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
