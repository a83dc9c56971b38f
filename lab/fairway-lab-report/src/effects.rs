//! The effects of changes: latency spikes compared with the direct stream, and the time from a write to the API to its
//! effect.

use fairway_lab_measure::Spread as Interval;
use fairway_lab_measure::results::{Propagation, Run, Spike};
use minijinja::{Value, context};

use super::figure::{Axis, Figure, Look, Panel, Series};
use super::merge::distinct;
use super::number::{self, TOO_FEW, UNKNOWN};
use super::palette::Palette;
use super::scale::Spread;

/// The highest latency minus that of the direct stream.
pub(super) fn above_direct(spike: &Spike) -> Option<f64> {
    spike.direct_ms.map(|direct| (spike.highest_ms - direct).max(0.0)).filter(|value| value.is_finite())
}

/// The times of a propagation that can be drawn, ascending.
pub(super) fn sorted(propagation: &Propagation) -> Vec<f64> {
    let mut times: Vec<f64> = propagation.ms.iter().copied().filter(|ms| ms.is_finite()).collect();
    times.sort_by(f64::total_cmp);
    times
}

/// The value that a share of the values is not above. By nearest rank, which is always one that was measured. Nothing where
/// fewer than ten values are above it; the largest, a share of 1, is no percentile.
pub(super) fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    if share < 1.0 && sorted.len() < rank + 10 {
        return None;
    }
    sorted.get(rank.saturating_sub(1).min(sorted.len().saturating_sub(1))).copied()
}

/// A percentile as it is printed.
pub(super) fn percentile(sorted: &[f64], share: f64) -> String {
    let missing = if sorted.is_empty() { UNKNOWN } else { TOO_FEW };
    quantile(sorted, share).map_or_else(|| missing.to_owned(), number::figure)
}

/// The median with its interval of order statistics, where it may be shown.
pub(super) fn median_of(sorted: &[f64]) -> Option<Interval> {
    quantile(sorted, 0.5)?;
    Interval::from_ratios(sorted)
}

/// `2.90 – 4.10, covers 95.7%`.
pub(super) fn interval(interval: &Interval) -> String {
    let (low, high) = interval.interval;
    format!("{} – {}, covers {:.1}%", number::figure(low), number::figure(high), interval.coverage * 100.0)
}

/// The times of a propagation as they are printed.
pub(super) fn times(propagation: &Propagation) -> Value {
    let sorted = sorted(propagation);
    let at = |share: f64| percentile(&sorted, share);
    context! {
        changes => propagation.ms.len() as u64 + propagation.lost,
        p50 => at(0.5),
        interval => median_of(&sorted).map_or_else(|| TOO_FEW.to_owned(), |propagation| interval(&propagation)),
        p90 => at(0.9),
        p99 => at(0.99),
        slowest => at(1.0),
    }
}

/// The share of changes that had taken effect within a time.
pub(super) fn distributions(run: &Run, palette: &Palette) -> Vec<Value> {
    let cases = distinct(run.propagations.iter().map(|propagation| propagation.case.as_str()));
    let panels = cases.iter().map(|case| Panel {
        title: (*case).to_owned(),
        series: run
            .propagations
            .iter()
            .filter(|propagation| propagation.case == *case)
            .filter_map(distribution)
            .collect(),
        events: Vec::new(),
    });
    let figure = Figure {
        title: "From a write to its effect (propagation)".to_owned(),
        reading: "The share of changes (upwards) that had taken effect within a time (to the right). Further left and steeper is better. A line that ends below 100% lost changes: they had no effect in time.".to_owned(),
        x: Axis { label: "ms after the write", spread: Spread::Log },
        y: Axis { label: "% of changes", spread: Spread::Linear },
        panels: panels.filter(|panel| !panel.series.is_empty()).collect(),
    };
    figure.plot(palette).into_iter().collect()
}

fn distribution(propagation: &Propagation) -> Option<Series> {
    let sorted = sorted(propagation);
    let all = sorted.len() as f64 + propagation.lost as f64;
    let mut points: Vec<(f64, f64)> = Vec::with_capacity(sorted.len() + 1);
    points.push((*sorted.first()?, 0.0));
    // Half a per mille is less than a pixel.
    let every = sorted.len().div_ceil(2_000);
    for (at, ms) in sorted.iter().enumerate() {
        if (at + 1) % every == 0 || at + 1 == sorted.len() {
            points.push((*ms, (at + 1) as f64 / all * 100.0));
        }
    }
    Some(Series::for_peer(&propagation.peer, propagation.settings, Look::Steps, points))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_has_an_interval_of_measured_values_and_its_coverage() {
        let times: Vec<f64> = (1..=20).map(f64::from).collect();
        let found = median_of(&times).unwrap();
        assert_eq!((found.median, interval(&found).as_str()), (10.5, "6.00 – 15.0, covers 95.9%"));
        assert_eq!(median_of(&times[..19]), None, "nine values are above the median of nineteen");
    }

    #[test]
    fn a_percentile_with_fewer_than_ten_values_above_it_is_not_printed() {
        let times: Vec<f64> = (1..=1_000).map(f64::from).collect();
        assert_eq!(percentile(&times, 0.99), "990");
        assert_eq!(percentile(&times[..999], 0.99), "too few");
        assert_eq!((percentile(&times[..5], 1.0).as_str(), percentile(&[], 0.5).as_str()), ("5.00", "–"));
    }
}
