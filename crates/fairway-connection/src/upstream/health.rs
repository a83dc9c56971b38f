//! Passive outlier ejection of one endpoint, as one worker sees it.
//!
//! A failed connect ejects at once, and so do three consecutive failures before a response head. An ejection lasts 1 s,
//! doubling to 30 s, and ends with one probing request. A backend may set other values ([`EjectionPolicy`]) or disable
//! ejection. A status code never ejects.
//!
//! A client can make an endpoint close without a response, so a failure counts in full only if the same request
//! succeeded on another endpoint. An endpoint whose connect lost a race is suspect: until a connect to it completes, it
//! gets nothing but one probe at a time.

use std::time::Duration;

use fairway_model::Ejection;
use fairway_net::clock::Instant;

/// Failures are counted in thirds; a failure that counts in full is this many.
pub(super) const THIRDS_PER_FAILURE: u16 = 3;
/// How long a probe, or a connect that lost a race, may take before the next probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum duration of an ejection.
const MAX_EJECTION: Duration = Duration::from_secs(86_400);

/// When failures eject an endpoint, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EjectionPolicy {
    /// Consecutive failures before the response head, in thirds; at least one full failure.
    thirds: u16,
    first: Duration,
    /// At least as long as the first.
    longest: Duration,
}

impl EjectionPolicy {
    /// The policy of a backend; `None` if nothing ejects.
    #[must_use]
    pub(crate) fn from_settings(ejection: Option<Ejection>) -> Option<Self> {
        match ejection {
            None => Some(Self::default()),
            Some(Ejection::Never) => None,
            Some(Ejection::After { failures, first, longest }) => {
                let longest = longest.min(MAX_EJECTION);
                Some(Self {
                    thirds: u16::from(failures.get()) * THIRDS_PER_FAILURE,
                    first: first.min(longest),
                    longest,
                })
            }
        }
    }

    /// The duration of an ejection after this many others.
    pub(crate) fn duration_after(&self, ejections: u8) -> Duration {
        self.first.saturating_mul(1 << ejections.min(30)).min(self.longest)
    }

    fn first_ejection(&self, now: Instant) -> Health {
        Health::Ejected { until: now + self.first, length: self.first }
    }

    /// The next ejection after one of this duration.
    fn next_ejection(&self, length: Duration, now: Instant) -> Health {
        let length = length.saturating_mul(2).max(self.first).min(self.longest);
        Health::Ejected { until: now + length, length }
    }
}

impl Default for EjectionPolicy {
    fn default() -> Self {
        Self {
            thirds: 3 * THIRDS_PER_FAILURE,
            first: Duration::from_secs(1),
            longest: Duration::from_secs(30),
        }
    }
}

/// The health of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// In use.
    Good {
        /// Consecutive failures in thirds; fewer than eject.
        failures: u16,
    },
    /// Another endpoint's connect was far faster. Only probes go there until a connect completes.
    Suspect {
        /// When the current probe times out and another may go.
        until: Instant,
    },
    /// Not in use.
    Ejected {
        /// When a probe may go.
        until: Instant,
        /// The duration of this ejection.
        length: Duration,
    },
    /// One request probes it; no others go there.
    Probing {
        /// The duration of the last ejection.
        length: Duration,
        /// When a probe without a result is given up.
        until: Instant,
    },
}

/// How a failure counts against the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The connect failed, or sent data is not acknowledged.
    Connect,
    /// It failed between the request and the response head, and another endpoint answered the same request.
    BeforeHead,
    /// The same, but the request was not tried elsewhere: the request may be the cause.
    Unconfirmed,
}

impl Blame {
    const fn thirds(self) -> u16 {
        match self {
            Self::Connect | Self::BeforeHead => THIRDS_PER_FAILURE,
            Self::Unconfirmed => 1,
        }
    }
}

impl Default for Health {
    fn default() -> Self {
        Self::Good { failures: 0 }
    }
}

impl Health {
    /// Whether ordinary requests may go there.
    #[inline]
    #[must_use]
    pub fn is_healthy(self) -> bool {
        matches!(self, Self::Good { .. })
    }

    /// Whether it is ejected, even if a probe is under way.
    #[must_use]
    pub(crate) fn is_ejected(self) -> bool {
        matches!(self, Self::Ejected { .. } | Self::Probing { .. })
    }

    /// Whether its last connect lost a race and none has completed since.
    #[inline]
    #[must_use]
    pub fn is_suspect(self) -> bool {
        matches!(self, Self::Suspect { .. })
    }

    /// Whether the next request may be its probe.
    #[inline]
    #[must_use]
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
        let until = now + PROBE_TIMEOUT;
        match self {
            Self::Good { .. } => self,
            Self::Suspect { .. } => Self::Suspect { until },
            Self::Ejected { length, .. } | Self::Probing { length, .. } => Self::Probing { length, until },
        }
    }

    /// The state after its connect lost a race; that connect continues as the probe.
    pub(crate) fn lost_race(self, now: Instant) -> Self {
        match self {
            Self::Good { .. } => Self::Suspect { until: now + PROBE_TIMEOUT },
            other => other,
        }
    }

    /// The state after a probe that ended without a result: the next request may probe.
    pub(crate) fn probe_abandoned(self, now: Instant) -> Self {
        match self {
            Self::Suspect { .. } => Self::Suspect { until: now },
            Self::Probing { length, .. } => Self::Probing { length, until: now },
            other => other,
        }
    }

    /// The state after a connect completed.
    pub(crate) fn connected(self) -> Self {
        if self.is_suspect() { Self::default() } else { self }
    }

    /// The state after a response head, which may belong to a connection from before the suspicion.
    pub(crate) fn succeeded(self) -> Self {
        if self.is_suspect() { self } else { Self::default() }
    }

    /// The state after a failure; `may_eject` says whether enough others are left.
    pub(crate) fn failed(
        self,
        blame: Blame,
        ejecting: &EjectionPolicy,
        may_eject: bool,
        now: Instant,
    ) -> Self {
        match self {
            Self::Good { failures } => {
                let failures = failures.saturating_add(blame.thirds());
                if may_eject && (blame == Blame::Connect || failures >= ejecting.thirds) {
                    ejecting.first_ejection(now)
                } else {
                    Self::Good { failures: failures.min(ejecting.thirds - 1) }
                }
            }
            Self::Suspect { .. } if blame != Blame::Connect => self,
            Self::Suspect { .. } if may_eject => ejecting.first_ejection(now),
            Self::Suspect { .. } => Self::Suspect { until: now },
            Self::Probing { length, .. } => ejecting.next_ejection(length, now),
            Self::Ejected { .. } => self,
        }
    }

    /// The same for a backend that ejects no endpoints: only a suspect one whose connect fails waits for the next
    /// probe.
    pub(crate) fn failed_without_ejection(self, blame: Blame, now: Instant) -> Self {
        match self {
            Self::Suspect { .. } if blame == Blame::Connect => Self::Suspect { until: now },
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU8;

    use super::*;

    /// A failure that may eject, with the default policy.
    fn fail(health: Health, blame: Blame, now: Instant) -> Health {
        health.failed(blame, &EjectionPolicy::default(), true, now)
    }

    fn policy(failures: u8, first: u64, longest: u64) -> EjectionPolicy {
        let (first, longest) = (Duration::from_secs(first), Duration::from_secs(longest));
        EjectionPolicy::from_settings(Some(Ejection::After {
            failures: NonZeroU8::new(failures).unwrap(),
            first,
            longest,
        }))
        .unwrap()
    }

    #[test]
    fn a_failed_connect_or_three_other_failures_eject() {
        let now = Instant::now();
        assert!(!fail(Health::default(), Blame::Connect, now).is_healthy());
        let twice = fail(fail(Health::default(), Blame::BeforeHead, now), Blame::BeforeHead, now);
        assert!(twice.is_healthy());
        assert!(!fail(twice, Blame::BeforeHead, now).is_healthy());
        assert!(fail(twice.succeeded(), Blame::BeforeHead, now).is_healthy());
    }

    #[test]
    fn an_ejection_doubles_up_to_thirty_seconds_and_one_probe_ends_it() {
        let mut now = Instant::now();
        let mut health = fail(Health::default(), Blame::Connect, now);
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            assert!(!health.wants_probe(now + Duration::from_millis(seconds * 1000 - 1)));
            now += Duration::from_secs(seconds);
            assert!(health.wants_probe(now));
            health = health.probing(now);
            assert!(!health.wants_probe(now), "only one probe");
            health = fail(health, Blame::BeforeHead, now);
        }
        now += Duration::from_secs(30);
        assert!(health.probing(now).succeeded().is_healthy());
    }

    #[test]
    fn a_backend_sets_the_number_of_failures_and_the_time_of_an_ejection() {
        let mut now = Instant::now();
        let mut health = Health::default();
        for _ in 0..254 {
            health = health.failed(Blame::BeforeHead, &policy(255, 5, 12), true, now);
        }
        assert!(health.is_healthy());
        let once = Health::default().failed(Blame::BeforeHead, &policy(1, 5, 12), true, now);
        assert!(once.is_ejected() && !once.wants_probe(now + Duration::from_millis(4_999)));
        health = health.failed(Blame::BeforeHead, &policy(255, 5, 12), true, now);
        for seconds in [5, 10, 12, 12] {
            assert!(!health.wants_probe(now + Duration::from_secs(seconds - 1)), "{seconds}");
            now += Duration::from_secs(seconds);
            health = health.probing(now).failed(Blame::Connect, &policy(255, 5, 12), true, now);
        }
    }

    #[test]
    fn the_first_ejection_is_no_longer_than_the_longest_and_none_is_longer_than_a_day() {
        let now = Instant::now();
        let long = Health::default().failed(Blame::Connect, &policy(1, 60, 20), true, now);
        assert!(long.wants_probe(now + Duration::from_secs(20)));
        let endless = policy(1, u64::MAX, u64::MAX);
        let ejected = Health::default().failed(Blame::Connect, &endless, true, now);
        assert!(ejected.wants_probe(now + MAX_EJECTION));
        assert!(
            ejected.probing(now).failed(Blame::Connect, &endless, true, now).wants_probe(now + MAX_EJECTION)
        );
    }

    #[test]
    fn two_backends_of_one_endpoint_each_judge_by_their_own_numbers() {
        let now = Instant::now();
        let patient = (0..8).fold(Health::default(), |health, _| {
            health.failed(Blame::BeforeHead, &policy(9, 1, 30), true, now)
        });
        assert!(patient.is_healthy());
        assert!(fail(patient, Blame::Unconfirmed, now).is_ejected(), "the other one has seen enough");
        let ejected = patient.failed(Blame::Connect, &policy(9, 300, 600), true, now);
        let probed = fail(ejected.probing(now), Blame::Connect, now);
        assert!(probed.wants_probe(now + Duration::from_secs(30)), "the longest of who probed");
    }

    #[test]
    fn without_ejection_only_suspected_endpoints_change_state() {
        let now = Instant::now();
        assert_eq!(
            (EjectionPolicy::from_settings(Some(Ejection::Never)), EjectionPolicy::from_settings(None)),
            (None, Some(EjectionPolicy::default()))
        );
        let good = Health::default();
        assert_eq!(good.failed_without_ejection(Blame::Connect, now), good);
        let suspect = good.lost_race(now);
        assert_eq!(suspect.failed_without_ejection(Blame::Unconfirmed, now), suspect);
        assert!(suspect.failed_without_ejection(Blame::Connect, now).wants_probe(now));
        let ejected = fail(good, Blame::Connect, now);
        assert_eq!(ejected.failed_without_ejection(Blame::Connect, now), ejected);
    }

    #[test]
    fn a_failure_that_no_other_endpoint_contradicts_counts_a_third() {
        let now = Instant::now();
        let fail = |health: Health| fail(health, Blame::Unconfirmed, now);
        let eight = (0..8).fold(Health::default(), |health, _| fail(health));
        assert!(eight.is_healthy());
        assert!(!fail(eight).is_healthy());
        assert!(fail(eight.succeeded()).is_healthy());
    }

    #[test]
    fn a_suspect_endpoint_gets_one_probe_at_a_time_until_a_connect_completes() {
        let now = Instant::now();
        let suspect = Health::default().lost_race(now);
        assert!(!suspect.is_healthy() && !suspect.wants_probe(now), "the connect that lost is the probe");
        assert_eq!(suspect.succeeded(), suspect, "an answer on an older connection proves nothing");
        assert_eq!(fail(suspect, Blame::Unconfirmed, now), suspect);
        let failed = suspect.failed(Blame::Connect, &EjectionPolicy::default(), false, now);
        assert!(failed.is_suspect() && failed.wants_probe(now));
        assert!(!failed.probing(now).wants_probe(now));
        assert!(failed.probing(now).probe_abandoned(now).wants_probe(now));
        assert!(failed.connected().is_healthy());
        assert!(!fail(suspect, Blame::Connect, now).wants_probe(now), "ejected");
    }

    #[test]
    fn the_last_one_standing_is_never_ejected() {
        let now = Instant::now();
        let mut health = Health::default();
        for _ in 0..10 {
            health = health.failed(Blame::Connect, &EjectionPolicy::default(), false, now);
        }
        assert!(health.is_healthy());
    }
}
