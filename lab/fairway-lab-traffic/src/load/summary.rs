//! The results of a stream as text, laid out like wrk2 (latency distribution, socket errors), hey (status codes) and vegeta
//! (latencies, success).

use std::fmt;

use fairway_lab_measure::results::{Class, Latency};

use super::outcome::{Outcome, at_percent};
use super::plan::{Pace, Plan, Protocol};

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    AsPlanned,
    /// Interrupted by Ctrl-C.
    Interrupted,
}

/// The summary of a stream.
pub(super) struct Summary<'a> {
    pub(super) plan: &'a Plan,
    pub(super) outcome: &'a Outcome,
    pub(super) ended: Ended,
}

/// The percentiles of wrk2's table.
const DISTRIBUTION: [f64; 9] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999, 99.9999];

impl fmt::Display for Summary<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ended == Ended::Interrupted {
            writeln!(out, "PARTIAL: interrupted before the end of the plan; this is what there is")?;
        }
        self.head(out)?;
        self.latencies(out)?;
        self.totals(out)?;
        self.errors(out)
    }
}

impl Summary<'_> {
    fn head(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (plan, load) = (self.plan, &self.outcome.load);
        let scheme = if plan.wire.tls.is_some() { "https" } else { "http" };
        let (authority, path) = (&plan.target.authority, &plan.request.paths[0]);
        writeln!(out, "Running {:.1}s test @ {scheme}://{authority}{path}", load.seconds)?;
        write!(out, "  {} threads and {} connections", load.offered.threads, load.offered.connections)?;
        match plan.wire.protocol {
            Protocol::Http2 => write!(out, " of HTTP/2 with {} streams", plan.shape.streams)?,
            Protocol::Http3 => write!(out, " of HTTP/3 with {} streams", plan.shape.streams)?,
            Protocol::Http1 | Protocol::Datagrams => {}
        }
        match plan.pace {
            Pace::Closed => writeln!(out, " (closed loop)")?,
            Pace::Open { rate, poisson } => {
                let gaps = if poisson { "Poisson" } else { "constant" };
                writeln!(out, ", {rate} requests/s (open loop, {gaps})")?;
            }
        }
        if let Some(tls) = &load.tls {
            let key = tls.key.as_deref().unwrap_or("unknown key");
            write!(out, "  TLS {}, {}, {key}, {}", tls.version, tls.cipher, tls.protocol)?;
            for known in [&tls.group, &tls.signature].into_iter().flatten() {
                write!(out, ", {known}")?;
            }
            let (full, resumed) = (load.counts.full_handshakes, load.counts.resumed_handshakes);
            let tickets = load.counts.tickets;
            writeln!(out, "\n  TLS handshakes: {full} full, {resumed} resumed, {tickets} tickets")?;
        }
        Ok(())
    }

    fn latencies(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let load = &self.outcome.load;
        if load.latency.count == 0 {
            return writeln!(out, "  No complete answer, so no latency");
        }
        let is_open = load.offered.rate.is_some();
        let from = if is_open { "from the intended time" } else { "from the send time" };
        writeln!(out, "  Latency Distribution (HdrHistogram, {from})")?;
        for percent in DISTRIBUTION {
            let Some(point) = load.latency.percentiles.iter().find(|point| point.percent == percent) else {
                continue;
            };
            let mark = if point.above < 10 { "  (fewer than 10 above)" } else { "" };
            writeln!(out, "  {percent:>8.4}%  {}{mark}", ms(point.ms))?;
        }
        writeln!(out, "  {:>8.4}%  {}", 100.0, ms(load.latency.max_ms))?;
        writeln!(out, "Latencies     [mean, 50, 90, 95, 99, max]  {}", points(&load.latency))?;
        writeln!(out, "Service times [mean, 50, 90, 95, 99, max]  {}", points(&load.service))?;
        if is_open {
            // A closed loop has no intended times.
            let late = &load.lateness;
            let points = [late.p50_ms, late.p99_ms, late.p999_ms, late.max_ms].map(ms).join(", ");
            writeln!(out, "Lateness of the generator [50, 99, 99.9, max]  {points}")?;
        }
        Ok(())
    }

    fn totals(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let load = &self.outcome.load;
        let counts = &load.counts;
        let megabytes = counts.bytes as f64 / 1e6;
        write!(out, "  {} requests in {:.2}s, {megabytes:.2}MB read, ", counts.requests, load.seconds)?;
        writeln!(out, "{} connections opened", counts.connections)?;
        writeln!(out, "Requests/sec: {:>12.2}", load.rate)?;
        writeln!(out, "Transfer/sec: {:>12.2}MB", load.bytes_rate / 1e6)?;
        let success = if counts.requests == 0 { 0.0 } else { counts.ok as f64 / counts.requests as f64 };
        writeln!(out, "Success       [ratio]  {:.4}%", success * 100.0)
    }

    fn errors(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errors = &self.outcome.load.errors;
        let sum_of =
            |classes: &[Class]| -> u64 { classes.iter().filter_map(|class| errors.get(class)).sum() };
        let connect = sum_of(&[Class::ConnectRefused, Class::ConnectReset, Class::ConnectOther, Class::Tls]);
        let read = sum_of(&[Class::ReadReset, Class::ReadEof, Class::Truncated, Class::Malformed]);
        let timeout =
            sum_of(&[Class::ConnectTimeout, Class::TlsTimeout, Class::HeadTimeout, Class::BodyTimeout]);
        writeln!(
            out,
            "  Socket errors: connect {connect}, read {read}, write {}, timeout {timeout}",
            sum_of(&[Class::Write])
        )?;
        writeln!(out, "Status code distribution:")?;
        let wrong_route = sum_of(&[Class::WrongRoute]);
        writeln!(out, "  [expected] {} responses", self.outcome.load.counts.ok + wrong_route)?;
        for (class, count) in errors {
            if let Class::Status(status) = class {
                writeln!(out, "  [{status}] {count} responses")?;
            }
        }
        if errors.is_empty() {
            return Ok(());
        }
        writeln!(out, "Errors by class:")?;
        for (class, count) in errors {
            writeln!(out, "  {:<16} {count}", class.name())?;
            for example in self.outcome.load.examples.iter().filter(|example| example.class == *class) {
                let after = ms(example.after_ms);
                writeln!(out, "    at {:.3} s, after {after}: {}", example.at_s, example.text)?;
            }
        }
        Ok(())
    }
}

fn points(latency: &Latency) -> String {
    let at = |percent| at_percent(latency, percent).unwrap_or_default();
    [latency.mean_ms, at(50.0), at(90.0), at(95.0), at(99.0), latency.max_ms].map(ms).join(", ")
}

/// Formats a time like wrk2.
fn ms(ms: f64) -> String {
    if ms >= 1_000.0 {
        format!("{:.2}s", ms / 1e3)
    } else if ms >= 1.0 {
        format!("{ms:.2}ms")
    } else {
        format!("{:.0}us", ms * 1e3)
    }
}
