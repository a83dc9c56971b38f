//! The table of what clients saw and what it cost: RPS, TPS, Gbit/s and percentiles beside CPU per request, for every
//! case and peer. Also CPU per request as bars with the spread of its blocks.

use crate::results::{Measure, Run};

use super::book::Book;
use super::drawing::cut;
use super::html::{Cell, Html, Table};
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
pub(super) fn table(run: &Run, book: &mut Book) {
    let pools = whole(run, &book.palette);
    if pools.is_empty() {
        if run.propagations.is_empty() {
            book.note("No stream of this scenario ended; there is nothing to show.");
        }
        return;
    }
    book.reading("RPS are complete answers a second, TPS are TLS handshakes a second, Gbit/s are bytes of answers. Percentiles count from the time at which a request was due; * marks one with fewer than 10 samples above it. CPU is that of the proxy alone. Blocks of a peer are one row: sums divided by sums, and one distribution merged from theirs (even, on the logarithm, between the percentiles that were kept). direct is no proxy but the streams straight to the pods, all of them together. A dash is what could not be read.");
    filled("What clients saw, and what it cost", &pools, book);
    let phases = by_phase(run, &book.palette);
    if distinct(phases.iter().map(|pool| pool.phase)).len() > 1 {
        book.folded("Each phase by itself", |book| filled("Phases", &phases, book));
    }
}

fn filled(caption: &str, pools: &[Pool<'_>], book: &mut Book) {
    let mut table = Table::new(caption, &COLUMNS);
    for pool in pools {
        let case = titled(pool.case, pool.workers);
        table.group(&if pool.phase.is_empty() { case } else { format!("{case}: {}", pool.phase) });
        table.row(row(pool, book));
    }
    book.table(&table);
}

fn row(pool: &Pool<'_>, book: &Book) -> Vec<Cell> {
    let failed = pool.failed();
    let mut cells = vec![
        Cell::Markup(book.palette.cell(pool.peer, pool.settings)),
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

/// A percentile with its mark.
pub(super) fn percentile(pool: &Pool<'_>, percent: f64) -> String {
    pool.percentile(percent).map_or_else(
        || UNKNOWN.to_owned(),
        |point| format!("{}{}", number::figure(point.ms), if point.above < 10 { "*" } else { "" }),
    )
}

/// CPU per request of each case: a bar for the whole, a dot for each stream.
pub(super) fn costs(run: &Run, book: &mut Book) {
    let pools = whole(run, &book.palette);
    let known: Vec<&Pool<'_>> = pools.iter().filter(|pool| pool.cpu().is_some_and(f64::is_finite)).collect();
    if known.is_empty() {
        return;
    }
    book.html.raw("<figure class=\"costs\"><figcaption><h4>CPU per request</h4>");
    book.reading("Microseconds of CPU time of the proxy alone for each answered request; shorter is better. A dot is one stream or block, the bar is all of them together: where dots of two peers overlap, so may the truth.");
    book.html.raw("</figcaption><div class=\"small-multiples\">");
    for (case, workers) in distinct(known.iter().map(|pool| (pool.case, pool.workers))) {
        let of_case: Vec<&Pool<'_>> =
            known.iter().copied().filter(|pool| (pool.case, pool.workers) == (case, workers)).collect();
        let title = titled(case, workers);
        bars(&title, &of_case, book);
    }
    book.html.raw("</div></figure>");
}

fn bars(title: &str, pools: &[&Pool<'_>], book: &mut Book) {
    const ROW: f64 = 20.0;
    const LEFT: f64 = 122.0;
    const WIDTH: f64 = 190.0;
    let each = |pool: &Pool<'_>| pool.measures.iter().filter_map(|one| block(one)).collect::<Vec<_>>();
    let largest = pools.iter().flat_map(|pool| each(pool).into_iter().chain(pool.cpu())).fold(0.0, f64::max);
    let scale = if largest > 0.0 { WIDTH / largest } else { 0.0 };
    let mut html = Html::default();
    html.element("<div><h5>", title, "</h5>");
    html.raw("<svg class=\"bars\" role=\"img\" viewBox=\"0 0 380 ")
        .number(pools.len() as f64 * ROW + 4.0)
        .raw("\"");
    html.attribute("aria-label", title).raw(">");
    for (at, pool) in pools.iter().enumerate() {
        let y = at as f64 * ROW;
        let cpu = pool.cpu().unwrap_or_default();
        html.raw("<g class=\"")
            .raw(book.palette.class(pool.peer))
            .raw("\"")
            .attribute("data-peer", pool.peer);
        html.raw("><text class=\"tick end\" x=\"116\" y=\"")
            .number(y + 14.0)
            .raw("\">")
            .text(&cut(&pool.name()));
        html.raw("</text><rect class=\"bar\" rx=\"2\" height=\"12\" x=\"122\" y=\"").number(y + 4.0);
        html.raw("\" width=\"").number((cpu * scale).max(0.5)).raw("\"/>");
        for value in each(pool) {
            html.raw("<circle r=\"2.5\" cx=\"").number(LEFT + value * scale).raw("\" cy=\"").number(y + 10.0);
            html.raw("\"/>");
        }
        let end = LEFT + each(pool).into_iter().fold(cpu, f64::max) * scale + 8.0;
        html.raw("<text class=\"value\" x=\"").number(end).raw("\" y=\"").number(y + 14.0).raw("\">");
        html.text(&format!("{} µs", number::figure(cpu))).raw("</text></g>");
    }
    html.raw("</svg></div>");
    book.html.append(&html);
}

fn block(measure: &Measure) -> Option<f64> {
    measure.cost.as_ref().map(|cost| cost.us_per_request).filter(|value| value.is_finite() && *value >= 0.0)
}
