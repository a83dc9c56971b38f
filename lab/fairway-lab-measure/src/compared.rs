//! Which blocks of `capacity` are compared, by which figures, and the ratios they come to. The laboratory makes its tables
//! with it, and the report makes the ratios of several rounds with it.

use crate::pairs::{Block, Paired, ratios};
use crate::results::{Distance, Grounds, Measure, Ratio, Settings};

/// The phase of ordinary blocks; the base compared with itself has another.
const BLOCK: &str = "block";

/// A figure by which blocks are compared.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Its name in the results.
    pub name: &'static str,
    of: fn(&Measure) -> Option<f64>,
}

/// All of them.
pub const FIGURES: [Figure; 2] = [
    Figure { name: "CPU per request", of: |one| above_zero(one.cost.as_ref()?.us_per_request) },
    Figure { name: "requests/s", of: |one| above_zero(one.load.rate) },
];

fn above_zero(figure: f64) -> Option<f64> {
    Some(figure).filter(|figure| *figure > 0.0)
}

/// Whose blocks: a peer with its settings, and the phase.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Side {
    peer: String,
    settings: Settings,
    phase: String,
}

impl Side {
    fn of(measure: &Measure) -> Self {
        let Measure { peer, settings, phase, .. } = measure;
        Self { peer: peer.clone(), settings: *settings, phase: phase.clone() }
    }
}

/// What is compared: a peer with the base, in a case with so many workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    case: String,
    workers: Option<u32>,
    peer: Side,
    base: Side,
}

impl Comparison {
    /// All that there are: everyone with the peer `base` in the same case, with the same settings and as many workers, and
    /// that one with itself.
    #[must_use]
    pub fn all(measures: &[Measure], base: &str) -> Vec<Self> {
        let blocks = || measures.iter().filter(|one| one.block.is_some());
        let conditions = |one: &Measure| (one.settings, one.workers);
        let mut found = Vec::new();
        for peer in blocks() {
            let is_base = |one: &&Measure| {
                one.peer == base
                    && one.phase == BLOCK
                    && one.case == peer.case
                    && conditions(one) == conditions(peer)
            };
            let Some(base) = blocks().find(is_base) else { continue };
            let comparison = Self {
                case: peer.case.clone(),
                workers: peer.workers,
                peer: Side::of(peer),
                base: Side::of(base),
            };
            if comparison.peer != comparison.base && !found.contains(&comparison) {
                found.push(comparison);
            }
        }
        found
    }

    /// The peer that is compared with the base.
    #[must_use]
    pub fn peer(&self) -> &str {
        &self.peer.peer
    }

    /// The blocks of both that count: the peer's and the base's.
    #[must_use]
    pub fn blocks(&self, measures: &[Measure], figure: Figure) -> (Vec<Block>, Vec<Block>) {
        let of = |side: &Side| -> Vec<Block> {
            let own = measures.iter().filter(|one| {
                one.case == self.case
                    && one.workers == self.workers
                    && one.discarded.is_none()
                    && Side::of(one) == *side
            });
            let block = |one: &Measure| {
                Some(Block { place: one.block?, figure: (figure.of)(one)?, distance: one.backstage.distance })
            };
            own.filter_map(block).collect()
        };
        (of(&self.peer), of(&self.base))
    }

    /// The ratios of these blocks, one for each state of the CPUs in which a pair counts.
    #[must_use]
    pub fn ratios(&self, figure: Figure, peer: &[Block], base: &[Block]) -> Vec<Ratio> {
        ratios(peer, base).into_iter().map(|paired| self.ratio(figure, &paired)).collect()
    }

    fn ratio(&self, figure: Figure, paired: &Paired) -> Ratio {
        Ratio {
            figure: figure.name.to_owned(),
            case: self.case.clone(),
            peer: self.peer.peer.clone(),
            settings: self.peer.settings,
            base: self.base.peer.clone(),
            workers: self.workers,
            median: paired.spread.median,
            interval: paired.spread.interval,
            pairs: paired.pairs,
            set_aside: paired.set_aside,
            grounds: Grounds {
                distance: Some(paired.distance).filter(|distance| *distance != Distance::Unknown),
                coverage: Some(paired.spread.coverage),
                median_of_all: Some(paired.median_of_all),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::results::{Backstage, Cost, Load};

    use super::*;

    fn block(place: u32, peer: &str, settings: Settings, phase: &str) -> Measure {
        Measure {
            peer: peer.to_owned(),
            settings,
            case: "HTTP 1 KB".to_owned(),
            phase: phase.to_owned(),
            beside: None,
            block: Some(place),
            discarded: None,
            workers: Some(1),
            begun_s: 0.0,
            load: Load::default(),
            cost: Some(Cost { us_per_request: f64::from(place + 1), ..Cost::default() }),
            backstage: Backstage::default(),
        }
    }

    #[test]
    fn everyone_is_compared_with_the_base_of_the_same_settings_and_the_base_with_itself() {
        use Settings::{Defaults, Recommended};
        let mut measures = vec![
            block(0, "fairway", Recommended, BLOCK),
            block(1, "envoy", Recommended, BLOCK),
            block(2, "fairway", Recommended, "the same again"),
            block(3, "fairway", Defaults, BLOCK),
            block(4, "envoy", Defaults, BLOCK),
            block(5, "envoy", Defaults, BLOCK),
            block(6, "envoy", Defaults, BLOCK),
        ];
        // There is no block of the base with two workers.
        measures[6].workers = Some(2);
        let all = Comparison::all(&measures, "fairway");
        let sides: Vec<_> =
            all.iter().map(|one| (one.peer(), one.peer.settings, one.base.settings)).collect();
        let wanted = [
            ("envoy", Recommended, Recommended),
            ("fairway", Recommended, Recommended),
            ("envoy", Defaults, Defaults),
        ];
        assert_eq!(sides, wanted);
        assert!(Comparison::all(&measures, "nginx").is_empty());
    }

    #[test]
    fn discarded_blocks_and_blocks_without_the_figure_do_not_count() {
        let mut measures = vec![
            block(0, "fairway", Settings::Recommended, BLOCK),
            block(1, "envoy", Settings::Recommended, BLOCK),
            block(2, "fairway", Settings::Recommended, BLOCK),
            block(3, "envoy", Settings::Recommended, BLOCK),
        ];
        let comparison = Comparison::all(&measures, "fairway").remove(0);
        let places = |measures: &[Measure], figure| {
            let (peer, base) = comparison.blocks(measures, figure);
            let places = |blocks: &[Block]| blocks.iter().map(|block| block.place).collect::<Vec<_>>();
            (places(&peer), places(&base))
        };
        assert_eq!(places(&measures, FIGURES[0]), (vec![1, 3], vec![0, 2]));
        assert_eq!(places(&measures, FIGURES[1]), (vec![], vec![]));
        measures[2].discarded = Some("stolen".to_owned());
        assert_eq!(places(&measures, FIGURES[0]), (vec![1, 3], vec![0]));
        let (peer, base) = comparison.blocks(&measures, FIGURES[0]);
        let found = comparison.ratios(FIGURES[0], &peer, &base);
        assert_eq!((found[0].peer.as_str(), found[0].base.as_str(), found[0].pairs), ("envoy", "fairway", 2));
    }
}
