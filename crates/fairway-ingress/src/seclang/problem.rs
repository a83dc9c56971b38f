//! Why a text of rules is refused: the line, what stands there, and the reason.

use std::fmt;

/// The first thing in a text of rules that is not understood or not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Counted from 1; that where the directive begins.
    pub line: u32,
    /// The directive, or the part of it, shortened; empty where there is none.
    pub text: String,
    /// Why it is refused, as a clause.
    pub reason: String,
}

/// Characters of a directive that messages show.
const MAX_SHOWN: usize = 60;
/// Characters of a reason.
const MAX_REASON: usize = 300;

impl Problem {
    pub(super) fn new(line: u32, text: &str, reason: impl Into<String>) -> Self {
        let reason: String = reason.into();
        Self { line, text: shortened(text, MAX_SHOWN), reason: shortened(&reason, MAX_REASON) }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        if !self.text.is_empty() {
            write!(f, ", \"{}\"", self.text)?;
        }
        write!(f, ": {}", self.reason)
    }
}

fn shortened(text: &str, most: usize) -> String {
    let text = fairway_model::on_one_line(text);
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
