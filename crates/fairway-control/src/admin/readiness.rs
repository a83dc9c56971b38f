//! Whether the process may be sent traffic, and if not, why not.

use std::fmt;

/// The answer of `/readyz`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The first configuration is being read.
    Loading,
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
    },
    /// The process is about to end.
    Draining,
}

impl Readiness {
    /// Judges by the published version, if any, and the one that every worker has (0 for none).
    #[must_use]
    pub fn judge(published: Option<u64>, adopted: u64) -> Self {
        match published {
            _ if adopted > 0 => Self::Ready { adopted },
            Some(published) => Self::Adopting { published, adopted },
            None => Self::Loading,
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
            Self::Loading => f.write_str("not ready: the first configuration is being read"),
            Self::Adopting { published, .. } => {
                write!(f, "not ready: configuration {published} is not yet adopted by every worker")
            }
            Self::Ready { adopted } => {
                write!(f, "ready: every worker serves configuration {adopted} or a newer one")
            }
            Self::Draining => f.write_str("not ready: draining"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_ready_once_every_worker_has_a_configuration() {
        assert_eq!(Readiness::judge(None, 0), Readiness::Loading);
        assert!(!Readiness::judge(Some(1), 0).is_ready());
        assert!(Readiness::judge(Some(9), 8).is_ready());
        assert!(!Readiness::Draining.is_ready());
    }
}
