//! Why a message was not accepted, and whether it may be retried (OTLP 1.10, "Failures").

use std::error::Error;
use std::time::Duration;

use fairway_model::on_one_line;

/// The longest part of a collector's text that is logged.
const MAX_TEXT_BYTES: usize = 256;

/// Why a message was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    /// What happened, for the log.
    pub(crate) message: String,
}

/// How to react to a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// No response arrived: the message is retried over another connection.
    NoResponse,
    /// The collector asks for a retry, after this time if given.
    Retryable(Option<Duration>),
    /// The message is never retried.
    Rejected,
}

impl Failure {
    /// No response arrived.
    pub(crate) fn no_response(error: &(dyn Error + 'static)) -> Self {
        Self { kind: FailureKind::NoResponse, message: error_chain(error) }
    }

    /// The collector, or its response, rules out a retry.
    pub(crate) fn rejected(message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Rejected, message: message.into() }
    }

    /// The collector asks for a retry.
    pub(crate) fn retryable(after: Option<Duration>, message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Retryable(after), message: message.into() }
    }
}

/// An error and its causes, without repetitions.
fn error_chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            text = format!("{text}: {message}");
        }
        cause = error.source();
    }
    truncated(&text)
}

/// A collector's text, truncated and on one line.
pub(crate) fn truncated(text: &str) -> String {
    let mut end = text.len().min(MAX_TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let cut = if end < text.len() { "…" } else { "" };
    on_one_line(&text[..end]) + cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_a_collector_is_short_and_on_one_line() {
        assert_eq!(truncated("fine"), "fine");
        assert!(!truncated("a\nERROR forged").contains('\n'));
        let long = truncated(&"é".repeat(MAX_TEXT_BYTES));
        assert!(long.ends_with('…') && long.len() <= MAX_TEXT_BYTES + '…'.len_utf8(), "{long}");
    }

    #[test]
    fn the_cause_of_an_error_is_not_repeated() {
        let error = std::io::Error::other(std::io::Error::other("refused"));
        assert_eq!(error_chain(&error), "refused");
    }
}
