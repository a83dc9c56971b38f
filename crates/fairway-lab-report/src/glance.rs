//! The findings at a glance: one row for each figure that a reader asks for first, one column for each peer. The report
//! begins with it and README has the same table. Only recommended settings; never a figure of a discarded block.

use fairway_lab_results::{Ratio, Results, Run, Settings, Spike};

use super::effects::{quantile, sorted};
use super::headline::{against_fairway, interval, is_noise};
use super::number::{self, UNKNOWN};
use super::palette::Palette;
use super::pool::{Pool, distinct, in_case, whole};
use super::stretch::stretch;

/// The table.
pub(super) struct Glance {
    /// Peers, Fairway first.
    pub peers: Vec<String>,
    /// Row by row.
    pub rows: Vec<Row>,
}

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Ratios to Fairway.
    Ratio,
    /// Answers, handshakes or bytes a second with all connections busy.
    Capacity,
    /// Latency, cost and failures where all connections are kept busy.
    Busy,
    /// Latency and failures at a rate that is held.
    Held,
    /// CPU at a rate that is held.
    Cost,
    /// What changes did.
    Effect,
}

/// A row.
pub(super) struct Row {
    /// What it is about.
    pub kind: Kind,
    /// The scenario and the case.
    pub place: String,
    /// The figure, with its unit.
    pub figure: String,
    /// A cell for each peer.
    pub cells: Vec<String>,
}

/// Gathers the table from one run of the laboratory.
pub(super) fn glance(results: &Results, palette: &Palette) -> Glance {
    let measured = results.runs.iter().flat_map(|run| {
        let streams = run.measures.iter().map(|one| (&one.peer, one.settings));
        streams.chain(run.propagations.iter().map(|one| (&one.peer, one.settings)))
    });
    let recommended =
        measured.filter(|(_, settings)| *settings == Settings::Recommended).map(|(peer, _)| peer);
    let mut peers: Vec<String> = distinct(recommended).into_iter().cloned().collect();
    peers.sort_by_key(|peer| palette.place(peer));
    let mut glance = Glance { peers, rows: Vec::new() };
    for run in &results.runs {
        glance.ratios(run);
        glance.streams(run, palette);
        glance.stretches(run, palette);
        glance.spikes(run);
        glance.propagations(run);
    }
    glance
}

impl Glance {
    fn row(&mut self, kind: Kind, figure: &str, place: &str, cell: impl Fn(&str) -> Option<String>) {
        let cells: Vec<Option<String>> = self.peers.iter().map(|peer| cell(peer)).collect();
        if cells.iter().any(Option::is_some) {
            let cells = cells.into_iter().map(|cell| cell.unwrap_or_else(|| UNKNOWN.to_owned())).collect();
            self.rows.push(Row { kind, place: place.to_owned(), figure: figure.to_owned(), cells });
        }
    }

    fn ratios(&mut self, run: &Run) {
        let key = |ratio: &Ratio| (ratio.figure.clone(), ratio.case.clone(), ratio.workers);
        for (figure, case, workers) in distinct(against_fairway(&run.ratios).map(key)) {
            let of =
                |ratio: &&Ratio| ratio.figure == figure && ratio.case == case && ratio.workers == workers;
            let text = format!("{figure} ÷ fairway's");
            self.row(Kind::Ratio, &text, &in_case(run, &case, workers), |peer| {
                let own = against_fairway(&run.ratios).filter(of).find(|ratio| ratio.peer == peer)?;
                Some(if is_noise(own, &run.ratios) {
                    format!("A/A {}", interval(own))
                } else {
                    format!("{} ({})", number::ratio(own.median), interval(own))
                })
            });
        }
    }

    fn streams(&mut self, run: &Run, palette: &Palette) {
        let mut pools = whole(run, palette);
        pools.retain(|pool| pool.settings == Settings::Recommended);
        let most = pools.iter().filter_map(|pool| pool.workers).max();
        // By worker count there is a table and a plot; here only the largest.
        pools.retain(|pool| pool.workers.is_none() || pool.workers == most);
        for (case, workers) in distinct(pools.iter().map(|pool| (pool.case, pool.workers))) {
            let own = |peer: &str| {
                pools.iter().find(|pool| pool.peer == peer && (pool.case, pool.workers) == (case, workers))
            };
            let place = in_case(run, case, workers);
            let is_busy = |pool: &Pool<'_>| pool.measures.iter().all(|one| one.load.offered.rate.is_none());
            let busy = pools.iter().any(|pool| pool.case == case && is_busy(pool));
            let (held, cost) = if busy { (Kind::Busy, Kind::Busy) } else { (Kind::Held, Kind::Cost) };
            if busy {
                self.row(Kind::Capacity, "answers", &place, |peer| own(peer).map(capacity));
            }
            self.row(cost, "CPU µs per request", &place, |peer| own(peer)?.cpu().map(number::figure));
            self.row(held, "p99 / highest ms", &place, |peer| {
                let pool = own(peer)?;
                let p99 = pool.percentile(99.0)?.ms;
                Some(format!("{} / {}", number::figure(p99), number::maybe(pool.highest())))
            });
            self.row(held, "failed requests", &place, |peer| {
                own(peer).map(|pool| {
                    format!("{} of {}", number::count(pool.failed()), number::count(pool.requests()))
                })
            });
        }
    }

    fn stretches(&mut self, run: &Run, palette: &Palette) {
        let pools = whole(run, palette);
        self.row(Kind::Effect, "p99.9 dynamic ÷ static (straight to the pods)", &run.scenario, |peer| {
            stretch(&pools, peer, Settings::Recommended, 99.9).map(|found| found.text())
        });
    }

    fn spikes(&mut self, run: &Run) {
        let usable = |spike: &&Spike| {
            spike.settings == Settings::Recommended && spike.highest_ms.is_finite() && spike.beside.is_none()
        };
        let recommended = || run.spikes.iter().filter(usable);
        for case in distinct(recommended().map(|spike| &spike.case)) {
            let place = in_case(run, case, None);
            self.row(
                Kind::Effect,
                "highest ms in the second after an event (straight to the pods)",
                &place,
                |peer| {
                    let own = recommended().filter(|spike| spike.peer == peer && spike.case == *case);
                    let worst = own.max_by(|a, b| a.highest_ms.total_cmp(&b.highest_ms))?;
                    Some(format!("{} ({})", number::figure(worst.highest_ms), number::maybe(worst.direct_ms)))
                },
            );
            self.row(Kind::Effect, "longest spike, s", &place, |peer| {
                let own = recommended().filter(|spike| spike.peer == peer && spike.case == *case);
                own.map(|spike| spike.lasted_s).reduce(f64::max).map(number::figure)
            });
        }
    }

    fn propagations(&mut self, run: &Run) {
        let recommended = || run.propagations.iter().filter(|one| one.settings == Settings::Recommended);
        for case in distinct(recommended().map(|one| &one.case)) {
            self.row(Kind::Effect, "propagation p50 / p99 ms", &in_case(run, case, None), |peer| {
                let own = recommended().find(|one| one.peer == peer && one.case == *case)?;
                let times = sorted(own);
                let at = |share: f64| number::maybe(quantile(&times, share));
                let lost = if own.lost + own.wrong > 0 {
                    format!(", {} lost, {} wrong", number::count(own.lost), number::count(own.wrong))
                } else {
                    String::new()
                };
                Some(format!("{} / {}{lost}", at(0.5), at(0.99)))
            });
        }
    }
}

fn capacity(pool: &Pool<'_>) -> String {
    if pool.is_about_handshakes() {
        format!("{} TPS", number::figure(pool.handshakes()))
    } else if pool.is_about_throughput() {
        format!("{} Gbit/s", number::figure(pool.gigabits()))
    } else {
        format!("{} RPS", number::figure(pool.rate()))
    }
}
