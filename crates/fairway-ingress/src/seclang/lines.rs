//! Splits a text of rules into lines and words: comments, continuation lines, quotes.

use super::problem::Problem;

/// A directive as written, with continuation lines joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Its first line, starting at 1.
    pub(super) number: u32,
    pub(super) text: String,
}

/// An argument of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word<'a> {
    /// Without quotes, otherwise as written.
    pub(super) text: &'a str,
    pub(super) quoted: bool,
}

/// The text as nginx passes it to ModSecurity: ingress-nginx writes it in single quotes, where a backslash precedes a
/// quote or another backslash. `\n`, `\r` and `\t` mean the same in a pattern, so they stay.
pub(super) fn unquoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match rest.peek() {
            Some(next) if c == '\\' && matches!(next, '"' | '\'' | '\\') => {
                out.push(*next);
                rest.next();
            }
            _ => out.push(c),
        }
    }
    out
}

/// Splits a text into directives.
pub(super) fn lines(text: &str) -> Result<Vec<Line>, Problem> {
    let mut lines = Vec::new();
    let mut open: Option<Line> = None;
    let mut in_comment = false;
    for (number, raw) in (1..).zip(text.split('\n')) {
        let line = raw.trim();
        if let Some(c) = line.chars().find(|c| c.is_control() && *c != '\t') {
            return Err(Problem::new(number, "", format!("it has the control character {:?}", c)));
        }
        let continues = line.ends_with('\\');
        let content = line.strip_suffix('\\').unwrap_or(line);
        if in_comment {
            in_comment = continues;
            continue;
        }
        if line.starts_with('#') || line.is_empty() {
            if open.is_some() {
                return Err(Problem::new(number, "", "a line that ends in \\ is not continued here"));
            }
            // In ModSecurity, commenting out a directive includes its continuation lines.
            in_comment = continues;
            continue;
        }
        let mut joined = open.take().unwrap_or(Line { number, text: String::new() });
        joined.text.push_str(content);
        match continues {
            true => open = Some(joined),
            false => lines.push(joined),
        }
    }
    match open {
        Some(line) => Err(Problem::new(line.number, &line.text, "its last line ends in \\")),
        None => Ok(lines),
    }
}

impl Line {
    /// Its words; the first is the name of the directive.
    pub(super) fn words(&self) -> Result<Vec<Word<'_>>, Problem> {
        let wrong = |reason: &str| Err(Problem::new(self.number, &self.text, reason));
        let mut words = Vec::new();
        let mut rest = self.text.trim_start();
        while !rest.is_empty() {
            let (text, behind, quoted) = match rest.strip_prefix('"') {
                Some(inner) => match closing_quote(inner) {
                    Some(end) => (&inner[..end], &inner[end + 1..], true),
                    None => return wrong("a double quote is not closed"),
                },
                None => {
                    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                    (&rest[..end], &rest[end..], false)
                }
            };
            if quoted && behind.starts_with(|c: char| !c.is_whitespace()) {
                return wrong("something follows a closing quote without a space");
            }
            if !quoted && (text.starts_with('\'') || text.contains(['"', '`']) || text.ends_with('\\')) {
                return wrong("write the argument between double quotes");
            }
            words.push(Word { text, quoted });
            rest = behind.trim_start();
        }
        Ok(words)
    }
}

/// Position of the first quote that is not escaped.
fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let is_end = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        is_end
    })
}
