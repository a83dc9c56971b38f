//! Prints lists of rows as a table, JSON or YAML.

use std::io::{self, Write};

use anyhow::Result;
use serde::Serialize;

use super::table::Table;
use crate::args::ListFormat;
use crate::terminal::{self, EscapedJson, PlainText};

/// A row of a table, or an object in JSON.
pub(super) trait Row: Serialize {
    const HEADINGS: &'static [&'static str];
    /// Headings of the additional columns of a wide table.
    const WIDE_HEADINGS: &'static [&'static str];

    fn cells(&self) -> Vec<String>;
    fn wide_cells(&self) -> Vec<String>;
}

/// Prints rows. If a table would have none, prints `nothing` to standard error instead.
pub(super) fn print<R: Row>(rows: &[R], format: ListFormat, nothing: &str) -> Result<()> {
    match format {
        ListFormat::Json => json(&rows),
        ListFormat::Yaml => yaml(&rows),
        ListFormat::Table | ListFormat::Wide if rows.is_empty() => {
            Ok(writeln!(PlainText(io::stderr()), "{nothing}")?)
        }
        ListFormat::Table => write(&table(rows, false)),
        ListFormat::Wide => write(&table(rows, true)),
    }
}

/// The rows as a table.
pub(super) fn table<R: Row>(rows: &[R], is_wide: bool) -> Table {
    let wide_headings = if is_wide { R::WIDE_HEADINGS } else { &[] };
    let mut table = Table::new(R::HEADINGS.iter().chain(wide_headings).copied());
    for row in rows {
        let wide_cells = if is_wide { row.wide_cells() } else { Vec::new() };
        table.row(row.cells().into_iter().chain(wide_cells));
    }
    table
}

/// Prints a value as JSON.
pub(super) fn json(value: &impl Serialize) -> Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    serde_json::to_writer_pretty(EscapedJson(&mut out), value)?;
    writeln!(out)?;
    Ok(out.flush()?)
}

/// Prints a value as YAML.
pub(super) fn yaml(value: &impl Serialize) -> Result<()> {
    Ok(io::stdout().write_all(terminal::yaml(value)?.as_bytes())?)
}

fn write(table: &Table) -> Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    table.write(&mut PlainText(&mut out))?;
    Ok(out.flush()?)
}

/// The cell for an optional value: `<unknown>` if there is none.
pub(super) fn optional_cell(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "<unknown>".to_owned(), |value| value.to_string())
}

/// `yes` or `no`.
pub(super) fn yes_no(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Named(&'static str);

    impl Row for Named {
        const HEADINGS: &'static [&'static str] = &["NAME"];
        const WIDE_HEADINGS: &'static [&'static str] = &["LENGTH"];

        fn cells(&self) -> Vec<String> {
            vec![self.0.to_owned()]
        }

        fn wide_cells(&self) -> Vec<String> {
            vec![self.0.len().to_string()]
        }
    }

    #[test]
    fn a_wide_table_has_more_columns() {
        assert_eq!(table(&[Named("web")], false).lines(), ["NAME", "web"]);
        assert_eq!(table(&[Named("web")], true).lines(), ["NAME   LENGTH", "web    3"]);
    }
}
