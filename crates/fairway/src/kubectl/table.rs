//! The layout of tables, the same as that of kubectl: aligned columns with headings, one line per row.

use std::io::{self, Write};

use fairway_model::on_one_line;

/// The space between two columns.
const COLUMN_GAP: &str = "   ";

/// The text of an empty cell.
const EMPTY_CELL: &str = "<none>";

/// A table whose first row are the headings.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(headings: impl IntoIterator<Item = &'static str>) -> Self {
        Self { rows: vec![headings.into_iter().map(str::to_owned).collect()] }
    }

    /// Adds a row with as many cells as there are headings.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| cell_text(&cell)).collect());
    }

    /// The lines. The last cell of each line is not padded.
    pub(crate) fn lines(&self) -> Vec<String> {
        let columns = self.rows.first().map_or(0, Vec::len);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        self.rows.iter().map(|row| line(row, &widths)).collect()
    }

    pub(crate) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        self.lines().iter().try_for_each(|line| writeln!(out, "{line}"))
    }
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for (at, (cell, width)) in cells.iter().zip(widths).enumerate() {
        line.push_str(cell);
        if at + 1 < cells.len() {
            line.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.chars().count())));
            line.push_str(COLUMN_GAP);
        }
    }
    line
}

fn cell_text(cell: &str) -> String {
    if cell.is_empty() { EMPTY_CELL.to_owned() } else { on_one_line(cell).replace('\t', " ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_cells_stay_on_their_line() {
        let mut table = Table::new(["HOST", "PATH", "SERVICE"]);
        table.row(["shop.example.com", "/", "web:80"].map(str::to_owned));
        table.row(["é.test", "/a\nb\tc", ""].map(str::to_owned));
        let mut out = Vec::new();
        table.write(&mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "HOST               PATH     SERVICE\n\
             shop.example.com   /        web:80\n\
             é.test             /a?b c   <none>\n"
        );
    }
}
