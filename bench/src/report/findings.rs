//! Everything that a run found, and the sum of the blocks of each proxy.

use std::collections::{BTreeMap, BTreeSet};

use fairway_lab_measure::{Distance, PairedRatio, ratios};

use super::origin::Origin;
use crate::measure::{Block, Effort, Handshakes, Memory, repeat_command};
use crate::scenario::Scenario;

/// A complete run.
#[derive(serde::Serialize)]
pub(crate) struct Report {
    pub(crate) origin: Origin,
    pub(crate) effort: Effort,
    pub(crate) versions: BTreeMap<String, String>,
    /// Peers that could not be measured, and why.
    pub(crate) absent: BTreeMap<String, String>,
    /// The configuration of each peer, without secrets; `DIR` is its own directory.
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
    /// Handshakes of each peer, in the blocks that count.
    pub(crate) handshakes: BTreeMap<String, Handshakes>,
    pub(crate) blocks: Vec<Block>,
    /// Peers that have no row here, and why.
    pub(crate) missing: BTreeMap<String, String>,
}

/// One proxy in one scenario, over the valid blocks.
#[derive(serde::Serialize)]
pub(crate) struct Summary {
    pub(crate) peer: String,
    /// The distance of the two CPUs, on which the kernel's cost per request depends more than on the proxy.
    pub(crate) distance: Distance,
    pub(crate) user_us: f64,
    pub(crate) system_us: f64,
    pub(crate) total_us: f64,
    /// This proxy's CPU per request divided by the base's.
    pub(crate) to_base: Option<Ratio>,
    #[serde(flatten)]
    pub(crate) speed: Speed,
    /// The share of one CPU that the proxy used.
    pub(crate) busy: f64,
    pub(crate) p50_us: u64,
    /// `None` if a block has fewer than ten responses above it.
    pub(crate) p99_us: Option<u64>,
    pub(crate) kept: usize,
    pub(crate) discarded: usize,
}

/// Responses per second.
#[derive(serde::Serialize)]
pub(crate) struct Speed {
    /// The mean of all blocks; another proxy's blocks ran at other times.
    pub(crate) requests_per_second: f64,
    /// The base's divided into this proxy's, in pairs.
    pub(crate) rate_to_base: Option<Ratio>,
    /// The share of a CPU that generator and backend used together: near 1, they were the limit.
    pub(crate) generator_busy: f64,
}

/// The median of some ratios in pairs, by the laboratory's rules.
#[derive(Clone, Copy, serde::Serialize)]
pub(crate) struct Ratio {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// The probability that the true median is between low and high.
    pub(crate) coverage: f64,
    pub(crate) pairs: u32,
    pub(crate) set_aside: u32,
    /// The median with the pairs that were set aside.
    pub(crate) median_of_all: f64,
    /// Whether there are enough pairs for a finding.
    pub(crate) enough: bool,
}

impl From<PairedRatio> for Ratio {
    fn from(paired: PairedRatio) -> Self {
        let (low, high) = paired.spread.interval;
        Self {
            median: paired.spread.median,
            low,
            high,
            coverage: paired.spread.coverage,
            pairs: paired.pairs,
            set_aside: paired.set_aside,
            median_of_all: paired.median_of_all,
            enough: paired.are_enough(),
        }
    }
}

/// Sums up blocks, each distance of the CPUs on its own, in the order in which the first round measured the proxies.
pub(crate) fn summarise(blocks: &[Block], base: &str) -> Vec<Summary> {
    let distances: BTreeSet<Distance> = blocks.iter().map(|block| block.distance).collect();
    let first_round = || blocks.iter().take_while(|block| block.round == 0);
    let each = distances.into_iter().flat_map(|distance| {
        first_round().map(|block| summary(blocks, &block.peer, base, distance)).collect::<Vec<_>>()
    });
    each.filter(|summary| summary.kept > 0).collect()
}

/// Whether some peer has too few pairs for a finding, at whichever distance of the CPUs it has most.
pub(crate) fn lacks_pairs(blocks: &[Block], base: &str) -> bool {
    let peers: BTreeSet<&str> =
        blocks.iter().map(|block| &*block.peer).filter(|peer| *peer != base).collect();
    peers
        .into_iter()
        .any(|peer| !in_pairs(blocks, peer, base, Block::cpu_us).iter().any(PairedRatio::are_enough))
}

/// The TLS handshakes of each peer in the valid blocks.
pub(crate) fn handshakes(blocks: &[Block]) -> BTreeMap<String, Handshakes> {
    let mut all: BTreeMap<String, Handshakes> = BTreeMap::new();
    for block in blocks.iter().filter(|block| block.discarded.is_none()) {
        let Some(these) = &block.handshakes else { continue };
        let sum = all.remove(&block.peer).map_or_else(|| these.clone(), |sum| sum.and(these));
        all.insert(block.peer.clone(), sum);
    }
    all
}

fn summary(blocks: &[Block], peer: &str, base: &str, distance: Distance) -> Summary {
    let of_peer = || blocks.iter().filter(|block| block.peer == peer && block.distance == distance);
    let valid_blocks: Vec<&Block> = of_peer().filter(|block| block.discarded.is_none()).collect();
    let ratio = |figure: fn(&Block) -> f64| {
        (peer != base)
            .then(|| in_pairs(blocks, peer, base, figure))
            .into_iter()
            .flatten()
            .find(|paired| paired.distance == distance)
            .map(Ratio::from)
    };
    let sum = |cpu_of: fn(&Block) -> f64| valid_blocks.iter().map(|block| cpu_of(block)).sum::<f64>();
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
        to_base: ratio(Block::cpu_us),
        speed: Speed {
            requests_per_second: requests / seconds,
            rate_to_base: ratio(Block::rate),
            generator_busy: sum(|block| block.around.generator_busy * block.seconds) / seconds,
        },
        busy: total_us * requests / 1e6 / seconds,
        p50_us: middle(valid_blocks.iter().map(|block| block.latency_us.p50).collect()),
        p99_us: valid_blocks
            .iter()
            .all(|block| block.requests >= WITH_P99)
            .then(|| middle(valid_blocks.iter().map(|block| block.latency_us.p99).collect())),
        kept: valid_blocks.len(),
        discarded: of_peer().count() - valid_blocks.len(),
    }
}

/// With fewer responses than this, fewer than ten are above the 99th percentile.
const WITH_P99: u64 = 1000;

/// Blocks of the peer between blocks of the base, in the order in which they ran. The base's second block of a round is the
/// base, too, except for itself.
fn in_pairs(blocks: &[Block], peer: &str, base: &str, figure: fn(&Block) -> f64) -> Vec<PairedRatio> {
    let again = repeat_command(base);
    let pick = |is_wanted: &dyn Fn(&str) -> bool| -> Vec<fairway_lab_measure::Block> {
        let numbered = blocks.iter().zip(0..);
        numbered
            .filter(|(block, _)| block.discarded.is_none() && is_wanted(&block.peer))
            .map(|(block, place)| fairway_lab_measure::Block {
                position: place,
                figure: figure(block),
                distance: Some(block.distance),
            })
            .collect()
    };
    let bases = pick(&|name| name == base || (name == again && peer != again));
    ratios(&pick(&|name| name == peer), &bases)
}

/// The median over blocks; percentiles are never averaged.
fn middle(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Around, Latency};
    use fairway_lab_measure::CpuTime;

    fn block(round: usize, peer: &str, cpu_us: f64, distance: Distance) -> Block {
        let cpu = CpuTime { total_ns: (cpu_us * 1e6) as u64, user_ticks: 1, system_ticks: 1 };
        Block {
            round,
            peer: peer.to_owned(),
            requests: 1000,
            errors: BTreeMap::new(),
            seconds: 1.0,
            cpu,
            latency_us: Latency { p50: 1, p99: 2, max: 3 },
            around: Around { stolen: 0.0, generator_busy: 0.5 },
            distance,
            distance_ns: [None; 2],
            handshakes: None,
            discarded: None,
        }
    }

    /// Rounds forth and back, as they are measured.
    fn rounds(count: usize, state: impl Fn(usize) -> Distance) -> Vec<Block> {
        (0..count)
            .flat_map(|round| {
                let mut blocks = [("fairway", 10.0), ("nginx", 13.0), ("fairway again", 10.0)]
                    .map(|(peer, cpu)| block(round, peer, cpu, state(round)));
                if round % 2 == 1 {
                    blocks.reverse();
                }
                blocks
            })
            .collect()
    }

    #[test]
    fn each_state_has_its_own_ratios_and_reports_too_few_pairs() {
        let state = |round| if round < 16 { Distance::TwoCores } else { Distance::OneCore };
        let summary = summarise(&rounds(18, state), "fairway");
        let nginx = |distance| {
            let row = summary.iter().find(|row| row.peer == "nginx" && row.distance == distance);
            row.and_then(|row| row.to_base).expect("a ratio")
        };
        let (two, one) = (nginx(Distance::TwoCores), nginx(Distance::OneCore));
        assert!((two.median - 1.3).abs() < 1e-9 && two.enough && two.pairs == 16);
        assert!(!one.enough && one.pairs == 2);
        assert!(two.coverage > 0.95);
    }

    #[test]
    fn a_peer_lacks_pairs_until_one_state_has_enough_of_them() {
        let two = |_| Distance::TwoCores;
        assert!(lacks_pairs(&rounds(14, two), "fairway"));
        assert!(!lacks_pairs(&rounds(18, two), "fairway"));
        // Eighteen rounds, but nine in each state.
        let both = |round| if round < 9 { Distance::TwoCores } else { Distance::OneCore };
        assert!(lacks_pairs(&rounds(18, both), "fairway"));
        let mut discarded = rounds(18, two);
        discarded.iter_mut().filter(|block| block.peer == "nginx" && block.round < 6).for_each(|block| {
            block.discarded = Some("a request failed".to_owned());
        });
        assert!(lacks_pairs(&discarded, "fairway"));
    }

    #[test]
    fn answers_per_second_are_compared_in_pairs_too() {
        let summary = summarise(&rounds(4, |_| Distance::OneCore), "fairway");
        let again = summary.iter().find(|row| row.peer == "fairway again").expect("a row");
        assert!((again.speed.rate_to_base.expect("a ratio").median - 1.0).abs() < 1e-9);
        assert!(summary[0].speed.rate_to_base.is_none());
    }

    #[test]
    fn a_p99_of_too_few_responses_is_omitted() {
        let mut blocks = rounds(2, |_| Distance::OneCore);
        assert!(summarise(&blocks, "fairway").iter().all(|row| row.p99_us.is_some()));
        blocks[0].requests = 999;
        assert_eq!(summarise(&blocks, "fairway")[0].p99_us, None);
    }
}
