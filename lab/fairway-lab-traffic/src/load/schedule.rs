//! The intended times of an open loop, for one of several threads. Reads no clock; times are nanoseconds from the start of
//! the stream.

use super::plan::{Pace, Plan};

/// The intended times of one thread, ascending.
pub(super) struct Schedule {
    gaps: Gaps,
    next: u64,
    remaining: u64,
    end: u64,
}

enum Gaps {
    /// Request `k` of thread `i` of `n` is number `k * n + i` of the stream.
    Constant { interval: f64, threads: u64, number: u64 },
    /// The sum of independent Poisson processes is a Poisson process with the sum of their rates.
    Poisson { mean: f64, random: fastrand::Rng },
    /// A closed loop has no schedule.
    None,
}

impl Schedule {
    /// The schedule of thread `index` of `threads`.
    pub(super) fn new(plan: &Plan, index: usize, threads: usize) -> Self {
        let (index, threads) = (index as u64, threads as u64);
        let all = plan.bounds.requests.unwrap_or(u64::MAX);
        let requests_left =
            if all == u64::MAX { all } else { all / threads + u64::from(index < all % threads) };
        let end = plan
            .bounds
            .duration
            .map_or(u64::MAX, |duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
        let gaps = match plan.pace {
            Pace::Open { rate, poisson: false } => {
                Gaps::Constant { interval: 1e9 / rate, threads, number: index }
            }
            Pace::Open { rate, poisson: true } => {
                Gaps::Poisson { mean: threads as f64 * 1e9 / rate, random: fastrand::Rng::new() }
            }
            Pace::Closed => Gaps::None,
        };
        let mut schedule = Self { gaps, next: 0, remaining: requests_left, end };
        schedule.next = schedule.gaps.first();
        schedule
    }

    /// The next intended time, if there is one.
    pub(super) fn peek(&self) -> Option<u64> {
        (self.remaining > 0 && self.next < self.end && !matches!(self.gaps, Gaps::None)).then_some(self.next)
    }

    /// Consumes the time returned by [`Schedule::peek`].
    pub(super) fn advance(&mut self) {
        self.remaining = self.remaining.saturating_sub(1);
        self.next = self.gaps.next_after(self.next);
    }

    /// Whether a closed loop may start a request at `now`; counts it if so.
    pub(super) fn start(&mut self, now: u64) -> bool {
        let may = self.remaining > 0 && now < self.end;
        self.remaining -= u64::from(may);
        may
    }

    /// Whether no request is due at or after `now`.
    pub(super) fn is_over(&self, now: u64) -> bool {
        self.remaining == 0
            || if matches!(self.gaps, Gaps::None) { now >= self.end } else { self.next >= self.end }
    }

    /// Nothing is due after this.
    pub(super) fn cut(&mut self) {
        self.remaining = 0;
    }
}

impl Gaps {
    fn first(&mut self) -> u64 {
        match self {
            Self::Constant { interval, number, .. } => (*interval * *number as f64) as u64,
            Self::Poisson { .. } => self.next_after(0),
            Self::None => 0,
        }
    }

    fn next_after(&mut self, time: u64) -> u64 {
        match self {
            Self::Constant { interval, threads, number } => {
                *number += *threads;
                // Computed from the number, not the previous time, so rounding errors do not add up.
                (*interval * *number as f64) as u64
            }
            Self::Poisson { mean, random } => time + (-(1.0 - random.f64()).ln() * *mean) as u64,
            Self::None => time,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(rate: f64, poisson: bool, requests: Option<u64>) -> Plan {
        let mut plan = Plan::for_url("http://127.0.0.1:1/").unwrap();
        plan.pace = Pace::Open { rate, poisson };
        plan.bounds.requests = requests;
        plan
    }

    fn times(mut schedule: Schedule) -> Vec<u64> {
        let mut times = Vec::new();
        while let Some(time) = schedule.peek() {
            times.push(time);
            schedule.advance();
        }
        times
    }

    #[test]
    fn threads_interleave_to_the_whole_constant_rate() {
        let plan = plan(1_000.0, false, None);
        let mut all: Vec<_> = (0..3).flat_map(|index| times(Schedule::new(&plan, index, 3))).collect();
        all.sort_unstable();
        assert_eq!(all.len(), 10_000);
        assert!(all.windows(2).all(|pair| (999_999..=1_000_001).contains(&(pair[1] - pair[0]))));
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_spread_of_their_law() {
        let mut times = times(Schedule::new(&plan(10_000.0, true, None), 0, 1));
        times.insert(0, 0);
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // 100,000 gaps: the mean's own deviation is 0.32%, so 2% is six of them.
        assert!((mean / 100_000.0 - 1.0).abs() < 0.02, "mean {mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.03, "deviation {}", variance.sqrt());
    }

    #[test]
    fn a_bound_of_requests_is_shared_out_to_the_last_one() {
        let plan = plan(1_000.0, true, Some(10));
        let counts: Vec<_> = (0..4).map(|index| times(Schedule::new(&plan, index, 4)).len()).collect();
        assert_eq!(counts, [3, 3, 2, 2]);
    }
}
