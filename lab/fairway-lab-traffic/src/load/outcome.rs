//! The results of a stream of load, in the format of `results.json`.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use fairway_lab_measure::results::{HISTOGRAMS, Latency, Lateness, Load, Offered, OverTime, Percentile};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

use super::outcomes::Fates;
use super::plan::{Pace, Plan};
use super::thread_counts::Tally;

/// The points of a percentile curve.
const PERCENTS: [f64; 25] = [
    0.0, 10.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 70.0, 75.0, 80.0, 85.0, 90.0, 95.0, 97.5, 99.0, 99.5,
    99.75, 99.9, 99.95, 99.975, 99.99, 99.995, 99.999, 99.9999,
];

/// The results of a stream.
pub struct Outcome {
    /// As in `results.json`.
    pub load: Load,
    /// From the intended time, microseconds.
    pub latency: Histogram<u64>,
    /// From the time of writing, microseconds.
    pub service: Histogram<u64>,
    /// When the first request was due.
    pub begun: Instant,
    /// Outcomes of requests with an id, if the plan asks for ids.
    pub fates: Option<Fates>,
    /// Connections open when the last request ended.
    pub open: usize,
}

impl Outcome {
    pub(super) fn new(plan: &Plan, mut tally: Tally, started: Instant, planned: Option<f64>) -> Self {
        let last = tally.last as f64 / 1e9;
        let seconds = planned.unwrap_or(last);
        let per_second = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        let responses = if planned.is_some() { tally.in_time } else { tally.responses };
        let examples = tally.first_examples();
        let lateness = &tally.lateness;
        let late = |quantile: f64| lateness.value_at_quantile(quantile) as f64 / 1e3;
        let load = Load {
            offered: Offered {
                rate: match plan.pace {
                    Pace::Open { rate, .. } => Some(rate),
                    Pace::Closed => None,
                },
                connections: u32::try_from(plan.shape.connections).unwrap_or(u32::MAX),
                threads: u32::try_from(plan.shape.threads).unwrap_or(u32::MAX),
            },
            rate: per_second(responses),
            bytes_rate: per_second(tally.counts.bytes),
            seconds: last.max(seconds),
            counts: tally.counts,
            errors: std::mem::take(&mut tally.errors),
            examples,
            latency: distribution(&tally.latency),
            service: distribution(&tally.service),
            lateness: Lateness {
                p50_ms: late(0.5),
                p99_ms: late(0.99),
                p999_ms: late(0.999),
                max_ms: lateness.max() as f64 / 1e3,
            },
            tls: tally.tls.take(),
            over_time: OverTime { series: tally.series.buckets() },
        };
        Self {
            load,
            latency: tally.latency,
            service: tally.service,
            begun: started,
            fates: tally.fates,
            open: 0,
        }
    }

    /// Appends the raw histograms to the log in a run's folder, tagged `name.latency` and `name.service` (HDR V2, deflated,
    /// microseconds), and records the tags in [`Outcome::load`].
    ///
    /// # Errors
    /// The folder cannot be written, e.g. because the disk is full.
    pub fn save(&mut self, folder: &Path, name: &str) -> anyhow::Result<()> {
        let place = folder.join(HISTOGRAMS);
        let (mut lines, seconds) = (Vec::new(), Duration::from_secs_f64(self.load.seconds));
        for (histogram, latency, kind) in [
            (&self.latency, &mut self.load.latency, "latency"),
            (&self.service, &mut self.load.service, "service"),
        ] {
            let name = format!("{name}.{kind}");
            let tag =
                Tag::new(&name).with_context(|| format!("{name:?} cannot be the name of a histogram"))?;
            IntervalLogWriterBuilder::new()
                .begin_log_with(&mut lines, &mut V2DeflateSerializer::new())
                .context("serialise a histogram")?
                .write_histogram(histogram, Duration::ZERO, seconds, Some(tag))
                .map_err(|error| anyhow::anyhow!("serialise a histogram: {error:?}"))?;
            latency.histogram = Some(name);
        }
        let log = OpenOptions::new().create(true).append(true).open(&place);
        log.and_then(|mut log| log.write_all(&lines)).with_context(|| format!("write {}", place.display()))
    }

    /// Requests without the expected response.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.load.errors.values().sum()
    }
}

/// Writes a histogram as deflated HDR V2.
///
/// # Errors
/// The file cannot be written, e.g. because the disk is full.
pub fn write_histogram(histogram: &Histogram<u64>, place: &Path) -> anyhow::Result<()> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(histogram, &mut bytes)
        .map_err(|error| anyhow::anyhow!("serialise a histogram: {error:?}"))?;
    fs::write(place, bytes).with_context(|| format!("write the histogram {}", place.display()))
}

/// Converts a histogram of microseconds to the format of the results.
#[must_use]
pub fn distribution(histogram: &Histogram<u64>) -> Latency {
    if histogram.is_empty() {
        return Latency::default();
    }
    let ms = |micros: u64| micros as f64 / 1e3;
    let percentiles = PERCENTS
        .iter()
        .map(|percent| {
            let micros = histogram.value_at_percentile(*percent).min(histogram.max());
            let above = histogram.count_between(histogram.next_non_equivalent(micros), u64::MAX);
            Percentile { percent: *percent, ms: ms(micros), above }
        })
        .collect();
    Latency {
        count: histogram.len(),
        min_ms: ms(histogram.min()),
        mean_ms: histogram.mean() / 1e3,
        deviation_ms: histogram.stdev() / 1e3,
        max_ms: ms(histogram.max()),
        percentiles,
        histogram: None,
    }
}

/// The value at a percentile, milliseconds; `None` if the distribution has no such point.
#[must_use]
pub fn at_percent(latency: &Latency, percent: f64) -> Option<f64> {
    latency.percentiles.iter().find(|point| point.percent == percent).map(|point| point.ms)
}
