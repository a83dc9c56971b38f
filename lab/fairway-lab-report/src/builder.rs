//! The blocks of a part of the report, in their order, as the template shows them. Never says what they say.

use serde::Serialize;
use serde_json::Value;

use super::drawing::draw;
use super::figure::{Figure, Look};
use super::palette::Palette;
use super::pool::distinct;
use super::table::Table;

/// A block of the page.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Block {
    /// A heading of a level.
    Heading(u8, String),
    /// A sentence or two.
    Note(String),
    /// What a figure or table means.
    Reading(String),
    /// Sentences, with a heading or without.
    List(String, Vec<String>),
    /// A table.
    Table(Table),
    /// A part that a reader opens.
    Folded(String, Vec<Self>),
    /// Facts by name.
    Facts(Vec<(String, String)>),
    /// A text as it is.
    Verbatim(String),
    /// Values by name, one within the other.
    Tree(Value),
    /// A plot.
    Plot(Plot),
}

/// A plot with its legend.
#[derive(Serialize)]
pub(super) struct Plot {
    title: String,
    reading: String,
    /// Peers with the classes of their colours.
    peers: Vec<(String, &'static str)>,
    /// Other kinds of lines, with the classes of their looks.
    looks: Vec<(String, &'static str)>,
    /// The drawing; texts in it are escaped.
    svg: String,
}

/// A part of the report while it is written.
pub(super) struct PageBuilder<'a> {
    /// The blocks so far.
    pub blocks: Vec<Block>,
    /// The colours of peers.
    pub palette: &'a Palette,
}

impl<'a> PageBuilder<'a> {
    /// An empty one.
    pub(super) fn new(palette: &'a Palette) -> Self {
        Self { blocks: Vec::new(), palette }
    }

    /// A heading.
    pub(super) fn heading(&mut self, level: u8, text: &str) {
        self.blocks.push(Block::Heading(level, text.to_owned()));
    }

    /// A sentence or two.
    pub(super) fn note(&mut self, text: &str) {
        self.blocks.push(Block::Note(text.to_owned()));
    }

    /// What a figure or table means.
    pub(super) fn reading(&mut self, text: &str) {
        self.blocks.push(Block::Reading(text.to_owned()));
    }

    /// Sentences with a heading; nothing if there are none.
    pub(super) fn list<'t>(&mut self, heading: &str, sentences: impl IntoIterator<Item = &'t String>) {
        let sentences: Vec<String> = sentences.into_iter().cloned().collect();
        if !sentences.is_empty() {
            self.blocks.push(Block::List(heading.to_owned(), sentences));
        }
    }

    /// A table; nothing if it has no rows.
    pub(super) fn table(&mut self, table: Table) {
        if !table.is_empty() {
            self.blocks.push(Block::Table(table));
        }
    }

    /// A part that a reader opens, with its heading; on paper it is open.
    pub(super) fn folded(&mut self, heading: &str, content: impl FnOnce(&mut Self)) {
        let mut inner = Self::new(self.palette);
        content(&mut inner);
        self.blocks.push(Block::Folded(heading.to_owned(), inner.blocks));
    }

    /// A figure with its legend; nothing if there is nothing to draw.
    pub(super) fn plot(&mut self, figure: &Figure) {
        if figure.is_empty() {
            return;
        }
        let series = || figure.panels.iter().flat_map(|panel| &panel.series);
        let mut peers = distinct(series().map(|series| &series.peer));
        peers.sort_by_key(|peer| self.palette.place(peer));
        let only = |look: Look| {
            let labels = distinct(series().filter(|one| one.look == look).map(|one| &one.label));
            if let [label] = labels.as_slice() { Some(((*label).clone(), look.name())) } else { None }
        };
        self.blocks.push(Block::Plot(Plot {
            title: figure.title.clone(),
            reading: figure.reading.clone(),
            peers: peers.into_iter().map(|peer| (peer.clone(), self.palette.class(peer))).collect(),
            looks: [Look::Dashed, Look::Faint].into_iter().filter_map(only).collect(),
            svg: draw(figure, self.palette),
        }));
    }
}
