//! The rules of a Lease: who holds it, when another may take it, what is written. No input or output, no clock: the time
//! is passed in.
//!
//! The algorithm of client-go's `leaderelection`: the times in the record are never compared with the own clock, which
//! may be wrong; a holder counts as gone when its record has not changed for the duration that it promised, measured
//! from when this candidate saw the change.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use tokio::time::Instant;

/// How long others respect a holder that is silent.
pub(crate) const DURATION: Duration = Duration::from_secs(15);
/// A holder that could not renew for so long stops: before others may take the Lease.
pub(crate) const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// The pause between attempts.
pub(crate) const RETRY: Duration = Duration::from_secs(2);

/// One that wants the Lease.
#[derive(Debug)]
pub(crate) struct Candidate {
    identity: String,
    observed: Option<Observed>,
    held: Held,
}

/// The record as it was seen last.
#[derive(Debug)]
struct Observed {
    lease: Lease,
    at: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    No,
    /// The request that renewed it was sent then.
    Since(Instant),
}

/// What to do about a record.
#[derive(Debug, PartialEq)]
pub(crate) enum Step {
    /// Another holds it.
    Wait,
    /// There is none.
    Create(Box<Lease>),
    /// Put this in its place.
    Replace(Box<Lease>),
}

impl Candidate {
    /// One that holds nothing yet.
    pub(crate) fn new(identity: &str) -> Self {
        Self { identity: identity.to_owned(), observed: None, held: Held::No }
    }

    /// Whether it leads at `now`.
    pub(crate) fn leads(&self, now: Instant) -> bool {
        self.until().is_some_and(|until| now < until)
    }

    /// When it must stop leading unless it renews before.
    pub(crate) fn until(&self) -> Option<Instant> {
        match self.held {
            Held::No => None,
            Held::Since(renewed) => Some(renewed + RENEW_DEADLINE),
        }
    }

    /// Who holds the Lease, as far as it is known; empty when nobody does.
    pub(crate) fn holder(&self) -> &str {
        let spec = self.observed.as_ref().and_then(|seen| seen.lease.spec.as_ref());
        spec.and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
    }

    /// The record that it may replace without reading it again: its own.
    pub(crate) fn own_record(&self, now: Instant) -> Option<&Lease> {
        self.observed.as_ref().filter(|_| self.leads(now)).map(|seen| &seen.lease)
    }

    /// What follows from the record as it was read.
    pub(crate) fn consider(&mut self, found: Option<Lease>, now: Instant, wall: Timestamp) -> Step {
        let Some(found) = found else {
            self.observed = None;
            let transitions = 0;
            let spec = self.claim(LeaseSpec::default(), transitions, wall);
            return Step::Create(Box::new(Lease { metadata: ObjectMeta::default(), spec: Some(spec) }));
        };
        self.observe(found, now);
        let Some(seen) = &self.observed else { return Step::Wait };
        let spec = seen.lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.clone().unwrap_or_default();
        if holder != self.identity && !holder.is_empty() && now < seen.at + promised(&spec) {
            self.held = Held::No;
            return Step::Wait;
        }
        let transitions = spec.lease_transitions.unwrap_or(0);
        let spec = if holder == self.identity {
            self.renewal(spec, wall)
        } else {
            self.claim(spec, transitions.saturating_add(1), wall)
        };
        Step::Replace(Box::new(Lease { metadata: seen.lease.metadata.clone(), spec: Some(spec) }))
    }

    /// The API server took what was sent at `sent`.
    pub(crate) fn taken(&mut self, lease: Lease, sent: Instant) {
        self.held = Held::Since(sent);
        self.observed = Some(Observed { lease, at: sent });
    }

    /// The next attempt reads the record again: somebody wrote it in between.
    pub(crate) fn doubt(&mut self) {
        if let Some(seen) = &mut self.observed {
            seen.lease.metadata.resource_version = None;
        }
    }

    /// Leads no more: another took the Lease, or it was not renewed in time.
    pub(crate) fn yields(&mut self) {
        self.held = Held::No;
    }

    /// The record that frees the Lease for others at once.
    pub(crate) fn release(&mut self, now: Instant, wall: Timestamp) -> Option<Lease> {
        let seen = self.observed.as_ref().filter(|_| self.leads(now))?;
        let transitions = seen.lease.spec.as_ref().and_then(|spec| spec.lease_transitions);
        let spec = LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            acquire_time: Some(MicroTime(wall)),
            renew_time: Some(MicroTime(wall)),
            lease_transitions: transitions,
            ..LeaseSpec::default()
        };
        let lease = Lease { metadata: seen.lease.metadata.clone(), spec: Some(spec) };
        self.held = Held::No;
        Some(lease)
    }

    fn observe(&mut self, found: Lease, now: Instant) {
        match &mut self.observed {
            Some(seen) if seen.lease.spec == found.spec => seen.lease = found,
            seen => *seen = Some(Observed { lease: found, at: now }),
        }
    }

    fn claim(&self, spec: LeaseSpec, transitions: i32, wall: Timestamp) -> LeaseSpec {
        let acquire_time = Some(MicroTime(wall));
        self.renewal(LeaseSpec { acquire_time, lease_transitions: Some(transitions), ..spec }, wall)
    }

    fn renewal(&self, spec: LeaseSpec, wall: Timestamp) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
            renew_time: Some(MicroTime(wall)),
            ..spec
        }
    }
}

/// How long its holder asked to be respected.
fn promised(spec: &LeaseSpec) -> Duration {
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    seconds.map_or(DURATION, Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: Timestamp = Timestamp::UNIX_EPOCH;

    fn lease(holder: &str, renewed: i64) -> Lease {
        let spec = LeaseSpec {
            holder_identity: Some(holder.into()),
            lease_duration_seconds: Some(15),
            renew_time: Some(MicroTime(Timestamp::from_second(renewed).unwrap())),
            ..LeaseSpec::default()
        };
        Lease { metadata: ObjectMeta::default(), spec: Some(spec) }
    }

    fn holder_of(step: &Step) -> Option<&str> {
        match step {
            Step::Wait => None,
            Step::Create(lease) | Step::Replace(lease) => lease.spec.as_ref()?.holder_identity.as_deref(),
        }
    }

    #[test]
    fn takes_a_lease_whose_record_rests_for_its_duration_whatever_its_times_say() {
        let (mut candidate, start) = (Candidate::new("a"), Instant::now());
        let far_future = 4_000_000_000;
        assert_eq!(candidate.consider(Some(lease("b", far_future)), start, WALL), Step::Wait);
        let before = start + Duration::from_millis(14_999);
        assert_eq!(candidate.consider(Some(lease("b", far_future)), before, WALL), Step::Wait);
        let step = candidate.consider(Some(lease("b", far_future)), start + DURATION, WALL);
        assert_eq!(holder_of(&step), Some("a"));
    }

    #[test]
    fn respects_a_holder_that_goes_on_renewing_though_its_clock_is_behind() {
        let (mut candidate, mut now) = (Candidate::new("a"), Instant::now());
        for renewal in 0..10 {
            assert_eq!(candidate.consider(Some(lease("b", renewal)), now, WALL), Step::Wait);
            now += Duration::from_secs(14);
        }
    }

    #[test]
    fn takes_a_released_lease_and_one_of_its_own_name_at_once() {
        let now = Instant::now();
        for holder in ["", "a"] {
            let step = Candidate::new("a").consider(Some(lease(holder, 0)), now, WALL);
            assert_eq!(holder_of(&step), Some("a"), "holder {holder:?}");
        }
    }

    #[test]
    fn leads_until_the_deadline_after_the_last_renewal_was_sent() {
        let (mut candidate, now) = (Candidate::new("a"), Instant::now());
        candidate.taken(lease("a", 0), now);
        assert!(candidate.leads(now + Duration::from_millis(9_999)));
        assert!(!candidate.leads(now + RENEW_DEADLINE));
        assert!(candidate.release(now + RENEW_DEADLINE, WALL).is_none(), "others may hold it by then");
        assert!(candidate.release(now, WALL).is_some());
        assert!(!candidate.leads(now));
    }
}
