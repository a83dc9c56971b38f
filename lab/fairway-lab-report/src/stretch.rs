//! What changes do to the percentile curve: the latency while pods come and go divided by that while nothing changes, and
//! the same of the stream straight to the pods at those times, which is what the machine makes of it. Never draws.

use fairway_lab_measure::results::Settings;

use super::number::{self, TOO_FEW};
use super::peers::DIRECT;
use super::pool::Pool;

/// The cases of `dynamic`.
const CASES: [&str; 2] = ["static", "dynamic"];

/// The dynamic latency of a peer divided by its static one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stretch {
    /// Of the peer.
    pub through: f64,
    /// Of the stream straight to the pods that ran beside it.
    pub straight: Option<f64>,
}

impl Stretch {
    /// `1.76 (1.98)`, the second straight to the pods.
    pub(super) fn text(&self) -> String {
        let straight = self.straight.map_or_else(|| TOO_FEW.to_owned(), number::ratio);
        format!("{} ({straight})", number::ratio(self.through))
    }
}

/// The stretch of a peer at a percentile; none where a run has not both cases, or fewer than ten values are above either of
/// the two.
pub(super) fn stretch(pools: &[Pool<'_>], peer: &str, settings: Settings, percent: f64) -> Option<Stretch> {
    let of = |peer: &str, case: &str| {
        pools.iter().find(|pool| pool.peer == peer && pool.settings == settings && pool.case == case)
    };
    let [calm, moved] = CASES.map(|case| of(peer, case)?.percentile(percent));
    let (calm, moved) = (calm?, moved?);
    let direct = CASES.map(|case| of(DIRECT, case)?.beside(peer)?.percentile(percent));
    let straight = match direct {
        [Some(calm), Some(moved)] if calm.ms > 0.0 => Some(moved.ms / calm.ms),
        _ => None,
    };
    (calm.ms > 0.0).then(|| Stretch { through: moved.ms / calm.ms, straight })
}

#[cfg(test)]
mod tests {
    use super::super::gather::Scenario;
    use super::super::palette::Palette;
    use super::super::pool::whole;
    use super::*;
    use fairway_lab_measure::results::{Latency, Load, Measure, Percentile};

    fn measure(peer: &str, beside: Option<&str>, case: &str, ms: f64, above: u64) -> Measure {
        let percentiles = vec![Percentile { percent: 99.9, ms, above }];
        let latency = Latency { count: 1_000 * above, percentiles, ..Latency::default() };
        serde_json::from_value(serde_json::json!({
            "peer": peer, "settings": "recommended", "case": case, "phase": "pooled", "beside": beside,
            "begun_s": 0.0, "load": Load { latency, ..Load::default() },
        }))
        .expect("a measure")
    }

    fn run(direct_above: u64) -> Scenario {
        let mut run: fairway_lab_measure::results::Run = serde_json::from_value(serde_json::json!({
            "scenario": "dynamic", "purpose": "", "parameters": [], "shortened": [], "seconds": 1.0, "measures": [],
            "events": [], "ratios": [], "spikes": [], "propagations": [],
        }))
        .expect("a run");
        run.measures = vec![
            measure("envoy", None, "static", 2.0, 20),
            measure("direct", Some("envoy"), "static", 1.0, direct_above),
            measure("direct", Some("haproxy"), "static", 9.0, 20),
            measure("envoy", None, "dynamic", 6.0, 20),
            measure("direct", Some("envoy"), "dynamic", 1.5, direct_above),
        ];
        Scenario::from(run)
    }

    #[test]
    fn the_stretch_of_the_machine_is_that_of_the_direct_stream_which_ran_beside_the_peer() {
        let run = run(20);
        let pools = whole(&run, &Palette::of(&[]));
        let found = stretch(&pools, "envoy", Settings::Recommended, 99.9).expect("both cases");
        assert_eq!(found, Stretch { through: 3.0, straight: Some(1.5) });
        assert_eq!(stretch(&pools, "haproxy", Settings::Recommended, 99.9), None);
    }

    #[test]
    fn what_stands_on_fewer_than_ten_values_is_not_printed() {
        let mut few = run(9);
        let found = stretch(&whole(&few, &Palette::of(&[])), "envoy", Settings::Recommended, 99.9);
        assert_eq!(found.expect("both cases").text(), "3.00 (too few)");
        few = Scenario::from(fairway_lab_measure::results::Run {
            measures: vec![
                measure("envoy", None, "static", 2.0, 20),
                measure("envoy", None, "dynamic", 6.0, 9),
            ],
            ..fairway_lab_measure::results::Run::default()
        });
        let found = stretch(&whole(&few, &Palette::of(&[])), "envoy", Settings::Recommended, 99.9);
        assert_eq!(found, None);
    }
}
