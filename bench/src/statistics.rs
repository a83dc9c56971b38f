//! Medians of paired ratios and how far they can be trusted. Pure; the resampling is seeded, so that the same blocks
//! always give the same interval.

const RESAMPLES: usize = 4000;

/// The median of some ratios and its bootstrap 95% interval.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub(crate) struct Ratio {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) pairs: usize,
}

impl Ratio {
    /// `None` without a pair. With fewer than three pairs the interval is only their span.
    pub(crate) fn of(ratios: &[f64]) -> Option<Self> {
        let median_of_all = median(ratios.to_vec())?;
        let mut random = fastrand::Rng::with_seed(1);
        let mut medians: Vec<f64> = (0..RESAMPLES)
            .filter_map(|_| median(ratios.iter().map(|_| ratios[random.usize(..ratios.len())]).collect()))
            .collect();
        medians.sort_by(f64::total_cmp);
        let at = |share: f64| medians[((RESAMPLES - 1) as f64 * share).round() as usize];
        Some(Self { median: median_of_all, low: at(0.025), high: at(0.975), pairs: ratios.len() })
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_encloses_the_median_and_ignores_one_outlier() {
        let ratio = Ratio::of(&[1.0, 1.1, 1.2, 1.1, 1.0, 1.1, 1.2, 9.0]).unwrap();
        assert!((ratio.median - 1.1).abs() < 1e-9);
        assert!(ratio.low <= 1.1 && ratio.high >= 1.1 && ratio.high < 2.0, "{ratio:?}");
    }

    #[test]
    fn no_pairs_give_no_ratio() {
        assert_eq!(Ratio::of(&[]), None);
    }
}
