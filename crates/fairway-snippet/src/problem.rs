//! Why a snippet is not understood: the line, what stands there, and what to use instead.

use std::fmt;

/// The first thing in a snippet that is not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Counted from 1.
    pub line: u32,
    /// The directive as it is written, shortened; empty where there is none.
    pub text: String,
    /// Why it is not understood, as a clause.
    pub reason: String,
    /// What to use instead.
    pub suggestion: Option<String>,
}

/// Characters of a directive that messages show.
const MAX_SHOWN: usize = 60;
/// Characters of a reason.
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
        // It may have a word of the snippet in it.
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

fn on_one_line(text: &str, most: usize) -> String {
    let text = fairway_model::on_one_line(text);
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
