//! Ratios of a figure in pairs of blocks that ran next to each other, with their interval.
//!
//! A block of the peer stands between two of the base, whose mean is the other half of its pair. Where those two differ too
//! much, the machine changed its speed meanwhile, and where one of the three ran at another distance of the CPUs, the host
//! moved one: the pair is set aside: what the base alone says decides, never the
//! peer. The median of the pairs' ratios; its 95% interval by percentile bootstrap (Efron, Tibshirani 1993, chapter 13),
//! from a fixed seed, so that the same blocks give the same interval. Discarded blocks never get here.

use fairway_lab_results::Distance;

/// Resamples of the bootstrap.
const RESAMPLES: usize = 4000;
/// How many times as large one of two neighbours of the base may be as the other.
const STEADY: f64 = 1.2;

/// A block's place in the order of the run, and its figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block {
    /// The place, from 0; neighbours make a pair.
    pub place: u32,
    /// The figure, e.g. microseconds of CPU for a request.
    pub figure: f64,
    /// Where the CPUs were, if that is known.
    pub distance: Option<Distance>,
}

impl Block {
    fn is_as_near_as(&self, other: &Self) -> bool {
        let known = |block: &Self| block.distance.filter(|distance| *distance != Distance::Unknown);
        known(self).zip(known(other)).is_none_or(|(one, other)| one == other)
    }
}

/// What the pairs of two peers came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paired {
    /// The median of `peer / base`.
    pub median: f64,
    /// Its 95% interval.
    pub interval: (f64, f64),
    /// Pairs that count.
    pub pairs: u32,
    /// Pairs that do not, because the base changed around them.
    pub set_aside: u32,
}

/// The ratio of a peer to the base. Nothing when no pair counts.
#[must_use]
pub fn ratio(peer: &[Block], base: &[Block]) -> Option<Paired> {
    let (mut ratios, mut set_aside) = (Vec::new(), 0);
    for block in peer {
        match partner(block, base) {
            Partner::Steady(figure) => ratios.push(block.figure / figure),
            Partner::Changed => set_aside += 1,
            Partner::None => {}
        }
    }
    let Spread { median, interval } = Spread::of(&ratios)?;
    let pairs = u32::try_from(ratios.len()).unwrap_or(u32::MAX);
    Some(Paired { median, interval, pairs, set_aside })
}

/// The middle of some ratios, and how far it can be trusted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// Its 95% interval.
    pub interval: (f64, f64),
}

impl Spread {
    /// Nothing without a ratio. With fewer than three the interval is only their span.
    #[must_use]
    pub fn of(ratios: &[f64]) -> Option<Self> {
        let median_of_all = median(&mut ratios.to_vec())?;
        let mut random = fastrand::Rng::with_seed(0x5eed);
        let mut medians: Vec<f64> = (0..RESAMPLES)
            .filter_map(|_| {
                let resample = ratios.iter().map(|_| ratios[random.usize(..ratios.len())]);
                median(&mut resample.collect::<Vec<_>>())
            })
            .collect();
        medians.sort_by(f64::total_cmp);
        let interval = (medians[RESAMPLES * 25 / 1000], medians[RESAMPLES * 975 / 1000]);
        Some(Self { median: median_of_all, interval })
    }
}

/// What the base was around a block.
enum Partner {
    Steady(f64),
    Changed,
    None,
}

fn partner(peer: &Block, base: &[Block]) -> Partner {
    let usable = || base.iter().filter(|block| block.figure > 0.0);
    let before = usable().filter(|block| block.place < peer.place).max_by_key(|block| block.place);
    let after = usable().filter(|block| block.place > peer.place).min_by_key(|block| block.place);
    if before.iter().chain(&after).any(|block| !block.is_as_near_as(peer)) {
        return Partner::Changed;
    }
    match (before, after) {
        (Some(one), Some(other)) => {
            let (low, high) = (one.figure.min(other.figure), one.figure.max(other.figure));
            if high <= low * STEADY { Partner::Steady(f64::midpoint(low, high)) } else { Partner::Changed }
        }
        (Some(only), None) | (None, Some(only)) => Partner::Steady(only.figure),
        (None, None) => Partner::None,
    }
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

    fn blocks(places: &[u32], figures: &[f64]) -> Vec<Block> {
        let block = |(place, figure): (&u32, &f64)| Block { place: *place, figure: *figure, distance: None };
        places.iter().zip(figures).map(block).collect()
    }

    #[test]
    fn neighbours_are_paired_so_that_a_slow_minute_hurts_both_sides() {
        // A B A, and again where everything takes ten times as long.
        let peer = blocks(&[1, 4], &[20.0, 200.0]);
        let base = blocks(&[0, 2, 3, 5], &[9.5, 10.5, 100.0, 100.0]);
        let found = ratio(&peer, &base).expect("two pairs");
        assert_eq!(found, Paired { median: 2.0, interval: (2.0, 2.0), pairs: 2, set_aside: 0 });
    }

    #[test]
    fn a_pair_around_which_the_base_changed_is_set_aside_whatever_the_peer_did() {
        let base = blocks(&[0, 2, 4], &[10.0, 10.0, 20.0]);
        for figure in [5.0, 15.0, 500.0] {
            let found = ratio(&blocks(&[1, 3], &[20.0, figure]), &base).expect("one pair");
            assert_eq!((found.median, found.pairs, found.set_aside), (2.0, 1, 1));
        }
    }

    #[test]
    fn a_pair_whose_blocks_ran_at_different_distances_of_the_cpus_is_set_aside() {
        let mut base = blocks(&[0, 2, 4], &[10.0, 10.0, 10.0]);
        let mut peer = blocks(&[1, 3], &[20.0, 30.0]);
        (base[0].distance, base[2].distance) = (Some(Distance::OneCore), Some(Distance::Unknown));
        (peer[0].distance, peer[1].distance) = (Some(Distance::TwoCores), Some(Distance::TwoCores));
        let found = ratio(&peer, &base).expect("one pair");
        assert_eq!((found.median, found.pairs, found.set_aside), (3.0, 1, 1));
    }

    #[test]
    fn a_block_at_the_end_has_one_neighbour() {
        let found = ratio(&blocks(&[1], &[30.0]), &blocks(&[0], &[10.0])).expect("a pair");
        assert_eq!((found.median, found.pairs), (3.0, 1));
    }

    #[test]
    fn the_interval_holds_the_median_and_widens_with_the_spread() {
        let peer = blocks(&[0, 2, 4, 6, 8], &[10.0, 12.0, 14.0, 16.0, 18.0]);
        let base = blocks(&[1, 3, 5, 7, 9], &[10.0; 5]);
        let Paired { median, interval: (low, high), pairs, .. } = ratio(&peer, &base).expect("five pairs");
        assert_eq!((median, pairs), (1.4, 5));
        assert!(low < median && median < high && low >= 1.0 && high <= 1.8, "{low} {high}");
    }

    #[test]
    fn one_outlier_moves_neither_the_median_nor_its_interval() {
        let spread = Spread::of(&[1.0, 1.1, 1.2, 1.1, 1.0, 1.1, 1.2, 9.0]).expect("eight ratios");
        let (low, high) = spread.interval;
        assert!((spread.median - 1.1).abs() < 1e-9);
        assert!(low <= 1.1 && (1.1..2.0).contains(&high), "{spread:?}");
    }

    #[test]
    fn no_blocks_have_no_ratio() {
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(ratio(&[], &blocks(&[0], &[1.0])), None);
        assert_eq!(ratio(&blocks(&[0], &[1.0]), &blocks(&[1], &[0.0])), None);
    }
}
