//! The exporter's counters: items by outcome, export requests, and queue lengths.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::signal::Signal;

/// Why items were dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DropReason {
    /// The queue was full.
    QueueFull,
    /// The collector rejected them.
    Rejected,
    /// The collector accepted none for too long.
    Unreachable,
    /// No collector is configured.
    NoCollector,
}

impl DropReason {
    const ALL: [Self; 4] = [Self::QueueFull, Self::Rejected, Self::Unreachable, Self::NoCollector];

    const fn label(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Rejected => "rejected",
            Self::Unreachable => "unreachable",
            Self::NoCollector => "no_collector",
        }
    }
}

/// The counters of one signal.
#[derive(Debug, Default)]
struct SignalCounts {
    sent: AtomicU64,
    dropped: [AtomicU64; DropReason::ALL.len()],
    ok: AtomicU64,
    failed: AtomicU64,
    queued: AtomicU64,
}

/// The exporter's counters since the process started.
#[derive(Debug, Default)]
pub struct Counts([SignalCounts; Signal::ALL.len()]);

impl Counts {
    /// The collector accepted these items.
    pub(crate) fn record_sent(&self, signal: Signal, items: u64) {
        self.signal_counts(signal).sent.fetch_add(items, Ordering::Relaxed);
    }

    /// These items were dropped.
    pub(crate) fn record_dropped(&self, signal: Signal, why: DropReason, items: u64) {
        self.signal_counts(signal).dropped[why as usize].fetch_add(items, Ordering::Relaxed);
    }

    /// An export request has ended.
    pub(crate) fn record_export(&self, signal: Signal, is_ok: bool) {
        let counts = self.signal_counts(signal);
        let count = if is_ok { &counts.ok } else { &counts.failed };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets the queue length.
    pub(crate) fn set_queued(&self, signal: Signal, items: usize) {
        self.signal_counts(signal).queued.store(items as u64, Ordering::Relaxed);
    }

    /// The number of items dropped for any reason.
    pub(crate) fn dropped_items(&self, signal: Signal) -> u64 {
        self.signal_counts(signal).dropped.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// The counters in the Prometheus text format.
    #[must_use]
    pub fn metrics_text(&self) -> String {
        let mut out = String::new();
        let mut family = |name: &str, kind: &str, lines: &dyn Fn(&mut String, Signal, &SignalCounts)| {
            _ = writeln!(out, "# TYPE {name} {kind}");
            Signal::ALL.into_iter().for_each(|signal| lines(&mut out, signal, self.signal_counts(signal)));
        };
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        family("fairway_otlp_items_sent_total", "counter", &|out, signal, counts| {
            let (signal, value) = (signal.label(), read(&counts.sent));
            _ = writeln!(out, "fairway_otlp_items_sent_total{{signal=\"{signal}\"}} {value}");
        });
        family("fairway_otlp_items_dropped_total", "counter", &|out, signal, counts| {
            for why in DropReason::ALL {
                let (signal, reason, value) =
                    (signal.label(), why.label(), read(&counts.dropped[why as usize]));
                let labels = format!("signal=\"{signal}\",reason=\"{reason}\"");
                _ = writeln!(out, "fairway_otlp_items_dropped_total{{{labels}}} {value}");
            }
        });
        family("fairway_otlp_exports_total", "counter", &|out, signal, counts| {
            for (outcome, count) in [("ok", &counts.ok), ("failed", &counts.failed)] {
                let labels = format!("signal=\"{}\",outcome=\"{outcome}\"", signal.label());
                _ = writeln!(out, "fairway_otlp_exports_total{{{labels}}} {}", read(count));
            }
        });
        family("fairway_otlp_queue_items", "gauge", &|out, signal, counts| {
            let (signal, value) = (signal.label(), read(&counts.queued));
            _ = writeln!(out, "fairway_otlp_queue_items{{signal=\"{signal}\"}} {value}");
        });
        out
    }

    fn signal_counts(&self, signal: Signal) -> &SignalCounts {
        &self.0[signal as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_has_a_line_with_its_labels() {
        let counts = Counts::default();
        counts.record_sent(Signal::Traces, 3);
        counts.record_dropped(Signal::Logs, DropReason::QueueFull, 2);
        counts.record_export(Signal::Metrics, false);
        counts.set_queued(Signal::Traces, 7);
        let text = counts.metrics_text();
        for line in [
            "# TYPE fairway_otlp_items_sent_total counter",
            "fairway_otlp_items_sent_total{signal=\"traces\"} 3",
            "fairway_otlp_items_dropped_total{signal=\"logs\",reason=\"queue_full\"} 2",
            "fairway_otlp_items_dropped_total{signal=\"logs\",reason=\"no_collector\"} 0",
            "fairway_otlp_exports_total{signal=\"metrics\",outcome=\"failed\"} 1",
            "# TYPE fairway_otlp_queue_items gauge",
            "fairway_otlp_queue_items{signal=\"traces\"} 7",
        ] {
            assert!(text.lines().any(|text_line| text_line == line), "{line} in\n{text}");
        }
        assert_eq!(counts.dropped_items(Signal::Logs), 2);
    }
}
