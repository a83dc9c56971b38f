//! Metrics in the Prometheus text format: Fairway's own names, and those of ingress-nginx for requests, so that
//! its dashboards and alerts keep working. Names and labels: docs/metrics.md.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use fairway_connection::upstream::Circuits;

use crate::attribution::{Attribution, Costs, RequestOutcome};
use crate::geoip::{DatabaseFigures, FileFigures};
use crate::guards::LeaseFigures;
use crate::metrics::histogram::{HistogramView, LENGTH_BOUNDS, SIZE_BOUNDS, TIME_BOUNDS};
use crate::metrics::lines::{escape_label, join_labels, write_line, write_metric, write_type};
use crate::metrics::process::NginxTraffic;
use crate::metrics::reason::{FaultStage, Reason};
use crate::metrics::sample::Sample;
use crate::metrics::series::{AllSeries, Series, SeriesLabels};
use crate::tls::{KeySource, StaplingFigures, TicketFigures};

const REQUEST_PREFIX: &str = "nginx_ingress_controller_";

/// Approximate length of a chunk.
const CHUNK_BYTES: usize = 64 * 1024;

/// The text of a scrape, written in chunks on demand: the numbers of thousands of series take megabytes, their
/// text hundreds of them.
pub struct ScrapeText {
    /// Text already written for the next chunk.
    head: String,
    /// Sorted by the text of their labels.
    series: Vec<(Box<str>, Box<Series>)>,
    /// The next metric family.
    next_family: usize,
    /// The next series of the family.
    next_series: usize,
}

impl ScrapeText {
    /// The text of `sample`; `identity` is the text of labels by which ingress-nginx identifies the controller.
    #[must_use]
    pub fn new(sample: Sample, identity: &str) -> Self {
        let mut head = String::new();
        let series = write(sample, identity, &mut head);
        let text = |labels: &SeriesLabels| join_labels(&labels_of(labels), identity).into_boxed_str();
        let mut series: Vec<_> = series.into_iter().map(|(labels, series)| (text(&labels), series)).collect();
        series.sort_unstable_by(|left, right| left.0.cmp(&right.0));
        write_metric(&mut head, "fairway_metrics_series", "gauge", "", series.len());
        Self { head, series, next_family: 0, next_series: 0 }
    }

    /// Where metrics with few series are added, before the first chunk is taken.
    pub fn head_mut(&mut self) -> &mut String {
        &mut self.head
    }
}

impl Iterator for ScrapeText {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let mut chunk = std::mem::take(&mut self.head);
        chunk.reserve(CHUNK_BYTES.saturating_sub(chunk.len()));
        while chunk.len() < CHUNK_BYTES
            && let Some(family) = FAMILIES.get(self.next_family)
        {
            if self.next_series == 0 {
                write_type(&mut chunk, &format!("{REQUEST_PREFIX}{}", family.name), family.kind());
            }
            match self.series.get(self.next_series) {
                Some((labels, series)) => {
                    family.write(labels, series, &mut chunk);
                    self.next_series += 1;
                }
                None => (self.next_family, self.next_series) = (self.next_family + 1, 0),
            }
        }
        (!chunk.is_empty()).then_some(chunk)
    }
}

/// Writes all metrics except those with request labels, which are returned.
fn write(sample: Sample, identity: &str, out: &mut String) -> AllSeries {
    NginxTraffic::from_sample(&sample).write(identity, out);
    let Sample {
        counts,
        hedges,
        gauges,
        open_connections,
        reasons,
        http2,
        http3,
        upstream_http2,
        zones,
        compressed,
        costs,
        series,
    } = sample;
    for (name, value) in &counts {
        write_metric(out, &format!("fairway_{name}"), "counter", "", value);
    }
    write_type(out, "fairway_upstream_hedges_total", "counter");
    for (outcome, value) in &hedges {
        write_line(out, "fairway_upstream_hedges_total", &format!("outcome=\"{outcome}\""), *value);
    }
    for (name, value) in [
        ("fairway_connections_open", open_connections),
        ("fairway_upstream_idle_connections", gauges.upstream_idle),
        ("fairway_access_log_dropped_lines", gauges.log_dropped),
        ("fairway_shedding_workers", gauges.shedding_workers),
        ("fairway_http2_streams_open", gauges.http2_streams),
        ("fairway_http2_window_growth_bytes", gauges.http2_window),
        ("fairway_http3_connections_open", gauges.http3_connections),
        ("fairway_http3_streams_open", gauges.http3_streams),
        ("fairway_body_buffer_memory_bytes", gauges.buffer_memory),
        ("fairway_streams_open", gauges.streams),
        ("fairway_datagram_sessions_open", gauges.sessions),
    ] {
        write_metric(out, name, "gauge", "", value);
    }
    write_metric(out, "fairway_config_adoption_seconds", "gauge", "", gauges.adoption.as_secs_f64());
    write_reasons(&reasons, out);
    write_costs(&costs, out);
    for (name, events) in [
        ("fairway_http2_events_total", &http2),
        ("fairway_http3_events_total", &http3),
        ("fairway_upstream_http2_events_total", &upstream_http2),
    ] {
        write_type(out, name, "counter");
        for ((event, reason), value) in events {
            write_line(out, name, &format!("event=\"{event}\",reason=\"{reason}\""), *value);
        }
    }
    write_type(out, "fairway_zone_attempts_total", "counter");
    for ((zone, is_own), value) in &zones {
        let labels = format!("zone=\"{}\",own=\"{is_own}\"", escape_label(zone));
        write_line(out, "fairway_zone_attempts_total", &labels, *value);
    }
    write_type(out, "fairway_compression_bytes_total", "counter");
    for ((coding, side), value) in &compressed {
        let labels = format!("coding=\"{coding}\",side=\"{side}\"");
        write_line(out, "fairway_compression_bytes_total", &labels, *value);
    }
    series
}

/// Writes end reasons of connections, responses and datagrams.
fn write_reasons(reasons: &BTreeMap<Reason, u64>, out: &mut String) {
    let describe = |stage: &FaultStage| match stage {
        FaultStage::Connection => ("fairway_refused_connections_total", "reason"),
        FaultStage::Exchange => ("fairway_faults_total", "reason"),
        FaultStage::GrpcCall => ("fairway_grpc_calls_total", "status"),
        FaultStage::Stream => ("fairway_streams_ended_total", "reason"),
        FaultStage::Session => ("fairway_datagram_sessions_ended_total", "reason"),
        FaultStage::Datagram => ("fairway_datagrams_dropped_total", "reason"),
        FaultStage::AuthorizationCheck => ("fairway_authorization_checks_total", "result"),
        FaultStage::Extension => ("fairway_extension_streams_total", "result"),
        FaultStage::HealthCheck => ("fairway_health_checks_total", "result"),
        FaultStage::RetryRefused => ("fairway_upstream_retries_refused_total", "reason"),
    };
    for stage in FaultStage::ALL {
        write_type(out, describe(&stage).0, "counter");
    }
    for ((stage, reason), value) in reasons {
        let (name, label) = describe(stage);
        write_line(out, name, &format!("{label}=\"{reason}\""), *value);
    }
}

/// Writes failed and repeated requests by attribution. All series exist from the start: an alert on the
/// increase of a series that appears with its first error would miss that error.
fn write_costs(costs: &Costs, out: &mut String) {
    let name = "fairway_attributed_requests_total";
    write_type(out, name, "counter");
    for attribution in Attribution::ALL {
        for outcome in RequestOutcome::ALL {
            let labels = format!("attribution=\"{}\",outcome=\"{}\"", attribution.label(), outcome.label());
            write_line(out, name, &labels, costs.count(attribution, outcome));
        }
    }
    let name = "fairway_self_inflicted_errors_total";
    write_type(out, name, "counter");
    for attribution in Attribution::ALL.into_iter().filter(|it| it.is_self_inflicted()) {
        let labels = format!("cause=\"{}\"", attribution.label());
        write_line(out, name, &labels, costs.count(attribution, RequestOutcome::Failed));
    }
}

/// Writes memory use and budget.
pub fn write_memory(used: u64, budget: u64, out: &mut String) {
    for (name, value) in [("fairway_memory_used_bytes", used), ("fairway_memory_budget_bytes", budget)] {
        write_metric(out, name, "gauge", "", value);
    }
}

/// Writes how many endpoints fail their health checks.
pub fn write_failing_checks(count: u64, out: &mut String) {
    write_metric(out, "fairway_endpoints_failing_checks", "gauge", "", count);
}

/// Writes work in flight with limited backends, and adaptive limits.
pub fn write_circuits(circuits: &Circuits, out: &mut String) {
    let under_way = circuits.totals();
    let name = "fairway_limited_backends_under_way";
    write_type(out, name, "gauge");
    let counts = [
        ("requests", under_way.requests),
        ("connections", under_way.connections),
        ("pending", under_way.pending),
        ("retries", under_way.retries),
        ("awaiting_response", under_way.awaiting),
    ];
    for (what, count) in counts {
        write_line(out, name, &format!("what=\"{what}\""), count);
    }
    let name = "fairway_backend_concurrency_limit";
    write_type(out, name, "gauge");
    for (backend, limit) in circuits.moving_limits() {
        write_line(out, name, &format!("backend=\"{}\"", escape_label(&backend)), limit);
    }
}

/// Writes how many replicas share fleet limits.
pub fn write_fleet_size(replicas: u32, out: &mut String) {
    write_metric(out, "fairway_fleet_replicas", "gauge", "", replicas);
}

/// Writes how shares of fleet limits are lent and borrowed.
pub(crate) fn write_leases(leases: &LeaseFigures, out: &mut String) {
    let counters = [
        ("fairway_fleet_shares_asked_total", "outcome", &leases.requested),
        ("fairway_fleet_shares_answered_total", "outcome", &leases.answered),
        ("fairway_fleet_messages_refused_total", "reason", &leases.refused),
    ];
    for (name, label, counts) in counters {
        write_type(out, name, "counter");
        for (value, count) in counts {
            write_line(out, name, &format!("{label}=\"{value}\""), *count);
        }
    }
    write_metric(out, "fairway_fleet_shares_not_asked_total", "counter", "", leases.dropped);
}

/// Writes bytes of buffered bodies on disk.
pub fn write_buffer_disk(used: u64, out: &mut String) {
    write_metric(out, "fairway_body_buffer_disk_bytes", "gauge", "", used);
}

/// Writes the CPU time of each worker.
pub fn write_cpu(workers: &[(usize, Duration)], out: &mut String) {
    write_type(out, "fairway_worker_cpu_seconds_total", "counter");
    for (worker, cpu) in workers {
        let labels = format!("worker=\"{worker}\"");
        write_line(out, "fairway_worker_cpu_seconds_total", &labels, cpu.as_secs_f64());
    }
}

/// Writes the HTTP/2 connections of each worker.
pub fn write_spread(workers: &[u64], out: &mut String) {
    write_type(out, "fairway_http2_connections_open", "gauge");
    for (worker, open) in workers.iter().enumerate() {
        write_line(out, "fairway_http2_connections_open", &format!("worker=\"{worker}\""), *open);
    }
}

/// Writes the session ticket keys, and tickets that no key decrypted.
pub(crate) fn write_tickets(tickets: &TicketFigures, out: &mut String) {
    if let Some(keys) = &tickets.keys {
        let source = match keys.source {
            KeySource::Operator => "fixed",
            KeySource::Shared => "shared",
            KeySource::Local => "own",
        };
        let labels = format!("source=\"{source}\"");
        write_metric(out, "fairway_tls_ticket_key_age_seconds", "gauge", &labels, keys.age.as_secs());
        write_metric(out, "fairway_tls_ticket_keys", "gauge", "", keys.accepted as u64);
    }
    write_metric(out, "fairway_tls_tickets_unopened_total", "counter", "", tickets.unopened);
}

/// Writes the GeoIP databases in use, and how often a file was refused.
pub(crate) fn write_geoip(files: &[FileFigures], out: &mut String) {
    let used = files.iter().filter_map(|file| {
        let database = file.database.as_ref()?;
        Some((format!("file=\"{}\",type=\"{}\"", escape_label(&file.path), database.type_name), database))
    });
    let used: Vec<_> = used.collect();
    if files.is_empty() {
        return;
    }
    for (name, value) in [
        ("fairway_geoip_database_built_timestamp_seconds", (|it| it.built) as fn(&DatabaseFigures) -> u64),
        ("fairway_geoip_database_bytes", |it| it.bytes),
    ] {
        write_type(out, name, "gauge");
        used.iter().for_each(|(labels, database)| write_line(out, name, labels, value(database)));
    }
    let name = "fairway_geoip_databases_refused_total";
    write_type(out, name, "counter");
    files.iter().for_each(|file| {
        write_line(out, name, &format!("file=\"{}\"", escape_label(&file.path)), file.refused);
    });
}

/// Writes OCSP fetches by result, and certificates with a valid response.
pub(crate) fn write_stapling(figures: &StaplingFigures, out: &mut String) {
    let name = "fairway_ocsp_fetches_total";
    write_type(out, name, "counter");
    figures.fetches.iter().for_each(|(result, count)| {
        write_line(out, name, &format!("result=\"{result}\""), *count);
    });
    write_metric(out, "fairway_ocsp_stapled_certificates", "gauge", "", figures.stapled);
}

/// A metric with request labels.
struct Family {
    name: &'static str,
    values: FamilyValues,
}

enum FamilyValues {
    Count(fn(&Series) -> u64),
    Histogram { bounds: &'static [u64], unit: f64, view: fn(&Series) -> HistogramView<'_> },
}

/// Observation units per unit of the metric. Dividing gives the decimal fractions that queries use
/// (`le="0.1"`); multiplying by the inverse does not.
const MICROSECONDS_PER_SECOND: f64 = 1e6;
const UNSCALED: f64 = 1.0;

static FAMILIES: [Family; 8] = [
    Family { name: "requests", values: FamilyValues::Count(|series| series.requests) },
    seconds_family("request_duration_seconds", |series| series.request_time.view()),
    seconds_family("response_duration_seconds", |series| series.response_time.view()),
    seconds_family("header_duration_seconds", |series| series.header_time.view()),
    seconds_family("connect_duration_seconds", |series| series.connect_time.view()),
    bytes_family("request_size", &LENGTH_BOUNDS, |series| series.request_size.view()),
    bytes_family("response_size", &LENGTH_BOUNDS, |series| series.response_size.view()),
    bytes_family("bytes_sent", &SIZE_BOUNDS, |series| series.bytes_sent.view()),
];

const fn seconds_family(name: &'static str, view: fn(&Series) -> HistogramView<'_>) -> Family {
    Family {
        name,
        values: FamilyValues::Histogram { bounds: &TIME_BOUNDS, unit: MICROSECONDS_PER_SECOND, view },
    }
}

const fn bytes_family(
    name: &'static str,
    bounds: &'static [u64],
    view: fn(&Series) -> HistogramView<'_>,
) -> Family {
    Family { name, values: FamilyValues::Histogram { bounds, unit: UNSCALED, view } }
}

impl Family {
    fn kind(&self) -> &'static str {
        match self.values {
            FamilyValues::Count(_) => "counter",
            FamilyValues::Histogram { .. } => "histogram",
        }
    }

    /// Writes the lines of one series.
    fn write(&self, labels: &str, series: &Series, out: &mut String) {
        let name = self.name;
        match &self.values {
            FamilyValues::Count(view) => writeln!(out, "{REQUEST_PREFIX}{name}{{{labels}}} {}", view(series)),
            FamilyValues::Histogram { bounds, unit, view } => {
                histogram(name, labels, bounds, *unit, view(series), out)
            }
        }
        .expect("a string takes every write");
    }
}

fn histogram(
    name: &str,
    labels: &str,
    bounds: &[u64],
    unit: f64,
    observed: HistogramView<'_>,
    out: &mut String,
) -> std::fmt::Result {
    let HistogramView { buckets, count, sum } = observed;
    let mut below = 0;
    for (count, bound) in buckets.iter().zip(bounds) {
        below += count;
        #[expect(clippy::cast_precision_loss, reason = "bucket bounds are small")]
        let bound = *bound as f64 / unit;
        writeln!(out, "{REQUEST_PREFIX}{name}_bucket{{{labels},le=\"{bound}\"}} {below}")?;
    }
    writeln!(out, "{REQUEST_PREFIX}{name}_bucket{{{labels},le=\"+Inf\"}} {count}")?;
    #[expect(clippy::cast_precision_loss, reason = "a sum is an approximation to its reader")]
    let sum = sum as f64 / unit;
    writeln!(out, "{REQUEST_PREFIX}{name}_sum{{{labels}}} {sum}")?;
    writeln!(out, "{REQUEST_PREFIX}{name}_count{{{labels}}} {count}")
}

fn labels_of(labels: &SeriesLabels) -> String {
    let rule = &labels.rule;
    let mut text = String::new();
    for (name, value) in [
        ("namespace", &*rule.namespace),
        ("ingress", &*rule.ingress),
        ("service", &*rule.service),
        ("path", &*rule.path),
        ("host", &labels.host),
        ("method", method(labels.method)),
        ("canary", &labels.canary),
    ] {
        write!(text, "{name}=\"{}\",", escape_label(value)).expect("a string takes every write");
    }
    write!(text, "status=\"{}\"", labels.status).expect("a string takes every write");
    text
}

fn method(method: fairway_http::Method) -> &'static str {
    use fairway_http::Method;
    match method {
        Method::Get => "GET",
        Method::Head => "HEAD",
        Method::Post => "POST",
        Method::Put => "PUT",
        Method::Delete => "DELETE",
        Method::Options => "OPTIONS",
        Method::Patch => "PATCH",
        Method::Trace => "TRACE",
        Method::Connect => "CONNECT",
        Method::Other => "OTHER",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::record::ExchangeRecord;
    use crate::metrics::{Counters, Gauges};
    use fairway_net::clock::Instant;

    #[test]
    fn buckets_have_the_bounds_that_dashboards_select() {
        let counters = Counters::default();
        counters.observe(&ExchangeRecord::new(Instant::now(), 10));
        let text: String =
            ScrapeText::new(counters.sample(Gauges::default()), "controller_pod=\"p\"").collect();
        let name = "nginx_ingress_controller_request_duration_seconds_bucket{";
        let lines = text.lines().filter(|line| line.starts_with(name));
        let bounds: Vec<_> = lines.filter_map(|line| line.split("le=\"").nth(1)?.split('"').next()).collect();
        let expected =
            ["0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "+Inf"];
        assert_eq!(bounds, expected);
        assert!(text.contains("status=\"0\",controller_pod=\"p\"} 1\n"), "{text}");
    }
    #[test]
    fn chunks_end_at_line_ends_and_each_metric_is_contiguous() {
        let counters = Counters::default();
        for status in 100..1_100 {
            let mut record = ExchangeRecord::new(Instant::now(), 10);
            record.status = status;
            counters.observe(&record);
        }
        let chunks: Vec<_> = ScrapeText::new(counters.sample(Gauges::default()), "").collect();
        assert!(chunks.len() > 20, "{}", chunks.len());
        assert!(chunks.iter().all(|piece| piece.ends_with('\n') && piece.len() < 2 * CHUNK_BYTES));
        let text = chunks.concat();
        let lines = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
        assert_eq!(lines("nginx_ingress_controller_requests{"), 1_000);
        assert_eq!(lines("nginx_ingress_controller_bytes_sent_bucket{"), 8_000);
        assert_eq!(lines("# TYPE nginx_ingress_controller_bytes_sent histogram"), 1);
        // Lines of a metric must be contiguous (Prometheus text format, "grouping and sorting").
        let mut metrics: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let count = metrics.len();
        metrics.sort_unstable();
        metrics.dedup();
        assert_eq!(metrics.len(), count);
    }

    #[test]
    fn error_series_exist_before_the_first_error() {
        let text: String = ScrapeText::new(Sample::default(), "").collect();
        for series in [
            "fairway_self_inflicted_errors_total{cause=\"fairway\"} 0",
            "fairway_self_inflicted_errors_total{cause=\"configuration_change\"} 0",
            "fairway_self_inflicted_errors_total{cause=\"roll\"} 0",
            "fairway_attributed_requests_total{attribution=\"client\",outcome=\"failed\"} 0",
            "fairway_attributed_requests_total{attribution=\"endpoint\",outcome=\"repeated\"} 0",
        ] {
            assert!(text.lines().any(|line| line == series), "{series}\n{text}");
        }
    }

    #[test]
    fn without_series_every_family_has_its_type() {
        let text: String = ScrapeText::new(Sample::default(), "").collect();
        for Family { name, .. } in &FAMILIES {
            assert!(text.contains(&format!("# TYPE {REQUEST_PREFIX}{name} ")), "{name}\n{text}");
        }
    }
}
