//! The colour and the list position of each peer: the same on the whole page, and in every report for known peers. The
//! colours themselves are in `page.css`, for light and dark.

use std::collections::BTreeMap;

use fairway_lab_measure::results::{PeerKind, Results};

/// Peers that the laboratory knows, which always have the same colour.
pub const KNOWN: [&str; 8] =
    ["fairway", "nginx", "nginx-reload", "haproxy", "envoy", "contour", "traefik", "caddy"];

/// The stream straight to the pods.
pub(super) const DIRECT: &str = "direct";

/// The peer that others are compared with.
pub(super) const FAIRWAY: &str = "fairway";

const COLOURS: usize = 9;

const CLASSES: [&str; COLOURS] = ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8"];
const NEUTRAL: &str = "cd";

/// The colours of a report.
#[derive(Clone)]
pub(super) struct Palette {
    positions: BTreeMap<String, usize>,
    neutral: Vec<String>,
}

impl Palette {
    /// Gives every peer of the runs its colour.
    pub(super) fn for_runs<'a>(runs: impl IntoIterator<Item = &'a Results>) -> Self {
        let mut positions: BTreeMap<String, usize> =
            KNOWN.iter().enumerate().map(|(place, name)| ((*name).to_owned(), place)).collect();
        let mut neutral = vec![DIRECT.to_owned()];
        for results in runs {
            for peer in &results.peers {
                if peer.kind == PeerKind::Direct && !neutral.contains(&peer.name) {
                    neutral.push(peer.name.clone());
                }
                let next = positions.len();
                positions.entry(peer.name.clone()).or_insert(next);
            }
            for peer in results.runs.iter().flat_map(|run| &run.measures).map(|measure| &measure.peer) {
                let next = positions.len();
                positions.entry(peer.clone()).or_insert(next);
            }
        }
        Self { positions, neutral }
    }

    /// The place in lists: Fairway first, direct streams last.
    pub(super) fn position(&self, peer: &str) -> usize {
        if self.is_neutral(peer) {
            return usize::MAX;
        }
        self.positions.get(peer).copied().unwrap_or(usize::MAX - 1)
    }

    /// Whether it is no proxy.
    pub(super) fn is_neutral(&self, peer: &str) -> bool {
        self.neutral.iter().any(|name| name == peer)
    }

    /// The class of its colour.
    pub(super) fn class(&self, peer: &str) -> &'static str {
        if self.is_neutral(peer) {
            return NEUTRAL;
        }
        self.positions.get(peer).map_or(NEUTRAL, |place| CLASSES[place % COLOURS])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_known_peer_has_a_distinct_colour_in_light_and_dark() {
        let palette = Palette::for_runs([]);
        let look = include_str!("page.css");
        let mut seen_colours = BTreeSet::new();
        for peer in KNOWN {
            let class = palette.class(peer);
            let colours =
                look.lines().find(|line| line.trim_start().starts_with(&format!("--{class}: light-dark(")));
            let colours = colours.unwrap_or_else(|| panic!("{peer} has no colour"));
            let (light, dark) = colours.split_once('(').unwrap().1.split_once(", ").unwrap();
            assert_ne!(class, NEUTRAL, "{peer}");
            assert!(
                seen_colours.insert(light.to_owned()) && seen_colours.insert(dark.to_owned()),
                "{peer}: {colours}"
            );
        }
    }
}
