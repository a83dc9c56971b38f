//! How many times as good or bad as the base each contender was, from blocks beside each other. Measures nothing.

use fairway_lab_measure::results::{Measure, Ratio};
use fairway_lab_measure::{Comparison, FIGURES};

/// Of every other contender against Fairway, or against the first where Fairway is not among them; and of that one
/// against itself. Where no pair counts there is a sentence instead.
pub(super) fn ratios(measures: &[Measure], case: &str, workers: u32) -> (Vec<Ratio>, Vec<String>) {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    let Some(base) = measures.iter().find(|one| one.peer == "fairway").or(measures.first()) else {
        return (found, missing);
    };
    let comparisons = Comparison::all(measures, &base.peer);
    for figure in FIGURES {
        for comparison in &comparisons {
            let (peer, base) = comparison.blocks(measures, figure);
            let ratios = comparison.ratios(figure, &peer, &base);
            if ratios.is_empty() {
                missing.push(format!(
                    "{case}, workers: {workers}: {} has no ratio of {}: around each of its blocks the machine changed its speed, or blocks were discarded",
                    comparison.peer(), figure.name
                ));
            }
            found.extend(ratios);
        }
    }
    (found, missing)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use fairway_lab_measure::results::{Cost, Load};

    fn block(place: u32, peer: &str, us: f64) -> Measure {
        serde_json::from_value(json!({
            "peer": peer, "settings": "recommended", "case": "HTTP 1 KB", "phase": "block", "block": place, "workers": 1,
            "begun_s": 0.0, "load": Load::default(),
            "cost": Cost { us_per_request: us, ..Cost::default() },
        }))
        .expect("a measure")
    }

    #[test]
    fn a_peer_around_whose_blocks_the_machine_changed_has_a_sentence_instead_of_a_ratio() {
        let steady = [block(0, "fairway", 5.0), block(1, "envoy", 20.0), block(2, "fairway", 5.0)];
        let (found, missing) = ratios(&steady, "HTTP 1 KB", 1);
        assert_eq!((found.len(), found[0].median), (1, 4.0));
        assert!(missing.iter().all(|told| told.contains("requests/s")), "{missing:?}");
        assert_eq!((found[0].pairs, found[0].grounds.coverage), (1, Some(0.0)));
        let changed = [block(0, "fairway", 5.0), block(1, "envoy", 20.0), block(2, "fairway", 10.0)];
        let (found, missing) = ratios(&changed, "HTTP 1 KB", 1);
        assert!(found.is_empty());
        assert!(
            missing[0].starts_with("HTTP 1 KB, workers: 1: envoy has no ratio of CPU per request"),
            "{missing:?}"
        );
    }
}
