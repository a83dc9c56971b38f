//! How many times as good or bad as the base each contender was, from blocks beside each other. Measures nothing.

use super::Case;
use crate::measure::{Block, ratio};
use crate::results::{Measure, Ratio, Settings};

/// Of every other contender against Fairway, or against the first where Fairway is not among them; and of that one
/// against itself.
pub(super) fn ratios(measures: &[Measure], case: &Case, workers: u32) -> Vec<Ratio> {
    let Some(base) = measures.iter().find(|one| one.peer == "fairway").or(measures.first()) else {
        return Vec::new();
    };
    let base = (base.peer.clone(), base.settings);
    let mut pairs: Vec<(&str, Settings, &str)> = Vec::new();
    for one in measures {
        let key = (one.peer.as_str(), one.settings, one.phase.as_str());
        if !pairs.contains(&key) && key != (base.0.as_str(), base.1, "block") {
            pairs.push(key);
        }
    }
    let mut found = Vec::new();
    for (figure, of) in FIGURES {
        for (peer, settings, phase) in &pairs {
            let blocks = |name: &str, settings: Settings, phase: &str| -> Vec<Block> {
                let counts = measures.iter().filter(|one| {
                    one.peer == name
                        && one.settings == settings
                        && one.phase == phase
                        && one.discarded.is_none()
                });
                counts.filter_map(|one| Some(Block { place: one.block?, figure: of(one)? })).collect()
            };
            let of_peer = blocks(peer, *settings, phase);
            let Some(paired) = ratio(&of_peer, &blocks(&base.0, base.1, "block")) else { continue };
            found.push(Ratio {
                figure: figure.to_owned(),
                case: case.name.clone(),
                peer: (*peer).to_owned(),
                settings: *settings,
                base: base.0.clone(),
                workers: Some(workers),
                median: paired.median,
                interval: paired.interval,
                pairs: paired.pairs,
                set_aside: paired.set_aside,
            });
        }
    }
    found
}

type Figure = (&'static str, fn(&Measure) -> Option<f64>);

const FIGURES: [Figure; 2] = [
    ("CPU per request", |one| {
        one.cost.as_ref().map(|cost| cost.us_per_request).filter(|figure| *figure > 0.0)
    }),
    ("requests/s", |one| Some(one.load.rate).filter(|figure| *figure > 0.0)),
];
