//! Percentile curves: each case with all peers. Never reads a clock.

use fairway_lab_measure::results::Settings;

use super::builder::PageBuilder;
use super::figure::{Axis, Figure, Look, Panel, Series};
use super::gather::Scenario;
use super::pool::{Pool, distinct, titled, whole};
use super::scale::Spread;

/// More panels than these are no longer small multiples but a wall.
const PANELS: usize = 12;

/// Draws the curves of a run.
pub(super) fn curves(run: &Scenario, builder: &mut PageBuilder<'_>) {
    let pools = whole(run, builder.palette);
    let cases = distinct(pools.iter().map(|pool| (pool.case, pool.workers)));
    let panels = cases.iter().take(PANELS).map(|(case, workers)| Panel {
        title: titled(case, *workers),
        series: pools
            .iter()
            .filter(|pool| (pool.case, pool.workers) == (case, *workers))
            .map(|pool| series(pool, look(pool, builder)))
            .filter(|series| !series.points.is_empty())
            .collect(),
        events: Vec::new(),
    });
    let panels: Vec<Panel> = panels.filter(|panel| !panel.series.is_empty()).collect();
    let title = match panels.as_slice() {
        [only] => format!("Latency by percentile, {}", only.title),
        _ => "Latency by percentile".to_owned(),
    };
    builder.plot(&Figure {
        title,
        reading: "Each step to the right is a tenth of the requests before it: at 99.9% one in a thousand was slower. Lower and flatter is better. Latency counts from the time at which a request was due, so waiting for a stalled proxy is in it. A curve ends where fewer than ten requests were slower: what lies beyond may be chance, and only the highest latency of all is known (in the table). Of several rounds the curve is their median.".to_owned(),
        x: Axis { label: "percentile", spread: Spread::Nines },
        y: Axis { label: "latency, ms", spread: Spread::Log },
        panels,
    });
}

fn look(pool: &Pool<'_>, builder: &PageBuilder<'_>) -> Look {
    if builder.palette.is_neutral(pool.peer) || pool.settings == Settings::Defaults {
        Look::Dashed
    } else {
        Look::Solid
    }
}

fn series(pool: &Pool<'_>, look: Look) -> Series {
    let label = match pool.settings {
        Settings::Defaults => format!("{}, defaults", pool.peer),
        Settings::Recommended => pool.peer.to_owned(),
    };
    Series {
        peer: pool.peer.to_owned(),
        label,
        look,
        points: pool.percentiles().iter().map(|point| (point.percent, point.ms)).collect(),
    }
}
