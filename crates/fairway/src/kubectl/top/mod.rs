//! `top`: shows requests per second, errors and latency per route, from two scrapes of the metrics of all pods.
//!
//! [`traffic`] parses the counters of a scrape, [`samples`] scrapes the pods and compares two scrapes.

mod samples;
mod traffic;

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use fairway_model::on_one_line;
use serde::Serialize;
use tokio::time::sleep;

use super::fleet::Fleet;
use super::listing::{self, Row};
use super::scope::Scope;
use crate::args::{ListFormat, TopArgs};
use crate::terminal::PlainText;
use samples::{Measurement, Samples};
use traffic::{Quantile, Rate};

/// A shorter interval would count few requests and keep the pods busy with scrapes.
const MIN_INTERVAL: Duration = Duration::from_millis(500);
const MAX_INTERVAL: Duration = Duration::from_secs(3_600);

/// Escape sequences: move the cursor to the upper left corner, clear the rest of the line, clear everything below.
const CURSOR_HOME: &str = "\u{1b}[H";
const CLEAR_LINE: &str = "\u{1b}[K";
const CLEAR_BELOW: &str = "\u{1b}[J";

/// A row of the listing: a route and its requests.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RouteRow {
    namespace: String,
    route: String,
    host: String,
    path: String,
    service: String,
    requests_per_second: f64,
    /// The share of requests with a status of 500 or more.
    error_ratio: f64,
    /// Upper bounds in seconds; `None` if the quantile is above the largest bucket.
    p50_seconds: Option<f64>,
    p99_seconds: Option<f64>,
    #[serde(skip)]
    p50: String,
    #[serde(skip)]
    p99: String,
}

/// Measures once, or repeatedly until Ctrl-C.
pub(super) async fn top(args: &TopArgs) -> Result<ExitCode> {
    let interval = args.interval.clamp(MIN_INTERVAL, MAX_INTERVAL);
    let mut fleet = Fleet::find_one(&args.target).await?;
    let scope = Scope::new(&args.scope, fleet.default_namespace());
    let once = args.once || matches!(args.output, ListFormat::Json | ListFormat::Yaml);
    let screen = !once && io::stdout().is_terminal();
    let mut earlier = Samples::scrape_all(&fleet).await?;
    loop {
        sleep(interval).await;
        fleet.refresh().await;
        let now = Samples::scrape_all(&fleet).await?;
        let measured = now.since(&earlier);
        let rows = rows(&measured, &scope);
        if screen {
            draw(&frame(args, &rows, &measured, &scope))?;
        } else {
            let nothing = format!("no requests for routes of {scope}{}", scope.hint());
            listing::print(&rows[..rows.len().min(args.limit)], args.output, &nothing)?;
            for problem in &measured.problems {
                writeln!(PlainText(io::stderr()), "{problem}")?;
            }
        }
        if once {
            let is_well = measured.problems.is_empty();
            return Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::from(1) });
        }
        earlier = now;
    }
}

/// The routes with requests, the busiest first.
fn rows(measured: &Measurement, scope: &Scope) -> Vec<RouteRow> {
    let rates = measured.rates.iter().filter(|(name, _)| scope.includes(&name.namespace));
    let rates = rates.filter(|(_, rate)| rate.counts.requests > 0.0);
    let mut rows: Vec<_> = rates
        .map(|(name, rate)| {
            let [p50, p99] = [0.5, 0.99].map(|quantile| rate.counts.quantile(quantile));
            RouteRow {
                namespace: name.namespace.clone(),
                route: name.route.clone(),
                host: name.host.clone(),
                path: name.path.clone(),
                service: name.service.clone(),
                requests_per_second: rate.per_second,
                error_ratio: error_ratio(rate),
                p50_seconds: p50.and_then(Quantile::bound),
                p99_seconds: p99.and_then(Quantile::bound),
                p50: p50.map(|it| it.to_string()).unwrap_or_default(),
                p99: p99.map(|it| it.to_string()).unwrap_or_default(),
            }
        })
        .collect();
    rows.sort_by(|a, b| b.requests_per_second.total_cmp(&a.requests_per_second));
    rows
}

fn error_ratio(rate: &Rate) -> f64 {
    rate.counts.errors / rate.counts.requests
}

/// The text that a terminal shows.
fn frame(args: &TopArgs, rows: &[RouteRow], measured: &Measurement, scope: &Scope) -> String {
    let total: f64 = rows.iter().map(|row| row.requests_per_second).sum();
    let mut frame = String::new();
    let pods = match measured.replicas {
        1 => "1 pod".to_owned(),
        pods => format!("{pods} pods"),
    };
    let routes = rows.len();
    _ = writeln!(frame, "{total:.1} requests/s on {routes} routes of {scope}, {pods}; Ctrl-C to exit");
    _ = writeln!(frame);
    let shown = &rows[..routes.min(args.limit)];
    for line in listing::table(shown, args.output == ListFormat::Wide).lines() {
        _ = writeln!(frame, "{line}");
    }
    if routes > shown.len() {
        _ = writeln!(frame, "and {} more; --limit shows more", routes - shown.len());
    }
    for problem in &measured.problems {
        _ = writeln!(frame, "{}", on_one_line(problem));
    }
    frame
}

/// Draws over the previous frame.
fn draw(frame: &str) -> Result<()> {
    let mut text = CURSOR_HOME.to_owned();
    for line in frame.lines() {
        _ = write!(text, "{line}{CLEAR_LINE}\r\n");
    }
    text.push_str(CLEAR_BELOW);
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

impl Row for RouteRow {
    const HEADINGS: &'static [&'static str] =
        &["NAMESPACE", "ROUTE", "HOST", "PATH", "REQ/S", "ERRORS", "P50", "P99"];
    const WIDE_HEADINGS: &'static [&'static str] = &["SERVICE"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.namespace.clone(),
            self.route.clone(),
            self.host.clone(),
            self.path.clone(),
            format!("{:.1}", self.requests_per_second),
            format!("{:.1}%", self.error_ratio * 100.0),
            self.p50.clone(),
            self.p99.clone(),
        ]
    }

    fn wide_cells(&self) -> Vec<String> {
        vec![self.service.clone()]
    }
}
