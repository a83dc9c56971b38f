//! How many times as good or bad as the base each contender was, from blocks beside each other. Measures nothing.

use fairway_lab_measure::{Block, ratios as paired};
use fairway_lab_results::{Distance, Grounds, Measure, Ratio, Settings};

/// Of every other contender against Fairway, or against the first where Fairway is not among them; and of that one
/// against itself. Where no pair counts there is a sentence instead.
pub(super) fn ratios(measures: &[Measure], case: &str, workers: u32) -> (Vec<Ratio>, Vec<String>) {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    let Some(base) = measures.iter().find(|one| one.peer == "fairway").or(measures.first()) else {
        return (found, missing);
    };
    let base = (base.peer.clone(), base.settings);
    let mut pairs: Vec<(&str, Settings, &str)> = Vec::new();
    for one in measures {
        let key = (one.peer.as_str(), one.settings, one.phase.as_str());
        if !pairs.contains(&key) && key != (base.0.as_str(), base.1, "block") {
            pairs.push(key);
        }
    }
    for (figure, of) in FIGURES {
        for (peer, settings, phase) in &pairs {
            let blocks = |name: &str, settings: Settings, phase: &str| -> Vec<Block> {
                let counts = measures.iter().filter(|one| {
                    one.peer == name
                        && one.settings == settings
                        && one.phase == phase
                        && one.discarded.is_none()
                });
                let block = |one: &Measure| {
                    Some(Block { place: one.block?, figure: of(one)?, distance: one.backstage.distance })
                };
                counts.filter_map(block).collect()
            };
            let of_peer = blocks(peer, *settings, phase);
            let paired = paired(&of_peer, &blocks(&base.0, base.1, "block"));
            if paired.is_empty() {
                missing.push(format!(
                    "{case}, workers: {workers}: {peer} has no ratio of {figure}: around each of its blocks the machine changed its speed, or blocks were discarded"
                ));
            }
            found.extend(paired.into_iter().map(|paired| Ratio {
                figure: figure.to_owned(),
                case: case.to_owned(),
                peer: (*peer).to_owned(),
                settings: *settings,
                base: base.0.clone(),
                workers: Some(workers),
                median: paired.spread.median,
                interval: paired.spread.interval,
                pairs: paired.pairs,
                set_aside: paired.set_aside,
                grounds: Grounds {
                    distance: Some(paired.distance).filter(|distance| *distance != Distance::Unknown),
                    coverage: Some(paired.spread.coverage),
                    median_of_all: Some(paired.median_of_all),
                },
            }));
        }
    }
    (found, missing)
}

type Figure = (&'static str, fn(&Measure) -> Option<f64>);

const FIGURES: [Figure; 2] = [
    ("CPU per request", |one| {
        one.cost.as_ref().map(|cost| cost.us_per_request).filter(|figure| *figure > 0.0)
    }),
    ("requests/s", |one| Some(one.load.rate).filter(|figure| *figure > 0.0)),
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use fairway_lab_results::{Cost, Load};

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
