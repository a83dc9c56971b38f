//! Ratios of a figure in pairs of blocks that ran next to each other, with their interval: one method for the laboratory
//! and the benchmark.
//!
//! A block of the peer runs between two blocks of the base, whose mean is the other half of its pair. The three form a pair
//! only if the CPUs were equally far apart in all of them; each distance has its own ratio. A pair is set aside if the
//! machine changed its speed around one half: at the base, if its two blocks differ by more than a fifth; at the peer, if
//! its ratio differs by more than a fifth from both the previous and the next pair, so that it stands alone. The effect of
//! setting pairs aside on the median is part of the result.
//!
//! The interval of the median is made of order statistics and has their real coverage (binomial; David and Nagaraja 2003,
//! section 7.1): the narrowest that covers at least 95%, and of fewer than six pairs their span, which covers less.
//! Discarded blocks never get here.

use std::collections::BTreeMap;

use crate::results::{Distance, ENOUGH_PAIRS};

/// Maximum ratio of two neighbouring figures.
const MAX_NEIGHBOUR_RATIO: f64 = 1.2;
/// The desired coverage of an interval.
const INTERVAL_COVERAGE: f64 = 0.95;

/// A block's place in the order of the run, and its figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block {
    /// The position, from 0; neighbours form a pair.
    pub position: u32,
    /// The figure, e.g. microseconds of CPU for a request.
    pub figure: f64,
    /// The distance of the CPUs, if known.
    pub distance: Option<Distance>,
}

impl Block {
    fn state(&self) -> Distance {
        self.distance.unwrap_or(Distance::Unknown)
    }
}

/// The result of the pairs of two peers at one distance of the CPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairedRatio {
    /// The distance of the CPUs.
    pub distance: Distance,
    /// The median of `peer / base`, and its interval.
    pub spread: Spread,
    /// Pairs that count.
    pub pairs: u32,
    /// Pairs that do not, because the machine changed its speed around them.
    pub set_aside: u32,
    /// The median including the pairs that were set aside, which shows the effect of that rule.
    pub median_of_all: f64,
}

impl PairedRatio {
    /// Whether there are enough pairs for a finding.
    #[must_use]
    pub fn are_enough(&self) -> bool {
        self.pairs >= ENOUGH_PAIRS
    }
}

/// The ratios of a peer to the base, one for each state of the CPUs in which a pair counts.
#[must_use]
pub fn ratios(peer: &[Block], base: &[Block]) -> Vec<PairedRatio> {
    let mut by_state: BTreeMap<Distance, Vec<Pair>> = BTreeMap::new();
    let mut peer: Vec<_> = peer.iter().filter(|block| block.figure > 0.0).collect();
    peer.sort_by_key(|block| block.position);
    for block in peer {
        by_state.entry(block.state()).or_default().extend(pair(block, base));
    }
    by_state.into_iter().filter_map(|(distance, pairs)| paired_ratio(distance, &pairs)).collect()
}

/// The middle of some ratios, and how far it can be trusted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// Two of the ratios with the median between them.
    pub interval: (f64, f64),
    /// The probability that the true median is between them.
    pub coverage: f64,
}

impl Spread {
    /// `None` if there is no ratio.
    #[must_use]
    pub fn from_ratios(ratios: &[f64]) -> Option<Self> {
        let mut sorted = ratios.to_vec();
        let median = median(&mut sorted)?;
        let (skipped, coverage) = narrowest(sorted.len());
        Some(Self { median, interval: (sorted[skipped], sorted[sorted.len() - 1 - skipped]), coverage })
    }
}

/// How many of the lowest and highest values an interval of the median may leave out, and its coverage then.
fn narrowest(count: usize) -> (usize, f64) {
    // The probability that at most this many values are below the median, term by term.
    let mut term = 0.5_f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    let (mut below, mut found) = (term, (0, 1.0 - 2.0 * term));
    for skipped in 1..count.div_ceil(2) {
        term *= (count - skipped + 1) as f64 / skipped as f64;
        below += term;
        let coverage = 1.0 - 2.0 * below;
        if coverage < INTERVAL_COVERAGE {
            break;
        }
        found = (skipped, coverage);
    }
    (found.0, found.1.max(0.0))
}

/// A block between two of the base.
struct Pair {
    ratio: f64,
    base_is_steady: bool,
}

fn pair(peer: &Block, base: &[Block]) -> Option<Pair> {
    let usable = || base.iter().filter(|block| block.figure > 0.0);
    let before = usable().filter(|block| block.position < peer.position).max_by_key(|block| block.position);
    let after = usable().filter(|block| block.position > peer.position).min_by_key(|block| block.position);
    if before.iter().chain(&after).any(|block| block.state() != peer.state()) {
        return None;
    }
    let (figure, base_is_steady) = match (before, after) {
        (Some(one), Some(other)) => {
            (f64::midpoint(one.figure, other.figure), are_alike(one.figure, other.figure))
        }
        (Some(only), None) | (None, Some(only)) => (only.figure, true),
        (None, None) => return None,
    };
    Some(Pair { ratio: peer.figure / figure, base_is_steady })
}

fn are_alike(left: f64, right: f64) -> bool {
    left.max(right) <= left.min(right) * MAX_NEIGHBOUR_RATIO
}

fn paired_ratio(distance: Distance, pairs: &[Pair]) -> Option<PairedRatio> {
    let steady: Vec<f64> = pairs.iter().filter(|pair| pair.base_is_steady).map(|pair| pair.ratio).collect();
    let stands_alone = |at: usize| {
        let neighbours = [at.checked_sub(1), Some(at + 1)].map(|place| steady.get(place?));
        match neighbours {
            [Some(before), Some(after)] => {
                are_alike(*before, *after)
                    && !are_alike(*before, steady[at])
                    && !are_alike(*after, steady[at])
            }
            // With only one neighbour, it is unknown which of the two is the outlier.
            _ => false,
        }
    };
    let kept_blocks: Vec<f64> =
        (0..steady.len()).filter(|at| !stands_alone(*at)).map(|at| steady[at]).collect();
    let spread = Spread::from_ratios(&kept_blocks)?;
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Some(PairedRatio {
        distance,
        spread,
        pairs: count(kept_blocks.len()),
        set_aside: count(pairs.len() - kept_blocks.len()),
        median_of_all: median(&mut pairs.iter().map(|pair| pair.ratio).collect::<Vec<_>>())?,
    })
}

fn median(values: &mut [f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    Some(if values.len() % 2 == 1 { values[half] } else { f64::midpoint(values[half - 1], values[half]) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(slots: &[u32], figures: &[f64]) -> Vec<Block> {
        let block =
            |(place, figure): (&u32, &f64)| Block { position: *place, figure: *figure, distance: None };
        slots.iter().zip(figures).map(block).collect()
    }

    /// The ratio of blocks that were all measured in one state.
    fn ratio(peer: &[Block], base: &[Block]) -> PairedRatio {
        let found = ratios(peer, base);
        assert_eq!(found.len(), 1, "{found:?}");
        found[0]
    }

    #[test]
    fn neighbours_are_paired_so_that_a_slow_minute_hurts_both_sides() {
        // A B A, and again where everything takes ten times as long.
        let peer = blocks(&[1, 4], &[20.0, 200.0]);
        let base = blocks(&[0, 2, 3, 5], &[9.5, 10.5, 100.0, 100.0]);
        let found = ratio(&peer, &base);
        assert_eq!((found.spread.median, found.spread.interval), (2.0, (2.0, 2.0)));
        assert_eq!((found.pairs, found.set_aside), (2, 0));
    }

    #[test]
    fn a_pair_around_which_the_base_changed_is_set_aside_and_the_median_with_it_is_known() {
        let base = blocks(&[0, 2, 4], &[10.0, 10.0, 20.0]);
        for figure in [5.0, 15.0, 500.0] {
            let found = ratio(&blocks(&[1, 3], &[20.0, figure]), &base);
            assert_eq!((found.spread.median, found.pairs, found.set_aside), (2.0, 1, 1));
            assert!((found.median_of_all - f64::midpoint(2.0, figure / 15.0)).abs() < 1e-9);
        }
    }

    #[test]
    fn a_pair_in_which_only_the_peer_was_slow_or_fast_is_set_aside_too() {
        let base = blocks(&[0, 2, 4, 6], &[10.0; 4]);
        for odd in [10.0, 40.0] {
            let found = ratio(&blocks(&[1, 3, 5], &[20.0, odd, 21.0]), &base);
            assert_eq!((found.pairs, found.set_aside), (2, 1), "{odd}");
        }
        // A change that lasts is no odd pair.
        let found = ratio(&blocks(&[1, 3, 5], &[20.0, 40.0, 40.0]), &base);
        assert_eq!((found.pairs, found.set_aside), (3, 0));
    }

    #[test]
    fn states_of_the_cpus_are_never_mixed_and_each_has_its_ratio() {
        let mut base = blocks(&[0, 2, 4, 6], &[10.0, 10.0, 16.0, 16.0]);
        let mut peer = blocks(&[1, 3, 5], &[20.0, 30.0, 24.0]);
        let (one, two) = (Some(Distance::OneCore), Some(Distance::TwoCores));
        for (block, state) in base.iter_mut().zip([one, one, two, two]) {
            block.distance = state;
        }
        for (block, state) in peer.iter_mut().zip([one, one, two]) {
            block.distance = state;
        }
        let found = ratios(&peer, &base);
        let ratios: Vec<_> =
            found.iter().map(|ratio| (ratio.distance, ratio.spread.median, ratio.pairs)).collect();
        // The second block of the peer has the base at another distance after it.
        assert_eq!(ratios, [(Distance::OneCore, 2.0, 1), (Distance::TwoCores, 1.5, 1)]);
    }

    #[test]
    fn intervals_are_order_statistics_with_their_real_coverage() {
        // Tables of the sign test: of 15 values the 4th lowest and the 4th highest cover 96.5%, of 20 the 6th 95.9%.
        for (count, skipped, coverage) in
            [(1, 0, 0.0), (3, 0, 0.75), (5, 0, 0.9375), (6, 0, 0.96875), (15, 3, 0.9648), (20, 5, 0.9586)]
        {
            let (found, covers) = narrowest(count);
            assert_eq!(found, skipped, "{count}");
            assert!((covers - coverage).abs() < 1e-4, "{count}: {covers}");
        }
        let ratios: Vec<f64> = (1..=15).rev().map(f64::from).collect();
        let spread = Spread::from_ratios(&ratios).expect("fifteen ratios");
        assert_eq!((spread.median, spread.interval), (8.0, (4.0, 12.0)));
        let (skipped, coverage) = narrowest(1000);
        assert!((460..480).contains(&skipped) && (0.95..0.96).contains(&coverage), "{skipped} {coverage}");
    }

    #[test]
    fn fifteen_pairs_are_enough_and_fourteen_are_not() {
        let base = blocks(&(0..=30).step_by(2).collect::<Vec<_>>(), &[10.0; 16]);
        let peer = |count: usize| blocks(&(1..30).step_by(2).collect::<Vec<_>>()[..count], &[20.0; 15]);
        assert!(ratio(&peer(15), &base).are_enough());
        assert!(!ratio(&peer(14), &base).are_enough());
    }

    #[test]
    fn a_block_at_the_end_has_one_neighbour_and_no_blocks_have_no_ratio() {
        let found = ratio(&blocks(&[1], &[30.0]), &blocks(&[0], &[10.0]));
        assert_eq!((found.spread.median, found.pairs), (3.0, 1));
        assert_eq!(Spread::from_ratios(&[]), None);
        assert_eq!(ratios(&[], &blocks(&[0], &[1.0])), []);
        assert_eq!(ratios(&blocks(&[0], &[1.0]), &blocks(&[1], &[0.0])), []);
    }
}
