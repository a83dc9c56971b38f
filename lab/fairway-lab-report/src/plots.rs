//! What is drawn of pools: latency by percentile, and requests, handshakes, throughput and CPU by worker count.

use fairway_lab_measure::results::Settings;
use minijinja::Value;

use super::figure::{Axis, Figure, Look, Panel, Series};
use super::gather::distinct;
use super::palette::Palette;
use super::pool::{Pool, titled};
use super::scale::Spread;

/// More panels than these are no longer small multiples but a wall.
const PANELS: usize = 12;

/// The curves of a run.
pub(super) fn percentiles(pools: &[Pool<'_>], palette: &Palette) -> Vec<Value> {
    let cases = distinct(pools.iter().map(|pool| (pool.case, pool.workers)));
    let panels = cases.iter().take(PANELS).map(|(case, workers)| Panel {
        title: titled(case, *workers),
        series: pools
            .iter()
            .filter(|pool| (pool.case, pool.workers) == (case, *workers))
            .map(|pool| curve(pool, palette))
            .filter(|series| !series.points.is_empty())
            .collect(),
        events: Vec::new(),
    });
    let panels: Vec<Panel> = panels.filter(|panel| !panel.series.is_empty()).collect();
    let title = match panels.as_slice() {
        [only] => format!("Latency by percentile, {}", only.title),
        _ => "Latency by percentile".to_owned(),
    };
    let figure = Figure {
        title,
        reading: "Each step to the right is a tenth of the requests before it: at 99.9% one in a thousand was slower. Lower and flatter is better. Latency counts from the time at which a request was due, so waiting for a stalled proxy is in it. A curve ends where fewer than ten requests were slower: what lies beyond may be chance, and only the highest latency of all is known (in the table). Of several rounds the curve is their median.".to_owned(),
        x: Axis { label: "percentile", spread: Spread::Nines },
        y: Axis { label: "latency, ms", spread: Spread::Log },
        panels,
    };
    figure.plot(palette).into_iter().collect()
}

fn curve(pool: &Pool<'_>, palette: &Palette) -> Series {
    let look = if palette.is_neutral(pool.peer) { Look::Dashed } else { Look::Solid };
    let points = pool.percentiles().iter().map(|point| (point.percent, point.ms)).collect();
    Series::of(pool.peer, pool.settings, look, points)
}

/// Figures that depend on the number of workers: the heading, the unit, what it means and which way is better, and the figure where
/// it says something.
type Quantity = (&'static str, &'static str, &'static str, fn(&Pool<'_>) -> Option<f64>);

const QUANTITIES: [Quantity; 4] = [
    (
        "Requests per second (RPS)",
        "RPS",
        "Complete answers a second with all connections kept busy. Higher is better. Generator and backends share the machine with the proxy, which brings peers closer together and flattens what more workers could do.",
        |pool| pool.capacity_in("RPS"),
    ),
    (
        "New TLS connections per second (TPS)",
        "TPS",
        "Each request opens a connection of its own and closes it. Higher is better.",
        |pool| pool.capacity_in("TPS"),
    ),
    (
        "Throughput",
        "Gbit/s",
        "Bytes of answers, in gigabits a second, where answers are large. Higher is better.",
        |pool| pool.capacity_in("Gbit/s"),
    ),
    (
        "CPU per request",
        "µs",
        "CPU time of the proxy alone for each answered request. Shorter is better.",
        |pool| pool.cpu(),
    ),
];

/// The figures of a run that has several worker counts; one count is in the table.
pub(super) fn by_workers(pools: &[Pool<'_>], palette: &Palette) -> Vec<Value> {
    if distinct(pools.iter().filter_map(|pool| pool.workers)).len() < 2 {
        return Vec::new();
    }
    let figures = QUANTITIES.iter().map(|quantity| lines(*quantity, pools));
    figures.filter_map(|figure| figure.plot(palette)).collect()
}

fn lines((title, unit, reading, value): Quantity, pools: &[Pool<'_>]) -> Figure {
    let cases = distinct(pools.iter().map(|pool| pool.case));
    let panels = cases.iter().map(|case| Panel {
        title: (*case).to_owned(),
        series: series(pools, case, value),
        events: Vec::new(),
    });
    Figure {
        title: format!("{title}, by workers"),
        reading: format!("{reading} To the right are more worker threads."),
        x: Axis { label: "worker threads", spread: Spread::Doubling },
        y: Axis { label: unit, spread: Spread::Linear },
        panels: panels.filter(|panel| !panel.series.is_empty()).collect(),
    }
}

fn series(pools: &[Pool<'_>], case: &str, value: fn(&Pool<'_>) -> Option<f64>) -> Vec<Series> {
    let of_case = || pools.iter().filter(|pool| pool.case == case && pool.workers.is_some());
    let whose = distinct(of_case().map(|pool| (pool.peer, pool.settings)));
    let line = |(peer, settings): (&str, Settings)| {
        let own = of_case().filter(|pool| (pool.peer, pool.settings) == (peer, settings));
        let mut points: Vec<(f64, f64)> = own
            .filter_map(|pool| Some((f64::from(pool.workers?), value(pool)?)))
            .filter(|(_, value)| value.is_finite())
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Series::of(peer, settings, Look::Dotted, points)
    };
    whose.into_iter().map(line).filter(|series| !series.points.is_empty()).collect()
}
