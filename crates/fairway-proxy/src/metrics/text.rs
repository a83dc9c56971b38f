//! Metrics in the Prometheus text format: our own names, and those of ingress-nginx for requests, so that its
//! dashboards and alerts go on working. Names and labels: docs/metrics.md.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use fairway_connection::upstream::Circuits;

use crate::attribution::{Attribution, Costs, RequestOutcome};
use crate::geoip::{DatabaseFigures, FileFigures};
use crate::guards::LeaseFigures;
use crate::metrics::histogram::{LENGTH, Observed, SIZE, TIME};
use crate::metrics::lines::{escape, head, joined, line, single};
use crate::metrics::process::Traffic;
use crate::metrics::reason::{Reason, Stage};
use crate::metrics::sample::Sample;
use crate::metrics::series::{AllSeries, Series, SeriesLabels};
use crate::tls::{KeySource, StaplingFigures, TicketFigures};

const REQUESTS: &str = "nginx_ingress_controller_";

/// A piece of the text is about this long.
const PIECE: usize = 64 * 1024;

/// The text of a scrape, in pieces that are written when they are asked for: the numbers of thousands of series take megabytes, their
/// text hundreds of them.
pub struct Text {
    /// What is written and was not asked for yet.
    beginning: String,
    /// By the text of their labels.
    series: Vec<(Box<str>, Box<Series>)>,
    /// The family of metrics that comes next.
    family: usize,
    /// The series of it that comes next.
    at: usize,
}

impl Text {
    /// Everything of `sample`; `identity` are the labels that say in ingress-nginx which controller a metric is of.
    #[must_use]
    pub fn of(sample: Sample, identity: &str) -> Self {
        let mut beginning = String::new();
        let series = write(sample, identity, &mut beginning);
        let text = |labels: &SeriesLabels| joined(&labels_of(labels), identity).into_boxed_str();
        let mut series: Vec<_> = series.into_iter().map(|(labels, series)| (text(&labels), series)).collect();
        series.sort_unstable_by(|left, right| left.0.cmp(&right.0));
        single(&mut beginning, "fairway_metrics_series", "gauge", "", series.len());
        Self { beginning, series, family: 0, at: 0 }
    }

    /// Where metrics without many series are added, as long as no piece was asked for.
    pub fn beginning(&mut self) -> &mut String {
        &mut self.beginning
    }
}

impl Iterator for Text {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let mut piece = std::mem::take(&mut self.beginning);
        piece.reserve(PIECE.saturating_sub(piece.len()));
        while piece.len() < PIECE
            && let Some(family) = FAMILIES.get(self.family)
        {
            if self.at == 0 {
                head(&mut piece, &format!("{REQUESTS}{}", family.name), family.kind());
            }
            match self.series.get(self.at) {
                Some((labels, series)) => {
                    family.write(labels, series, &mut piece);
                    self.at += 1;
                }
                None => (self.family, self.at) = (self.family + 1, 0),
            }
        }
        (!piece.is_empty()).then_some(piece)
    }
}

/// Writes everything but what has labels of requests, which is given back.
fn write(sample: Sample, identity: &str, out: &mut String) -> AllSeries {
    Traffic::of(&sample).write(identity, out);
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
        single(out, &format!("fairway_{name}"), "counter", "", value);
    }
    head(out, "fairway_upstream_hedges_total", "counter");
    for (outcome, value) in &hedges {
        line(out, "fairway_upstream_hedges_total", &format!("outcome=\"{outcome}\""), *value);
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
        single(out, name, "gauge", "", value);
    }
    single(out, "fairway_config_adoption_seconds", "gauge", "", gauges.adoption.as_secs_f64());
    write_reasons(&reasons, out);
    write_costs(&costs, out);
    for (name, events) in [
        ("fairway_http2_events_total", &http2),
        ("fairway_http3_events_total", &http3),
        ("fairway_upstream_http2_events_total", &upstream_http2),
    ] {
        head(out, name, "counter");
        for ((event, reason), value) in events {
            line(out, name, &format!("event=\"{event}\",reason=\"{reason}\""), *value);
        }
    }
    head(out, "fairway_zone_attempts_total", "counter");
    for ((zone, is_own), value) in &zones {
        let labels = format!("zone=\"{}\",own=\"{is_own}\"", escape(zone));
        line(out, "fairway_zone_attempts_total", &labels, *value);
    }
    head(out, "fairway_compression_bytes_total", "counter");
    for ((coding, side), value) in &compressed {
        let labels = format!("coding=\"{coding}\",side=\"{side}\"");
        line(out, "fairway_compression_bytes_total", &labels, *value);
    }
    series
}

/// Writes why connections, answers and datagrams came to their end.
fn write_reasons(reasons: &BTreeMap<Reason, u64>, out: &mut String) {
    let of = |stage: &Stage| match stage {
        Stage::Connection => ("fairway_refused_connections_total", "reason"),
        Stage::Exchange => ("fairway_faults_total", "reason"),
        Stage::Call => ("fairway_grpc_calls_total", "status"),
        Stage::Stream => ("fairway_streams_ended_total", "reason"),
        Stage::Session => ("fairway_datagram_sessions_ended_total", "reason"),
        Stage::Datagram => ("fairway_datagrams_dropped_total", "reason"),
        Stage::Check => ("fairway_authorization_checks_total", "result"),
        Stage::Extension => ("fairway_extension_streams_total", "result"),
        Stage::HealthCheck => ("fairway_health_checks_total", "result"),
        Stage::RetryRefused => ("fairway_upstream_retries_refused_total", "reason"),
    };
    for stage in Stage::ALL {
        head(out, of(&stage).0, "counter");
    }
    for ((stage, reason), value) in reasons {
        let (name, label) = of(stage);
        line(out, name, &format!("{label}=\"{reason}\""), *value);
    }
}

/// Writes which requests failed or were repeated, on whose account. Every series is there from the start: an alert on the increase of one
/// that appears with its first error would miss that error.
fn write_costs(costs: &Costs, out: &mut String) {
    let name = "fairway_attributed_requests_total";
    head(out, name, "counter");
    for attribution in Attribution::ALL {
        for outcome in RequestOutcome::ALL {
            let labels = format!("attribution=\"{}\",outcome=\"{}\"", attribution.label(), outcome.label());
            line(out, name, &labels, costs.count(attribution, outcome));
        }
    }
    let name = "fairway_self_inflicted_errors_total";
    head(out, name, "counter");
    for attribution in Attribution::ALL.into_iter().filter(|it| it.is_self_inflicted()) {
        let labels = format!("cause=\"{}\"", attribution.label());
        line(out, name, &labels, costs.count(attribution, RequestOutcome::Failed));
    }
}

/// Writes the memory in use and its budget.
pub fn write_memory(used: u64, budget: u64, out: &mut String) {
    for (name, value) in [("fairway_memory_used_bytes", used), ("fairway_memory_budget_bytes", budget)] {
        single(out, name, "gauge", "", value);
    }
}

/// Writes how many endpoints fail their health checks.
pub fn write_failing_checks(count: u64, out: &mut String) {
    single(out, "fairway_endpoints_failing_checks", "gauge", "", count);
}

/// Writes what is under way with backends that limit it, and limits that move.
pub fn write_circuits(circuits: &Circuits, out: &mut String) {
    let under_way = circuits.under_way();
    let name = "fairway_limited_backends_under_way";
    head(out, name, "gauge");
    let counts = [
        ("requests", under_way.requests),
        ("connections", under_way.connections),
        ("pending", under_way.pending),
        ("retries", under_way.retries),
        ("awaiting_response", under_way.awaiting),
    ];
    for (what, count) in counts {
        line(out, name, &format!("what=\"{what}\""), count);
    }
    let name = "fairway_backend_concurrency_limit";
    head(out, name, "gauge");
    for (backend, limit) in circuits.moving_limits() {
        line(out, name, &format!("backend=\"{}\"", escape(&backend)), limit);
    }
}

/// Writes how many replicas share limits of the fleet.
pub fn write_fleet_size(replicas: u32, out: &mut String) {
    single(out, "fairway_fleet_replicas", "gauge", "", replicas);
}

/// Writes how shares of limits of the fleet are lent and borrowed.
pub(crate) fn write_leases(leases: &LeaseFigures, out: &mut String) {
    let counters = [
        ("fairway_fleet_shares_asked_total", "outcome", &leases.asked),
        ("fairway_fleet_shares_answered_total", "outcome", &leases.answered),
        ("fairway_fleet_messages_refused_total", "reason", &leases.refused),
    ];
    for (name, label, counts) in counters {
        head(out, name, "counter");
        for (value, count) in counts {
            line(out, name, &format!("{label}=\"{value}\""), *count);
        }
    }
    single(out, "fairway_fleet_shares_not_asked_total", "counter", "", leases.dropped);
}

/// Writes how many bytes of bodies that are held are on disk.
pub fn write_buffer_disk(used: u64, out: &mut String) {
    single(out, "fairway_body_buffer_disk_bytes", "gauge", "", used);
}

/// Writes the time that each worker, by its number, has spent on CPUs.
pub fn write_cpu(workers: &[(usize, Duration)], out: &mut String) {
    head(out, "fairway_worker_cpu_seconds_total", "counter");
    for (worker, cpu) in workers {
        let labels = format!("worker=\"{worker}\"");
        line(out, "fairway_worker_cpu_seconds_total", &labels, cpu.as_secs_f64());
    }
}

/// Writes how many connections of HTTP/2 each worker has.
pub fn write_spread(workers: &[u64], out: &mut String) {
    head(out, "fairway_http2_connections_open", "gauge");
    for (worker, open) in workers.iter().enumerate() {
        line(out, "fairway_http2_connections_open", &format!("worker=\"{worker}\""), *open);
    }
}

/// Writes which key encrypts the tickets of TLS sessions, and how many tickets none opened.
pub(crate) fn write_tickets(tickets: &TicketFigures, out: &mut String) {
    if let Some(keys) = &tickets.keys {
        let source = match keys.source {
            KeySource::Fixed => "fixed",
            KeySource::Shared => "shared",
            KeySource::Own => "own",
        };
        let labels = format!("source=\"{source}\"");
        single(out, "fairway_tls_ticket_key_age_seconds", "gauge", &labels, keys.age.as_secs());
        single(out, "fairway_tls_ticket_keys", "gauge", "", keys.accepted as u64);
    }
    single(out, "fairway_tls_tickets_unopened_total", "counter", "", tickets.unopened);
}

/// Writes which databases of addresses are in use, and how often a file was refused.
pub(crate) fn write_geoip(files: &[FileFigures], out: &mut String) {
    let used = files.iter().filter_map(|file| {
        let database = file.database.as_ref()?;
        Some((format!("file=\"{}\",type=\"{}\"", escape(&file.path), database.type_name), database))
    });
    let used: Vec<_> = used.collect();
    if files.is_empty() {
        return;
    }
    for (name, value) in [
        ("fairway_geoip_database_built_timestamp_seconds", (|it| it.built) as fn(&DatabaseFigures) -> u64),
        ("fairway_geoip_database_bytes", |it| it.bytes),
    ] {
        head(out, name, "gauge");
        used.iter().for_each(|(labels, database)| line(out, name, labels, value(database)));
    }
    let name = "fairway_geoip_databases_refused_total";
    head(out, name, "counter");
    files.iter().for_each(|file| line(out, name, &format!("file=\"{}\"", escape(&file.path)), file.refused));
}

/// Writes what came of asking OCSP responders, and how many certificates have a valid response.
pub(crate) fn write_stapling(figures: &StaplingFigures, out: &mut String) {
    let name = "fairway_ocsp_fetches_total";
    head(out, name, "counter");
    figures.fetches.iter().for_each(|(result, count)| {
        line(out, name, &format!("result=\"{result}\""), *count);
    });
    single(out, "fairway_ocsp_stapled_certificates", "gauge", "", figures.stapled);
}

/// A metric that has the labels of requests.
struct Family {
    name: &'static str,
    values: Values,
}

enum Values {
    Count(fn(&Series) -> u64),
    Histogram { bounds: &'static [u64], unit: f64, of: fn(&Series) -> Observed<'_> },
}

/// How many units of an observation are one of the metric. Dividing by it gives the decimal fractions that queries name
/// (`le="0.1"`), which multiplying by its inverse does not.
const SECONDS: f64 = 1e6;
const UNITS: f64 = 1.0;

static FAMILIES: [Family; 8] = [
    Family { name: "requests", values: Values::Count(|series| series.requests) },
    seconds("request_duration_seconds", |series| series.request_time.observed()),
    seconds("response_duration_seconds", |series| series.response_time.observed()),
    seconds("header_duration_seconds", |series| series.header_time.observed()),
    seconds("connect_duration_seconds", |series| series.connect_time.observed()),
    bytes("request_size", &LENGTH, |series| series.request_size.observed()),
    bytes("response_size", &LENGTH, |series| series.response_size.observed()),
    bytes("bytes_sent", &SIZE, |series| series.bytes_sent.observed()),
];

const fn seconds(name: &'static str, of: fn(&Series) -> Observed<'_>) -> Family {
    Family { name, values: Values::Histogram { bounds: &TIME, unit: SECONDS, of } }
}

const fn bytes(name: &'static str, bounds: &'static [u64], of: fn(&Series) -> Observed<'_>) -> Family {
    Family { name, values: Values::Histogram { bounds, unit: UNITS, of } }
}

impl Family {
    fn kind(&self) -> &'static str {
        match self.values {
            Values::Count(_) => "counter",
            Values::Histogram { .. } => "histogram",
        }
    }

    /// The lines of one series.
    fn write(&self, labels: &str, series: &Series, out: &mut String) {
        let name = self.name;
        match &self.values {
            Values::Count(of) => writeln!(out, "{REQUESTS}{name}{{{labels}}} {}", of(series)),
            Values::Histogram { bounds, unit, of } => histogram(name, labels, bounds, *unit, of(series), out),
        }
        .expect("a string takes every write");
    }
}

fn histogram(
    name: &str,
    labels: &str,
    bounds: &[u64],
    unit: f64,
    observed: Observed<'_>,
    out: &mut String,
) -> std::fmt::Result {
    let Observed { buckets, count, sum } = observed;
    let mut below = 0;
    for (count, bound) in buckets.iter().zip(bounds) {
        below += count;
        #[expect(clippy::cast_precision_loss, reason = "bucket bounds are small")]
        let bound = *bound as f64 / unit;
        writeln!(out, "{REQUESTS}{name}_bucket{{{labels},le=\"{bound}\"}} {below}")?;
    }
    writeln!(out, "{REQUESTS}{name}_bucket{{{labels},le=\"+Inf\"}} {count}")?;
    #[expect(clippy::cast_precision_loss, reason = "a sum is an approximation to its reader")]
    let sum = sum as f64 / unit;
    writeln!(out, "{REQUESTS}{name}_sum{{{labels}}} {sum}")?;
    writeln!(out, "{REQUESTS}{name}_count{{{labels}}} {count}")
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
        write!(text, "{name}=\"{}\",", escape(value)).expect("a string takes every write");
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
    use crate::metrics::record::Record;
    use crate::metrics::{Counters, Gauges};
    use fairway_net::clock::Instant;

    #[test]
    fn buckets_have_the_bounds_that_dashboards_select() {
        let counters = Counters::default();
        counters.exchange(&Record::new(Instant::now(), 10));
        let text: String = Text::of(counters.sample(Gauges::default()), "controller_pod=\"p\"").collect();
        let name = "nginx_ingress_controller_request_duration_seconds_bucket{";
        let lines = text.lines().filter(|line| line.starts_with(name));
        let bounds: Vec<_> = lines.filter_map(|line| line.split("le=\"").nth(1)?.split('"').next()).collect();
        let expected =
            ["0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "+Inf"];
        assert_eq!(bounds, expected);
        assert!(text.contains("status=\"0\",controller_pod=\"p\"} 1\n"), "{text}");
    }
    #[test]
    fn pieces_end_where_lines_do_and_each_metric_is_in_one_place() {
        let counters = Counters::default();
        for status in 100..1_100 {
            let mut record = Record::new(Instant::now(), 10);
            record.status = status;
            counters.exchange(&record);
        }
        let pieces: Vec<_> = Text::of(counters.sample(Gauges::default()), "").collect();
        assert!(pieces.len() > 20, "{}", pieces.len());
        assert!(pieces.iter().all(|piece| piece.ends_with('\n') && piece.len() < 2 * PIECE));
        let text = pieces.concat();
        let lines = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
        assert_eq!(lines("nginx_ingress_controller_requests{"), 1_000);
        assert_eq!(lines("nginx_ingress_controller_bytes_sent_bucket{"), 8_000);
        assert_eq!(lines("# TYPE nginx_ingress_controller_bytes_sent histogram"), 1);
        // Lines of a metric come together (Prometheus text format, "grouping and sorting").
        let mut metrics: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let count = metrics.len();
        metrics.sort_unstable();
        metrics.dedup();
        assert_eq!(metrics.len(), count);
    }

    #[test]
    fn errors_have_their_series_before_there_are_any() {
        let text: String = Text::of(Sample::default(), "").collect();
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
        let text: String = Text::of(Sample::default(), "").collect();
        for Family { name, .. } in &FAMILIES {
            assert!(text.contains(&format!("# TYPE {REQUESTS}{name} ")), "{name}\n{text}");
        }
    }
}
