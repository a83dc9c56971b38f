//! Draws figures as SVG whose colours are those of the page, light and dark. Never chooses what is drawn.

use std::fmt::Write;

use super::figure::{Figure, Look, Panel, Series};
use super::palette::Palette;
use super::scale::Scale;
use super::thin::{Point, thinned};

const WIDTH: f64 = 760.0;
const LEFT: f64 = 46.0;
const BOTTOM: f64 = 32.0;

/// A drawing in which no text can become markup.
#[derive(Default)]
struct Svg(String);

impl Svg {
    /// Markup of this program.
    fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// A text, escaped.
    fn text(&mut self, text: &str) -> &mut Self {
        _ = write!(self.0, "{}", minijinja::HtmlEscape(text));
        self
    }

    /// A number with one decimal.
    fn number(&mut self, value: f64) -> &mut Self {
        let digits = usize::from(value.fract().abs() >= 0.05);
        _ = write!(self.0, "{value:.digits$}");
        self
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
    let html = &mut Svg::default();
    let crowded =
        figure.panels.iter().any(|panel| panel.series.iter().filter(|one| is_named(one)).count() > 3);
    let columns = match figure.panels.len() {
        1 => 1,
        2 | 4 => 2,
        // Names need room: on paper, and without colours, nothing else tells so many lines apart.
        _ if crowded => 2,
        _ => 3,
    };
    let rows = figure.panels.len().div_ceil(columns);
    let single = figure.panels.len() == 1;
    let cell = (WIDTH / columns as f64, if single { 320.0 } else { 190.0 });
    html.raw("<svg class=\"static\" role=\"img\" viewBox=\"0 0 ").number(WIDTH).raw(" ");
    html.number(cell.1 * rows as f64).raw("\" aria-label=\"").text(&figure.title).raw("\">");
    let x = Scale::holding(figure.x.spread, figure.points().map(|point| point.0));
    let y = Scale::holding(figure.y.spread, figure.points().map(|point| point.1));
    for (at, panel) in figure.panels.iter().enumerate() {
        let right = match (single, crowded) {
            (true, _) => 120.0,
            (false, true) => 106.0,
            (false, false) => 26.0,
        };
        let top = if single { 24.0 } else { 38.0 };
        let frame = Frame {
            left: (at % columns) as f64 * cell.0 + LEFT,
            top: (at / columns) as f64 * cell.1 + top,
            width: cell.0 - LEFT - right,
            height: cell.1 - top - BOTTOM,
            x,
            y,
        };
        frame.axes(figure, panel, html);
        frame.events(panel, single, html);
        panel.series.iter().for_each(|series| frame.series(series, palette, html));
        if single || crowded {
            frame.labels(panel, palette, html);
        }
    }
    html.raw("</svg>");
    std::mem::take(&mut html.0)
}

/// Whether its name stands at the end of the line, where there is room.
fn is_named(series: &Series) -> bool {
    !matches!(series.look, Look::Failures | Look::Faint)
}

impl Frame {
    fn at(&self, (x, y): Point) -> Point {
        (self.left + self.x.place(x) * self.width, self.top + (1.0 - self.y.place(y)) * self.height)
    }

    fn text(&self, html: &mut Svg, class: &'static str, (x, y): Point, text: &str) {
        html.raw("<text class=\"").raw(class).raw("\" x=\"").number(x).raw("\" y=\"").number(y).raw("\">");
        html.text(text).raw("</text>");
    }

    fn line(&self, html: &mut Svg, class: &'static str, from: Point, to: Point) {
        html.raw("<line class=\"").raw(class).raw("\" x1=\"").number(from.0).raw("\" y1=\"").number(from.1);
        html.raw("\" x2=\"").number(to.0).raw("\" y2=\"").number(to.1).raw("\"/>");
    }

    fn axes(&self, figure: &Figure, panel: &Panel, html: &mut Svg) {
        let bottom = self.top + self.height;
        let right = self.left + self.width;
        if figure.panels.len() > 1 {
            self.text(html, "panel", (self.left - LEFT + 6.0, self.top - 22.0), &panel.title);
        }
        self.text(html, "axis", (self.left - LEFT + 6.0, self.top - 8.0), figure.y.label);
        for (value, text) in self.y.ticks((self.height / 26.0) as usize) {
            let y = bottom - self.y.place(value) * self.height;
            self.line(html, "grid", (self.left, y), (right, y));
            self.text(html, "tick end", (self.left - 5.0, y + 3.5), &text);
        }
        let mut free_from = f64::NEG_INFINITY;
        for (value, text) in self.x.ticks(((self.width / 80.0) as usize).max(4)) {
            let x = self.left + self.x.place(value) * self.width;
            self.line(html, "grid", (x, bottom), (x, bottom + 4.0));
            if x >= free_from {
                self.text(html, "tick middle", (x, bottom + 15.0), &text);
                free_from = x + 8.0 + 6.5 * text.len() as f64;
            }
        }
        self.line(html, "base", (self.left, bottom), (right, bottom));
        self.text(html, "axis end", (right, bottom + 28.0), figure.x.label);
    }

    fn events(&self, panel: &Panel, text: bool, html: &mut Svg) {
        for (at, label) in &panel.events {
            if !at.is_finite() {
                continue;
            }
            let x = self.left + self.x.place(*at) * self.width;
            self.line(html, "event", (x, self.top), (x, self.top + self.height));
            if text {
                html.raw("<text class=\"event\" transform=\"translate(").number(x - 3.0).raw(" ");
                html.number(self.top + 2.0).raw(") rotate(-90)\">").text(label).raw("</text>");
            }
        }
    }

    fn series(&self, series: &Series, palette: &Palette, html: &mut Svg) {
        let points = thinned(&series.points, self.width as usize);
        if points.is_empty() {
            return;
        }
        html.raw("<g class=\"").raw(palette.class(&series.peer)).raw(" ").raw(series.look.name()).raw("\">");
        if series.look == Look::Failures {
            for point in &points {
                let x = self.at(*point).0;
                let bottom = self.top + self.height;
                self.line(html, "failure", (x, bottom - 7.0), (x, bottom));
            }
        } else {
            self.path(&points, series.look, html);
            for point in points.iter().filter(|_| series.look == Look::Dotted) {
                let (x, y) = self.at(*point);
                html.raw("<circle r=\"3\" cx=\"").number(x).raw("\" cy=\"").number(y).raw("\"/>");
            }
        }
        html.raw("</g>");
    }

    fn path(&self, points: &[Point], look: Look, html: &mut Svg) {
        if points.len() < 2 {
            return;
        }
        // Distances in tenths are half as long as places, and add up to the same place.
        let tenths = |point: Point| {
            let (x, y) = self.at(point);
            ((x * 10.0).round(), (y * 10.0).round())
        };
        let mut last = tenths(points[0]);
        html.raw("<path d=\"M").number(last.0 / 10.0).raw(" ").number(last.1 / 10.0);
        html.raw(if look == Look::Steps { "" } else { "l" });
        for (at, point) in points[1..].iter().enumerate() {
            let next = tenths(*point);
            let (x, y) = ((next.0 - last.0) / 10.0, (next.1 - last.1) / 10.0);
            last = next;
            if look == Look::Steps {
                html.raw("h").number(x).raw("v").number(y);
            } else {
                html.raw(if at > 0 { " " } else { "" }).number(x).raw(" ").number(y);
            }
        }
        html.raw("\"/>");
    }

    /// Names at the ends of the lines, moved apart where they would cover each other.
    fn labels(&self, panel: &Panel, palette: &Palette, html: &mut Svg) {
        let ends = panel.series.iter().filter(|series| is_named(series));
        let mut ends: Vec<(f64, &Series)> = ends
            .filter_map(|series| {
                let last = series.points.iter().rev().find(|(x, y)| x.is_finite() && y.is_finite())?;
                Some((self.at(*last).1, series))
            })
            .collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut free = self.top - 6.0;
        // Enough room must be left below for those that follow.
        let mut last = self.top + self.height - 12.0 * ends.len() as f64;
        for (y, series) in ends {
            last += 12.0;
            let y = y.min(last).max(free);
            free = y + 12.0;
            html.raw("<g class=\"").raw(palette.class(&series.peer)).raw("\">");
            self.text(html, "name", (self.left + self.width + 6.0, y + 3.5), &cut(&series.label));
            html.raw("</g>");
        }
    }
}

/// A name that fits beside a plot; the whole of it is in the legend.
fn cut(label: &str) -> String {
    const LETTERS: usize = 17;
    if label.chars().count() <= LETTERS {
        return label.to_owned();
    }
    label.chars().take(LETTERS - 1).chain(['…']).collect()
}
