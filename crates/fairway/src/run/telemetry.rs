//! Starts the telemetry exporter and selects its collector: that of the configuration, otherwise that of the flags.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fs, process};

use anyhow::{Context, Result};
use fairway_control::admin::Pages;
use fairway_model::{Collector, Settings};
use fairway_proxy::OutputCopies;
use fairway_proxy::trace::{TraceReceiver, TraceSender, channel};
use fairway_telemetry::{Counts, Exporter, ExporterOptions, MetricsText, ProcessIdentity};

use crate::args::{ReportArgs, RunArgs, TelemetryFlags};

/// Maximum number of batches of traced exchanges queued for the exporter, with at most 64 exchanges each.
const MAX_TRACE_BATCHES: usize = 64;

/// The exporter, as the rest of `run` sees it.
pub(super) struct Telemetry {
    exporter: Exporter,
    /// The collector of the flags.
    flag_collector: Option<Arc<Collector>>,
    has_headers: bool,
    /// Whether the warning about another collector has been logged.
    has_warned: AtomicBool,
}

impl Telemetry {
    /// Starts the exporter. It receives exchanges from the returned sender.
    pub(super) fn start(args: &RunArgs, flags: &TelemetryFlags) -> Result<(Self, TraceSender)> {
        let TelemetryFlags { collector, credentials, .. } = flags;
        let is_asked = args.telemetry.otlp_logs || args.telemetry.otlp_metrics_interval.is_some();
        if is_asked && collector.is_none() {
            tracing::warn!(
                "--otlp-logs or --otlp-metrics-interval without --otlp-endpoint: nothing is exported until the settings \
                 ConfigMap names a collector (otlp-collector-host)"
            );
        }
        let (sender, receiver): (_, TraceReceiver) = channel(MAX_TRACE_BATCHES);
        let options = ExporterOptions {
            identity: identity(&args.report),
            credentials: credentials.clone(),
            seed: seed(),
        };
        let exporter = Exporter::start(options, receiver).context("the exporter of telemetry")?;
        exporter.set_collector(collector.clone());
        let has_headers = !credentials.headers.is_empty();
        if let Some(collector) =
            collector.as_ref().filter(|it| has_headers && it.endpoint.starts_with("http:"))
        {
            tracing::warn!(
                collector = %collector.endpoint,
                "the headers of --otlp-header and --otlp-headers-file are sent unencrypted: use https"
            );
        }
        let by_flags = collector.clone();
        Ok((
            Self { exporter, flag_collector: by_flags, has_headers, has_warned: AtomicBool::new(false) },
            sender,
        ))
    }

    /// Applies the settings of a published configuration, whose collector takes precedence over that of the flags.
    pub(super) fn adopt(&self, settings: &Settings) {
        let named = settings.collector.as_ref();
        let is_other = named.is_some_and(|named| {
            self.flag_collector.as_ref().is_none_or(|by_flags| by_flags.endpoint != named.endpoint)
        });
        if let (true, Some(named), Some(by_flags)) = (is_other, named, &self.flag_collector)
            && !self.has_warned.swap(true, Ordering::Relaxed)
        {
            let headers = if self.has_headers {
                "the headers of --otlp-header and --otlp-headers-file are not sent to it"
            } else {
                ""
            };
            tracing::warn!(
                collector = %named.endpoint, instead_of = %by_flags.endpoint, headers,
                "the settings ConfigMap names another collector than --otlp-endpoint: all telemetry goes there, unencrypted"
            );
        }
        self.exporter.set_collector(named.or(self.flag_collector.as_ref()).cloned());
    }

    /// The receiver of copies of access log lines.
    pub(super) fn line_copies(&self) -> OutputCopies {
        let lines = self.exporter.line_sender();
        OutputCopies::to(move |buffer| lines.send(buffer))
    }

    /// Exports the metrics of `/metrics` at this interval.
    pub(super) fn export_metrics(&self, interval: Duration, pages: Arc<Pages>) {
        let source = move || {
            let pages = Arc::clone(&pages);
            let text = async move { pages.metrics_text().await };
            Box::pin(text) as Pin<Box<dyn Future<Output = MetricsText> + Send>>
        };
        self.exporter.export_metrics(interval, Box::new(source));
    }

    /// Counters of exported and dropped telemetry.
    pub(super) fn counts(&self) -> Arc<Counts> {
        self.exporter.counts()
    }

    /// Exports what is still queued. Blocks for a few seconds at most.
    pub(super) fn stop(&self) {
        self.exporter.stop();
    }
}

/// The identity of the process: its pod, otherwise host name and process ID.
fn identity(report: &ReportArgs) -> ProcessIdentity {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    let pod = report.pod_name.clone().unwrap_or_default();
    let instance = match pod.as_str() {
        "" => format!("{host}-{}", process::id()),
        pod => pod.to_owned(),
    };
    let namespace = report.pod_namespace.clone().unwrap_or_default();
    ProcessIdentity { version: env!("CARGO_PKG_VERSION").to_owned(), instance, host, pod, namespace }
}

/// A seed that differs between processes, so that they do not retry at the same time after a common failure.
fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (u64::from(now.subsec_nanos()) << 32) | u64::from(process::id())
}
