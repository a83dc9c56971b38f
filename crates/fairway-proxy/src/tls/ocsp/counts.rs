//! Counts of OCSP fetches by outcome, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// Outcome of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FetchOutcome {
    /// A response that is stapled.
    Good,
    Revoked,
    Unknown,
    /// A malformed or untrusted response.
    Unusable,
    /// No response.
    Failed,
    /// The responder's address is not allowed.
    Refused,
}

/// Number of fetches by outcome.
#[derive(Debug, Default)]
pub(super) struct FetchCounts([AtomicU64; FetchOutcome::ALL.len()]);

impl FetchOutcome {
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

impl FetchCounts {
    pub(super) fn add(&self, outcome: FetchOutcome) {
        self.0[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts with their metric labels.
    pub(super) fn by_label(&self) -> Vec<(&'static str, u64)> {
        FetchOutcome::ALL.map(|it| (it.label(), self.0[it as usize].load(Ordering::Relaxed))).into()
    }
}
