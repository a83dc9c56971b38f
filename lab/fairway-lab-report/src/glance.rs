//! The table of main findings: a row for each figure, a column for each peer, over all scenarios and settings. The
//! report and the README start with it. Every cell has a figure or the reason for its absence.

use fairway_lab_measure::results::{Propagation, Settings, Spike};
use serde::Serialize;

use super::effects::{percentile, sorted};
use super::merge::{Scenario, distinct};
use super::number::{self, TOO_FEW};
use super::palette::{DIRECT, Palette};
use super::poisson::rate_of_loss;
use super::pool::{Pool, Tail, case_title, in_case, pools_of_run};

/// The table.
#[derive(Serialize)]
pub(super) struct Glance {
    /// Peers, Fairway first.
    pub peers: Vec<String>,
    /// Row by row.
    pub rows: Vec<Row>,
}

/// The pages that omit a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Kind {
    /// Shown only in the report: latency, cost and failures in closed loops, CPU in open loops, intervals of
    /// failures, and lengths of spikes.
    Detail,
    /// On all pages.
    Main,
}

/// A row.
#[derive(Serialize)]
pub(super) struct Row {
    /// The pages that omit it.
    pub kind: Kind,
    /// The scenario and the case, and the settings if they are not the recommended ones.
    pub place: String,
    /// The figure, with its unit.
    pub figure: String,
    /// A cell for each peer.
    pub cells: Vec<String>,
}

/// The scenario and settings of rows.
struct RowPlace<'a> {
    run: &'a Scenario,
    settings: Settings,
    palette: &'a Palette,
}

impl RowPlace<'_> {
    fn row_name(&self, case: &str) -> String {
        case_title(&in_case(self.run, case), self.settings)
    }

    /// Why a peer has no figure here, where others have one.
    fn missing(&self, peer: &str, otherwise: &str) -> String {
        let streams = self.run.measures.iter().map(|entry| (&entry.peer, entry.settings));
        let changes = self.run.propagations.iter().map(|entry| (&entry.peer, entry.settings));
        let took_part =
            streams.chain(changes).any(|(name, settings)| name == peer && settings == self.settings);
        let reason = if self.palette.is_neutral(peer) {
            "no proxy"
        } else if !took_part && self.run.absent.iter().any(|absent| absent.peer == peer) {
            "absent"
        } else if took_part {
            otherwise
        } else {
            "not asked for"
        };
        reason.to_owned()
    }
}

/// Gathers the table from all scenarios.
pub(super) fn glance(scenarios: &[&Scenario], palette: &Palette) -> Glance {
    let measured = scenarios.iter().flat_map(|run| {
        let streams = run.measures.iter().map(|entry| &entry.peer);
        streams.chain(run.propagations.iter().map(|entry| &entry.peer))
    });
    let mut peers: Vec<String> = distinct(measured).into_iter().cloned().collect();
    peers.sort_by_key(|peer| palette.position(peer));
    let mut glance = Glance { peers, rows: Vec::new() };
    for run in scenarios {
        for settings in run.settings() {
            let row_place = RowPlace { run, settings, palette };
            glance.streams(&row_place);
            glance.stretches(&row_place);
            glance.spikes(&row_place);
            glance.propagations(&row_place);
        }
    }
    glance
}

impl Glance {
    /// A row, if any peer has a figure; peers without one get the reason, `otherwise` if they took part.
    fn row(
        &mut self,
        kind: Kind,
        figure: &str,
        at: &str,
        place: &RowPlace<'_>,
        otherwise: &str,
        cell: impl Fn(&str) -> Option<String>,
    ) {
        let cells: Vec<Option<String>> = self.peers.iter().map(|peer| cell(peer)).collect();
        if cells.iter().any(Option::is_some) {
            let missing = |peer: &str| place.missing(peer, otherwise);
            let filled = self.peers.iter().zip(cells);
            let cells = filled.map(|(peer, cell)| cell.unwrap_or_else(|| missing(peer))).collect();
            self.rows.push(Row { kind, place: at.to_owned(), figure: figure.to_owned(), cells });
        }
    }

    fn streams(&mut self, row_place: &RowPlace<'_>) {
        let mut pools = pools_of_run(row_place.run, row_place.palette);
        pools.retain(|pool| pool.settings == row_place.settings);
        for case in distinct(pools.iter().map(|pool| pool.case)) {
            let case_pools: Vec<&Pool<'_>> = pools.iter().filter(|pool| pool.case == case).collect();
            self.case(&case_pools, &row_place.row_name(case), row_place);
        }
    }

    fn case(&mut self, pools: &[&Pool<'_>], at: &str, row_place: &RowPlace<'_>) {
        let pool_of = |peer: &str| pools.iter().find(|pool| pool.peer == peer);
        let busy =
            pools.iter().any(|pool| pool.measures.iter().all(|entry| entry.load.offered.rate.is_none()));
        let kind = if busy { Kind::Detail } else { Kind::Main };
        let none = "no stream";
        if busy {
            self.row(Kind::Main, "answers", at, row_place, none, |peer| {
                pool_of(peer).map(|pool| capacity(pool))
            });
        }
        self.row(Kind::Detail, "CPU µs per request", at, row_place, "not read", |peer| {
            pool_of(peer)?.cpu().map(number::figure)
        });
        self.row(kind, "p99 / highest ms", at, row_place, none, |peer| {
            let pool = pool_of(peer)?;
            let p99 = pool.percentile(99.0);
            let p99 = p99.map_or_else(|| TOO_FEW.to_owned(), |p99| number::with_range(p99.ms, p99.range));
            Some(format!("{p99} / {}", number::maybe(pool.highest())))
        });
        self.row(kind, "failed requests", at, row_place, none, |peer| {
            pool_of(peer)
                .map(|pool| format!("{} of {}", number::count(pool.failed()), number::count(pool.requests())))
        });
        self.row(
            Kind::Detail,
            "failed requests of a million, with 95% interval",
            at,
            row_place,
            none,
            |peer| pool_of(peer).map(|pool| rate_of_loss(pool.failed(), pool.requests())),
        );
    }

    fn stretches(&mut self, row_place: &RowPlace<'_>) {
        let pools = pools_of_run(row_place.run, row_place.palette);
        let figure = "p99.9 dynamic ÷ static (straight to the pods)";
        let at = case_title(&row_place.run.name(), row_place.settings);
        self.row(Kind::Main, figure, &at, row_place, TOO_FEW, |peer| {
            stretch(&pools, peer, row_place.settings)
        });
    }

    fn spikes(&mut self, row_place: &RowPlace<'_>) {
        let usable = |spike: &&Spike| {
            spike.settings == row_place.settings && spike.highest_ms.is_finite() && spike.beside.is_none()
        };
        let spikes = || row_place.run.spikes.iter().filter(usable);
        let none = "no event";
        for case in distinct(spikes().map(|spike| &spike.case)) {
            let at = row_place.row_name(case);
            let highest = "highest ms in the second after an event (straight to the pods)";
            self.row(Kind::Main, highest, &at, row_place, none, |peer| {
                let own_spikes = spikes().filter(|spike| spike.peer == peer && spike.case == *case);
                let worst = own_spikes.max_by(|a, b| a.highest_ms.total_cmp(&b.highest_ms))?;
                Some(format!("{} ({})", number::figure(worst.highest_ms), number::maybe(worst.direct_ms)))
            });
            self.row(Kind::Detail, "longest spike, s", &at, row_place, none, |peer| {
                let own_spikes = spikes().filter(|spike| spike.peer == peer && spike.case == *case);
                own_spikes.map(|spike| spike.lasted_s).reduce(f64::max).map(number::figure)
            });
        }
    }

    fn propagations(&mut self, row_place: &RowPlace<'_>) {
        let all = || row_place.run.propagations.iter().filter(|entry| entry.settings == row_place.settings);
        let none = "no change took effect";
        for case in distinct(all().map(|entry| &entry.case)) {
            let propagation_of = |peer: &str| all().find(|entry| entry.peer == peer && entry.case == *case);
            let at = row_place.row_name(case);
            let has_median =
                all().any(|entry| entry.case == *case && percentile(&sorted(entry), 0.5) != TOO_FEW);
            if has_median {
                self.row(Kind::Main, "propagation p50 / p99 ms", &at, row_place, none, |peer| {
                    let times = sorted(propagation_of(peer)?);
                    let at = |share: f64| percentile(&times, share);
                    (!times.is_empty()).then(|| format!("{} / {}", at(0.5), at(0.99)))
                });
            }
            self.row(Kind::Main, "propagation, slowest change, ms", &at, row_place, none, |peer| {
                slowest(propagation_of(peer)?)
            });
        }
    }
}

/// `1.76 (1.98)`: a peer's p99.9 while pods come and go divided by that while nothing changes, and the same for the
/// concurrent direct stream, which shows the machine's part.
fn stretch(pools: &[Pool<'_>], peer: &str, settings: Settings) -> Option<String> {
    let figure_of = |peer: &str, case: &str| {
        pools.iter().find(|pool| pool.peer == peer && pool.settings == settings && pool.case == case)
    };
    let ratio = |calm: Option<Tail>, moved: Option<Tail>| {
        calm.zip(moved)
            .filter(|(calm, _)| calm.ms > 0.0)
            .map(|(calm, moved)| number::ratio(moved.ms / calm.ms))
    };
    let through = |case: &str| figure_of(peer, case)?.percentile(99.9);
    let straight = |case: &str| figure_of(DIRECT, case)?.concurrent_with(peer)?.percentile(99.9);
    let machine = ratio(straight("static"), straight("dynamic"));
    let machine = machine.unwrap_or_else(|| TOO_FEW.to_owned());
    Some(format!("{} ({machine})", ratio(through("static"), through("dynamic"))?))
}

/// `19.4 (25 changes)`, with the losses.
fn slowest(propagation: &Propagation) -> Option<String> {
    let times = sorted(propagation);
    let slowest = number::figure(*times.last()?);
    let all = number::count(times.len() as u64 + propagation.lost);
    let odd = [(propagation.lost, "without effect"), (propagation.wrong, "wrong answers")];
    let odd = odd.iter().filter(|(count, _)| *count > 0);
    let odd: Vec<String> = odd.map(|(count, what)| format!(", {} {what}", number::count(*count))).collect();
    Some(format!("{slowest} ({all} changes{})", odd.concat()))
}

fn capacity(pool: &Pool<'_>) -> String {
    let (unit, value) = pool.capacity();
    format!("{} {unit}", number::figure(value))
}

#[cfg(test)]
mod tests {
    use fairway_lab_measure::results::{Absent, Measure, Percentile, Run};

    use super::super::pool::measure;
    use super::*;

    fn run(scenario: &str, measures: Vec<Measure>) -> Scenario {
        Scenario::from(Run { scenario: scenario.to_owned(), measures, ..Run::default() })
    }

    fn measured_at(peer: &str, settings: Settings) -> Measure {
        let mut measure = measure(peer, "dynamic", 24_000);
        (measure.settings, measure.load.offered.rate) = (settings, Some(100.0));
        measure
    }

    #[test]
    fn every_cell_has_a_figure_or_a_reason_for_its_absence() {
        let (recommended, defaults) = (Settings::Recommended, Settings::Defaults);
        let measures = vec![
            measured_at("fairway", recommended),
            measured_at("envoy", recommended),
            measured_at("fairway", defaults),
            measured_at("direct", recommended),
        ];
        let mut scenario = run("dynamic", measures);
        let reason = "it needs a cluster".to_owned();
        scenario.absent.push(Absent { round: 0, peer: "contour".to_owned(), scenario: None, reason });
        let other = run("timeline", vec![measured_at("contour", recommended)]);
        let glance = glance(&[&scenario, &other], &Palette::for_runs([]));
        assert_eq!(glance.peers, ["fairway", "envoy", "contour", "direct"]);
        let cells = |figure: &str, place: &str| {
            let row = glance.rows.iter().find(|row| row.figure == figure && row.place == place);
            row.map(|row| row.cells.clone()).unwrap_or_default()
        };
        assert_eq!(
            cells("failed requests", "dynamic: dynamic"),
            ["0 of 24,000", "0 of 24,000", "absent", "0 of 24,000"]
        );
        assert_eq!(
            cells("failed requests", "dynamic: dynamic, default settings"),
            ["0 of 24,000", "not asked for", "absent", "no proxy"]
        );
        assert!(cells("p99 / highest ms", "dynamic: dynamic")[0].starts_with("too few"));
        assert!(glance.rows.iter().flat_map(|row| &row.cells).all(|cell| cell != "–"));
    }

    #[test]
    fn the_machines_stretch_is_that_of_the_concurrent_direct_stream() {
        let stream = |peer: &str, beside: Option<&str>, case: &str, ms: f64, above: u64| {
            let mut measure = measure(peer, case, 1_000 * above);
            measure.beside = beside.map(str::to_owned);
            measure.load.latency.count = 1_000 * above;
            measure.load.latency.percentiles = vec![Percentile { percent: 99.9, ms, above }];
            measure
        };
        let found = |direct_above: u64, moved_above: u64, peer: &str| {
            let measures = vec![
                stream("envoy", None, "static", 2.0, 20),
                stream("direct", Some("envoy"), "static", 1.0, direct_above),
                stream("direct", Some("haproxy"), "static", 9.0, 20),
                stream("envoy", None, "dynamic", 6.0, moved_above),
                stream("direct", Some("envoy"), "dynamic", 1.5, direct_above),
            ];
            stretch(
                &pools_of_run(&run("dynamic", measures), &Palette::for_runs([])),
                peer,
                Settings::Recommended,
            )
        };
        assert_eq!(found(20, 20, "envoy").as_deref(), Some("3.00 (1.50)"));
        assert_eq!(found(20, 20, "haproxy"), None);
        assert_eq!(found(9, 20, "envoy").as_deref(), Some("3.00 (too few)"));
        assert_eq!(found(20, 9, "envoy"), None);
    }
}
