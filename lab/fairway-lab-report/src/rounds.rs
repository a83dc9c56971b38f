//! What rounds come to together: times of propagation as one list, and ratios anew from the pairs of blocks of all
//! rounds, by the method that made those of each. Blocks of different rounds are never a pair.

use fairway_lab_measure::results::{Propagation, Ratio, Run};
use fairway_lab_measure::{Comparison, FIGURES, Figure};

/// Further apart than the blocks of a round are many.
const ROUND: u32 = 1_000_000;

/// Adds the times of another round.
pub(super) fn propagations(all: &mut Vec<Propagation>, more: &[Propagation]) {
    for one in more {
        let twin = all
            .iter_mut()
            .find(|twin| (&twin.peer, twin.settings, &twin.case) == (&one.peer, one.settings, &one.case));
        let Some(twin) = twin else {
            all.push(one.clone());
            continue;
        };
        twin.ms.extend(&one.ms);
        twin.lost += one.lost;
        twin.wrong += one.wrong;
        twin.routes = twin.routes.max(one.routes);
        twin.memory_bytes = twin.memory_bytes.max(one.memory_bytes);
    }
}

/// The ratios of all rounds together.
pub(super) fn ratios(runs: &[&Run]) -> Vec<Ratio> {
    let mut all: Vec<Comparison> = Vec::new();
    for comparison in runs.iter().flat_map(|run| comparisons(run)) {
        if !all.contains(&comparison) {
            all.push(comparison);
        }
    }
    let of_all = |comparison| FIGURES.into_iter().flat_map(move |figure| pooled(runs, comparison, figure));
    all.iter().flat_map(of_all).collect()
}

/// From the pairs of blocks of all rounds.
fn pooled(runs: &[&Run], comparison: &Comparison, figure: Figure) -> Vec<Ratio> {
    let (mut peer, mut base) = (Vec::new(), Vec::new());
    for (round, run) in (0_u32..).zip(runs) {
        let (mut own, mut theirs) = comparison.blocks(&run.measures, figure);
        // Without a block of the base on both sides in its own round it would be paired with another round's.
        own.retain(|block| {
            theirs.iter().any(|other| other.place < block.place)
                && theirs.iter().any(|other| other.place > block.place)
        });
        own.iter_mut().chain(&mut theirs).for_each(|block| block.place += round.saturating_mul(ROUND));
        peer.extend(own);
        base.extend(theirs);
    }
    comparison.ratios(figure, &peer, &base)
}

/// The comparisons that a round has, with the bases of its own table.
fn comparisons(run: &Run) -> Vec<Comparison> {
    let mut bases: Vec<&str> = run.ratios.iter().map(|ratio| ratio.base.as_str()).collect();
    bases.dedup();
    bases.iter().flat_map(|base| Comparison::all(&run.measures, base)).collect()
}

#[cfg(test)]
mod tests {
    use fairway_lab_measure::results::{Cost, Measure};

    use super::super::pool::measure;
    use super::*;

    fn block(place: u32, peer: &str, us: f64) -> Measure {
        let mut block = measure(peer, "HTTP 1 KB", 0);
        (block.phase, block.block, block.workers) = ("block".to_owned(), Some(place), Some(1));
        block.cost = Some(Cost { us_per_request: us, ..Cost::default() });
        block
    }

    fn round(fairway: f64, envoy: f64) -> Run {
        let ratio = serde_json::json!({
            "figure": "CPU per request", "case": "HTTP 1 KB", "peer": "envoy", "settings": "recommended", "base": "fairway",
            "workers": 1, "median": envoy / fairway, "interval": [0.0, 9.0], "pairs": 1,
        });
        let measures = [(0, "fairway", fairway), (1, "envoy", envoy), (2, "fairway", fairway)];
        Run {
            scenario: "capacity".to_owned(),
            measures: measures.map(|(place, peer, us)| block(place, peer, us)).into(),
            ratios: vec![serde_json::from_value(ratio).unwrap()],
            ..Run::default()
        }
    }

    #[test]
    fn pairs_of_all_rounds_make_one_ratio_with_an_interval_of_its_own() {
        let rounds: Vec<Run> = (0..7).map(|at| round(10.0, 20.0 + f64::from(at % 3))).collect();
        let found = ratios(&rounds.iter().collect::<Vec<_>>());
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].pairs, found[0].interval), (7, (2.0, 2.2)));
        assert!((found[0].median - 2.1).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn blocks_of_two_rounds_are_no_pair() {
        // In the second round everything took twice as long, and its first block of the base does not count.
        let (first, mut second) = (round(10.0, 20.0), round(20.0, 40.0));
        second.measures[0].discarded = Some("stolen".to_owned());
        let found = ratios(&[&first, &second]);
        assert_eq!((found[0].pairs, found[0].median), (1, 2.0));
    }
}
