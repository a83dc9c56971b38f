//! What changes did: spikes of latency after events, and the time from a write to the API to its effect.

use fairway_lab_measure::Spread as Interval;
use fairway_lab_measure::results::{Propagation, Settings, Spike};

use super::builder::PageBuilder;
use super::figure::{Axis, Figure, Look, Panel, Series};
use super::figures::part;
use super::gather::Scenario;
use super::number::{self, TOO_FEW, UNKNOWN};
use super::palette::Palette;
use super::pool::distinct;
use super::scale::Spread;
use super::table::{Cell, Table};

/// Spikes after events: the worst of each peer and case, and folded every one.
pub(super) fn spikes(run: &Scenario, builder: &mut PageBuilder<'_>) {
    if run.spikes.is_empty() {
        return;
    }
    builder.heading(4, "Spikes after events");
    builder.reading("For each event: the highest latency in the second after it, the same on the stream straight to the pods at that moment, and for how long latency stayed above twice the quiet p99, the direct stream's own time taken off. A proxy that takes changes in its stride shows what the direct stream shows, and 0 s. The direct stream has rows of its own, by the same rule and with nothing taken off: it goes past every change, so that what it shows is the machine.");
    let columns = [
        "peer",
        "#events",
        "#highest ms",
        "after",
        "#direct then ms",
        "#most above direct ms",
        "#with a duration",
        "#longest s",
        "#failed",
    ];
    let mut table = Table::new("The worst after any event", &columns);
    for (case, settings, peer) in whose(&run.spikes, builder.palette) {
        let of = |spike: &&Spike| spike.case == case && spike.settings == settings && spike.peer == peer;
        if let Some(row) = worst(&run.spikes.iter().filter(of).collect::<Vec<_>>(), builder) {
            table.group(&part(case, settings));
            table.row(row);
        }
    }
    builder.table(table);
    builder.folded("Every event", |builder| every(run, builder));
}

fn whose<'a>(spikes: &'a [Spike], palette: &Palette) -> Vec<(&'a str, Settings, &'a str)> {
    let cases = distinct(spikes.iter().map(|spike| spike.case.as_str()));
    let mut all =
        distinct(spikes.iter().map(|spike| (spike.case.as_str(), spike.settings, spike.peer.as_str())));
    all.sort_by_key(|(case, settings, peer)| {
        (cases.iter().position(|known| known == case), *settings, palette.place(peer))
    });
    all
}

/// By how much the highest latency was above that of the direct stream.
pub(super) fn above_direct(spike: &Spike) -> Option<f64> {
    spike.direct_ms.map(|direct| (spike.highest_ms - direct).max(0.0)).filter(|value| value.is_finite())
}

fn worst(spikes: &[&Spike], builder: &PageBuilder<'_>) -> Option<Vec<Cell>> {
    let finite = spikes.iter().filter(|spike| spike.highest_ms.is_finite());
    let highest = finite.max_by(|a, b| a.highest_ms.total_cmp(&b.highest_ms))?;
    let failed: u64 = spikes.iter().map(|spike| spike.errors).sum();
    Some(vec![
        builder.palette.cell(&highest.peer, highest.settings),
        Cell::Number(spikes.len().to_string()),
        Cell::Number(number::figure(highest.highest_ms)),
        Cell::Text(highest.event.clone()),
        Cell::Number(number::maybe(highest.direct_ms)),
        Cell::Number(number::maybe(spikes.iter().filter_map(|spike| above_direct(spike)).reduce(f64::max))),
        Cell::Number(spikes.iter().filter(|spike| spike.lasted_s > 0.0).count().to_string()),
        Cell::Number(number::maybe(spikes.iter().map(|spike| spike.lasted_s).reduce(f64::max))),
        if failed > 0 { Cell::Bad(number::count(failed)) } else { Cell::Number("0".to_owned()) },
    ])
}

fn every(run: &Scenario, builder: &mut PageBuilder<'_>) {
    let columns = [
        "case",
        "peer",
        "event",
        "#at s",
        "#highest ms",
        "#direct ms",
        "#stayed high s",
        "#failed until the next",
    ];
    let mut table = Table::new("Every event", &columns);
    for (case, settings, peer) in whose(&run.spikes, builder.palette) {
        let of = |spike: &&Spike| spike.case == case && spike.settings == settings && spike.peer == peer;
        for spike in run.spikes.iter().filter(of).filter(|spike| spike.beside.is_none()) {
            table.row(vec![
                Cell::Text(spike.case.clone()),
                builder.palette.cell(&spike.peer, spike.settings),
                Cell::Text(spike.event.clone()),
                Cell::Number(number::figure(spike.at_s)),
                Cell::Number(number::figure(spike.highest_ms)),
                Cell::Number(number::maybe(spike.direct_ms)),
                Cell::Number(number::figure(spike.lasted_s)),
                if spike.errors > 0 {
                    Cell::Bad(number::count(spike.errors))
                } else {
                    Cell::Number("0".to_owned())
                },
            ]);
        }
    }
    builder.table(table);
}

/// The times of a propagation that can be drawn, ascending.
pub(super) fn sorted(propagation: &Propagation) -> Vec<f64> {
    let mut times: Vec<f64> = propagation.ms.iter().copied().filter(|ms| ms.is_finite()).collect();
    times.sort_by(f64::total_cmp);
    times
}

/// The value that a share of the values is not above. By nearest rank, which is always one that was measured. Nothing where
/// fewer than ten values are above it; the largest, a share of 1, is no percentile.
pub(super) fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    if share < 1.0 && sorted.len() < rank + 10 {
        return None;
    }
    sorted.get(rank.saturating_sub(1).min(sorted.len().saturating_sub(1))).copied()
}

/// A percentile as it is printed.
pub(super) fn percentile(sorted: &[f64], share: f64) -> String {
    let missing = if sorted.is_empty() { UNKNOWN } else { TOO_FEW };
    quantile(sorted, share).map_or_else(|| missing.to_owned(), number::figure)
}

/// The median with its interval of order statistics, where it may be shown.
pub(super) fn median_of(sorted: &[f64]) -> Option<Interval> {
    quantile(sorted, 0.5)?;
    Interval::of(sorted)
}

/// `2.90 – 4.10, covers 95.7%`.
pub(super) fn interval(of: &Interval) -> String {
    let (low, high) = of.interval;
    format!("{} – {}, covers {:.1}%", number::figure(low), number::figure(high), of.coverage * 100.0)
}

/// From the write to the effect: distributions and a table.
pub(super) fn propagation(run: &Scenario, builder: &mut PageBuilder<'_>) {
    if run.propagations.is_empty() {
        return;
    }
    let cases = distinct(run.propagations.iter().map(|one| one.case.as_str()));
    let panels = cases.iter().map(|case| Panel {
        title: (*case).to_owned(),
        series: run.propagations.iter().filter(|one| one.case == *case).filter_map(distribution).collect(),
        events: Vec::new(),
    });
    builder.plot(&Figure {
        title: "From a write to its effect (propagation)".to_owned(),
        reading: "The share of changes (upwards) that had taken effect within a time (to the right). Further left and steeper is better. A line that ends below 100% lost changes: they had no effect in time.".to_owned(),
        x: Axis { label: "ms after the write", spread: Spread::Log },
        y: Axis { label: "% of changes", spread: Spread::Linear },
        panels: panels.filter(|panel| !panel.series.is_empty()).collect(),
    });
    let columns = [
        "peer",
        "#changes",
        "#p50 ms",
        "#interval of p50, and what it covers",
        "#p90 ms",
        "#p99 ms",
        "#max ms",
        "#no effect in time",
        "#wrong answers",
        "#routes",
        "#memory",
    ];
    let mut table = Table::new("Propagation", &columns);
    let mut all: Vec<&Propagation> = run.propagations.iter().collect();
    all.sort_by_key(|one| {
        (cases.iter().position(|case| *case == one.case), one.settings, builder.palette.place(&one.peer))
    });
    for one in all {
        table.group(&part(&one.case, one.settings));
        table.row(times(one, builder));
    }
    builder.reading("All changes of all rounds are one list. The interval beside the median is made of two of its values (order statistics), and how often such an interval covers the true median stands beside it. “Too few” stands for a percentile with fewer than ten values above it; the slowest of all is always shown.");
    builder.table(table);
}

fn times(one: &Propagation, builder: &PageBuilder<'_>) -> Vec<Cell> {
    let sorted = sorted(one);
    let at = |share: f64| Cell::Number(percentile(&sorted, share));
    let bad = |count: u64| {
        if count > 0 { Cell::Bad(number::count(count)) } else { Cell::Number("0".to_owned()) }
    };
    vec![
        builder.palette.cell(&one.peer, one.settings),
        Cell::Number(number::count(one.ms.len() as u64 + one.lost)),
        at(0.5),
        Cell::Number(median_of(&sorted).map_or_else(|| TOO_FEW.to_owned(), |one| interval(&one))),
        at(0.9),
        at(0.99),
        at(1.0),
        bad(one.lost),
        bad(one.wrong),
        Cell::Number(number::count(one.routes)),
        Cell::Number(one.memory_bytes.map_or_else(|| UNKNOWN.to_owned(), number::bytes)),
    ]
}

fn distribution(one: &Propagation) -> Option<Series> {
    let sorted = sorted(one);
    let all = sorted.len() as f64 + one.lost as f64;
    let mut points: Vec<(f64, f64)> = Vec::with_capacity(sorted.len() + 1);
    points.push((*sorted.first()?, 0.0));
    // Half a per mille is less than a pixel.
    let every = sorted.len().div_ceil(2_000);
    for (at, ms) in sorted.iter().enumerate() {
        if (at + 1) % every == 0 || at + 1 == sorted.len() {
            points.push((*ms, (at + 1) as f64 / all * 100.0));
        }
    }
    let (label, look) = match one.settings {
        Settings::Recommended => (one.peer.clone(), Look::Steps),
        Settings::Defaults => (format!("{}, defaults", one.peer), Look::Dashed),
    };
    Some(Series { peer: one.peer.clone(), label, look, points })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_has_an_interval_of_its_own_values_and_what_it_covers() {
        let times: Vec<f64> = (1..=20).map(f64::from).collect();
        let found = median_of(&times).unwrap();
        assert_eq!((found.median, interval(&found).as_str()), (10.5, "6.00 – 15.0, covers 95.9%"));
        assert_eq!(median_of(&times[..19]), None, "nine values are above the median of nineteen");
    }

    #[test]
    fn a_percentile_with_fewer_than_ten_values_above_it_is_not_printed() {
        let times: Vec<f64> = (1..=1_000).map(f64::from).collect();
        assert_eq!(percentile(&times, 0.99), "990");
        assert_eq!(percentile(&times[..999], 0.99), "too few");
        assert_eq!((percentile(&times[..5], 1.0).as_str(), percentile(&[], 0.5).as_str()), ("5.00", "–"));
    }
}
