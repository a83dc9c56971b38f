//! The model of a plot: panels with the same axes, series of peers, events. [`super::drawing`] draws it. Never reads
//! results.

use fairway_lab_measure::results::Settings;

use super::downsample::Point;
use super::scale::Spread;

/// A plot: one panel, or small ones with the same axes.
pub(super) struct Figure {
    /// Its heading.
    pub title: String,
    /// How to read it, in one or two sentences.
    pub reading: String,
    /// Left to right.
    pub x: Axis,
    /// Bottom to top.
    pub y: Axis,
    /// One or more.
    pub panels: Vec<Panel>,
}

/// An axis.
pub(super) struct Axis {
    /// The quantity, with its unit.
    pub label: &'static str,
    /// The scale of the axis.
    pub spread: Spread,
}

/// A panel.
#[derive(Default)]
pub(super) struct Panel {
    /// The heading, if there are several charts.
    pub title: String,
    /// Lines.
    pub series: Vec<Series>,
    /// When something happened: places on the x axis.
    pub events: Vec<f64>,
}

/// The style of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// A line.
    Solid,
    /// A broken line: the defaults of a peer, or its other case.
    Dashed,
    /// A thin line behind the others.
    Faint,
    /// A line of steps: a distribution.
    Steps,
    /// Ticks at the bottom where something failed.
    Failures,
}

impl Look {
    /// Its class in drawings.
    pub(super) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// A line of a peer.
pub(super) struct Series {
    /// The peer.
    pub peer: String,
    /// The label.
    pub label: String,
    /// The style.
    pub look: Look,
    /// Its points, x ascending.
    pub points: Vec<Point>,
}

impl Series {
    /// The line of a peer, broken where it is of default settings.
    pub(super) fn for_peer(peer: &str, settings: Settings, look: Look, points: Vec<Point>) -> Self {
        let (label, look) = match settings {
            Settings::Recommended => (peer.to_owned(), look),
            Settings::Defaults => (format!("{peer}, defaults"), Look::Dashed),
        };
        Self { peer: peer.to_owned(), label, look, points }
    }
}

impl Figure {
    /// All points, for the axes; failures have no place on the y axis.
    pub(super) fn points(&self) -> impl Iterator<Item = Point> {
        self.panels
            .iter()
            .flat_map(|panel| &panel.series)
            .filter(|series| series.look != Look::Failures)
            .flat_map(|series| series.points.iter().copied())
    }
}
