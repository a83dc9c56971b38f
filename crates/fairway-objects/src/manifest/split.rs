//! Splits a file into its documents, without parsing them.

/// One document of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section<'a> {
    /// Its text, including the `---` line that starts it.
    pub text: &'a str,
    /// The line of the file where `text` starts, counted from 1.
    pub line: u32,
}

/// The documents of `text`.
///
/// `---` and `...` at the start of a line always end a document, even inside quoted and block scalars (YAML 1.2.2 §9.1.2, rule
/// `c-forbidden`), so splitting needs no parser.
#[must_use]
pub fn sections(text: &str) -> Vec<Section<'_>> {
    let mut found = Vec::new();
    let (mut start, mut start_line, mut at, mut line) = (0, 1, 0, 1);
    let mut substance = false;
    for row in text.split_inclusive('\n') {
        let marker = marker(row);
        if marker == Some(Marker::Start) && substance {
            found.push(Section { text: &text[start..at], line: start_line });
            (start, start_line, substance) = (at, line, false);
        }
        at += row.len();
        line += 1;
        if marker == Some(Marker::End) {
            if substance {
                found.push(Section { text: &text[start..at], line: start_line });
            }
            (start, start_line, substance) = (at, line, false);
            continue;
        }
        substance |= has_content(row, marker);
    }
    if substance {
        found.push(Section { text: &text[start..], line: start_line });
    }
    found
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Marker {
    Start,
    End,
}

fn marker(row: &str) -> Option<Marker> {
    let (marker, rest) = match row.get(..3)? {
        "---" => (Marker::Start, &row[3..]),
        "..." => (Marker::End, &row[3..]),
        _ => return None,
    };
    rest.chars().next().is_none_or(char::is_whitespace).then_some(marker)
}

/// Whether the row is content: neither blank, nor a comment, a directive, or a bare `---`.
fn has_content(row: &str, marker: Option<Marker>) -> bool {
    let rest = if marker.is_some() { &row[3..] } else { row };
    let rest = rest.trim_start_matches('\u{feff}').trim();
    !(rest.is_empty() || rest.starts_with('#') || row.starts_with('%'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<(u32, &str)> {
        sections(text).into_iter().map(|section| (section.line, section.text)).collect()
    }

    #[test]
    fn documents_know_the_line_they_start_on() {
        assert_eq!(cut("a: 1\n---\nb: 2\n"), [(1, "a: 1\n"), (2, "---\nb: 2\n")]);
        assert_eq!(
            cut("# note\n---\na: 1\n---\n---\nb: 2"),
            [(1, "# note\n---\na: 1\n"), (4, "---\n---\nb: 2")]
        );
    }

    #[test]
    fn directives_stay_with_their_document() {
        assert_eq!(cut("%YAML 1.2\n---\na: 1\n"), [(1, "%YAML 1.2\n---\na: 1\n")]);
    }

    #[test]
    fn an_end_marker_ends_a_document() {
        assert_eq!(cut("a: 1\n...\nb: 2\n"), [(1, "a: 1\n...\n"), (3, "b: 2\n")]);
    }

    #[test]
    fn empty_files_and_comments_are_no_documents() {
        assert_eq!(cut(""), []);
        assert_eq!(cut("# only a note\n---\n---\r\n"), []);
        assert_eq!(cut("a: '---x'\n----\n").len(), 1);
    }
}
