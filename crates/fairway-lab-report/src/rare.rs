//! How many rare events there may have been: exact intervals of a Poisson count. Knows nothing of requests.

/// How sure an interval is.
const COVERAGE: f64 = 0.95;

/// The numbers of events that would be expected, between which `count` events are not surprising: 95% at least (Garwood
/// 1936). The low end of no events is 0.
pub(super) fn expected(count: u64) -> (f64, f64) {
    let tail = (1.0 - COVERAGE) / 2.0;
    let low = match count {
        0 => 0.0,
        // So many or more have to be as rare as the tail.
        _ => where_it_falls(count, |mean| 1.0 - at_most(count - 1, mean) > tail),
    };
    (low, where_it_falls(count, |mean| at_most(count, mean) < tail))
}

/// The mean from which on `holds` does.
fn where_it_falls(count: u64, holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 10.0 + 3.0 * count as f64);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if holds(middle) { high = middle } else { low = middle }
    }
    high
}

/// How likely `count` or fewer events are where `mean` are expected.
fn at_most(count: u64, mean: f64) -> f64 {
    let mut log_of_term = -mean;
    let mut sum = log_of_term.exp();
    for events in 1..=count {
        log_of_term += (mean / events as f64).ln();
        sum += log_of_term.exp();
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_the_tables() {
        // Garwood's limits at 95%, as printed in tables of the Poisson distribution.
        for (count, low, high) in
            [(0, 0.0, 3.69), (1, 0.0253, 5.57), (2, 0.242, 7.22), (10, 4.80, 18.39), (43, 31.12, 57.92)]
        {
            let (found_low, found_high) = expected(count);
            assert!((found_low - low).abs() < 0.006, "{count}: {found_low}");
            assert!((found_high - high).abs() < 0.006, "{count}: {found_high}");
        }
    }

    #[test]
    fn large_counts_come_to_an_end_and_hold_their_count() {
        let (low, high) = expected(20_000);
        assert!(low > 19_700.0 && low < 20_000.0 && high > 20_000.0 && high < 20_300.0, "{low} {high}");
    }
}
