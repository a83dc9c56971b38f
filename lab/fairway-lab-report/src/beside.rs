//! A published chart redrawn beside ours: bars on one axis, hatched for what was published and filled for what was
//! measured here, each with its name and its figure, so that neither colour nor a script is needed. Never divides the one
//! by the other.

use super::builder::PageBuilder;
use super::html::Html;
use super::scale::{Scale, Spread};

/// Who a bar is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// A study's, as it was printed.
    Published,
    /// Ours, in the colour of a class.
    Ours(&'static str),
}

/// A bar with its name.
pub(super) struct Bar {
    /// What stands before it.
    pub name: String,
    /// Whose it is.
    pub whose: Whose,
    /// How long it is; none where there is no figure.
    pub value: Option<f64>,
    /// What stands after it: the figure, or why there is none.
    pub text: String,
}

/// Bars with a heading of their own.
pub(super) struct Chart {
    /// The heading.
    pub title: String,
    /// From top to bottom: published ones first.
    pub bars: Vec<Bar>,
}

/// Charts that share one axis, and what they say.
pub(super) struct Drawing<'a> {
    /// The heading.
    pub title: &'a str,
    /// How to read it.
    pub reading: &'a str,
    /// What the axis has, with the unit.
    pub axis: &'a str,
    /// How values are spread over it.
    pub spread: Spread,
    /// When and where the study was made.
    pub theirs: &'a str,
    /// When and where ours was.
    pub ours: &'a str,
    /// The charts.
    pub charts: Vec<Chart>,
}

/// The hatching, once for the whole page.
pub(super) const HATCH: &str = "<svg class=\"defs\" width=\"0\" height=\"0\" aria-hidden=\"true\"><defs><pattern id=\"hatch\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect class=\"stripe\" width=\"1.6\" height=\"5\"/></pattern></defs></svg>";

const ROW: f64 = 19.0;
const LEFT: f64 = 142.0;
const WIDTH: f64 = 168.0;
const FOOT: f64 = 36.0;
/// Letters of a name that fit before a bar.
const LETTERS: usize = 24;

/// Draws charts; nothing where ours or theirs have no bar at all.
pub(super) fn draw(drawing: &Drawing<'_>, builder: &mut PageBuilder) {
    let bars = || drawing.charts.iter().flat_map(|chart| &chart.bars).filter(|bar| bar.value.is_some());
    let (theirs, all) = (bars().filter(|bar| bar.whose == Whose::Published).count(), bars().count());
    if theirs == 0 || theirs == all {
        return;
    }
    let values: Vec<f64> = bars().filter_map(|bar| bar.value).collect();
    let scale = Scale::holding(drawing.spread, values.into_iter());
    let html = &mut builder.html;
    html.element("<figure class=\"beside\"><figcaption><h4>", drawing.title, "</h4>");
    html.element("<p class=\"reading\"><b>How to read this.</b> ", drawing.reading, "</p>");
    html.raw("<p class=\"swatches\"><span><svg viewBox=\"0 0 26 12\" aria-hidden=\"true\">");
    html.raw("<rect class=\"published\" x=\"1\" y=\"1\" width=\"24\" height=\"10\"/></svg>published: ");
    html.text(drawing.theirs);
    html.raw("</span><span><svg viewBox=\"0 0 26 12\" aria-hidden=\"true\"><rect class=\"ours c0\" x=\"1\" y=\"1\" width=\"24\" height=\"10\"/></svg>ours: ");
    html.text(drawing.ours).raw("</span></p></figcaption><div class=\"small-multiples\">");
    for chart in drawing.charts.iter().filter(|chart| !chart.bars.is_empty()) {
        one(chart, &scale, drawing.axis, html);
    }
    html.raw("</div></figure>");
}

fn one(chart: &Chart, scale: &Scale, axis: &str, html: &mut Html) {
    let bottom = chart.bars.len() as f64 * ROW + 4.0;
    html.element("<div><h5>", &chart.title, "</h5><svg class=\"bars\" role=\"img\" viewBox=\"0 0 390 ");
    html.number(bottom + FOOT).raw("\"").attribute("aria-label", &chart.title).raw(">");
    let mut free_from = f64::NEG_INFINITY;
    for (value, text) in scale.ticks(4) {
        let x = LEFT + scale.place(value) * WIDTH;
        html.raw("<line class=\"grid\" y1=\"0\" x1=\"").number(x).raw("\" x2=\"").number(x).raw("\" y2=\"");
        html.number(bottom).raw("\"/>");
        if x >= free_from {
            html.raw("<text class=\"tick middle\" x=\"").number(x).raw("\" y=\"").number(bottom + 13.0);
            html.raw("\">").text(&text).raw("</text>");
            free_from = x + 10.0 + 6.5 * text.len() as f64;
        }
    }
    html.raw("<text class=\"axis end\" x=\"").number(LEFT + WIDTH).raw("\" y=\"").number(bottom + 28.0);
    html.raw("\">").text(axis).raw("</text>");
    for (at, bar) in chart.bars.iter().enumerate() {
        row(bar, at as f64 * ROW, scale, html);
    }
    html.raw("</svg></div>");
}

fn row(bar: &Bar, y: f64, scale: &Scale, html: &mut Html) {
    let class = match bar.whose {
        Whose::Published => "cd",
        Whose::Ours(class) => class,
    };
    html.raw("<g class=\"").raw(class).raw("\"><text class=\"tick end\" x=\"").number(LEFT - 6.0);
    html.raw("\" y=\"").number(y + 14.0).raw("\">").text(&cut(&bar.name)).raw("</text>");
    let length = bar.value.map_or(0.0, |value| (scale.place(value) * WIDTH).max(2.0));
    if bar.value.is_some() {
        html.raw(match bar.whose {
            Whose::Published => "<rect class=\"published\"",
            Whose::Ours(_) => "<rect class=\"ours\"",
        });
        html.raw(" height=\"12\" x=\"").number(LEFT).raw("\" y=\"").number(y + 4.0).raw("\" width=\"");
        html.number(length).raw("\"/>");
    }
    html.raw("<text class=\"value\" x=\"").number(LEFT + length + 6.0).raw("\" y=\"").number(y + 14.0);
    html.raw("\">").text(&bar.text).raw("</text></g>");
}

fn cut(name: &str) -> String {
    if name.chars().count() <= LETTERS {
        return name.to_owned();
    }
    name.chars().take(LETTERS - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::super::palette::Palette;
    use super::*;

    fn bar(whose: Whose, value: Option<f64>) -> Bar {
        Bar { name: "a <name>".to_owned(), whose, value, text: "9 ms".to_owned() }
    }

    fn drawn(bars: Vec<Bar>) -> String {
        let mut builder = PageBuilder::new(Palette::of([]));
        let drawing = Drawing {
            title: "Title",
            reading: "So.",
            axis: "ms",
            spread: Spread::Log,
            theirs: "2020, a cloud",
            ours: "2026, here",
            charts: vec![Chart { title: "One".to_owned(), bars }],
        };
        draw(&drawing, &mut builder);
        builder.closed().0
    }

    #[test]
    fn published_bars_are_hatched_and_ours_filled_on_one_axis() {
        let page = drawn(vec![bar(Whose::Published, Some(10_000.0)), bar(Whose::Ours("c0"), Some(1.0))]);
        let (theirs, ours) = (
            page.find("<rect class=\"published\" height").unwrap(),
            page.find("<rect class=\"ours\" height").unwrap(),
        );
        assert!(
            theirs < ours && page.contains("published: 2020, a cloud") && page.contains("ours: 2026, here")
        );
        // The longest bar ends where the axis does, and the other is on the same one.
        assert!(page[theirs..].contains("width=\"168\"") && page[ours..].contains("width=\"2\""), "{page}");
        assert!(page.contains("a &lt;name&gt;") && page.matches("9 ms").count() == 2);
    }

    #[test]
    fn without_one_of_the_two_there_is_nothing_to_compare() {
        assert_eq!(drawn(vec![bar(Whose::Published, Some(1.0))]), "");
        assert_eq!(drawn(vec![bar(Whose::Ours("c1"), Some(1.0)), bar(Whose::Published, None)]), "");
    }
}
