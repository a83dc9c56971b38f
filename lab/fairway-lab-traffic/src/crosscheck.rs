//! Validates the load generator: runs wrk, hey, h2load and oha against the same backend and prints their figures next to
//! its own.
//!
//! ```text
//! backend (a process of its own) ◄─ tool, own, own, tool (A B B A), for each tool
//! ```
//!
//! wrk has no fixed rate, so it is compared in a closed loop. The others run at the same rate; they measure from the send
//! time, so they are compared with service times. A tool that is not installed, or whose output lacks a figure, is listed
//! with the reason.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::Context;

use crate::backend::Spawned;
use crate::load::{Pace, Plan, Stream, at_percent};

/// The command fails if rates differ by more than this, in percent.
const TOLERANCE: f64 = 5.0;

/// Arguments of `fairway-lab crosscheck`.
#[derive(clap::Args)]
pub struct CrosscheckArguments {
    /// Requests a second of the tools that can keep a rate; a multiple of --connections, because hey and h2load have a rate
    /// for each connection.
    #[arg(long, default_value_t = 2_000)]
    rate: u64,
    /// Seconds of a run; there are four for each tool.
    #[arg(long, default_value_t = 10)]
    duration: u64,
    /// Connections of each generator.
    #[arg(long, default_value_t = 50)]
    connections: usize,
    /// Delay of responses, as for `fairway-lab backend`. hey and h2load send on all connections at the same moment,
    /// and hey prints tenths of milliseconds: without a delay they would measure their own bursts, and wrk an
    /// overloaded backend.
    #[arg(long, default_value = "5ms")]
    delay: String,
}

/// The compared figures.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figures {
    /// Responses per second.
    rate: f64,
    /// Median latency, milliseconds.
    p50_ms: f64,
    /// 99th percentile, milliseconds.
    p99_ms: f64,
}

/// Another load generator.
struct Tool {
    name: &'static str,
    /// How to install it.
    source: &'static str,
    has_rate: bool,
    /// Its options: seconds `{s}`, connections `{c}`, requests per second in total `{q}` and per connection `{e}`, a log
    /// `{log}`.
    options: &'static str,
    /// Parses its output and its log.
    read: fn(&str, &str) -> anyhow::Result<Figures>,
}

const TOOLS: [Tool; 4] = [
    Tool {
        name: "wrk",
        source: "apt-get install wrk",
        has_rate: false,
        options: "-t1 -c{c} -d{s}s --latency",
        read: |text, _| {
            let [p50_ms, p99_ms] = ["50%", "99%"].map(|label| after(text, label).and_then(milliseconds));
            Ok(Figures { rate: number(after(text, "Requests/sec:")?)?, p50_ms: p50_ms?, p99_ms: p99_ms? })
        },
    },
    Tool {
        name: "hey",
        source: "apt-get install hey",
        has_rate: true,
        options: "-z {s}s -c {c} -q {e} -cpus 1",
        read: |text, _| {
            let seconds = |label| after(text, label).and_then(number);
            Ok(Figures {
                rate: seconds("Requests/sec:")?,
                p50_ms: seconds("50% in")? * 1e3,
                p99_ms: seconds("99% in")? * 1e3,
            })
        },
    },
    Tool {
        name: "h2load",
        source: "apt-get install nghttp2-client",
        has_rate: true,
        options: "--h1 -t1 -c{c} -D{s} --rps={e} --log-file={log}",
        read: of_h2load,
    },
    Tool {
        name: "oha",
        source: "cargo install oha --locked",
        has_rate: true,
        options: "--no-tui --output-format json -z {s}s -c {c} -q {q}",
        read: |text, _| {
            let document: serde_json::Value = serde_json::from_str(text).context("read its JSON")?;
            let number = |place: &str| {
                let number = document.pointer(place).and_then(serde_json::Value::as_f64);
                number.with_context(|| format!("it printed no {place}"))
            };
            Ok(Figures {
                rate: number("/summary/requestsPerSec")?,
                p50_ms: number("/latencyPercentiles/p50")? * 1e3,
                p99_ms: number("/latencyPercentiles/p99")? * 1e3,
            })
        },
    },
];

impl CrosscheckArguments {
    /// Runs the comparison.
    ///
    /// # Errors
    /// Input that cannot be used, or a run of the own generator that failed.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        anyhow::ensure!(
            self.connections > 0 && self.duration > 0,
            "--connections and --duration must be above 0"
        );
        anyhow::ensure!(
            self.rate > 0 && self.rate.is_multiple_of(self.connections as u64),
            "--rate {} is not a multiple of --connections {}: hey and h2load have a rate for each connection",
            self.rate,
            self.connections
        );
        let program = std::env::current_exe().context("find this program")?;
        let backend = Spawned::start(&program, 1, &["--delay", &self.delay])?;
        let url = format!("http://{}/", backend.addresses()[0]);
        let mut out = io::stdout();
        writeln!(
            out,
            "{:<10} {:>12} {:>12} {:>10} {:>10}",
            "generator", "case", "requests/s", "p50 ms", "p99 ms"
        )?;
        let mut agree = true;
        for tool in &TOOLS {
            let first = match self.tool_figures(tool, &url) {
                Ok(first) => first,
                Err(reason) => {
                    writeln!(out, "{:<10} absent: {reason:#}", tool.name)?;
                    continue;
                }
            };
            let own_runs = [self.own_figures(&url, tool.has_rate)?, self.own_figures(&url, tool.has_rate)?];
            let last = self.tool_figures(tool, &url)?;
            let case = if tool.has_rate { format!("{}/s", self.rate) } else { "closed loop".to_owned() };
            for (name, Figures { rate, p50_ms, p99_ms }) in
                [(tool.name, first), ("own", own_runs[0]), ("own", own_runs[1]), (tool.name, last)]
            {
                writeln!(out, "{name:<10} {case:>12} {rate:>12.1} {p50_ms:>10.3} {p99_ms:>10.3}")?;
            }
            let off = ((first.rate + last.rate) / (own_runs[0].rate + own_runs[1].rate) - 1.0) * 100.0;
            let verdict = if off.abs() <= TOLERANCE { "agrees within 5%" } else { "DISAGREES" };
            agree &= off.abs() <= TOLERANCE;
            writeln!(out, "  {} against own: {off:+.1}%, rate {verdict}", tool.name)?;
        }
        Ok(if agree { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Runs the laboratory's generator once; latency counts from the send time, as in the tools.
    fn own_figures(&self, url: &str, has_rate: bool) -> anyhow::Result<Figures> {
        let mut plan = Plan::for_url(url)?;
        if has_rate {
            plan.pace = Pace::Open { rate: self.rate as f64, poisson: false };
        }
        plan.shape.connections = self.connections;
        plan.bounds.duration = Some(Duration::from_secs(self.duration));
        let load = Stream::start(plan)?.join()?.load;
        let at = |percent| at_percent(&load.service, percent).unwrap_or_default();
        Ok(Figures { rate: load.rate, p50_ms: at(50.0), p99_ms: at(99.0) })
    }

    /// Runs a tool once.
    fn tool_figures(&self, tool: &Tool, url: &str) -> anyhow::Result<Figures> {
        let log = tempfile::NamedTempFile::new().context("make room for a log")?;
        let each = self.rate / self.connections as u64;
        let options = tool
            .options
            .replace("{s}", &self.duration.to_string())
            .replace("{c}", &self.connections.to_string())
            .replace("{q}", &self.rate.to_string())
            .replace("{e}", &each.to_string());
        let option = |word: &str| word.replace("{log}", &log.path().display().to_string());
        let output = Command::new(tool.name)
            .args(options.split(' ').map(option))
            .arg(url)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("it cannot be started ({} gets it)", tool.source))?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "it ended with {}: {}", output.status, stderr.trim());
        (tool.read)(&String::from_utf8_lossy(&output.stdout), &read(log.path())?)
    }
}

fn read(log: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(log).context("read its log")
}

/// `h2load` prints no percentiles, but logs every request (start, status, microseconds).
fn of_h2load(text: &str, log: &str) -> anyhow::Result<Figures> {
    let rate = after(text, "finished in")?.split(',').nth(1).context("it printed no rate")?;
    let mut micros: Vec<u64> =
        log.lines().filter_map(|line| line.split('\t').nth(2)?.trim().parse().ok()).collect();
    anyhow::ensure!(!micros.is_empty(), "it logged no request");
    micros.sort_unstable();
    let at = |quantile: f64| micros[((micros.len() - 1) as f64 * quantile).round() as usize] as f64 / 1e3;
    Ok(Figures { rate: number(rate)?, p50_ms: at(0.5), p99_ms: at(0.99) })
}

/// The rest of the first line that starts with a label.
fn after<'a>(text: &'a str, label: &str) -> anyhow::Result<&'a str> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(label));
    line.map(str::trim).with_context(|| format!("it printed no line with {label:?}"))
}

/// The number at the beginning.
fn number(text: &str) -> anyhow::Result<f64> {
    let word = text.split_whitespace().next().unwrap_or_default();
    word.parse().with_context(|| format!("{text:?} is no number"))
}

/// `12.34us`, `1.2ms`, `3.4s`, as wrk prints them.
fn milliseconds(text: &str) -> anyhow::Result<f64> {
    let units = [("us", 1e-3), ("ms", 1.0), ("s", 1e3), ("m", 6e4)];
    let read = |(unit, factor): (&str, f64)| Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * factor);
    units.into_iter().find_map(read).with_context(|| format!("{text:?} is no length of time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(name: &str, text: &str, log: &str) -> anyhow::Result<Figures> {
        let tool = TOOLS.iter().find(|tool| tool.name == name).unwrap();
        (tool.read)(text, log)
    }

    #[test]
    fn the_output_of_each_tool_is_parsed() {
        let wrk = "  Latency Distribution\n     50%  635.00us\n     75%    1.00ms\n     99%    2.50ms\nRequests/sec:  71234.56\n";
        let hey = "  Requests/sec:\t2000.0\n  50% in 0.5 secs\n  99% in 0.75 secs\n";
        let oha = r#"{"summary":{"requestsPerSec":2000.5},"latencyPercentiles":{"p50":0.5,"p99":0.75}}"#;
        let h2load = "finished in 10.00s, 1998.70 req/s, 2.31MB/s\n";
        for (name, text, log, rate, p50_ms, p99_ms) in [
            ("wrk", wrk, "", 71_234.56, 0.635, 2.5),
            ("hey", hey, "", 2_000.0, 500.0, 750.0),
            ("oha", oha, "", 2_000.5, 500.0, 750.0),
            ("h2load", h2load, "1\t200\t100\n2\t200\t300\n3\t200\t200\n", 1_998.7, 0.2, 0.3),
        ] {
            assert_eq!(figures(name, text, log).unwrap(), Figures { rate, p50_ms, p99_ms }, "{name}");
        }
    }

    #[test]
    fn output_without_the_figures_is_an_error_that_names_them() {
        for (name, text, missing) in [
            ("wrk", "unable to connect", "50%"),
            ("oha", "{}", "requestsPerSec"),
            ("h2load", "finished in 1s, 2 req/s, x", "no request"),
        ] {
            let error = figures(name, text, "").unwrap_err().to_string();
            assert!(error.contains(missing) || error.contains("Requests/sec"), "{name}: {error}");
        }
    }
}
