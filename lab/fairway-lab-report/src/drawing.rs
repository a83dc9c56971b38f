//! Draws figures as SVG in the colours of the page, light and dark. Does not choose what is drawn.

use minijinja::value::Serde;
use minijinja::{HtmlEscape, Value, context};

use super::downsample::{Point, thin};
use super::figure::{Figure, Look, Panel, Series};
use super::merge::distinct;
use super::palette::Palette;
use super::scale::Scale;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 46.0;
const BOTTOM: f64 = 32.0;

impl Figure {
    /// The plot with its legend; nothing if there is nothing to draw.
    pub(super) fn plot(&self, palette: &Palette) -> Option<Value> {
        self.points().next()?;
        let series = || self.panels.iter().flat_map(|panel| &panel.series);
        let mut peers = distinct(series().map(|series| &series.peer));
        peers.sort_by_key(|peer| palette.position(peer));
        let only = |look: Look| {
            let labels = distinct(series().filter(|line| line.look == look).map(|line| &line.label));
            if let [label] = labels.as_slice() { Some(((*label).clone(), look.name())) } else { None }
        };
        let looks: Vec<_> = [Look::Dashed, Look::Faint].into_iter().filter_map(only).collect();
        let peers: Vec<_> = peers.into_iter().map(|peer| (peer.clone(), palette.class(peer))).collect();
        let (title, reading) = (&self.title, &self.reading);
        Some(
            context! { title, reading, peers => Serde(peers), looks => Serde(looks), svg => draw(self, palette) },
        )
    }
}

/// The place of one panel's plot on the drawing.
struct Frame {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
    x: Scale,
    y: Scale,
}

/// Draws a figure.
pub(super) fn draw(figure: &Figure, palette: &Palette) -> String {
    let crowded =
        figure.panels.iter().any(|panel| panel.series.iter().filter(|line| is_named(line)).count() > 3);
    let single = figure.panels.len() == 1;
    let columns = match figure.panels.len() {
        1 => 1,
        2 | 4 => 2,
        // Room for names, which on paper and without colours are all that distinguishes the lines.
        _ if crowded => 2,
        _ => 3,
    };
    let rows = figure.panels.len().div_ceil(columns);
    let (width, height) = (WIDTH / columns as f64, if single { 320.0 } else { 190.0 });
    let mut svg = format!(
        "<svg class=\"static\" role=\"img\" viewBox=\"0 0 {} {}\" aria-label=\"{}\">",
        coordinate(WIDTH),
        coordinate(height * rows as f64),
        HtmlEscape(&figure.title)
    );
    let x = Scale::for_values(figure.x.spread, figure.points().map(|point| point.0));
    let y = Scale::for_values(figure.y.spread, figure.points().map(|point| point.1));
    for (at, panel) in figure.panels.iter().enumerate() {
        let right = match (single, crowded) {
            (true, _) => 120.0,
            (false, true) => 106.0,
            (false, false) => 26.0,
        };
        let top = if single { 24.0 } else { 38.0 };
        let frame = Frame {
            left: (at % columns) as f64 * width + LEFT,
            top: (at / columns) as f64 * height + top,
            width: width - LEFT - right,
            height: height - top - BOTTOM,
            x,
            y,
        };
        svg += &frame.axes(figure, panel);
        svg += &frame.events(panel);
        svg.extend(panel.series.iter().map(|series| frame.series(series, palette)));
        if single || crowded {
            svg += &frame.labels(panel, palette);
        }
    }
    svg + "</svg>"
}

/// Whether its name is shown at the end of the line, if it fits.
fn is_named(series: &Series) -> bool {
    !matches!(series.look, Look::Failures | Look::Faint)
}

/// A number with one decimal, unless that is 0.
fn coordinate(value: f64) -> String {
    let digits = usize::from(value.fract().abs() >= 0.05);
    format!("{value:.digits$}")
}

/// A text, in which nothing becomes markup.
fn text(class: &str, (x, y): Point, text: &str) -> String {
    format!(
        "<text class=\"{class}\" x=\"{}\" y=\"{}\">{}</text>",
        coordinate(x),
        coordinate(y),
        HtmlEscape(text)
    )
}

fn line(class: &str, from: Point, to: Point) -> String {
    let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(coordinate);
    format!("<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>")
}

impl Frame {
    fn at(&self, (x, y): Point) -> Point {
        (self.left + self.x.position(x) * self.width, self.top + (1.0 - self.y.position(y)) * self.height)
    }

    fn axes(&self, figure: &Figure, panel: &Panel) -> String {
        let (bottom, right) = (self.top + self.height, self.left + self.width);
        let mut svg = String::new();
        if figure.panels.len() > 1 {
            svg += &text("panel", (self.left - LEFT + 6.0, self.top - 22.0), &panel.title);
        }
        svg += &text("axis", (self.left - LEFT + 6.0, self.top - 8.0), figure.y.label);
        for (value, tick) in self.y.ticks((self.height / 26.0) as usize) {
            let y = bottom - self.y.position(value) * self.height;
            svg += &line("grid", (self.left, y), (right, y));
            svg += &text("tick end", (self.left - 5.0, y + 3.5), &tick);
        }
        let mut free_from = f64::NEG_INFINITY;
        for (value, tick) in self.x.ticks(((self.width / 80.0) as usize).max(4)) {
            let x = self.left + self.x.position(value) * self.width;
            svg += &line("grid", (x, bottom), (x, bottom + 4.0));
            if x >= free_from {
                svg += &text("tick middle", (x, bottom + 15.0), &tick);
                free_from = x + 8.0 + 6.5 * tick.len() as f64;
            }
        }
        svg += &line("base", (self.left, bottom), (right, bottom));
        svg + &text("axis end", (right, bottom + 28.0), figure.x.label)
    }

    fn events(&self, panel: &Panel) -> String {
        let event = |at: &f64| {
            let x = self.left + self.x.position(*at) * self.width;
            line("event", (x, self.top), (x, self.top + self.height))
        };
        panel.events.iter().filter(|at| at.is_finite()).map(event).collect()
    }

    fn series(&self, series: &Series, palette: &Palette) -> String {
        let points = thin(&series.points, self.width as usize);
        let bottom = self.top + self.height;
        let failure = |point: &Point| {
            let x = self.at(*point).0;
            line("failure", (x, bottom - 7.0), (x, bottom))
        };
        let drawn: String = match series.look {
            _ if points.is_empty() => return String::new(),
            Look::Failures => points.iter().map(failure).collect(),
            look => self.path(&points, look == Look::Steps),
        };
        format!("<g class=\"{} {}\">{drawn}</g>", palette.class(&series.peer), series.look.name())
    }

    fn path(&self, points: &[Point], steps: bool) -> String {
        if points.len() < 2 {
            return String::new();
        }
        // Distances in tenths are half as long as places, and add up to the same place.
        let tenths = |point: Point| {
            let (x, y) = self.at(point);
            ((x * 10.0).round(), (y * 10.0).round())
        };
        let mut last = tenths(points[0]);
        let mut svg = format!("<path d=\"M{} {}", coordinate(last.0 / 10.0), coordinate(last.1 / 10.0));
        for (at, point) in points[1..].iter().enumerate() {
            let next = tenths(*point);
            let (x, y) = (coordinate((next.0 - last.0) / 10.0), coordinate((next.1 - last.1) / 10.0));
            last = next;
            svg += &match (steps, at) {
                (true, _) => format!("h{x}v{y}"),
                (false, 0) => format!("l{x} {y}"),
                (false, _) => format!(" {x} {y}"),
            };
        }
        svg + "\"/>"
    }

    /// Names at the ends of the lines, moved apart where they would cover each other.
    fn labels(&self, panel: &Panel, palette: &Palette) -> String {
        let end = |series| {
            let Series { points, .. }: &Series = series;
            let last = points.iter().rev().find(|(x, y)| x.is_finite() && y.is_finite())?;
            Some((self.at(*last).1, series))
        };
        let named = panel.series.iter().filter(|series| is_named(series));
        let mut ends: Vec<(f64, &Series)> = named.filter_map(end).collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut free = self.top - 6.0;
        // Enough room must be left below for those that follow.
        let mut last = self.top + self.height - 12.0 * ends.len() as f64;
        let mut svg = String::new();
        for (y, series) in ends {
            last += 12.0;
            let y = y.min(last).max(free);
            free = y + 12.0;
            let name = text("name", (self.left + self.width + 6.0, y + 3.5), &cut(&series.label));
            svg += &format!("<g class=\"{}\">{name}</g>", palette.class(&series.peer));
        }
        svg
    }
}

/// A name shortened to fit next to a plot; the legend has the full name.
fn cut(label: &str) -> String {
    match label.char_indices().nth(16) {
        Some((at, _)) if label.chars().count() > 17 => format!("{}…", &label[..at]),
        _ => label.to_owned(),
    }
}
