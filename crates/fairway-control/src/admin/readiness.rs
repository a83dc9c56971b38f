//! Whether the process may be sent traffic, and if not, why not.

use std::fmt;

use crate::pipeline::Freshness;

/// The answer of `/readyz`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The first configuration is being read; what it waits for, when the source says.
    Loading(Option<String>),
    /// The first configuration is not yet adopted by every worker.
    Adopting {
        /// The version that is published.
        published: u64,
        /// The version that every worker has.
        adopted: u64,
    },
    /// Every worker serves a configuration.
    Ready {
        /// The version that every worker has.
        adopted: u64,
        /// Where it is from.
        freshness: Freshness,
    },
    /// New requests are refused for want of memory, and have been for 10 s longer than the load explains.
    OutOfMemory,
    /// The process is about to end.
    Draining,
}

impl Readiness {
    /// Judges by the published version, if any, with where it is from, and the one that every worker has (0 for none).
    #[must_use]
    pub fn judge(published: Option<(u64, Freshness)>, adopted: u64) -> Self {
        match published {
            Some((_, freshness)) if adopted > 0 => Self::Ready { adopted, freshness },
            Some((published, _)) => Self::Adopting { published, adopted },
            None => Self::Loading(None),
        }
    }

    /// Whether traffic is welcome.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Ready { .. })
    }
}

impl fmt::Display for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loading(None) => f.write_str("not ready: the first configuration is being read"),
            Self::Loading(Some(waiting)) => {
                write!(f, "not ready: the first configuration is being read: {waiting}")
            }
            Self::Adopting { published, .. } => {
                write!(f, "not ready: configuration {published} is not yet adopted by every worker")
            }
            Self::Ready { adopted, freshness: Freshness::Current } => {
                write!(f, "ready: every worker serves configuration {adopted} or a newer one")
            }
            Self::Ready { freshness: Freshness::Stale, .. } => f.write_str(
                "ready, stale: every worker serves the last good configuration of an earlier process; the API has not answered since the start",
            ),
            Self::OutOfMemory => f.write_str(
                "not ready: above the memory budget for 10 s without a load that explains it",
            ),
            Self::Draining => f.write_str("not ready: draining"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_ready_once_every_worker_has_a_configuration() {
        assert_eq!(Readiness::judge(None, 0), Readiness::Loading(None));
        assert!(!Readiness::judge(Some((1, Freshness::Current)), 0).is_ready());
        assert!(Readiness::judge(Some((9, Freshness::Current)), 8).is_ready());
        let stale = Readiness::judge(Some((1, Freshness::Stale)), 1);
        assert!(stale.is_ready() && stale.to_string().contains("stale"));
        assert!(!Readiness::OutOfMemory.is_ready());
        assert!(!Readiness::Draining.is_ready());
    }
}
