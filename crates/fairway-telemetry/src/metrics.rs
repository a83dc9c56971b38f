//! Converts the text of `/metrics` to OTLP messages: sums, gauges and histograms since the start of the process. The size of
//! messages is bounded, whatever the number of series.

use std::mem;
use std::pin::Pin;

use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, Sum,
};
use prost::Message as _;

use crate::attributes::text;
use crate::exposition::{Line, MetricKind, Sample, parse_line};
use crate::message::MAX_ITEM_BYTES;

/// The text of `/metrics`, in chunks that are produced on demand.
pub type MetricsText = Box<dyn Iterator<Item = String> + Send>;

/// Produces that text.
pub type MetricsSource = Box<dyn Fn() -> Pin<Box<dyn Future<Output = MetricsText> + Send>> + Send + Sync>;

/// The metrics of one message, and their number of data points.
pub(crate) type MetricsBatch = (Vec<Metric>, u64);

/// Converts chunks of text to messages.
pub(crate) struct MetricsConverter {
    /// When the sums started, and the time of the values; in nanoseconds since 1970.
    started: u64,
    now: u64,
    /// The incomplete last line of the previous chunk.
    remaining: String,
    /// The metric of the current samples.
    current: Option<(String, MetricKind)>,
    numbers: Vec<NumberDataPoint>,
    histograms: Vec<HistogramDataPoint>,
    /// The histogram of the current lines.
    open: HistogramDataPoint,
    /// The metrics before the current one.
    metrics: Vec<Metric>,
    points: u64,
    bytes: usize,
}

impl MetricsConverter {
    /// For values at time `now`, counted since `started`.
    pub(crate) fn new(started: u64, now: u64) -> Self {
        Self {
            started,
            now,
            remaining: String::new(),
            current: None,
            numbers: Vec::new(),
            histograms: Vec::new(),
            open: HistogramDataPoint::default(),
            metrics: Vec::new(),
            points: 0,
            bytes: 0,
        }
    }

    /// Converts a chunk; returns the messages that are full.
    pub(crate) fn push(&mut self, chunk: &str) -> Vec<MetricsBatch> {
        let mut full = Vec::new();
        self.remaining.push_str(chunk);
        let text = mem::take(&mut self.remaining);
        let (lines, rest) = text.rsplit_once('\n').unwrap_or(("", &text));
        for line in lines.lines() {
            match parse_line(line) {
                Some(Line::Type { name, kind }) => {
                    self.close_metric();
                    self.current = Some((name.to_owned(), kind));
                }
                Some(Line::Sample(sample)) => self.add(sample),
                None => {}
            }
            if self.bytes >= MAX_ITEM_BYTES {
                full.push(self.finish());
            }
        }
        self.remaining.push_str(rest);
        full
    }

    /// The message with the remaining metrics; it may have no data points.
    pub(crate) fn finish(&mut self) -> MetricsBatch {
        // The next message continues with the current metric.
        self.close_metric();
        self.bytes = 0;
        (mem::take(&mut self.metrics), mem::take(&mut self.points))
    }

    fn add(&mut self, sample: Sample<'_>) {
        let Some((name, kind)) = &self.current else { return };
        let kind = *kind;
        let Some(part) = sample.name.strip_prefix(name.as_str()) else { return };
        match (kind, part) {
            (MetricKind::Counter | MetricKind::Gauge, "") => {
                let start_time_unix_nano = if kind == MetricKind::Counter { self.started } else { 0 };
                let point = NumberDataPoint {
                    attributes: sample.labels.into_iter().map(|(key, value)| text(key, value)).collect(),
                    start_time_unix_nano,
                    time_unix_nano: self.now,
                    value: Some(Value::AsDouble(sample.value)),
                    ..NumberDataPoint::default()
                };
                self.bytes += point.encoded_len();
                self.numbers.push(point);
            }
            (MetricKind::Histogram, "_bucket") => self.add_bucket(&sample),
            (MetricKind::Histogram, "_sum") => self.open.sum = Some(sample.value),
            (MetricKind::Histogram, "_count") => self.close_histogram(sample),
            _ => {}
        }
    }

    /// Adds a bucket to the open histogram. Prometheus buckets are cumulative, OTLP buckets are not.
    fn add_bucket(&mut self, sample: &Sample<'_>) {
        let bound = sample.labels.iter().find(|(name, _)| *name == "le").map(|(_, bound)| bound.as_str());
        match bound {
            None | Some("+Inf") => {}
            Some(bound) => {
                let Ok(bound) = bound.parse() else { return };
                self.open.explicit_bounds.push(bound);
            }
        }
        self.open.bucket_counts.push(to_count(sample.value));
    }

    /// The count is the last line of a histogram.
    fn close_histogram(&mut self, sample: Sample<'_>) {
        let mut point = mem::take(&mut self.open);
        point.count = to_count(sample.value);
        let mut before = 0;
        for count in &mut point.bucket_counts {
            let up_to = *count;
            *count = up_to.saturating_sub(before);
            before = up_to;
        }
        point.attributes = sample.labels.into_iter().map(|(key, value)| text(key, value)).collect();
        (point.start_time_unix_nano, point.time_unix_nano) = (self.started, self.now);
        self.bytes += point.encoded_len();
        self.histograms.push(point);
    }

    /// Adds the current metric to the message. Its type is remembered: more samples of it may follow.
    fn close_metric(&mut self) {
        let (numbers, histograms) = (mem::take(&mut self.numbers), mem::take(&mut self.histograms));
        let Some((name, kind)) = &self.current else { return };
        let count = numbers.len() + histograms.len();
        if count == 0 {
            return;
        }
        let aggregation_temporality = AggregationTemporality::Cumulative as i32;
        let data = match kind {
            MetricKind::Counter => {
                Data::Sum(Sum { data_points: numbers, aggregation_temporality, is_monotonic: true })
            }
            MetricKind::Gauge => Data::Gauge(Gauge { data_points: numbers }),
            MetricKind::Histogram => {
                Data::Histogram(Histogram { data_points: histograms, aggregation_temporality })
            }
        };
        self.metrics.push(Metric { name: name.clone(), data: Some(data), ..Metric::default() });
        self.points += count as u64;
    }
}

/// A count, which the text has as a floating-point number.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and counts are whole and not negative"
)]
fn to_count(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# TYPE requests counter
requests{host=\"a\"} 3
requests{host=\"b\"} 4
# TYPE open gauge
open 0.5
# TYPE time histogram
time_bucket{host=\"a\",le=\"0.1\"} 1
time_bucket{host=\"a\",le=\"1\"} 3
time_bucket{host=\"a\",le=\"+Inf\"} 6
time_sum{host=\"a\"} 7.5
time_count{host=\"a\"} 6
# TYPE none counter
";

    fn convert(chunks: &[&str]) -> Vec<MetricsBatch> {
        let mut converter = MetricsConverter::new(1, 2);
        let mut batches: Vec<_> = chunks.iter().flat_map(|piece| converter.push(piece)).collect();
        batches.push(converter.finish());
        batches
    }

    #[test]
    fn each_type_is_converted() {
        let batches = convert(&[TEXT]);
        let [(metrics, 4)] = &batches[..] else { panic!("{batches:?}") };
        let [requests, open, time] = &metrics[..] else { panic!("{metrics:?}") };
        let Some(Data::Sum(sum)) = &requests.data else { panic!("{requests:?}") };
        assert!(sum.is_monotonic && sum.aggregation_temporality == 2 && sum.data_points.len() == 2);
        let point = &sum.data_points[0];
        assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (1, 2));
        assert_eq!((&point.attributes, point.value), (&vec![text("host", "a")], Some(Value::AsDouble(3.0))));
        let Some(Data::Gauge(gauge)) = &open.data else { panic!("{open:?}") };
        assert_eq!(gauge.data_points[0].value, Some(Value::AsDouble(0.5)));
        let Some(Data::Histogram(histogram)) = &time.data else { panic!("{time:?}") };
        let [point] = &histogram.data_points[..] else { panic!("{histogram:?}") };
        assert_eq!(
            (point.explicit_bounds.as_slice(), point.bucket_counts.as_slice()),
            (&[0.1, 1.0][..], &[1, 2, 3][..])
        );
        assert_eq!((point.count, point.sum), (6, Some(7.5)));
        assert_eq!(point.attributes, [text("host", "a")]);
    }

    #[test]
    fn chunk_boundaries_do_not_matter() {
        let unsplit = convert(&[TEXT]);
        for at in 0..TEXT.len() {
            let (before, after) = TEXT.split_at(at);
            assert_eq!(convert(&[before, after]), unsplit, "{at}");
        }
    }

    #[test]
    fn messages_are_bounded_and_lose_nothing() {
        let mut lines = String::from("# TYPE requests counter\n");
        for number in 0..60_000 {
            lines += &format!("requests{{host=\"{number}\",path=\"{}\"}} 1\n", "p".repeat(100));
        }
        let batches = convert(&[&lines]);
        assert!(batches.len() > 2, "{}", batches.len());
        let mut points = 0;
        for (metrics, count) in &batches {
            let [metric] = &metrics[..] else { panic!("{}", metrics.len()) };
            assert!(metric.name == "requests" && metric.encoded_len() < MAX_ITEM_BYTES + 1024 * 1024);
            points += count;
        }
        assert_eq!(points, 60_000);
    }

    #[test]
    fn samples_without_a_type_are_skipped() {
        assert_eq!(convert(&["requests 1\n# TYPE open gauge\nother 2\nopen_bucket 3\n"]), [(Vec::new(), 0)]);
    }
}
