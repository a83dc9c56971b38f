//! What came of the attempts to ask responders, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// What comes of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A response that is stapled.
    Good,
    Revoked,
    Unknown,
    /// A response that cannot be read or believed.
    Unusable,
    /// No response.
    Failed,
    /// The responder may not be asked.
    Refused,
}

/// How often each came.
#[derive(Debug, Default)]
pub(super) struct Counts([AtomicU64; Outcome::ALL.len()]);

impl Outcome {
    const ALL: [Self; 6] =
        [Self::Good, Self::Revoked, Self::Unknown, Self::Unusable, Self::Failed, Self::Refused];

    fn label(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Revoked => "revoked",
            Self::Unknown => "unknown",
            Self::Unusable => "unusable",
            Self::Failed => "failed",
            Self::Refused => "refused",
        }
    }
}

impl Counts {
    pub(super) fn add(&self, outcome: Outcome) {
        self.0[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// With the labels that metrics have.
    pub(super) fn all(&self) -> Vec<(&'static str, u64)> {
        Outcome::ALL.map(|it| (it.label(), self.0[it as usize].load(Ordering::Relaxed))).into()
    }
}
