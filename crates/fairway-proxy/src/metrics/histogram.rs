//! Histograms with the bucket bounds of ingress-nginx, so that its dashboards work unchanged.

/// Bounds in microseconds: 0.005 to 10 seconds.
pub const TIME_BOUNDS: [u64; 11] =
    [5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000];
/// Bounds for request and response sizes in bytes.
pub const LENGTH_BOUNDS: [u64; 10] = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100];
/// Bounds for bytes sent.
pub const SIZE_BOUNDS: [u64; 7] = [10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// Observations of one quantity: per bucket (not cumulative), total count, and sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram<const N: usize> {
    /// Observations per bucket.
    pub buckets: [u64; N],
    /// All observations, including those above the last bound.
    pub count: u64,
    /// Sum of the observed values.
    pub sum: u64,
}

/// A view of a histogram of any size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HistogramView<'h> {
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
    /// Counts `value` in the first bucket whose bound it does not exceed. Bounds ascend.
    pub fn observe(&mut self, bounds: &[u64; N], value: u64) {
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
        // Most lengths exceed every bound: one comparison detects that.
        if bounds.last().is_some_and(|last| value <= *last)
            && let Some(bucket) = bounds.iter().position(|bound| value <= *bound)
        {
            self.buckets[bucket] += 1;
        }
    }

    pub(crate) fn view(&self) -> HistogramView<'_> {
        HistogramView { buckets: &self.buckets, count: self.count, sum: self.sum }
    }

    /// Adds the observations of another.
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
            histogram.observe(&TIME_BOUNDS, value);
        }
        assert_eq!((histogram.buckets[0], histogram.buckets[1], histogram.count), (1, 1, 3));
        assert_eq!(histogram.buckets.iter().sum::<u64>(), 2);
    }

    #[test]
    fn values_around_every_bound_belong_to_the_first_bucket_that_covers_them() {
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
        check(&TIME_BOUNDS);
        check(&LENGTH_BOUNDS);
        check(&SIZE_BOUNDS);
    }
}
