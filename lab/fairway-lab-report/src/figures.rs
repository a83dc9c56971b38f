//! The table of what clients saw and what it cost: RPS, TPS, Gbit/s and percentiles beside CPU per request, for every
//! case and peer. Never draws.

use fairway_lab_measure::results::Settings;

use super::builder::PageBuilder;
use super::gather::Scenario;
use super::number::{self, TOO_FEW, UNKNOWN};
use super::poisson;
use super::pool::{ENOUGH_ROUNDS, Pool, by_phase, distinct, titled, whole};
use super::table::{Cell, Table};

const COLUMNS: [&str; 16] = [
    "peer",
    "#RPS",
    "#failed",
    "#of requests",
    "#failed of a million (95% interval)",
    "#p50 ms",
    "#p75 ms",
    "#p90 ms",
    "#p99 ms",
    "#p99.9 ms",
    "#max ms",
    "#CPU µs / request",
    "#CPUs",
    "#memory",
    "#TPS",
    "#Gbit/s",
];

/// The table of a run, and folded the same by phase where there are phases.
pub(super) fn table(run: &Scenario, builder: &mut PageBuilder<'_>) {
    let pools = whole(run, builder.palette);
    if pools.is_empty() {
        if run.propagations.is_empty() && run.supplement.findings.is_empty() {
            builder.note("No stream of this scenario ended; there is nothing to show.");
        }
        return;
    }
    builder.reading("RPS are complete answers a second, TPS are TLS handshakes a second, Gbit/s are bytes of answers. Percentiles count from the time at which a request was due; one with fewer than ten values above it is not shown. The share of failed requests has the exact interval of a Poisson count: no failure in 24,000 requests is no proof that there is none in a million. CPU is that of the proxy alone. Blocks of a peer are one row: sums divided by sums, and one distribution merged from theirs (even, on the logarithm, between the percentiles that were kept). direct is no proxy but the streams straight to the pods, all of them together. A dash is what could not be read.");
    of_rounds(run, builder);
    filled("What clients saw, and what it cost", &pools, builder);
    let phases = by_phase(run, builder.palette);
    if distinct(phases.iter().map(|pool| pool.phase)).len() > 1 {
        builder.folded("Each phase by itself", |builder| filled("Phases", &phases, builder));
    }
}

/// Says how rounds become one figure.
fn of_rounds(run: &Scenario, builder: &mut PageBuilder<'_>) {
    let text = match run.rounds() {
        1 => "Everything here is of one round, so that percentiles have no range: how much they would differ from one round to the next is not known.".to_owned(),
        rounds if rounds < ENOUGH_ROUNDS => format!("{rounds} rounds: counts are their sums, a percentile is the median of the rounds. For a range of rounds there are too few; it takes {ENOUGH_ROUNDS}."),
        rounds => format!("{rounds} rounds: counts are their sums, a percentile is the median of the rounds, and in brackets stand the lowest and the highest round."),
    };
    builder.note(&text);
}

/// The heading of a part of a table: the case, and its settings if they are not the recommended ones.
pub(super) fn part(case: &str, settings: Settings) -> String {
    match settings {
        Settings::Recommended => case.to_owned(),
        Settings::Defaults => format!("{case}, default settings"),
    }
}

fn filled(caption: &str, pools: &[Pool<'_>], builder: &mut PageBuilder<'_>) {
    let mut table = Table::new(caption, &COLUMNS);
    for pool in pools {
        let case = part(&titled(pool.case, pool.workers), pool.settings);
        table.group(&if pool.phase.is_empty() { case } else { format!("{case}: {}", pool.phase) });
        table.row(row(pool, builder));
    }
    builder.table(table);
}

fn row(pool: &Pool<'_>, builder: &PageBuilder<'_>) -> Vec<Cell> {
    let failed = pool.failed();
    let mut cells = vec![
        builder.palette.cell(pool.peer, pool.settings),
        Cell::Number(number::figure(pool.rate())),
        if failed > 0 { Cell::Bad(number::count(failed)) } else { Cell::Number("0".to_owned()) },
        Cell::Number(number::count(pool.requests())),
        Cell::Number(below(&rate_of_loss(failed, pool.requests()))),
    ];
    cells.extend(
        [50.0, 75.0, 90.0, 99.0, 99.9].map(|percent| Cell::Number(below(&percentile(pool, percent)))),
    );
    cells.extend([
        Cell::Number(number::maybe(pool.highest())),
        Cell::Number(number::maybe(pool.cpu())),
        Cell::Number(number::maybe(pool.cpus())),
        Cell::Number(pool.memory().map_or_else(|| UNKNOWN.to_owned(), number::bytes)),
        Cell::Number(number::figure(pool.handshakes())),
        Cell::Number(number::figure(pool.gigabits())),
    ]);
    cells
}

/// What stands in brackets on a line of its own, so that a table with many columns stays narrow.
fn below(text: &str) -> String {
    text.replace(" (", "\n(")
}

/// A percentile, if it stands on ten values above it.
pub(super) fn percentile(pool: &Pool<'_>, percent: f64) -> String {
    let known = pool.percentile(percent);
    known.map_or_else(|| TOO_FEW.to_owned(), |point| number::with_range(point.ms, point.range))
}

/// `1,792 (1,297 – 2,413)`: lost requests of a million, with the exact interval of a Poisson count.
pub(super) fn rate_of_loss(failed: u64, of: u64) -> String {
    if of == 0 {
        return UNKNOWN.to_owned();
    }
    let million = |events: f64| number::figure(events * 1e6 / of as f64);
    let (low, high) = poisson::interval(failed);
    format!("{} ({} – {})", million(failed as f64), million(low), million(high))
}

#[cfg(test)]
mod tests {
    use super::rate_of_loss;

    #[test]
    fn losses_are_a_rate_with_its_exact_interval() {
        // Garwood: 0 events have [0, 3.69], 10 have [4.80, 18.39].
        assert_eq!(rate_of_loss(0, 1_000_000), "0 (0 – 3.69)");
        assert_eq!(rate_of_loss(10, 100_000), "100 (48.0 – 184)");
        assert_eq!(rate_of_loss(0, 0), "–");
    }
}
