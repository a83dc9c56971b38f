//! The report while it is written: markup so far. Knows how a heading, a figure and its
//! legend look; never what they say.

use super::drawing::draw;
use super::figure::{Figure, Look};
use super::html::{Html, Table};
use super::palette::Palette;
use super::pool::distinct;

/// The report while it is written.
pub(super) struct PageBuilder {
    /// The markup so far.
    pub html: Html,
    /// The colours of peers.
    pub palette: Palette,
}

impl PageBuilder {
    /// An empty one.
    pub(super) fn new(palette: Palette) -> Self {
        Self { html: Html::default(), palette }
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
    pub(super) fn plot(&mut self, figure: &Figure) {
        if figure.is_empty() {
            return;
        }
        let html = &mut self.html;
        html.raw("<figure class=\"plot\">");
        html.element("<figcaption><h4>", &figure.title, "</h4>");
        html.element("<p class=\"reading\"><b>How to read this.</b> ", &figure.reading, "</p></figcaption>");
        html.raw("<div class=\"legend\" role=\"group\" aria-label=\"Peers\">");
        let series = || figure.panels.iter().flat_map(|panel| &panel.series);
        let mut peers = distinct(series().map(|series| &series.peer));
        peers.sort_by_key(|peer| self.palette.place(peer));
        for peer in peers {
            html.raw("<span class=\"key\"><i class=\"dot ")
                .raw(self.palette.class(peer))
                .raw("\"></i>")
                .text(peer)
                .raw("</span>");
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
        html.raw("</div>");
        draw(figure, &self.palette, html);
        html.raw("</figure>");
    }
}
