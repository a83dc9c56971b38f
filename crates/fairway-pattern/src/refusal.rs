//! Why a pattern cannot be used.

use std::fmt;

/// Upper bound of the work of building an automaton, in steps from a state to the next.
pub(crate) const WORK: u64 = 500_000;

/// Why a pattern cannot be used: what follows "the regular expression" in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    why: String,
    work: u64,
}

impl Refusal {
    /// Something that the syntax does not have, or that this crate does not support.
    pub(crate) fn because(why: impl fmt::Display) -> Self {
        Self { why: format!("cannot be used: {why}"), work: 0 }
    }

    /// A limit that it exceeds.
    pub(crate) fn needs(what: impl fmt::Display) -> Self {
        Self { why: format!("needs more than {what}"), work: WORK }
    }

    /// It is longer than this many bytes.
    pub(crate) fn longer_than(bytes: usize) -> Self {
        Self { why: format!("is longer than {bytes} bytes"), work: 0 }
    }

    /// With work that was done before.
    pub(crate) fn after(mut self, work: u64) -> Self {
        self.work += work;
        self
    }

    /// The work that finding out counts as, in steps.
    #[must_use]
    pub fn work(&self) -> u64 {
        self.work
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Refusal {}
