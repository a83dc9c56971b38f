//! What the exporter counts: items by what became of them, requests to the collector, and what waits.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::signal::Signal;

/// Why items were dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    /// There was no room to wait.
    QueueFull,
    /// The collector does not want them.
    Rejected,
    /// The collector took none for too long.
    Unreachable,
    /// There is no collector.
    NoCollector,
}

impl Dropped {
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

/// What one signal counts.
#[derive(Debug, Default)]
struct SignalCounts {
    sent: AtomicU64,
    dropped: [AtomicU64; Dropped::ALL.len()],
    ok: AtomicU64,
    failed: AtomicU64,
    queued: AtomicU64,
}

/// What the exporter counts since the start of the process.
#[derive(Debug, Default)]
pub struct Counts([SignalCounts; Signal::ALL.len()]);

impl Counts {
    /// The collector has taken these items.
    pub(crate) fn sent(&self, signal: Signal, items: u64) {
        self.of(signal).sent.fetch_add(items, Ordering::Relaxed);
    }

    /// These items are gone.
    pub(crate) fn dropped(&self, signal: Signal, why: Dropped, items: u64) {
        self.of(signal).dropped[why as usize].fetch_add(items, Ordering::Relaxed);
    }

    /// A request to the collector has ended.
    pub(crate) fn exported(&self, signal: Signal, is_ok: bool) {
        let of = self.of(signal);
        let count = if is_ok { &of.ok } else { &of.failed };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// So many items wait.
    pub(crate) fn queued(&self, signal: Signal, items: usize) {
        self.of(signal).queued.store(items as u64, Ordering::Relaxed);
    }

    /// Items that were dropped, for whatever reason.
    pub(crate) fn dropped_so_far(&self, signal: Signal) -> u64 {
        self.of(signal).dropped.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// The counts in the Prometheus text format.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        let mut family = |name: &str, kind: &str, lines: &dyn Fn(&mut String, Signal, &SignalCounts)| {
            _ = writeln!(out, "# TYPE {name} {kind}");
            Signal::ALL.into_iter().for_each(|signal| lines(&mut out, signal, self.of(signal)));
        };
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        family("fairway_otlp_items_sent_total", "counter", &|out, signal, of| {
            let (signal, value) = (signal.label(), read(&of.sent));
            _ = writeln!(out, "fairway_otlp_items_sent_total{{signal=\"{signal}\"}} {value}");
        });
        family("fairway_otlp_items_dropped_total", "counter", &|out, signal, of| {
            for why in Dropped::ALL {
                let (signal, reason, value) = (signal.label(), why.label(), read(&of.dropped[why as usize]));
                let labels = format!("signal=\"{signal}\",reason=\"{reason}\"");
                _ = writeln!(out, "fairway_otlp_items_dropped_total{{{labels}}} {value}");
            }
        });
        family("fairway_otlp_exports_total", "counter", &|out, signal, of| {
            for (outcome, count) in [("ok", &of.ok), ("failed", &of.failed)] {
                let labels = format!("signal=\"{}\",outcome=\"{outcome}\"", signal.label());
                _ = writeln!(out, "fairway_otlp_exports_total{{{labels}}} {}", read(count));
            }
        });
        family("fairway_otlp_queue_items", "gauge", &|out, signal, of| {
            let (signal, value) = (signal.label(), read(&of.queued));
            _ = writeln!(out, "fairway_otlp_queue_items{{signal=\"{signal}\"}} {value}");
        });
        out
    }

    fn of(&self, signal: Signal) -> &SignalCounts {
        &self.0[signal as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_has_a_line_with_its_labels() {
        let counts = Counts::default();
        counts.sent(Signal::Traces, 3);
        counts.dropped(Signal::Logs, Dropped::QueueFull, 2);
        counts.exported(Signal::Metrics, false);
        counts.queued(Signal::Traces, 7);
        let text = counts.text();
        for line in [
            "# TYPE fairway_otlp_items_sent_total counter",
            "fairway_otlp_items_sent_total{signal=\"traces\"} 3",
            "fairway_otlp_items_dropped_total{signal=\"logs\",reason=\"queue_full\"} 2",
            "fairway_otlp_items_dropped_total{signal=\"logs\",reason=\"no_collector\"} 0",
            "fairway_otlp_exports_total{signal=\"metrics\",outcome=\"failed\"} 1",
            "# TYPE fairway_otlp_queue_items gauge",
            "fairway_otlp_queue_items{signal=\"traces\"} 7",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} in\n{text}");
        }
        assert_eq!(counts.dropped_so_far(Signal::Logs), 2);
    }
}
