//! The report while it is written: markup so far, and the figures for `page.js`. Knows how a heading, a figure and its
//! legend look; never what they say.

use serde_json::{Value, json};

use super::drawing::draw;
use super::figure::{Figure, Look};
use super::html::{Html, Table};
use super::palette::Palette;
use super::pool::distinct;

/// Points of a series that `page.js` gets at most. A panel is rarely wider than 1,000 pixels.
const POINTS: usize = 4_000;
/// Points of all series together: they are two thirds of the file.
const ALL_POINTS: usize = 260_000;

/// The report while it is written.
pub(super) struct PageBuilder {
    /// The markup so far.
    pub html: Html,
    /// The colours of peers.
    pub palette: Palette,
    figures: Vec<Figure>,
}

impl PageBuilder {
    /// An empty one.
    pub(super) fn new(palette: Palette) -> Self {
        Self { html: Html::default(), palette, figures: Vec::new() }
    }

    /// A sentence or two.
    pub(super) fn note(&mut self, text: &str) {
        self.html.element("<p class=\"note\">", text, "</p>");
    }

    /// What a figure or table means.
    pub(super) fn reading(&mut self, text: &str) {
        self.html.element("<p class=\"reading\"><b>How to read this.</b> ", text, "</p>");
    }

    /// A table.
    pub(super) fn table(&mut self, table: &Table) {
        table.write(&mut self.html);
    }

    /// A part that a reader opens, with its heading; on paper it is open.
    pub(super) fn folded(&mut self, heading: &str, content: impl FnOnce(&mut Self)) {
        self.html.element("<details><summary>", heading, "</summary>");
        content(self);
        self.html.raw("</details>");
    }

    /// A figure with its legend; nothing if there is nothing to draw.
    pub(super) fn plot(&mut self, figure: Figure) {
        if figure.is_empty() {
            return;
        }
        let html = &mut self.html;
        html.raw("<figure class=\"plot\"").attribute("data-figure", &self.figures.len().to_string()).raw(">");
        html.element("<figcaption><h4>", &figure.title, "</h4>");
        html.element("<p class=\"reading\"><b>How to read this.</b> ", &figure.reading, "</p></figcaption>");
        html.raw("<div class=\"legend\" role=\"group\" aria-label=\"Peers\">");
        let series = || figure.panels.iter().flat_map(|panel| &panel.series);
        let mut peers = distinct(series().map(|series| &series.peer));
        peers.sort_by_key(|peer| self.palette.place(peer));
        for peer in peers {
            html.raw("<button type=\"button\" class=\"key\" aria-pressed=\"true\"")
                .attribute("data-peer", peer);
            html.raw("><i class=\"dot ")
                .raw(self.palette.class(peer))
                .raw("\"></i>")
                .text(peer)
                .raw("</button>");
        }
        for (look, text) in [
            (
                Look::Dashed,
                "<span class=\"look\"><svg viewBox=\"0 0 26 8\"><path class=\"cd dashed\" d=\"M0 4H26\"/></svg>",
            ),
            (
                Look::Faint,
                "<span class=\"look\"><svg viewBox=\"0 0 26 8\"><path class=\"cd faint\" d=\"M0 4H26\"/></svg>",
            ),
        ] {
            let kinds = distinct(series().filter(|series| series.look == look).map(|series| &series.label));
            if let [kind] = kinds.as_slice() {
                html.raw(text).text(kind).raw("</span>");
            }
        }
        html.raw("</div><div class=\"live\"></div>");
        draw(&figure, &self.palette, html);
        html.raw("</figure>");
        self.figures.push(figure);
    }

    /// The markup, and the figures for `page.js`.
    pub(super) fn closed(self) -> (String, Value) {
        let size: usize = self.figures.iter().map(Figure::size).sum();
        let series: usize =
            self.figures.iter().flat_map(|figure| &figure.panels).map(|panel| panel.series.len()).sum();
        let most = if size <= ALL_POINTS { POINTS } else { (ALL_POINTS / series.max(1)).min(POINTS) };
        let class_of = |peer: &str| self.palette.class(peer);
        let figures: Vec<Value> = self.figures.iter().map(|figure| figure.text(most, &class_of)).collect();
        (self.html.into_text(), json!({ "figures": figures }))
    }
}
