//! Why a pattern is unusable.

use std::fmt;

/// Limit for the work of building an automaton, in state transitions.
pub(crate) const MAX_BUILD_WORK: u64 = 500_000;

/// Why a pattern is unusable: the text after "the regular expression" in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    reason: String,
    work: u64,
}

impl Refusal {
    /// Invalid or unsupported syntax.
    pub(crate) fn because(why: impl fmt::Display) -> Self {
        Self { reason: format!("cannot be used: {why}"), work: 0 }
    }

    /// An exceeded limit.
    pub(crate) fn exceeds(bound: impl fmt::Display) -> Self {
        Self { reason: format!("needs more than {bound}"), work: MAX_BUILD_WORK }
    }

    /// More than this many bytes.
    pub(crate) fn longer_than(bytes: usize) -> Self {
        Self { reason: format!("is longer than {bytes} bytes"), work: 0 }
    }

    /// Adds work done before.
    pub(crate) fn with_work(mut self, work: u64) -> Self {
        self.work += work;
        self
    }

    /// The work of finding out, in steps.
    #[must_use]
    pub fn work(&self) -> u64 {
        self.work
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Refusal {}
