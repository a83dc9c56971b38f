//! Everything that a run found, and the sum of the blocks of each proxy.

use std::collections::{BTreeMap, BTreeSet};

use fairway_lab_measure::{Distance, Spread};

use super::origin::Origin;
use crate::measure::{Block, Effort, Memory};
use crate::scenario::Scenario;

/// A whole run.
#[derive(serde::Serialize)]
pub(crate) struct Report {
    pub(crate) origin: Origin,
    pub(crate) effort: Effort,
    pub(crate) versions: BTreeMap<String, String>,
    /// Peers that could not be measured, and why.
    pub(crate) absent: BTreeMap<String, String>,
    /// What was written for each peer; secrets are left out, `DIR` is its own directory.
    pub(crate) configurations: BTreeMap<String, BTreeMap<String, String>>,
    pub(crate) results: Vec<Findings>,
}

/// One scenario.
#[derive(serde::Serialize)]
pub(crate) struct Findings {
    pub(crate) scenario: Scenario,
    /// The peer that the others are divided by.
    pub(crate) base: String,
    pub(crate) summary: Vec<Summary>,
    pub(crate) memory: Vec<Memory>,
    pub(crate) blocks: Vec<Block>,
}

/// One proxy in one scenario, over the blocks that count.
#[derive(serde::Serialize)]
pub(crate) struct Summary {
    pub(crate) peer: String,
    /// Where the two CPUs were: what the kernel spends on a request depends on it more than on the proxy.
    pub(crate) distance: Distance,
    pub(crate) user_us: f64,
    pub(crate) system_us: f64,
    pub(crate) total_us: f64,
    /// This proxy's CPU per request divided by the base's.
    pub(crate) to_base: Option<Ratio>,
    pub(crate) requests_per_second: f64,
    /// The share of one CPU that the proxy used.
    pub(crate) busy: f64,
    pub(crate) p50_us: u64,
    pub(crate) p99_us: u64,
    pub(crate) kept: usize,
    pub(crate) discarded: usize,
}

/// The median of some ratios and its bootstrap 95% interval.
#[derive(Clone, Copy, serde::Serialize)]
pub(crate) struct Ratio {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) pairs: usize,
}

impl Ratio {
    fn of(ratios: &[f64]) -> Option<Self> {
        let Spread { median, interval: (low, high) } = Spread::of(ratios)?;
        Some(Self { median, low, high, pairs: ratios.len() })
    }
}

/// Sums up blocks, each distance of the CPUs on its own, in the order in which the first round measured the proxies.
pub(crate) fn summarise(blocks: &[Block], base: &str) -> Vec<Summary> {
    let distances: BTreeSet<Distance> = blocks.iter().map(|block| block.distance).collect();
    let first_round = || blocks.iter().take_while(|block| block.round == 0);
    let each = distances.into_iter().flat_map(|distance| {
        let there: Vec<&Block> = blocks.iter().filter(|block| block.distance == distance).collect();
        first_round().map(|block| summary(&there, &block.peer, base, distance)).collect::<Vec<_>>()
    });
    each.filter(|summary| summary.kept > 0).collect()
}

fn summary(blocks: &[&Block], peer: &str, base: &str, distance: Distance) -> Summary {
    let of_peer = || blocks.iter().filter(|block| block.peer == peer);
    let kept: Vec<&Block> = of_peer().filter(|block| block.discarded.is_none()).copied().collect();
    let sum = |of: fn(&Block) -> f64| kept.iter().map(|block| of(block)).sum::<f64>();
    let requests = sum(|block| block.requests as f64).max(1.0);
    let seconds = sum(|block| block.seconds).max(1e-9);
    let total_us = sum(|block| block.cpu.total_ns as f64) / 1000.0 / requests;
    let user = sum(|block| block.cpu.user_ticks as f64);
    let user_share = user / (user + sum(|block| block.cpu.system_ticks as f64)).max(1.0);
    Summary {
        peer: peer.to_owned(),
        distance,
        user_us: total_us * user_share,
        system_us: total_us * (1.0 - user_share),
        total_us,
        to_base: Ratio::of(&ratios(blocks, peer, base)).filter(|_| peer != base),
        requests_per_second: requests / seconds,
        busy: total_us * requests / 1e6 / seconds,
        p50_us: middle(kept.iter().map(|block| block.latency_us.p50).collect()),
        p99_us: middle(kept.iter().map(|block| block.latency_us.p99).collect()),
        kept: kept.len(),
        discarded: of_peer().count() - kept.len(),
    }
}

/// One ratio for each round in which both blocks count.
fn ratios(blocks: &[&Block], peer: &str, base: &str) -> Vec<f64> {
    let kept = |name: &str| -> BTreeMap<usize, f64> {
        let blocks = blocks.iter().filter(|block| block.peer == name && block.discarded.is_none());
        blocks.map(|block| (block.round, block.cpu_us())).collect()
    };
    let bases = kept(base);
    kept(peer).into_iter().filter_map(|(round, cpu)| Some(cpu / bases.get(&round)?)).collect()
}

/// The median over blocks; percentiles are never averaged.
fn middle(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}
