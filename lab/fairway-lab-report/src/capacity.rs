//! Requests, handshakes, throughput and CPU per request by worker count. Nothing if no case has a worker count.

use fairway_lab_measure::results::Settings;

use super::builder::PageBuilder;
use super::figure::{Axis, Figure, Look, Panel, Series};
use super::gather::Scenario;
use super::pool::{Pool, distinct, whole};
use super::scale::Spread;

/// A figure of a stream.
struct Quantity {
    /// The heading.
    title: &'static str,
    /// The unit, short.
    unit: &'static str,
    /// What it means and which way is better.
    reading: &'static str,
    /// The figure, where it says something.
    value: fn(&Pool<'_>) -> Option<f64>,
}

/// CPU per request.
const COST: Quantity = Quantity {
    title: "CPU per request",
    unit: "µs",
    reading: "CPU time of the proxy alone for each answered request. Shorter is better.",
    value: |pool| pool.cpu(),
};

const QUANTITIES: [Quantity; 3] = [
    Quantity {
        title: "Requests per second (RPS)",
        unit: "RPS",
        reading: "Complete answers a second with all connections kept busy. Higher is better. Generator and backends share the machine with the proxy, which brings peers closer together and flattens what more workers could do.",
        value: |pool| (!pool.is_about_handshakes() && !pool.is_about_throughput()).then(|| pool.rate()),
    },
    Quantity {
        title: "New TLS connections per second (TPS)",
        unit: "TPS",
        reading: "Each request opens a connection of its own and closes it. Higher is better.",
        value: |pool| pool.is_about_handshakes().then(|| pool.handshakes()),
    },
    Quantity {
        title: "Throughput",
        unit: "Gbit/s",
        reading: "Bytes of answers, in gigabits a second, where answers are large. Higher is better.",
        value: |pool| pool.is_about_throughput().then(|| pool.gigabits()),
    },
];

/// Draws the figures of a run that has several worker counts; one count is in the table.
pub(super) fn by_workers(run: &Scenario, builder: &mut PageBuilder<'_>) {
    let pools = whole(run, builder.palette);
    if distinct(pools.iter().filter_map(|pool| pool.workers)).len() > 1 {
        QUANTITIES.iter().chain([&COST]).for_each(|quantity| lines(quantity, &pools, builder));
    }
}

fn lines(quantity: &Quantity, pools: &[Pool<'_>], builder: &mut PageBuilder<'_>) {
    let cases = distinct(pools.iter().map(|pool| pool.case));
    let panels = cases.iter().map(|case| Panel {
        title: (*case).to_owned(),
        series: series(pools, case, quantity),
        events: Vec::new(),
    });
    builder.plot(&Figure {
        title: format!("{}, by workers", quantity.title),
        reading: format!("{} To the right are more worker threads.", quantity.reading),
        x: Axis { label: "worker threads", spread: Spread::Doubling },
        y: Axis { label: quantity.unit, spread: Spread::Linear },
        panels: panels.filter(|panel| !panel.series.is_empty()).collect(),
    });
}

fn series(pools: &[Pool<'_>], case: &str, quantity: &Quantity) -> Vec<Series> {
    let of_case = || pools.iter().filter(|pool| pool.case == case && pool.workers.is_some());
    let whose = distinct(of_case().map(|pool| (pool.peer, pool.settings)));
    let line = |(peer, settings): (&str, Settings)| {
        let own = of_case().filter(|pool| (pool.peer, pool.settings) == (peer, settings));
        let mut points: Vec<(f64, f64)> = own
            .filter_map(|pool| Some((f64::from(pool.workers?), (quantity.value)(pool)?)))
            .filter(|(_, value)| value.is_finite())
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (label, look) = match settings {
            Settings::Recommended => (peer.to_owned(), Look::Dotted),
            Settings::Defaults => (format!("{peer}, defaults"), Look::Dashed),
        };
        Series { peer: peer.to_owned(), label, look, points }
    };
    whose.into_iter().map(line).filter(|series| !series.points.is_empty()).collect()
}
