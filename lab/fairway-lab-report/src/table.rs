//! Tables as the page's template shows them. Never decides what is said.

use serde::Serialize;

/// A cell of a table.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Cell {
    /// Words, to the left.
    Text(String),
    /// Figures, to the right.
    Number(String),
    /// Figures that deserve a look: something failed.
    Bad(String),
    /// A peer in its colour.
    Peer {
        /// Its name.
        name: String,
        /// The class of its colour.
        class: &'static str,
        /// What is special about it in this row.
        note: String,
    },
    /// A figure of a published study.
    Published(String),
    /// An interval as a bar, in the colour of a class: where it begins, its width, and its median.
    Interval {
        /// The class of the colour.
        class: &'static str,
        /// The left end.
        from: f64,
        /// From there to the right end.
        width: f64,
        /// The left edge of the mark of the median.
        median: f64,
    },
}

/// A column's name, and whether it holds figures.
#[derive(Serialize)]
struct Column {
    name: String,
    right: bool,
}

/// A row of a table.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Row {
    /// What the rows after it are about.
    Group(String),
    /// Figures.
    Cells(Vec<Cell>),
}

/// A table that grows row by row.
#[derive(Serialize)]
pub(super) struct Table {
    caption: String,
    head: Vec<Vec<Column>>,
    rows: Vec<Row>,
}

impl Table {
    /// A table with its caption. Columns whose name begins with `#` hold figures.
    pub(super) fn new(caption: &str, columns: &[&str]) -> Self {
        let mut table = Self { head: Vec::new(), rows: Vec::new(), caption: caption.to_owned() };
        table.head(columns.iter().map(|column| (*column).to_owned()));
        table
    }

    /// One more row of the head.
    pub(super) fn head(&mut self, columns: impl IntoIterator<Item = String>) {
        let column = |text: String| match text.strip_prefix('#') {
            Some(name) => Column { name: name.to_owned(), right: true },
            None => Column { name: text, right: false },
        };
        self.head.push(columns.into_iter().map(column).collect());
    }

    /// One more row.
    pub(super) fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.head[0].len(), "a figure would stand below another's name");
        self.rows.push(Row::Cells(cells));
    }

    /// A line that says what the rows after it are about, unless the line before it says the same.
    pub(super) fn group(&mut self, name: &str) {
        let last = self.rows.iter().rev().find_map(|row| match row {
            Row::Group(name) => Some(name.as_str()),
            Row::Cells(_) => None,
        });
        if last != Some(name) {
            self.rows.push(Row::Group(name.to_owned()));
        }
    }

    /// Whether nothing would be said.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}
