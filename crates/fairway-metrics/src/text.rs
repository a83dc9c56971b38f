//! Metrics in the Prometheus text format: our own names, and those of ingress-nginx for requests, so that its
//! dashboards and alerts go on working. Names and labels: docs/metrics.md.

use std::fmt::Write;
use std::time::Duration;

use crate::histogram::{Histogram, LENGTH, SIZE, TIME};
use crate::lines::{escape, head, joined, line, single};
use crate::process::Traffic;
use crate::reason::Stage;
use crate::sample::Sample;
use crate::series::{Series, SeriesLabels, merged};

const REQUESTS: &str = "nginx_ingress_controller_";

/// Writes everything of `sample`; `identity` are the labels that say in ingress-nginx which controller a metric is of.
pub fn write(sample: Sample, identity: &str, out: &mut String) {
    Traffic::of(&sample).write(identity, out);
    let Sample { counts, hedges, gauges, open_connections, reasons, http2, upstream_http2, series } = sample;
    for (name, value) in &counts {
        single(out, (&format!("fairway_{name}"), "counter"), "", value);
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
        ("fairway_streams_open", gauges.streams),
    ] {
        single(out, (name, "gauge"), "", value);
    }
    single(out, ("fairway_config_adoption_seconds", "gauge"), "", gauges.adoption.as_secs_f64());
    head(out, "fairway_refused_connections_total", "counter");
    head(out, "fairway_faults_total", "counter");
    head(out, "fairway_grpc_calls_total", "counter");
    head(out, "fairway_streams_ended_total", "counter");
    for ((stage, reason), value) in &reasons {
        let (name, label) = match stage {
            Stage::Connection => ("fairway_refused_connections_total", "reason"),
            Stage::Exchange => ("fairway_faults_total", "reason"),
            Stage::Call => ("fairway_grpc_calls_total", "status"),
            Stage::Stream => ("fairway_streams_ended_total", "reason"),
        };
        line(out, name, &format!("{label}=\"{reason}\""), *value);
    }
    for (name, events) in
        [("fairway_http2_events_total", &http2), ("fairway_upstream_http2_events_total", &upstream_http2)]
    {
        head(out, name, "counter");
        for ((event, reason), value) in events {
            line(out, name, &format!("event=\"{event}\",reason=\"{reason}\""), *value);
        }
    }
    let merged = merged(series).into_iter();
    let mut sorted: Vec<(String, Series)> =
        merged.map(|series| (joined(&labels(&series.labels), identity), series)).collect();
    sorted.sort_by(|left, right| left.0.cmp(&right.0));
    single(out, ("fairway_metrics_series", "gauge"), "", sorted.len());
    requests(&sorted, out);
}

/// Writes the memory in use and its budget.
pub fn write_memory((used, budget): (u64, u64), out: &mut String) {
    for (name, value) in [("fairway_memory_used_bytes", used), ("fairway_memory_budget_bytes", budget)] {
        single(out, (name, "gauge"), "", value);
    }
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

fn requests(all: &[(String, Series)], out: &mut String) {
    let name = format!("{REQUESTS}requests");
    head(out, &name, "counter");
    for (labels, series) in all {
        line(out, &name, labels, series.requests);
    }
    family(out, "request_duration_seconds", all, |series| (&series.request_time, &TIME, SECONDS));
    family(out, "response_duration_seconds", all, |series| (&series.response_time, &TIME, SECONDS));
    family(out, "header_duration_seconds", all, |series| (&series.header_time, &TIME, SECONDS));
    family(out, "connect_duration_seconds", all, |series| (&series.connect_time, &TIME, SECONDS));
    family(out, "request_size", all, |series| (&series.request_size, &LENGTH, UNITS));
    family(out, "response_size", all, |series| (&series.response_size, &LENGTH, UNITS));
    family(out, "bytes_sent", all, |series| (&series.bytes_sent, &SIZE, UNITS));
}

/// How many units of an observation are one of the metric. Dividing by it gives the decimal fractions that queries name
/// (`le="0.1"`), which multiplying by its inverse does not.
const SECONDS: f64 = 1e6;
const UNITS: f64 = 1.0;

fn family<const N: usize>(
    out: &mut String,
    suffix: &str,
    all: &[(String, Series)],
    of: impl Fn(&Series) -> (&Histogram<N>, &'static [u64; N], f64),
) {
    let name = format!("{REQUESTS}{suffix}");
    head(out, &name, "histogram");
    for (labels, series) in all {
        let (histogram, bounds, unit) = of(series);
        let mut below = 0;
        for (count, bound) in histogram.buckets.iter().zip(bounds) {
            below += count;
            #[expect(clippy::cast_precision_loss, reason = "bucket bounds are small")]
            let bound = *bound as f64 / unit;
            line(out, &format!("{name}_bucket"), &format!("{labels},le=\"{bound}\""), below);
        }
        line(out, &format!("{name}_bucket"), &format!("{labels},le=\"+Inf\""), histogram.count);
        #[expect(clippy::cast_precision_loss, reason = "a sum is an approximation to its reader")]
        let sum = histogram.sum as f64 / unit;
        writeln!(out, "{name}_sum{{{labels}}} {sum}").expect("a string takes every write");
        line(out, &format!("{name}_count"), labels, histogram.count);
    }
}

fn labels(labels: &SeriesLabels) -> String {
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

fn method(method: fairway_message::Method) -> &'static str {
    use fairway_message::Method;
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
    use crate::record::Record;
    use crate::{Counters, Gauges};
    use fairway_runtime::clock::Instant;

    #[test]
    fn buckets_have_the_bounds_that_dashboards_select() {
        let counters = Counters::default();
        counters.exchange(&Record::new(Instant::now(), 10));
        let mut text = String::new();
        write(counters.sample(Gauges::default()), "controller_pod=\"p\"", &mut text);
        let name = "nginx_ingress_controller_request_duration_seconds_bucket{";
        let lines = text.lines().filter(|line| line.starts_with(name));
        let bounds: Vec<_> = lines.filter_map(|line| line.split("le=\"").nth(1)?.split('"').next()).collect();
        let expected =
            ["0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "+Inf"];
        assert_eq!(bounds, expected);
        assert!(text.contains("status=\"0\",controller_pod=\"p\"} 1\n"), "{text}");
    }
}
