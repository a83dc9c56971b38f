//! What metrics say about shares that are lent.

use std::sync::atomic::{AtomicU64, Ordering};

use super::message::Outcome;

/// Counters of a process.
#[derive(Default)]
pub(super) struct Figures {
    asked: [AtomicU64; Outcome::ALL.len()],
    unanswered: AtomicU64,
    answered: [AtomicU64; Outcome::ALL.len()],
    refused: [AtomicU64; RefusedMessage::ALL.len()],
    dropped: AtomicU64,
}

/// Why a message of another replica gets no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RefusedMessage {
    /// It is larger than any that a replica sends.
    Oversized,
    /// No key that replicas share has encrypted it for this one.
    Unsigned,
    /// It is too old, or its sender's clock differs.
    Stale,
    /// A later one of its sender has come already, or the same.
    Replayed,
    /// It is none that this version understands.
    Malformed,
    /// Too many replicas have asked lately.
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

/// The counters as they are now, by the words of their labels.
pub(crate) struct LeaseFigures {
    /// Shares that this replica asked others for, by outcome.
    pub(crate) asked: Vec<(&'static str, u64)>,
    /// Shares that others asked it for.
    pub(crate) answered: Vec<(&'static str, u64)>,
    /// Messages that got no answer, by reason.
    pub(crate) refused: Vec<(&'static str, u64)>,
    /// Clients whose shares were not asked for because there were too many.
    pub(crate) dropped: u64,
}

impl Figures {
    pub(super) fn asked(&self, outcome: Outcome) {
        self.asked[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn unanswered(&self, shares: usize) {
        self.unanswered.fetch_add(shares as u64, Ordering::Relaxed);
    }

    pub(super) fn answered(&self, outcome: Outcome) {
        self.answered[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn refused(&self, reason: RefusedMessage) {
        self.refused[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> LeaseFigures {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let outcomes = |of: &[AtomicU64]| {
            Outcome::ALL.map(Outcome::label).into_iter().zip(of.iter().map(value)).collect()
        };
        let mut asked: Vec<_> = outcomes(&self.asked);
        asked.push(("unanswered", value(&self.unanswered)));
        LeaseFigures {
            asked,
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
