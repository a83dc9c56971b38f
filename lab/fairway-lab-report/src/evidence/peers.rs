//! Peers compared with Fairway in the runs of the laboratory: requests lost while pods were scaled, and cases in
//! which a peer was faster. The comparisons are fixed here, independent of their results.

use std::collections::BTreeMap;

use fairway_lab_measure::results::{Results, Settings};

use super::super::merge::{Scenario, gather};
use super::super::number;
use super::super::palette::Palette;
use super::super::pool::{Pool, pools_of_run};
use super::suites::version;

/// The case of the laboratory in which pods come and go.
const CHANGING: (&str, &str) = ("dynamic", "dynamic");

/// Requests of every peer that were lost while pods were scaled.
pub(super) fn lost(runs: &[Results]) -> Vec<String> {
    let (scenario, case) = CHANGING;
    let lost_by = |pool: &Pool<'_>, named: &str| {
        format!("{named}: {} of {}", number::count(pool.failed()), number::count(pool.requests()))
    };
    compared(runs, |run, pools, named| {
        let own_pools = pools.iter().filter(|pool| run.scenario == scenario && pool.case == case);
        own_pools.map(|pool| lost_by(pool, &named(pool.peer))).collect()
    })
}

/// How many requests of how many failed in all cases of a scenario, for every peer.
pub(super) fn failures(runs: &[Results], scenario: &str) -> Vec<(String, u64, u64)> {
    let mut found: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let palette = Palette::for_runs(runs);
    for run in gather(runs).iter().filter(|run| run.scenario == scenario) {
        let changing = pools_of_run(run, &palette).into_iter().filter(|pool| {
            let is_calm = scenario == CHANGING.0 && pool.case != CHANGING.1;
            pool.settings == Settings::Recommended && !palette.is_neutral(pool.peer) && !is_calm
        });
        for pool in changing {
            let (failed, requests) = found.entry(pool.peer.to_owned()).or_default();
            (*failed, *requests) = (*failed + pool.failed(), *requests + pool.requests());
        }
    }
    found.into_iter().map(|(peer, (failed, requests))| (peer, failed, requests)).collect()
}

/// Cases with a constant rate in which a peer's p99 was lower than Fairway's. A percentile needs ten samples above
/// it.
pub(super) fn behind(runs: &[Results]) -> Vec<String> {
    let p99 = |pool: &Pool<'_>| pool.percentile(99.0).map(|point| point.ms);
    compared(runs, |run, pools, named| {
        let is_held =
            |pool: &&Pool<'_>| pool.measures.iter().all(|measure| measure.load.offered.rate.is_some());
        let held_pools: Vec<_> =
            pools.iter().filter(is_held).filter_map(|pool| Some((pool, p99(pool)?))).collect();
        let mut found = Vec::new();
        for (own, ms) in held_pools.iter().filter(|(pool, _)| pool.peer == "fairway") {
            let better = held_pools.iter().filter(|(pool, other)| pool.case == own.case && other < ms);
            let better: Vec<String> = better
                .map(|(pool, other)| format!("{} {} ms", named(pool.peer), number::figure(*other)))
                .collect();
            if !better.is_empty() {
                let figure_name = format!("p99 latency in `{}`, case {}", run.scenario, own.case);
                found.push(format!(
                    "{figure_name}: Fairway {} ms, {}",
                    number::figure(*ms),
                    better.join(", ")
                ));
            }
        }
        found
    })
}

/// Calls `find` for each scenario with its pools of recommended settings and the names and versions of its peers.
fn compared(
    runs: &[Results],
    find: impl Fn(&Scenario, &[Pool<'_>], &dyn Fn(&str) -> String) -> Vec<String>,
) -> Vec<String> {
    let palette = Palette::for_runs(runs);
    let of_scenario = |run: &Scenario| {
        // Those of all rounds of a scenario have the same versions.
        let results = run.sources.first().and_then(|at| runs.get(*at));
        let mut pools = pools_of_run(run, &palette);
        pools.retain(|pool| pool.settings == Settings::Recommended && !palette.is_neutral(pool.peer));
        find(run, &pools, &|peer| results.map_or_else(String::new, |results| named(results, peer)))
    };
    gather(runs).iter().flat_map(of_scenario).collect()
}

/// A peer with its versions.
fn named(results: &Results, peer: &str) -> String {
    let Some(record) = results.peers.iter().find(|record| record.name == peer) else {
        return peer.to_owned();
    };
    let with = |(program, text): (&String, &String)| match version(text) {
        version if record.versions.len() == 1 || program == peer => version.to_owned(),
        version => format!("with {program} {version}"),
    };
    format!("{peer} {}", record.versions.iter().map(with).collect::<Vec<_>>().join(" "))
}
