//! Histograms with the bucket bounds of ingress-nginx, so that its dashboards read ours.

/// Seconds, in microseconds: 0.005 to 10.
pub const TIME: [u64; 11] =
    [5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000];
/// Bytes of a request or an answer.
pub const LENGTH: [u64; 10] = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100];
/// Bytes sent.
pub const SIZE: [u64; 7] = [10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// Observations of one quantity: per bucket (not cumulative), in all, and their sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram<const N: usize> {
    /// Observations by the bucket that they fell in.
    pub buckets: [u64; N],
    /// All of them, those above the last bucket too.
    pub count: u64,
    /// What they add up to.
    pub sum: u64,
}

/// The same, whatever its bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed<'h> {
    pub(crate) buckets: &'h [u64],
    pub(crate) count: u64,
    pub(crate) sum: u64,
}

impl<const N: usize> Default for Histogram<N> {
    fn default() -> Self {
        Self { buckets: [0; N], count: 0, sum: 0 }
    }
}

impl<const N: usize> Histogram<N> {
    /// Counts `value` in the first bucket whose bound it does not exceed. The bounds ascend.
    pub fn observe(&mut self, bounds: &[u64; N], value: u64) {
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
        // Most lengths exceed every bound: one comparison finds that out.
        if bounds.last().is_some_and(|last| value <= *last)
            && let Some(bucket) = bounds.iter().position(|bound| value <= *bound)
        {
            self.buckets[bucket] += 1;
        }
    }

    pub(crate) fn observed(&self) -> Observed<'_> {
        Observed { buckets: &self.buckets, count: self.count, sum: self.sum }
    }

    /// Adds those of another.
    pub fn merge(&mut self, other: &Self) {
        for (own, more) in self.buckets.iter_mut().zip(other.buckets) {
            *own += more;
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_on_a_bound_belongs_to_its_bucket_and_one_above_all_to_none() {
        let mut histogram = Histogram::default();
        for value in [5_000, 5_001, 20_000_000] {
            histogram.observe(&TIME, value);
        }
        assert_eq!((histogram.buckets[0], histogram.buckets[1], histogram.count), (1, 1, 3));
        assert_eq!(histogram.buckets.iter().sum::<u64>(), 2);
    }

    #[test]
    fn values_around_every_bound_belong_to_the_first_bucket_that_has_room_for_them() {
        fn check<const N: usize>(bounds: &[u64; N]) {
            let around = bounds.iter().flat_map(|bound| [bound - 1, *bound, bound + 1]);
            for value in around.chain([0, u64::MAX]) {
                let mut histogram = Histogram::default();
                histogram.observe(bounds, value);
                let first = (0..N).find(|bucket| value <= bounds[*bucket]);
                let buckets = std::array::from_fn(|bucket| u64::from(first == Some(bucket)));
                assert_eq!(histogram, Histogram { buckets, count: 1, sum: value }, "{value} in {bounds:?}");
            }
        }
        check(&TIME);
        check(&LENGTH);
        check(&SIZE);
    }
}
