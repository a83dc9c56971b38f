//! What rounds come to together: times of propagation as one list, and ratios anew from the pairs of blocks of all
//! rounds, by the method that made those of each. Blocks of different rounds are never a pair.

use fairway_lab_measure::{Block, ratios as paired};
use fairway_lab_results::{Distance, Grounds, Measure, Propagation, Ratio, Run, Settings};

/// The phase of ordinary blocks; the base against itself has another.
const BLOCK: &str = "block";
/// Further apart than the blocks of a round are many.
const ROUND: u32 = 1_000_000;

type Figure = (&'static str, fn(&Measure) -> Option<f64>);

const FIGURES: [Figure; 2] = [
    ("CPU per request", |one| {
        one.cost.as_ref().map(|cost| cost.us_per_request).filter(|figure| *figure > 0.0)
    }),
    ("requests/s", |one| Some(one.load.rate).filter(|figure| *figure > 0.0)),
];

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

/// Which ratio: of whom, in which phase and case, to whose blocks.
#[derive(Clone, PartialEq)]
struct Sides {
    case: String,
    workers: Option<u32>,
    peer: (String, Settings, String),
    base: (String, Settings),
}

/// The ratios of all rounds together.
pub(super) fn ratios(runs: &[&Run]) -> Vec<Ratio> {
    let mut all: Vec<Sides> = Vec::new();
    for sides in runs.iter().flat_map(|run| sides(run)) {
        if !all.contains(&sides) {
            all.push(sides);
        }
    }
    let mut found = Vec::new();
    for sides in &all {
        for (figure, of) in FIGURES {
            let (mut peer, mut base) = (Vec::new(), Vec::new());
            for (round, run) in (0_u32..).zip(runs) {
                let (mut own, theirs) = blocks(run, sides, round, of);
                // Without a block of the base on both sides in its own round it would be paired with another round's.
                own.retain(|block| {
                    theirs.iter().any(|other| other.place < block.place)
                        && theirs.iter().any(|other| other.place > block.place)
                });
                peer.extend(own);
                base.extend(theirs);
            }
            let paired = paired(&peer, &base).into_iter();
            found.extend(paired.map(|paired| Ratio {
                figure: figure.to_owned(),
                case: sides.case.clone(),
                peer: sides.peer.0.clone(),
                settings: sides.peer.1,
                base: sides.base.0.clone(),
                workers: sides.workers,
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
    found
}

/// The ratios that a round has: those of its own table.
fn sides(run: &Run) -> Vec<Sides> {
    let blocks = || run.measures.iter().filter(|one| one.block.is_some());
    let mut found = Vec::new();
    for Ratio { case, workers, base, .. } in &run.ratios {
        let workers = *workers;
        let own = || blocks().filter(|one| one.case == *case && one.workers == workers);
        let Some(first) = own().find(|one| one.peer == *base && one.phase == BLOCK) else { continue };
        let base = (base.clone(), first.settings);
        for one in own() {
            let peer = (one.peer.clone(), one.settings, one.phase.clone());
            let is_base = (&peer.0, peer.1) == (&base.0, base.1) && peer.2 == BLOCK;
            let sides = Sides { case: case.clone(), workers, peer, base: base.clone() };
            if !is_base && !found.contains(&sides) {
                found.push(sides);
            }
        }
    }
    found
}

/// The blocks of both sides in a round.
fn blocks(run: &Run, sides: &Sides, round: u32, of: fn(&Measure) -> Option<f64>) -> (Vec<Block>, Vec<Block>) {
    let of_case =
        |one: &&Measure| one.case == sides.case && one.workers == sides.workers && one.discarded.is_none();
    let side = |name: &str, settings: Settings, phase: &str| -> Vec<Block> {
        let own = run.measures.iter().filter(of_case);
        let own = own
            .filter(|one| (one.peer.as_str(), one.settings, one.phase.as_str()) == (name, settings, phase));
        let block = |one: &Measure| {
            let place = round.saturating_mul(ROUND) + one.block?;
            Some(Block { place, figure: of(one)?, distance: one.backstage.distance })
        };
        own.filter_map(block).collect()
    };
    let (name, settings, phase) = &sides.peer;
    (side(name, *settings, phase), side(&sides.base.0, sides.base.1, BLOCK))
}

#[cfg(test)]
mod tests {
    use fairway_lab_results::{Cost, Load};

    use super::*;

    fn block(place: u32, peer: &str, us: f64) -> Measure {
        serde_json::from_value(serde_json::json!({
            "peer": peer, "settings": "recommended", "case": "HTTP 1 KB", "phase": "block", "block": place, "workers": 1,
            "begun_s": 0.0, "load": Load::default(),
            "cost": Cost { us_per_request: us, ..Cost::default() },
        }))
        .unwrap()
    }

    fn round(fairway: f64, envoy: f64) -> Run {
        let ratio = Ratio {
            figure: "CPU per request".to_owned(),
            case: "HTTP 1 KB".to_owned(),
            peer: "envoy".to_owned(),
            settings: Settings::Recommended,
            base: "fairway".to_owned(),
            workers: Some(1),
            median: envoy / fairway,
            interval: (0.0, 9.0),
            pairs: 1,
            set_aside: 0,
            grounds: Grounds::default(),
        };
        Run {
            scenario: "capacity".to_owned(),
            measures: vec![
                block(0, "fairway", fairway),
                block(1, "envoy", envoy),
                block(2, "fairway", fairway),
            ],
            ratios: vec![ratio],
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
