//! What a plot is, before it is drawn: panels with the same axes, series of peers, events. [`super::drawing`] draws it
//! for paper and for browsers without scripts; `page.js` draws the same for a screen. Never reads results.

use serde_json::{Value, json};

use super::scale::Spread;
use super::thin::{Point, thinned};

/// A plot: one panel, or small ones with the same axes.
pub(super) struct Figure {
    /// Its heading.
    pub title: String,
    /// How to read it, in a sentence or two.
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
    /// What is on it, with its unit.
    pub label: &'static str,
    /// How values are spread over it.
    pub spread: Spread,
}

/// A panel.
#[derive(Default)]
pub(super) struct Panel {
    /// Its heading, where there are several.
    pub title: String,
    /// Lines.
    pub series: Vec<Series>,
    /// What happened when: place on the x axis and words.
    pub events: Vec<(f64, String)>,
}

/// How a series looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// A line.
    Solid,
    /// A broken line: the defaults of a peer, or its other case.
    Dashed,
    /// A thin line behind the others.
    Faint,
    /// A line with its points.
    Dotted,
    /// A line of steps: a distribution.
    Steps,
    /// Ticks at the bottom where something failed.
    Failures,
}

impl Look {
    /// Its name for `page.js` and its class in drawings.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Solid => "solid",
            Self::Dashed => "dashed",
            Self::Faint => "faint",
            Self::Dotted => "dotted",
            Self::Steps => "steps",
            Self::Failures => "failures",
        }
    }
}

/// A line of a peer.
pub(super) struct Series {
    /// Whose.
    pub peer: String,
    /// What is written beside it.
    pub label: String,
    /// How it looks.
    pub look: Look,
    /// Its points, x ascending.
    pub points: Vec<Point>,
}

impl Figure {
    /// Whether there is anything to draw.
    pub(super) fn is_empty(&self) -> bool {
        self.points().next().is_none()
    }

    /// All points, for the axes; failures have no place on the y axis.
    pub(super) fn points(&self) -> impl Iterator<Item = Point> {
        self.panels
            .iter()
            .flat_map(|panel| &panel.series)
            .filter(|series| series.look != Look::Failures)
            .flat_map(|series| series.points.iter().copied())
    }

    /// How many points there are.
    pub(super) fn size(&self) -> usize {
        self.panels.iter().flat_map(|panel| &panel.series).map(|series| series.points.len()).sum()
    }

    /// For `page.js`, with at most about so many points for each series.
    pub(super) fn text(&self, most: usize, class_of: &dyn Fn(&str) -> &'static str) -> Value {
        let axis = |axis: &Axis| json!({ "label": axis.label, "spread": axis.spread.name() });
        let panel = |panel: &Panel| {
            let series: Vec<Value> = panel.series.iter().map(|series| series.text(most, class_of)).collect();
            json!({ "title": panel.title, "series": series, "events": panel.events })
        };
        let panels: Vec<Value> = self.panels.iter().map(panel).collect();
        json!({ "title": self.title, "x": axis(&self.x), "y": axis(&self.y), "panels": panels })
    }
}

impl Series {
    fn text(&self, most: usize, class_of: &dyn Fn(&str) -> &'static str) -> Value {
        let points = thinned(&self.points, most);
        let flat: Vec<f64> = points.iter().flat_map(|(x, y)| [shortened(*x, 6), shortened(*y, 4)]).collect();
        json!({
            "peer": self.peer,
            "label": self.label,
            "look": self.look.name(),
            "colour": class_of(&self.peer),
            "points": flat,
        })
    }
}

/// The value with so many significant digits: half of the file would else be digits that nobody can see.
fn shortened(value: f64, digits: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let places = digits - 1 - value.abs().log10().floor() as i32;
    let factor = 10f64.powi(places.clamp(-12, 12));
    (value * factor).round() / factor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shortened_to_what_can_be_seen() {
        assert_eq!(shortened(0.123_456_7, 4).to_string(), "0.1235");
        assert_eq!(shortened(359.900_000_001, 7).to_string(), "359.9");
        assert_eq!(shortened(12_345.678, 4).to_string(), "12350");
    }
}
