//! Percentile curves: each case with all peers, and each peer with all of its cases beside the stream straight to the
//! pods. Never reads a clock.

use fairway_lab_measure::results::Settings;

use super::builder::PageBuilder;
use super::figure::{Axis, Figure, Look, Panel, Series};
use super::gather::Scenario;
use super::pool::{Pool, distinct, titled, whole};
use super::scale::Spread;

/// More panels than these are no longer small multiples but a wall.
const PANELS: usize = 12;

/// Draws the curves of a run.
pub(super) fn curves(run: &Scenario, builder: &mut PageBuilder) {
    let pools = whole(run, &builder.palette);
    let cases = distinct(pools.iter().map(|pool| (pool.case, pool.workers)));
    let panels = cases.iter().take(PANELS).map(|(case, workers)| Panel {
        title: titled(case, *workers),
        series: pools
            .iter()
            .filter(|pool| (pool.case, pool.workers) == (case, *workers))
            .map(|pool| series(pool, pool.peer, look(pool, builder)))
            .filter(|series| !series.points.is_empty())
            .collect(),
        events: Vec::new(),
    });
    let panels: Vec<Panel> = panels.filter(|panel| !panel.series.is_empty()).collect();
    let title = match panels.as_slice() {
        [only] => format!("Latency by percentile, {}", only.title),
        _ => "Latency by percentile".to_owned(),
    };
    builder.plot(figure(title, "Each step to the right is a tenth of the requests before it: at 99.9% one in a thousand was slower. Lower and flatter is better. Latency counts from the time at which a request was due, so waiting for a stalled proxy is in it. A curve ends where fewer than ten requests were slower: what lies beyond may be chance, and only the highest latency of all is known (in the table). Of several rounds the curve is their median.".to_owned(), panels));
    if cases.len() > 1 && cases.len() <= 4 && cases.iter().all(|(_, workers)| workers.is_none()) {
        each_peer(&pools, builder);
    }
}

fn figure(title: String, reading: String, panels: Vec<Panel>) -> Figure {
    Figure {
        title,
        reading,
        x: Axis { label: "percentile", spread: Spread::Nines },
        y: Axis { label: "latency, ms", spread: Spread::Log },
        panels,
    }
}

fn look(pool: &Pool<'_>, builder: &PageBuilder) -> Look {
    if builder.palette.is_neutral(pool.peer) || pool.settings == Settings::Defaults {
        Look::Dashed
    } else {
        Look::Solid
    }
}

fn series(pool: &Pool<'_>, label: &str, look: Look) -> Series {
    let label = match pool.settings {
        Settings::Defaults => format!("{label}, defaults"),
        Settings::Recommended => label.to_owned(),
    };
    Series {
        peer: pool.peer.to_owned(),
        label,
        look,
        points: pool.percentiles().iter().map(|point| (point.percent, point.ms)).collect(),
    }
}

/// One panel a peer: do its curves lie on each other?
fn each_peer(pools: &[Pool<'_>], builder: &mut PageBuilder) {
    let cases = distinct(pools.iter().map(|pool| pool.case));
    let peers = distinct(pools.iter().map(|pool| pool.peer).filter(|peer| !builder.palette.is_neutral(peer)));
    let panels = peers.iter().map(|peer| {
        let own = pools.iter().filter(|pool| pool.peer == *peer && pool.settings == Settings::Recommended);
        let direct = pools.iter().filter(|pool| builder.palette.is_neutral(pool.peer));
        let last = |pool: &&Pool<'_>| cases.last() == Some(&pool.case);
        let mut all: Vec<Series> = direct
            .filter(last)
            .filter_map(|pool| pool.beside(peer))
            .map(|pool| series(&pool, &format!("{}, {}", pool.peer, pool.case), Look::Faint))
            .collect();
        for pool in own {
            let look = if last(&pool) { Look::Solid } else { Look::Dashed };
            all.push(series(pool, pool.case, look));
        }
        Panel { title: (*peer).to_owned(), series: all, events: Vec::new() }
    });
    let panels: Vec<Panel> = panels.collect();
    let solid = cases.last().copied().unwrap_or_default();
    let reading = format!(
        "One panel for each peer, all with the same axes. The unbroken line is {solid}, the broken ones are the other cases: where they lie on each other, the change made no difference to clients. The thin grey line is the stream straight to the pods that ran beside it: what the machine itself does."
    );
    builder.plot(figure("The same, each peer by itself".to_owned(), reading, panels));
}
