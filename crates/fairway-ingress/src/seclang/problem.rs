//! Why a text of rules is refused: line, text and reason.

use std::fmt;

/// The first part of a text of rules that is unknown or refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line where the directive begins, starting at 1.
    pub line: u32,
    /// The directive or its part, shortened; may be empty.
    pub text: String,
    /// The reason, as a clause.
    pub reason: String,
}

/// Maximum characters of a directive in messages.
const MAX_SHOWN: usize = 60;
/// Maximum characters of a reason.
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

fn shortened(text: &str, limit: usize) -> String {
    let text = fairway_model::on_one_line(text);
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
