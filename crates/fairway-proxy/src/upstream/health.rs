//! Passive outlier ejection of one endpoint, as one worker sees it.
//!
//! A connect that fails ejects at once, three failures in a row before a response head do so too; for 1 s, doubling to
//! 30 s, with one probing request when the time is over. A status code never ejects.
//!
//! A client can make an endpoint close without an answer, so a failure counts in full only when the same request
//! succeeded elsewhere. An endpoint whose connect lost a race is suspect: until a connect to it completes, one probe at a
//! time goes there and nothing else.

use std::time::Duration;

use fairway_runtime::clock::Instant;

/// Failures in a row before the response head that eject, in thirds.
const EJECTING: u8 = 9;
const FIRST_EJECTION: Duration = Duration::from_secs(1);
const LONGEST_EJECTION: Duration = Duration::from_secs(30);

/// What is known of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// In use.
    Good {
        /// Failures in a row, in thirds; below [`EJECTING`].
        failures: u8,
    },
    /// Another endpoint's connect was faster by far. Only a probe goes there until a connect completes.
    Suspect {
        /// A probe is under way; another may go then.
        until: Instant,
    },
    /// Not in use until then.
    Ejected {
        /// When a probe may go.
        until: Instant,
        /// How long this ejection is.
        length: Duration,
    },
    /// One request tries it; no other goes there.
    Probing {
        /// How long the last ejection was.
        length: Duration,
        /// A probe without a verdict is given up then.
        until: Instant,
    },
}

/// What a failure says about the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blame {
    /// No connection could be made, or nothing acknowledges what was written.
    Connect,
    /// It failed between the request and the response head, and another endpoint answered the same request.
    BeforeHead,
    /// It failed so, and the request was tried nowhere else: the request may be the cause.
    Unconfirmed,
}

impl Blame {
    const fn thirds(self) -> u8 {
        match self {
            Self::Connect | Self::BeforeHead => EJECTING / 3,
            Self::Unconfirmed => 1,
        }
    }
}

impl Health {
    pub(crate) const fn new() -> Self {
        Self::Good { failures: 0 }
    }

    /// Whether a request may go there now without being a probe.
    pub(crate) fn is_good(self) -> bool {
        matches!(self, Self::Good { .. })
    }

    /// Whether it is ejected, be it that a probe is under way.
    pub(crate) fn is_ejected(self) -> bool {
        matches!(self, Self::Ejected { .. } | Self::Probing { .. })
    }

    /// Whether its last connect lost a race, and none has completed since.
    pub(crate) fn is_suspect(self) -> bool {
        matches!(self, Self::Suspect { .. })
    }

    /// Whether a request may go there as the one probe.
    pub(crate) fn wants_probe(self, now: Instant) -> bool {
        match self {
            Self::Good { .. } => false,
            Self::Suspect { until } | Self::Ejected { until, .. } | Self::Probing { until, .. } => {
                until <= now
            }
        }
    }

    /// The state while the probe is under way.
    pub(crate) fn probing(self, now: Instant) -> Self {
        let until = now + LONGEST_EJECTION;
        match self {
            Self::Good { .. } => self,
            Self::Suspect { .. } => Self::Suspect { until },
            Self::Ejected { length, .. } | Self::Probing { length, .. } => Self::Probing { length, until },
        }
    }

    /// The state after a connect to it lost a race; that connect goes on as the probe.
    pub(crate) fn lost_race(self, now: Instant) -> Self {
        match self {
            Self::Good { .. } => Self::Suspect { until: now + LONGEST_EJECTION },
            other => other,
        }
    }

    /// The state after a probe that ended without a verdict: the next request may be one.
    pub(crate) fn probe_abandoned(self, now: Instant) -> Self {
        match self {
            Self::Suspect { .. } => Self::Suspect { until: now },
            Self::Probing { length, .. } => Self::Probing { length, until: now },
            other => other,
        }
    }

    /// The state after a connect completed.
    pub(crate) fn connected(self) -> Self {
        if self.is_suspect() { Self::new() } else { self }
    }

    /// The state after a response head came. It may have come on a connection from before the suspicion.
    pub(crate) fn succeeded(self) -> Self {
        if self.is_suspect() { self } else { Self::new() }
    }

    /// The state after a failure; `may_eject` says whether enough others are left.
    pub(crate) fn failed(self, blame: Blame, may_eject: bool, now: Instant) -> Self {
        let first = Self::Ejected { until: now + FIRST_EJECTION, length: FIRST_EJECTION };
        match self {
            Self::Good { failures } => {
                let failures = failures.saturating_add(blame.thirds());
                if may_eject && (blame == Blame::Connect || failures >= EJECTING) {
                    first
                } else {
                    Self::Good { failures: failures.min(EJECTING - 1) }
                }
            }
            Self::Suspect { .. } if blame != Blame::Connect => self,
            Self::Suspect { .. } if may_eject => first,
            Self::Suspect { .. } => Self::Suspect { until: now },
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
    fn a_failure_that_no_other_endpoint_contradicts_counts_a_third() {
        let now = Instant::now();
        let fail = |health: Health| health.failed(Blame::Unconfirmed, true, now);
        let eight = (0..8).fold(Health::new(), |health, _| fail(health));
        assert!(eight.is_good());
        assert!(!fail(eight).is_good());
        assert!(fail(eight.succeeded()).is_good());
    }

    #[test]
    fn a_suspect_endpoint_gets_one_probe_at_a_time_until_a_connect_completes() {
        let now = Instant::now();
        let suspect = Health::new().lost_race(now);
        assert!(!suspect.is_good() && !suspect.wants_probe(now), "the connect that lost is the probe");
        assert_eq!(suspect.succeeded(), suspect, "an answer on an older connection proves nothing");
        assert_eq!(suspect.failed(Blame::Unconfirmed, true, now), suspect);
        let failed = suspect.failed(Blame::Connect, false, now);
        assert!(failed.is_suspect() && failed.wants_probe(now));
        assert!(!failed.probing(now).wants_probe(now));
        assert!(failed.probing(now).probe_abandoned(now).wants_probe(now));
        assert!(failed.connected().is_good());
        assert!(!suspect.failed(Blame::Connect, true, now).wants_probe(now), "ejected");
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
