//! The plots of pools: latency by percentile.

use minijinja::Value;

use super::figure::{Axis, Figure, Look, Panel, Series};
use super::merge::distinct;
use super::palette::Palette;
use super::pool::Pool;
use super::scale::Spread;

/// More panels than these are no longer small multiples but a wall.
const PANELS: usize = 12;

/// The curves of a run.
pub(super) fn percentiles(pools: &[Pool<'_>], palette: &Palette) -> Vec<Value> {
    let cases = distinct(pools.iter().map(|pool| pool.case));
    let panels = cases.iter().take(PANELS).map(|case| Panel {
        title: (*case).to_owned(),
        series: pools
            .iter()
            .filter(|pool| pool.case == *case)
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
    Series::for_peer(pool.peer, pool.settings, look, points)
}
