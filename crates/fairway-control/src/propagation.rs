//! How long changes take to reach every worker, as histograms. Fed by the component that knows when the last worker has adopted.

use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Upper bounds of the buckets in seconds; a further bucket is unbounded.
const BUCKET_BOUNDS: [f64; 13] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];

/// From a change to its adoption by the last worker.
#[derive(Debug, Default)]
pub struct Propagation {
    /// From the watch event.
    since_received: Mutex<Histogram>,
    /// From the write to the cluster, if the object has its time.
    written: Mutex<Histogram>,
}

#[derive(Clone, Debug, Default)]
struct Histogram {
    buckets: [u64; BUCKET_BOUNDS.len() + 1],
    sum: f64,
}

impl Propagation {
    /// A change has reached the last worker, this long after it was received and, if known, after it was written.
    pub fn observe(&self, since_received: Duration, written: Option<Duration>) {
        observe(&self.since_received, since_received);
        if let Some(written) = written {
            observe(&self.written, written);
        }
    }

    /// Both in the Prometheus text format.
    #[must_use]
    pub fn metrics_text(&self) -> String {
        let mut out = String::new();
        for (name, help, histogram) in [
            (
                "fairway_config_propagation_seconds",
                "From a change's event to its adoption by the last worker.",
                &self.since_received,
            ),
            (
                "fairway_config_write_propagation_seconds",
                "From the write of an object that tells its time to its adoption by the last worker.",
                &self.written,
            ),
        ] {
            let histogram = histogram.lock().unwrap_or_else(PoisonError::into_inner).clone();
            histogram.write(name, help, &mut out).expect("writing to a String cannot fail");
        }
        out
    }
}

fn observe(histogram: &Mutex<Histogram>, took: Duration) {
    let seconds = took.as_secs_f64();
    // Both fields are plain numbers: a panic elsewhere leaves them usable.
    let mut histogram = histogram.lock().unwrap_or_else(PoisonError::into_inner);
    let bucket = BUCKET_BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BUCKET_BOUNDS.len());
    histogram.buckets[bucket] += 1;
    histogram.sum += seconds;
}

impl Histogram {
    fn write(&self, name: &str, help: &str, out: &mut String) -> std::fmt::Result {
        writeln!(out, "# HELP {name} {help}\n# TYPE {name} histogram")?;
        let mut count = 0;
        for (bucket, bound) in self.buckets.iter().zip(BUCKET_BOUNDS) {
            count += bucket;
            writeln!(out, "{name}_bucket{{le=\"{bound}\"}} {count}")?;
        }
        count += self.buckets[BUCKET_BOUNDS.len()];
        writeln!(out, "{name}_bucket{{le=\"+Inf\"}} {count}")?;
        writeln!(out, "{name}_sum {}\n{name}_count {count}", self.sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_cumulative_and_a_write_without_a_time_is_not_counted() {
        let propagation = Propagation::default();
        propagation.observe(Duration::from_millis(3), None);
        propagation.observe(Duration::from_secs(60), Some(Duration::from_millis(1)));
        let text = propagation.metrics_text();
        for line in [
            "fairway_config_propagation_seconds_bucket{le=\"0.002\"} 0",
            "fairway_config_propagation_seconds_bucket{le=\"0.005\"} 1",
            "fairway_config_propagation_seconds_bucket{le=\"10\"} 1",
            "fairway_config_propagation_seconds_bucket{le=\"+Inf\"} 2",
            "fairway_config_propagation_seconds_count 2",
            "fairway_config_write_propagation_seconds_count 1",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is not in\n{text}");
        }
    }
}
