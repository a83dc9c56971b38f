//! A distribution of delays. Pure.

use std::time::Duration;

use serde::Serialize;

/// Percentiles of many times, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Delays {
    /// The number of samples.
    pub count: usize,
    /// Half took no longer.
    pub p50_ms: f64,
    /// 99 of 100 took no longer.
    pub p99_ms: f64,
    /// The maximum.
    pub max_ms: f64,
}

impl Delays {
    /// Sorts `times` to find them.
    pub fn from_times(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        // The nearest rank: of 100 times the p99 is the 99th.
        let at = |percent: usize| {
            let rank = (times.len() * percent).div_ceil(100).max(1);
            times.get(rank - 1).map_or(0.0, |time| time.as_secs_f64() * 1000.0)
        };
        Self { count: times.len(), p50_ms: at(50), p99_ms: at(99), max_ms: at(100) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_nearest_rank() {
        let delays = Delays::from_times((1..=100).rev().map(Duration::from_millis).collect());
        assert_eq!(delays, Delays { count: 100, p50_ms: 50.0, p99_ms: 99.0, max_ms: 100.0 });
        assert_eq!(Delays::from_times(vec![Duration::from_millis(7)]).p99_ms, 7.0);
        assert_eq!(Delays::from_times(Vec::new()), Delays::default());
    }
}
