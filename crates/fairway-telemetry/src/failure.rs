//! Why a message was not taken, and whether it may be sent again (OTLP 1.10, "Failures").

use std::error::Error;
use std::time::Duration;

use fairway_model::on_one_line;

/// The longest text of a collector that is repeated.
const MAX_TEXT_BYTES: usize = 256;

/// Why a message was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    /// What happened, in words for the log.
    pub(crate) message: String,
}

/// What follows from a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// No response came: the message is sent again, over another connection.
    NoResponse,
    /// The collector asks to send it again, after this time where it names one.
    Retryable(Option<Duration>),
    /// The message is never sent again.
    Rejected,
}

impl Failure {
    /// No response came.
    pub(crate) fn no_response(error: &(dyn Error + 'static)) -> Self {
        Self { kind: FailureKind::NoResponse, message: chain(error) }
    }

    /// The collector, or what it said, rules out another try.
    pub(crate) fn rejected(message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Rejected, message: message.into() }
    }

    /// The collector asks to send it again.
    pub(crate) fn retryable(after: Option<Duration>, message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Retryable(after), message: message.into() }
    }
}

/// An error and its causes, as far as they say something new.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    shown(&text)
}

/// A text of a collector, short enough for a message, on one line.
pub(crate) fn shown(text: &str) -> String {
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
        assert_eq!(shown("fine"), "fine");
        assert!(!shown("a\nERROR forged").contains('\n'));
        let long = shown(&"é".repeat(MAX_TEXT_BYTES));
        assert!(long.ends_with('…') && long.len() <= MAX_TEXT_BYTES + '…'.len_utf8(), "{long}");
    }

    #[test]
    fn the_cause_of_an_error_is_said_once() {
        let error = std::io::Error::other(std::io::Error::other("refused"));
        assert_eq!(chain(&error), "refused");
    }
}
