//! Exact intervals for counts of rare events.

use super::number::{self, UNKNOWN};

/// `1,792 (1,297 – 2,413)`: lost requests of a million, with the exact interval of a Poisson count.
pub(super) fn rate_of_loss(failed: u64, total: u64) -> String {
    if total == 0 {
        return UNKNOWN.to_owned();
    }
    let million = |events: f64| number::figure(events * 1e6 / total as f64);
    let (low, high) = interval(failed);
    format!("{} ({} – {})", million(failed as f64), million(low), million(high))
}
/// The exact (Garwood) 95% interval of the mean of a Poisson distribution of which `count` events were seen.
fn interval(count: u64) -> (f64, f64) {
    let tail = 0.025;
    let high = solve(count, |mean| at_most(count, mean) > tail);
    let low = if count == 0 { 0.0 } else { solve(count, |mean| 1.0 - at_most(count - 1, mean) < tail) };
    (low, high)
}

/// The probability of at most `count` events.
fn at_most(count: u64, mean: f64) -> f64 {
    let (mut term, mut sum) = (-mean, 0.0);
    for event in 0..=count {
        if event > 0 {
            term += mean.ln() - (event as f64).ln();
        }
        sum += term.exp();
    }
    sum
}

/// The largest mean up to which `holds`.
fn solve(count: u64, holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (1e-9, 2.0 * count as f64 + 20.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if holds(middle) { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_match_published_tables() {
        for (count, low, high) in
            [(0, 0.0, 3.689), (1, 0.025, 5.572), (10, 4.795, 18.39), (100, 81.36, 121.63)]
        {
            let found = interval(count);
            assert!((found.0 - low).abs() < 0.01 && (found.1 - high).abs() < 0.01, "{count}: {found:?}");
        }
    }

    #[test]
    fn losses_are_a_rate_with_its_exact_interval() {
        // Garwood: 0 events have [0, 3.69], 10 have [4.80, 18.39].
        assert_eq!(rate_of_loss(0, 1_000_000), "0 (0 – 3.69)");
        assert_eq!(rate_of_loss(10, 100_000), "100 (48.0 – 184)");
        assert_eq!(rate_of_loss(0, 0), "–");
    }
}
