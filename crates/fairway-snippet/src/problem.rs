//! Why a snippet is not supported: line, text and an alternative.

use std::fmt;

/// The first unsupported part of a snippet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Starting at 1.
    pub line: u32,
    /// The directive as written, shortened; may be empty.
    pub text: String,
    /// The reason, as a clause.
    pub reason: String,
    /// What to use instead.
    pub suggestion: Option<String>,
}

/// Maximum characters of a directive in messages.
const MAX_SHOWN: usize = 60;
/// Maximum characters of a reason.
const MAX_REASON: usize = 400;

impl Problem {
    pub(crate) fn new(line: u32, text: &str, reason: impl Into<String>) -> Self {
        Self { line, text: shortened(text), reason: reason.into(), suggestion: None }
    }

    pub(crate) fn instead(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        if !self.text.is_empty() {
            write!(f, ", \"{}\"", self.text)?;
        }
        // It may contain a word of the snippet.
        write!(f, ": {}", on_one_line(&self.reason, MAX_REASON))?;
        match &self.suggestion {
            Some(suggestion) => write!(f, "; {suggestion}"),
            None => Ok(()),
        }
    }
}

pub(crate) fn shortened(text: &str) -> String {
    on_one_line(text, MAX_SHOWN)
}

fn on_one_line(text: &str, limit: usize) -> String {
    let text = fairway_model::on_one_line(text);
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
