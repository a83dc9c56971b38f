//! Metrics of lent shares.

use std::sync::atomic::{AtomicU64, Ordering};

use super::message::LendOutcome;

/// The counters of a process.
#[derive(Default)]
pub(super) struct LeaseCounters {
    requested: [AtomicU64; LendOutcome::ALL.len()],
    unanswered: AtomicU64,
    answered: [AtomicU64; LendOutcome::ALL.len()],
    refused: [AtomicU64; RefusedMessage::ALL.len()],
    dropped: AtomicU64,
}

/// Why a message of another replica gets no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RefusedMessage {
    /// It is larger than any message of a replica.
    Oversized,
    /// It was not encrypted for this replica with a shared key.
    Unsigned,
    /// It is too old, or the sender's clock differs.
    Stale,
    /// This or a later message of its sender was received already.
    Replayed,
    /// This version cannot decode it.
    Malformed,
    /// Too many replicas have asked recently.
    TooManySenders,
}

impl RefusedMessage {
    pub(super) const ALL: [Self; 6] =
        [Self::Oversized, Self::Unsigned, Self::Stale, Self::Replayed, Self::Malformed, Self::TooManySenders];

    fn label(self) -> &'static str {
        match self {
            Self::Oversized => "oversized",
            Self::Unsigned => "unsigned",
            Self::Stale => "stale",
            Self::Replayed => "replayed",
            Self::Malformed => "malformed",
            Self::TooManySenders => "too_many_senders",
        }
    }
}

/// The current counters, by label.
pub(crate) struct LeaseFigures {
    /// Shares that this replica asked others for, by outcome.
    pub(crate) requested: Vec<(&'static str, u64)>,
    /// Shares that others asked this replica for, by outcome.
    pub(crate) answered: Vec<(&'static str, u64)>,
    /// Messages that got no response, by reason.
    pub(crate) refused: Vec<(&'static str, u64)>,
    /// Clients whose shares were not asked for because there were too many.
    pub(crate) dropped: u64,
}

impl LeaseCounters {
    pub(super) fn count_request(&self, outcome: LendOutcome) {
        self.requested[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_unanswered(&self, shares: usize) {
        self.unanswered.fetch_add(shares as u64, Ordering::Relaxed);
    }

    pub(super) fn count_reply(&self, outcome: LendOutcome) {
        self.answered[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_refused(&self, reason: RefusedMessage) {
        self.refused[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> LeaseFigures {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let outcomes = |counts: &[AtomicU64]| {
            LendOutcome::ALL.map(LendOutcome::label).into_iter().zip(counts.iter().map(value)).collect()
        };
        let mut requested_shares: Vec<_> = outcomes(&self.requested);
        requested_shares.push(("unanswered", value(&self.unanswered)));
        LeaseFigures {
            requested: requested_shares,
            answered: outcomes(&self.answered),
            refused: RefusedMessage::ALL
                .map(RefusedMessage::label)
                .into_iter()
                .zip(self.refused.iter().map(value))
                .collect(),
            dropped: value(&self.dropped),
        }
    }
}
