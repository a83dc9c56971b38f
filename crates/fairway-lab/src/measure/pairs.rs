//! Ratios of a figure in pairs of blocks that ran next to each other, with their interval.
//!
//! The median of the pairs' ratios; its 95% interval by percentile bootstrap (Efron, Tibshirani 1993, chapter 13), from a
//! fixed seed, so that the same blocks give the same interval. Discarded blocks never get here.

/// Resamples of the bootstrap.
const RESAMPLES: usize = 4000;

/// A block's place in the order of the run, and its figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block {
    /// The place, from 0; neighbours make a pair.
    pub place: u32,
    /// The figure, e.g. microseconds of CPU for a request.
    pub figure: f64,
}

/// The median of `peer / base` over pairs, its 95% interval, and the number of pairs. Each block of the peer is paired
/// with the nearest block of the base that no other has yet. Nothing when there is no pair.
#[must_use]
pub fn ratio(peer: &[Block], base: &[Block]) -> Option<(f64, (f64, f64), u32)> {
    let mut free = base.to_vec();
    let mut ratios = Vec::new();
    for block in peer {
        let nearest = (0..free.len()).min_by_key(|index| free[*index].place.abs_diff(block.place));
        let Some(index) = nearest else { break };
        let partner = free.swap_remove(index);
        if partner.figure > 0.0 {
            ratios.push(block.figure / partner.figure);
        }
    }
    let median = median(&mut ratios)?;
    Some((median, interval(&ratios), u32::try_from(ratios.len()).unwrap_or(u32::MAX)))
}

fn median(values: &mut [f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    Some(if values.len() % 2 == 1 { values[half] } else { f64::midpoint(values[half - 1], values[half]) })
}

fn interval(ratios: &[f64]) -> (f64, f64) {
    let mut random = fastrand::Rng::with_seed(0x5eed);
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            let mut resample: Vec<f64> =
                (0..ratios.len()).map(|_| ratios[random.usize(..ratios.len())]).collect();
            median(&mut resample)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    (medians[RESAMPLES * 25 / 1000], medians[RESAMPLES * 975 / 1000])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(places: &[u32], figures: &[f64]) -> Vec<Block> {
        places.iter().zip(figures).map(|(place, figure)| Block { place: *place, figure: *figure }).collect()
    }

    #[test]
    fn neighbours_are_paired_so_that_a_slow_minute_hurts_both_sides() {
        // A B B A, where everything in the second half takes ten times as long.
        let peer = blocks(&[0, 3], &[20.0, 200.0]);
        let base = blocks(&[1, 2], &[10.0, 100.0]);
        let (median, (low, high), pairs) = ratio(&peer, &base).expect("two pairs");
        assert_eq!((median, low, high, pairs), (2.0, 2.0, 2.0, 2));
    }

    #[test]
    fn the_interval_holds_the_median_and_widens_with_the_spread() {
        let peer = blocks(&[0, 2, 4, 6, 8], &[10.0, 12.0, 14.0, 16.0, 18.0]);
        let base = blocks(&[1, 3, 5, 7, 9], &[10.0; 5]);
        let (median, (low, high), pairs) = ratio(&peer, &base).expect("five pairs");
        assert_eq!((median, pairs), (1.4, 5));
        assert!(low < median && median < high && low >= 1.0 && high <= 1.8, "{low} {high}");
    }

    #[test]
    fn no_blocks_have_no_ratio() {
        assert_eq!(ratio(&[], &blocks(&[0], &[1.0])), None);
        assert_eq!(ratio(&blocks(&[0], &[1.0]), &blocks(&[1], &[0.0])), None);
    }
}
