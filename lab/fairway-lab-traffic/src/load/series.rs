//! Latency and errors over time, of bounded size: a series that becomes too long doubles its interval.

use fairway_lab_measure::results::Bucket;
use hdrhistogram::Histogram;

/// Maximum number of intervals. One takes about 4 KB, so a thread keeps at most about 16 MB.
const MAX_INTERVALS: usize = 4_096;

/// A time series of equal intervals.
#[derive(Clone)]
pub(super) struct Series {
    length: u64,
    intervals: Vec<SeriesInterval>,
}

#[derive(Clone, Default)]
struct SeriesInterval {
    requests: u64,
    errors: u64,
    max: u64,
    /// Two significant digits: enough for a plot, at a tenth of the memory of three.
    answered: Option<Histogram<u32>>,
}

impl Series {
    /// A series with intervals of this many nanoseconds.
    pub(super) fn new(length: u64) -> Self {
        Self { length: length.max(1_000_000), intervals: Vec::new() }
    }

    /// Counts a request that was due.
    pub(super) fn due(&mut self, at: u64) {
        self.interval_at(at).requests += 1;
    }

    /// Counts a failed request that was due at that time.
    pub(super) fn record_failure(&mut self, at: u64) {
        self.interval_at(at).errors += 1;
    }

    /// Records the latency, in microseconds, of the request due at that time.
    pub(super) fn record_response(&mut self, at: u64, micros: u64) {
        let chunk = self.interval_at(at);
        chunk.max = chunk.max.max(micros);
        record_latency(chunk.answered.get_or_insert_with(fine_enough), micros);
    }

    fn interval_at(&mut self, at: u64) -> &mut SeriesInterval {
        while at / self.length >= MAX_INTERVALS as u64 {
            self.coarsen();
        }
        let index = (at / self.length) as usize;
        if index >= self.intervals.len() {
            self.intervals.resize(index + 1, SeriesInterval::default());
        }
        &mut self.intervals[index]
    }

    fn coarsen(&mut self) {
        self.length *= 2;
        let chunks = std::mem::take(&mut self.intervals);
        for (index, piece) in chunks.into_iter().enumerate() {
            if index % 2 == 0 {
                self.intervals.push(piece);
            } else if let Some(before) = self.intervals.last_mut() {
                before.add(&piece);
            }
        }
    }

    /// Adds the series of another thread.
    pub(super) fn add(&mut self, mut other: Self) {
        while self.length < other.length {
            self.coarsen();
        }
        while other.length < self.length {
            other.coarsen();
        }
        if self.intervals.len() < other.intervals.len() {
            self.intervals.resize(other.intervals.len(), SeriesInterval::default());
        }
        for (piece, more) in self.intervals.iter_mut().zip(&other.intervals) {
            piece.add(more);
        }
    }

    /// Converts to the format of the results.
    pub(super) fn buckets(&self) -> Vec<Bucket> {
        let seconds = self.length as f64 / 1e9;
        self.intervals
            .iter()
            .enumerate()
            .map(|(index, piece)| piece.bucket(index as f64 * seconds, seconds))
            .collect()
    }
}

impl SeriesInterval {
    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.max = self.max.max(other.max);
        if let Some(more) = &other.answered {
            let sum = self.answered.get_or_insert_with(fine_enough);
            sum.add(more).expect("a histogram that grows takes every value");
        }
    }

    fn bucket(&self, at_s: f64, seconds: f64) -> Bucket {
        let quantile = |quantile: f64| {
            // The upper bound of a bucket may exceed the largest value.
            let micros = self.answered.as_ref().map_or(0, |answered| answered.value_at_quantile(quantile));
            micros.min(self.max) as f64 / 1e3
        };
        Bucket {
            at_s,
            seconds,
            requests: self.requests,
            errors: self.errors,
            p50_ms: quantile(0.5),
            p99_ms: quantile(0.99),
            max_ms: self.max as f64 / 1e3,
        }
    }
}

/// A small histogram that grows with its values.
fn fine_enough() -> Histogram<u32> {
    let mut histogram = Histogram::new(2).expect("two digits are allowed");
    histogram.auto(true);
    histogram
}

/// Records a value in an auto-resizing histogram. Not `saturating_record`, which would clamp to the current range.
fn record_latency(histogram: &mut Histogram<u32>, micros: u64) {
    histogram.record(micros).expect("a histogram that grows takes every value");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_series_doubles_its_intervals_and_loses_nothing() {
        let mut series = Series::new(1_000_000_000);
        for second in 0..10_000_u64 {
            series.due(second * 1_000_000_000);
            series.record_response(second * 1_000_000_000, second);
        }
        let buckets = series.buckets();
        assert_eq!(buckets[0].seconds, 4.0);
        assert_eq!(buckets.iter().map(|bucket| bucket.requests).sum::<u64>(), 10_000);
        assert_eq!(buckets.last().unwrap().max_ms, 9.999);
    }

    #[test]
    fn an_interval_has_the_percentiles_of_its_responses() {
        let mut series = Series::new(1_000_000_000);
        for request in 1..=100_u64 {
            series.due(0);
            series.record_response(0, request * 10_000);
        }
        let bucket = series.buckets()[0];
        // Two significant digits are kept.
        assert!((bucket.p50_ms / 500.0 - 1.0).abs() < 0.01, "{bucket:?}");
        assert!((bucket.p99_ms / 990.0 - 1.0).abs() < 0.01, "{bucket:?}");
        assert_eq!(bucket.max_ms, 1_000.0);
    }

    #[test]
    fn series_of_threads_with_unequal_pieces_add_up() {
        let (mut one, mut other) = (Series::new(1_000_000_000), Series::new(4_000_000_000));
        one.due(5_000_000_000);
        one.record_failure(5_000_000_000);
        other.due(5_000_000_000);
        other.record_response(5_000_000_000, 70);
        one.add(other);
        let bucket = one.buckets()[1];
        assert_eq!((bucket.at_s, bucket.requests, bucket.errors, bucket.max_ms), (4.0, 2, 1, 0.07));
    }
}
