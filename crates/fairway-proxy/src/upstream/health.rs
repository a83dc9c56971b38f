//! Passive outlier ejection of one endpoint, as one worker sees it.
//!
//! A connect that fails ejects at once, three failures in a row before a response head do so too; for 1 s, doubling to
//! 30 s, with one probing request when the time is over. A status code never ejects.

use std::time::Duration;

use crate::clock::Instant;

/// Failures in a row before the response head that eject.
const FAILURES_IN_A_ROW: u8 = 3;
const FIRST_EJECTION: Duration = Duration::from_secs(1);
const LONGEST_EJECTION: Duration = Duration::from_secs(30);

/// What is known of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// In use; so many failures in a row.
    Good {
        /// Below [`FAILURES_IN_A_ROW`].
        failures: u8,
    },
    /// Not in use until then.
    Ejected {
        /// When a probe may go.
        until: Instant,
        /// How long this ejection is.
        length: Duration,
    },
    /// One request tries it; nobody else does.
    Probing {
        /// How long the last ejection was.
        length: Duration,
        /// A probe that is never reported (its client left) is given up then.
        until: Instant,
    },
}

/// How bad a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blame {
    /// No connection could be made.
    Connect,
    /// It failed between the request and the response head.
    BeforeHead,
}

impl Health {
    pub(crate) const fn new() -> Self {
        Self::Good { failures: 0 }
    }

    /// Whether a request may go there now without being a probe.
    pub(crate) fn is_good(self) -> bool {
        matches!(self, Self::Good { .. })
    }

    /// Whether a request may go there as the one probe.
    pub(crate) fn wants_probe(self, now: Instant) -> bool {
        match self {
            Self::Good { .. } => false,
            Self::Ejected { until, .. } | Self::Probing { until, .. } => until <= now,
        }
    }

    /// The state while the probe is under way.
    pub(crate) fn probing(self, now: Instant) -> Self {
        match self {
            Self::Good { .. } => self,
            Self::Ejected { length, .. } | Self::Probing { length, .. } => {
                Self::Probing { length, until: now + LONGEST_EJECTION }
            }
        }
    }

    /// The state after a probe that never met the endpoint: another may go at once.
    pub(crate) fn unproven(self, now: Instant) -> Self {
        match self {
            Self::Probing { length, .. } => Self::Ejected { until: now, length },
            Self::Good { .. } | Self::Ejected { .. } => self,
        }
    }

    /// The state after a response head came.
    pub(crate) fn succeeded(self) -> Self {
        Self::new()
    }

    /// The state after a failure; `may_eject` says whether enough others are left.
    pub(crate) fn failed(self, blame: Blame, may_eject: bool, now: Instant) -> Self {
        match self {
            Self::Good { failures } => {
                let failures = failures.saturating_add(1);
                if may_eject && (blame == Blame::Connect || failures >= FAILURES_IN_A_ROW) {
                    Self::Ejected { until: now + FIRST_EJECTION, length: FIRST_EJECTION }
                } else {
                    Self::Good { failures: failures.min(FAILURES_IN_A_ROW - 1) }
                }
            }
            Self::Probing { length, .. } => {
                let length = (length * 2).min(LONGEST_EJECTION);
                Self::Ejected { until: now + length, length }
            }
            Self::Ejected { .. } => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_connect_ejects_at_once_and_three_other_failures_do() {
        let now = Instant::now();
        assert!(!Health::new().failed(Blame::Connect, true, now).is_good());
        let twice = Health::new().failed(Blame::BeforeHead, true, now).failed(Blame::BeforeHead, true, now);
        assert!(twice.is_good());
        assert!(!twice.failed(Blame::BeforeHead, true, now).is_good());
        assert!(twice.succeeded().failed(Blame::BeforeHead, true, now).is_good());
    }

    #[test]
    fn an_ejection_doubles_up_to_thirty_seconds_and_one_probe_ends_it() {
        let mut now = Instant::now();
        let mut health = Health::new().failed(Blame::Connect, true, now);
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            assert!(!health.wants_probe(now + Duration::from_millis(seconds * 1000 - 1)));
            now += Duration::from_secs(seconds);
            assert!(health.wants_probe(now));
            health = health.probing(now);
            assert!(!health.wants_probe(now), "only one probe");
            health = health.failed(Blame::BeforeHead, true, now);
        }
        now += Duration::from_secs(30);
        assert!(health.probing(now).succeeded().is_good());
    }

    #[test]
    fn the_last_one_standing_is_never_ejected() {
        let now = Instant::now();
        let mut health = Health::new();
        for _ in 0..10 {
            health = health.failed(Blame::Connect, false, now);
        }
        assert!(health.is_good());
    }
}
