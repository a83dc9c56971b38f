//! The table of what clients saw and what it cost: RPS, TPS, Gbit/s and percentiles beside CPU per request, for every
//! case and peer. Never draws.

use fairway_lab_results::Run;

use super::builder::PageBuilder;
use super::html::{Cell, Table};
use super::number::{self, UNKNOWN};
use super::pool::{Pool, by_phase, distinct, titled, whole};

const COLUMNS: [&str; 15] = [
    "peer",
    "#RPS",
    "#TPS",
    "#Gbit/s",
    "#CPU µs / request",
    "#p50 ms",
    "#p75 ms",
    "#p90 ms",
    "#p99 ms",
    "#p99.9 ms",
    "#max ms",
    "#failed",
    "#requests",
    "#CPUs",
    "#memory",
];

/// The table of a run, and folded the same by phase where there are phases.
pub(super) fn table(run: &Run, builder: &mut PageBuilder) {
    let pools = whole(run, &builder.palette);
    if pools.is_empty() {
        if run.propagations.is_empty() {
            builder.note("No stream of this scenario ended; there is nothing to show.");
        }
        return;
    }
    builder.reading("RPS are complete answers a second, TPS are TLS handshakes a second, Gbit/s are bytes of answers. Percentiles count from the time at which a request was due; * marks one with fewer than 10 samples above it. CPU is that of the proxy alone. Blocks of a peer are one row: sums divided by sums, and one distribution merged from theirs (even, on the logarithm, between the percentiles that were kept). direct is no proxy but the streams straight to the pods, all of them together. A dash is what could not be read.");
    filled("What clients saw, and what it cost", &pools, builder);
    let phases = by_phase(run, &builder.palette);
    if distinct(phases.iter().map(|pool| pool.phase)).len() > 1 {
        builder.folded("Each phase by itself", |builder| filled("Phases", &phases, builder));
    }
}

fn filled(caption: &str, pools: &[Pool<'_>], builder: &mut PageBuilder) {
    let mut table = Table::new(caption, &COLUMNS);
    for pool in pools {
        let case = titled(pool.case, pool.workers);
        table.group(&if pool.phase.is_empty() { case } else { format!("{case}: {}", pool.phase) });
        table.row(row(pool, builder));
    }
    builder.table(&table);
}

fn row(pool: &Pool<'_>, builder: &PageBuilder) -> Vec<Cell> {
    let failed = pool.failed();
    let mut cells = vec![
        Cell::Markup(builder.palette.cell(pool.peer, pool.settings)),
        Cell::Number(number::figure(pool.rate())),
        Cell::Number(number::figure(pool.handshakes())),
        Cell::Number(number::figure(pool.gigabits())),
        Cell::Number(number::maybe(pool.cpu())),
    ];
    cells.extend([50.0, 75.0, 90.0, 99.0, 99.9].map(|percent| Cell::Number(percentile(pool, percent))));
    cells.extend([
        Cell::Number(number::maybe(pool.highest())),
        if failed > 0 { Cell::Bad(number::count(failed)) } else { Cell::Number("0".to_owned()) },
        Cell::Number(number::count(pool.requests())),
        Cell::Number(number::maybe(pool.cpus())),
        Cell::Number(pool.memory().map_or_else(|| UNKNOWN.to_owned(), number::bytes)),
    ]);
    cells
}

/// A percentile, if it stands on ten values above it.
pub(super) fn percentile(pool: &Pool<'_>, percent: f64) -> String {
    let known = pool.percentile(percent).filter(|point| point.above >= 10);
    known.map_or_else(|| UNKNOWN.to_owned(), |point| number::figure(point.ms))
}
