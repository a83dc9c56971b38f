//! Requests, handshakes, throughput and CPU per request by worker count. Nothing if no case has a worker count.

use crate::results::{Run, Settings};

use super::book::Book;
use super::figure::{Axis, Figure, Look, Panel, Series};
use super::pool::{Pool, distinct, whole};
use super::scale::Spread;

/// A figure that is drawn by worker count.
struct Quantity {
    title: &'static str,
    axis: &'static str,
    reading: &'static str,
    value: fn(&Pool<'_>) -> Option<f64>,
}

const QUANTITIES: [Quantity; 4] = [
    Quantity {
        title: "Requests per second by workers (RPS)",
        axis: "requests/s",
        reading: "Complete answers a second with all connections kept busy. Higher is better; twice the workers at twice the height means that nothing but CPU is in the way. Generator and backends share the machine, which flattens every line.",
        value: |pool| (!pool.is_about_handshakes() && !pool.is_about_throughput()).then(|| pool.rate()),
    },
    Quantity {
        title: "New TLS connections per second by workers (TPS)",
        axis: "handshakes/s",
        reading: "Each request opens a connection of its own and closes it. Higher is better.",
        value: |pool| pool.is_about_handshakes().then(|| pool.handshakes()),
    },
    Quantity {
        title: "Throughput by workers",
        axis: "Gbit/s",
        reading: "Bytes of answers, in gigabits a second, where answers are large. Higher is better.",
        value: |pool| pool.is_about_throughput().then(|| pool.gigabits()),
    },
    Quantity {
        title: "CPU per request by workers",
        axis: "µs of CPU per request",
        reading: "CPU time of the proxy alone, divided by answered requests. Lower is better; a line that rises means that workers get in each other's way.",
        value: |pool| pool.cpu(),
    },
];

/// Draws the figures of a run that has worker counts.
pub(super) fn by_workers(run: &Run, book: &mut Book) {
    let pools = whole(run, &book.palette);
    if distinct(pools.iter().filter_map(|pool| pool.workers)).len() < 2 {
        return;
    }
    for quantity in &QUANTITIES {
        let cases = distinct(pools.iter().map(|pool| pool.case));
        let panels = cases.iter().map(|case| Panel {
            title: (*case).to_owned(),
            series: series(&pools, case, quantity),
            events: Vec::new(),
        });
        let panels: Vec<Panel> = panels.filter(|panel| !panel.series.is_empty()).collect();
        book.plot(Figure {
            title: quantity.title.to_owned(),
            reading: quantity.reading.to_owned(),
            x: Axis { label: "worker threads", spread: Spread::Doubling },
            y: Axis { label: quantity.axis, spread: Spread::Linear },
            panels,
        });
    }
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
        Series { peer: peer.to_owned(), label, look, weak_from: None, points }
    };
    whose.into_iter().map(line).filter(|series| !series.points.is_empty()).collect()
}
