//! The rules of a Lease: who holds it, when another may take it, what is written. No I/O and no clock: the time is passed in.
//!
//! The algorithm of client-go's `leaderelection`: timestamps in the record are never compared with the local clock, which may be
//! wrong. A holder counts as gone when its record has not changed for the promised duration, measured from when this candidate
//! saw the change.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use tokio::time::Instant;

/// How long others respect a silent holder.
pub(crate) const LEASE_DURATION: Duration = Duration::from_secs(15);
/// A holder that could not renew for this long stops leading, before others may take the Lease.
pub(crate) const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// The pause between attempts.
pub(crate) const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// A candidate for the Lease.
#[derive(Debug)]
pub(crate) struct Candidate {
    identity: String,
    observed: Option<ObservedLease>,
    holding: Holding,
}

/// The record as last seen.
#[derive(Debug)]
struct ObservedLease {
    lease: Lease,
    at: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holding {
    No,
    /// The time the renewing request was sent.
    Since(Instant),
}

/// What to do about a record.
#[derive(Debug, PartialEq)]
pub(crate) enum LeaseAction {
    /// Another candidate holds it.
    Wait,
    /// There is none.
    Create(Box<Lease>),
    /// Replace it with this one.
    Replace(Box<Lease>),
}

impl Candidate {
    /// A candidate that holds nothing yet.
    pub(crate) fn new(identity: &str) -> Self {
        Self { identity: identity.to_owned(), observed: None, holding: Holding::No }
    }

    /// Whether it leads at `now`.
    pub(crate) fn leads(&self, now: Instant) -> bool {
        self.leads_until().is_some_and(|until| now < until)
    }

    /// When it must stop leading unless it renews before.
    pub(crate) fn leads_until(&self) -> Option<Instant> {
        match self.holding {
            Holding::No => None,
            Holding::Since(renewed) => Some(renewed + RENEW_DEADLINE),
        }
    }

    /// The known holder of the Lease; empty if there is none.
    pub(crate) fn holder(&self) -> &str {
        let spec = self.observed.as_ref().and_then(|seen| seen.lease.spec.as_ref());
        spec.and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
    }

    /// Its own record, which it may replace without reading it again.
    pub(crate) fn own_record(&self, now: Instant) -> Option<&Lease> {
        self.observed.as_ref().filter(|_| self.leads(now)).map(|seen| &seen.lease)
    }

    /// What to do after reading the record.
    pub(crate) fn next_action(&mut self, found: Option<Lease>, now: Instant, wall: Timestamp) -> LeaseAction {
        let Some(found) = found else {
            self.observed = None;
            let transitions = 0;
            let spec = self.claim(LeaseSpec::default(), transitions, wall);
            return LeaseAction::Create(Box::new(Lease {
                metadata: ObjectMeta::default(),
                spec: Some(spec),
            }));
        };
        self.observe(found, now);
        let Some(seen) = &self.observed else { return LeaseAction::Wait };
        let spec = seen.lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.clone().unwrap_or_default();
        if holder != self.identity && !holder.is_empty() && now < seen.at + promised_duration(&spec) {
            self.holding = Holding::No;
            return LeaseAction::Wait;
        }
        let transitions = spec.lease_transitions.unwrap_or(0);
        let spec = if holder == self.identity {
            self.renewal(spec, wall)
        } else {
            self.claim(spec, transitions.saturating_add(1), wall)
        };
        LeaseAction::Replace(Box::new(Lease { metadata: seen.lease.metadata.clone(), spec: Some(spec) }))
    }

    /// The API server stored the request sent at `sent`.
    pub(crate) fn record_written(&mut self, lease: Lease, sent: Instant) {
        self.holding = Holding::Since(sent);
        self.observed = Some(ObservedLease { lease, at: sent });
    }

    /// The next attempt reads the record again: it was changed concurrently.
    pub(crate) fn forget_observed(&mut self) {
        if let Some(seen) = &mut self.observed {
            seen.lease.metadata.resource_version = None;
        }
    }

    /// Stops leading: another took the Lease, or it was not renewed in time.
    pub(crate) fn stop_leading(&mut self) {
        self.holding = Holding::No;
    }

    /// The record that frees the Lease for others at once.
    pub(crate) fn release(&mut self, now: Instant, wall: Timestamp) -> Option<Lease> {
        let observed = self.observed.as_ref().filter(|_| self.leads(now))?;
        let transitions = observed.lease.spec.as_ref().and_then(|spec| spec.lease_transitions);
        let spec = LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            acquire_time: Some(MicroTime(wall)),
            renew_time: Some(MicroTime(wall)),
            lease_transitions: transitions,
            ..LeaseSpec::default()
        };
        let lease = Lease { metadata: observed.lease.metadata.clone(), spec: Some(spec) };
        self.holding = Holding::No;
        Some(lease)
    }

    fn observe(&mut self, found: Lease, now: Instant) {
        match &mut self.observed {
            Some(seen) if seen.lease.spec == found.spec => seen.lease = found,
            seen => *seen = Some(ObservedLease { lease: found, at: now }),
        }
    }

    fn claim(&self, spec: LeaseSpec, transitions: i32, wall: Timestamp) -> LeaseSpec {
        let acquire_time = Some(MicroTime(wall));
        self.renewal(LeaseSpec { acquire_time, lease_transitions: Some(transitions), ..spec }, wall)
    }

    fn renewal(&self, spec: LeaseSpec, wall: Timestamp) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(LEASE_DURATION.as_secs()).ok(),
            renew_time: Some(MicroTime(wall)),
            ..spec
        }
    }
}

/// The duration its holder promised.
fn promised_duration(spec: &LeaseSpec) -> Duration {
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    seconds.map_or(LEASE_DURATION, Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: Timestamp = Timestamp::UNIX_EPOCH;

    fn lease(holder: &str, renewed: i64) -> Lease {
        let spec = LeaseSpec {
            holder_identity: Some(holder.into()),
            lease_duration_seconds: Some(15),
            renew_time: Some(MicroTime(Timestamp::from_second(renewed).unwrap())),
            ..LeaseSpec::default()
        };
        Lease { metadata: ObjectMeta::default(), spec: Some(spec) }
    }

    fn holder_of(step: &LeaseAction) -> Option<&str> {
        match step {
            LeaseAction::Wait => None,
            LeaseAction::Create(lease) | LeaseAction::Replace(lease) => {
                lease.spec.as_ref()?.holder_identity.as_deref()
            }
        }
    }

    #[test]
    fn takes_a_lease_whose_record_is_unchanged_for_its_duration() {
        let (mut candidate, start) = (Candidate::new("a"), Instant::now());
        let far_future = 4_000_000_000;
        assert_eq!(candidate.next_action(Some(lease("b", far_future)), start, EPOCH), LeaseAction::Wait);
        let before = start + Duration::from_millis(14_999);
        assert_eq!(candidate.next_action(Some(lease("b", far_future)), before, EPOCH), LeaseAction::Wait);
        let step = candidate.next_action(Some(lease("b", far_future)), start + LEASE_DURATION, EPOCH);
        assert_eq!(holder_of(&step), Some("a"));
    }

    #[test]
    fn respects_a_renewing_holder_whose_clock_is_behind() {
        let (mut candidate, mut now) = (Candidate::new("a"), Instant::now());
        for renewal in 0..10 {
            assert_eq!(candidate.next_action(Some(lease("b", renewal)), now, EPOCH), LeaseAction::Wait);
            now += Duration::from_secs(14);
        }
    }

    #[test]
    fn a_released_lease_and_a_lease_of_the_same_holder_are_taken_at_once() {
        let now = Instant::now();
        for holder in ["", "a"] {
            let step = Candidate::new("a").next_action(Some(lease(holder, 0)), now, EPOCH);
            assert_eq!(holder_of(&step), Some("a"), "holder {holder:?}");
        }
    }

    #[test]
    fn leads_until_the_deadline_after_the_last_renewal_was_sent() {
        let (mut candidate, now) = (Candidate::new("a"), Instant::now());
        candidate.record_written(lease("a", 0), now);
        assert!(candidate.leads(now + Duration::from_millis(9_999)));
        assert!(!candidate.leads(now + RENEW_DEADLINE));
        assert!(candidate.release(now + RENEW_DEADLINE, EPOCH).is_none(), "others may hold it by then");
        assert!(candidate.release(now, EPOCH).is_some());
        assert!(!candidate.leads(now));
    }
}
