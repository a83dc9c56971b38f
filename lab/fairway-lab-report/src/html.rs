//! Writing HTML so that nothing measured can become markup: literal markup is `&'static str`, everything else is
//! escaped. Also tables. Never decides what is said.

/// A piece of a page.
#[derive(Default)]
pub(super) struct Html(String);

impl Html {
    /// The markup so far.
    pub(super) fn into_text(self) -> String {
        self.0
    }

    /// Markup of this program; a text that was read or measured cannot get here.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// A text, escaped. Good inside elements and inside quoted attributes.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        for letter in text.chars() {
            match letter {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                // Not allowed in HTML, and terminals of readers need not see them either.
                control if control.is_control() && control != '\n' && control != '\t' => {
                    self.0.push('\u{fffd}');
                }
                other => self.0.push(other),
            }
        }
        self
    }

    /// An element with nothing but a text.
    pub(super) fn element(&mut self, open: &'static str, text: &str, close: &'static str) -> &mut Self {
        self.raw(open).text(text).raw(close)
    }

    /// An attribute, with a space before it.
    pub(super) fn attribute(&mut self, name: &'static str, value: &str) -> &mut Self {
        self.raw(" ").raw(name).raw("=\"").text(value).raw("\"")
    }

    /// Another piece.
    pub(super) fn append(&mut self, piece: &Self) -> &mut Self {
        self.0.push_str(&piece.0);
        self
    }

    /// A number of an attribute in a drawing, with one decimal.
    pub(super) fn number(&mut self, value: f64) -> &mut Self {
        use std::fmt::Write;

        _ = if value.fract().abs() < 0.05 {
            write!(self.0, "{value:.0}")
        } else {
            write!(self.0, "{value:.1}")
        };
        self
    }

    /// A list of sentences; nothing if there are none.
    pub(super) fn list<'a>(&mut self, sentences: impl IntoIterator<Item = &'a str>) -> &mut Self {
        self.raw("<ul>");
        for sentence in sentences {
            self.element("<li>", sentence, "</li>");
        }
        self.raw("</ul>")
    }
}

/// A cell of a table.
pub(super) enum Cell {
    /// Words, to the left.
    Text(String),
    /// Figures, to the right.
    Number(String),
    /// Figures that deserve a look: something failed.
    Bad(String),
    /// Markup that is escaped already.
    Markup(Html),
}

/// A row of a table.
enum Row {
    /// What the rows after it are about.
    Group(String),
    /// Figures.
    Cells(Vec<Cell>),
}

/// A table that grows row by row and scrolls by itself where it is wider than the page.
pub(super) struct Table {
    head: Vec<Vec<(String, bool)>>,
    rows: Vec<Row>,
    caption: String,
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
        let cells = columns.into_iter().map(|column| match column.strip_prefix('#') {
            Some(name) => (name.to_owned(), true),
            None => (column, false),
        });
        self.head.push(cells.collect());
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

    /// Draws it; nothing if it has no rows.
    pub(super) fn write(&self, html: &mut Html) {
        if self.is_empty() {
            return;
        }
        html.raw("<div class=\"scroll\" tabindex=\"0\" role=\"region\"")
            .attribute("aria-label", &self.caption);
        html.raw("><table>");
        if !self.caption.is_empty() {
            html.element("<caption><span>", &self.caption, "</span></caption>");
        }
        html.raw("<thead>");
        for row in &self.head {
            html.raw("<tr>");
            for (name, right) in row {
                html.raw(if *right { "<th scope=\"col\" class=n>" } else { "<th scope=\"col\">" });
                html.text(name).raw("</th>");
            }
            html.raw("</tr>");
        }
        html.raw("</thead><tbody>");
        for row in &self.rows {
            self.line(row, html);
        }
        html.raw("</tbody></table></div>");
    }

    fn line(&self, row: &Row, html: &mut Html) {
        match row {
            Row::Group(name) => {
                let width = self.head.first().map_or(1, Vec::len);
                html.raw("<tr class=\"group\"><th scope=\"colgroup\"")
                    .attribute("colspan", &width.to_string());
                html.raw("><span>").text(name).raw("</span></th></tr>");
            }
            Row::Cells(cells) => {
                html.raw("<tr>");
                cells.iter().for_each(|cell| cell.write(html));
            }
        }
    }
}

impl Cell {
    /// Most cells are figures, so that those have no class. A cell and a row end where the next begins: HTML leaves out
    /// their end tags, which were a tenth of the report.
    fn write(&self, html: &mut Html) {
        match self {
            Self::Text(text) => html.raw("<td class=t>").text(text),
            Self::Number(text) => html.raw("<td>").text(text),
            Self::Bad(text) => html.raw("<td class=bad>").text(text),
            Self::Markup(piece) => html.raw("<td class=t>").append(piece),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_never_becomes_markup() {
        let mut html = Html::default();
        html.raw("<p").attribute("title", "\" onload='x").raw(">").text("</p><script>&\u{1b}").raw("</p>");
        assert_eq!(
            html.into_text(),
            "<p title=\"&quot; onload=&#39;x\">&lt;/p&gt;&lt;script&gt;&amp;\u{fffd}</p>"
        );
    }
}
