//! Exact intervals for counts of rare events.

/// The exact (Garwood) 95% interval of the mean of a Poisson distribution of which `count` events were seen.
pub(super) fn interval(count: u64) -> (f64, f64) {
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
    use super::interval;

    #[test]
    fn intervals_are_those_of_the_tables() {
        for (count, low, high) in
            [(0, 0.0, 3.689), (1, 0.025, 5.572), (10, 4.795, 18.39), (100, 81.36, 121.63)]
        {
            let found = interval(count);
            assert!((found.0 - low).abs() < 0.01 && (found.1 - high).abs() < 0.01, "{count}: {found:?}");
        }
    }
}
