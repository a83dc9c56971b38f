//! The observed and desired status of each Ingress, and which write is due when. No I/O and no clock: observations, results and
//! the time go in, jobs come out.
//!
//! A served Ingress shows the addresses of this fleet. One that is no longer served loses those of this fleet and keeps all
//! others; so does every Ingress when the last replica leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fairway_ingress::{IngressStatus, Translation};
use fairway_objects::diagnostic::Diagnostic;
use fairway_objects::object::{Kind, ObjectKey};
use tokio::time::Instant;

use super::contending_writer::WriterConflict;
use super::observed::{FIELD_MANAGER, ObservedStatus};
use super::pauses::{NamespacePauses, doubled_pause};
use super::publish::Addresses;

/// A class change that is reverted within this time changes nothing.
const REMOVAL_DELAY: Duration = Duration::from_secs(3);
/// Ingresses that were removed longer ago were handled by the previous leader.
const FORGET_REMOVED_AFTER: Duration = Duration::from_secs(120);
const FIRST_RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY: Duration = Duration::from_secs(60);

type Served = Arc<IngressStatus>;

/// All Ingresses.
#[derive(Debug)]
pub(crate) struct IngressSchedule {
    mode: PublishMode,
    entries: BTreeMap<ObjectKey, ScheduledIngress>,
    /// Ingresses whose status another writer ever replaced.
    contested: BTreeSet<ObjectKey>,
    due: BTreeSet<(Instant, ObjectKey)>,
    served: Translation,
    desired_addresses: Option<Addresses>,
    /// All addresses that were ever published: the ones this fleet may remove.
    ours: BTreeSet<Arc<str>>,
    /// Namespaces in which writes are forbidden.
    refused: NamespacePauses,
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PublishMode {
    /// The fleet's addresses, on served Ingresses.
    Publishing,
    /// None of the fleet's addresses, anywhere.
    Clearing,
}

#[derive(Debug)]
struct ScheduledIngress {
    claim: ServedState,
    observed: ObservedStatus,
    /// The addresses last written.
    written: Option<BTreeSet<Arc<str>>>,
    state: JobState,
    failures: JobFailures,
    contest: WriterConflict,
}

/// Consecutive failed jobs.
#[derive(Clone, Copy, Debug, Default)]
enum JobFailures {
    #[default]
    None,
    Some {
        times: u32,
        retry_at: Instant,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServedState {
    Served,
    Removed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobState {
    /// Nothing to do.
    Rest,
    /// Due at this time.
    Due(Instant),
    /// A job is running.
    Busy,
}

/// A job for an Ingress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IngressJob {
    /// Read it: its version or its writer is unknown.
    Read(ObjectKey),
    /// Write these addresses if the version is still the same.
    Write { ingress: ObjectKey, version: Arc<str>, addresses: BTreeSet<Arc<str>> },
}

/// The result of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IngressJobResult {
    /// It was read.
    Read(ObservedStatus),
    /// It was written.
    Written(ObservedStatus),
    /// It does not exist.
    Gone,
    /// It was changed concurrently.
    Conflict,
    /// The write is forbidden.
    Refused,
    /// The API server did not answer, or answered with an error.
    Failed,
}

impl IngressSchedule {
    /// Starts empty.
    pub(crate) fn new() -> Self {
        Self {
            mode: PublishMode::Publishing,
            entries: BTreeMap::new(),
            contested: BTreeSet::new(),
            due: BTreeSet::new(),
            served: Translation::default(),
            desired_addresses: None,
            ours: BTreeSet::new(),
            refused: NamespacePauses::default(),
        }
    }

    /// Updates the served Ingresses, at a cost proportional to the difference.
    pub(crate) fn update_served(&mut self, translation: &Translation, now: Instant) {
        let before = std::mem::replace(&mut self.served, translation.clone());
        for difference in before.status.diff(&translation.status) {
            match difference {
                imbl::ordmap::DiffItem::Add(key, status)
                | imbl::ordmap::DiffItem::Update { new: (key, status), .. } => {
                    self.observe_served(key, status, now);
                }
                imbl::ordmap::DiffItem::Remove(key, _) => self.mark_removed(key, now),
            }
        }
    }

    /// The addresses to publish.
    pub(crate) fn desired_addresses(&self) -> Option<&Addresses> {
        self.desired_addresses.as_ref()
    }

    /// Sets the addresses to publish.
    pub(crate) fn set_addresses(&mut self, addresses: Option<Addresses>, now: Instant) {
        self.ours.extend(addresses.iter().flat_map(|all| all.iter()).cloned());
        self.desired_addresses = addresses;
        self.reschedule_all(now);
    }

    /// Starts removing the fleet's addresses. Idempotent.
    pub(crate) fn start_clearing(&mut self, now: Instant) {
        if std::mem::replace(&mut self.mode, PublishMode::Clearing) == PublishMode::Clearing {
            return;
        }
        self.refused.clear();
        self.reschedule_all(now);
    }

    /// Whether nothing is due or running.
    pub(crate) fn is_idle(&self) -> bool {
        self.entries.values().all(|entry| entry.state == JobState::Rest)
    }

    /// Abandons running jobs: this replica no longer leads.
    pub(crate) fn abandon_jobs(&mut self, now: Instant) {
        let busy = self.entries.iter_mut().filter(|(_, entry)| entry.state == JobState::Busy);
        let busy: Vec<_> = busy.map(|(key, entry)| (key.clone(), entry.state = JobState::Rest)).collect();
        for (key, ()) in busy {
            self.mark_unread(&key);
            self.reschedule(&key, now);
        }
    }

    /// Forgets removed Ingresses that another leader handled.
    pub(crate) fn forget_removed(&mut self, now: Instant) {
        let old = self.due.iter().take_while(|(due, _)| *due + FORGET_REMOVED_AFTER <= now);
        let was_removed = |key: &&ObjectKey| {
            self.entries.get(*key).is_some_and(|entry| entry.claim == ServedState::Removed)
        };
        let forgotten: Vec<_> = old.map(|(_, key)| key).filter(was_removed).cloned().collect();
        for key in forgotten {
            self.drop_entry(&key);
        }
    }

    /// When the next job is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Takes a due job.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<IngressJob> {
        loop {
            let (due, key) = self.due.first().filter(|(due, _)| *due <= now).cloned()?;
            self.due.remove(&(due, key.clone()));
            if let Some(until) = self.refused.paused_until(&key.namespace, now) {
                self.set_state(&key, JobState::Due(until));
                continue;
            }
            let Some(job) = self.next_job(&key) else {
                self.set_state(&key, JobState::Rest);
                continue;
            };
            self.set_state(&key, JobState::Busy);
            return Some(job);
        }
    }

    /// Records the result of a job.
    pub(crate) fn record_result(&mut self, key: &ObjectKey, done: IngressJobResult, now: Instant) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.state = JobState::Rest;
        match done {
            IngressJobResult::Gone => return self.drop_entry(key),
            IngressJobResult::Read(observed) => {
                if let Some(manager) = observed.manager.as_ref().filter(|name| ***name != *FIELD_MANAGER) {
                    entry.contest.set_other_writer(manager);
                }
                entry.observe(observed, self.desired_addresses.as_ref(), now);
                if entry.claim == ServedState::Removed && !is_own(&entry.observed) {
                    return self.drop_entry(key);
                }
            }
            IngressJobResult::Written(observed) => {
                (entry.failures, entry.written) = (JobFailures::None, Some(observed.addresses.clone()));
                entry.observe_written(observed, self.desired_addresses.as_ref(), now);
                self.refused.record_success(&key.namespace);
            }
            IngressJobResult::Conflict => {
                entry.failures.schedule_retry(now);
                self.mark_unread(key);
            }
            IngressJobResult::Failed => entry.failures.schedule_retry(now),
            // There is no time to retry.
            IngressJobResult::Refused if self.mode == PublishMode::Clearing => return,
            IngressJobResult::Refused => self.refused.record_refusal(&key.namespace, now),
        }
        self.reschedule(key, now);
    }

    /// The conflicts over statuses. Called after every job: costs as much as there are conflicts.
    pub(crate) fn conflict_diagnostics(&self, now: Instant) -> Vec<Diagnostic> {
        let contested = self.contested.iter().filter_map(|key| self.entries.get_key_value(key));
        contested.filter_map(|(key, entry)| entry.contest.diagnostic(Kind::Ingress, key, now)).collect()
    }

    fn observe_served(&mut self, key: &ObjectKey, status: &Served, now: Instant) {
        let observed = ObservedStatus::from(&**status);
        let entry =
            self.entries.entry(key.clone()).or_insert_with(|| ScheduledIngress::new(observed.clone()));
        entry.claim = ServedState::Served;
        if observed.is_newer_than(&entry.observed) {
            entry.observe(observed, self.desired_addresses.as_ref(), now);
        }
        self.reschedule(key, now);
    }

    fn mark_removed(&mut self, key: &ObjectKey, now: Instant) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.claim = ServedState::Removed;
        entry.failures = JobFailures::None;
        self.mark_unread(key);
        if self.entries.get(key).is_some_and(|entry| entry.state != JobState::Busy) {
            self.set_state(key, JobState::Due(now + REMOVAL_DELAY));
        }
    }

    /// The version of an Ingress is not the expected one: it is read before it is written.
    fn mark_unread(&mut self, key: &ObjectKey) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.observed.version = Arc::default();
        }
    }

    fn reschedule_all(&mut self, now: Instant) {
        let keys: Vec<_> = self.entries.keys().cloned().collect();
        for key in keys {
            self.reschedule(&key, now);
        }
    }

    /// Makes an Ingress idle or due.
    fn reschedule(&mut self, key: &ObjectKey, now: Instant) {
        let Some(entry) = self.entries.get(key) else { return };
        if entry.contest != WriterConflict::NoReplacement {
            self.contested.insert(key.clone());
        }
        if entry.state == JobState::Busy {
            return;
        }
        let unread = entry.claim == ServedState::Removed && entry.observed.version.is_empty();
        if !unread && self.desired_status(entry).is_none() {
            if entry.claim == ServedState::Removed {
                return self.drop_entry(key);
            }
            return self.set_state(key, JobState::Rest);
        }
        let mut due = now;
        if let JobState::Due(before) = entry.state {
            due = due.max(before.min(now + REMOVAL_DELAY));
        }
        if let JobFailures::Some { retry_at: again, .. } = entry.failures {
            due = due.max(again);
        }
        if let Some(until) = entry.contest.pause_until().filter(|_| self.mode == PublishMode::Publishing) {
            due = due.max(until);
        }
        self.set_state(key, JobState::Due(due));
    }

    fn next_job(&self, key: &ObjectKey) -> Option<IngressJob> {
        let entry = self.entries.get(key)?;
        if entry.observed.version.is_empty() {
            return Some(IngressJob::Read(key.clone()));
        }
        let addresses = self.desired_status(entry)?;
        Some(IngressJob::Write { ingress: key.clone(), version: entry.observed.version.clone(), addresses })
    }

    /// The desired status, if it differs from the observed one.
    fn desired_status(&self, entry: &ScheduledIngress) -> Option<BTreeSet<Arc<str>>> {
        let now = &entry.observed.addresses;
        if self.mode == PublishMode::Clearing || entry.claim == ServedState::Removed {
            let others: BTreeSet<_> = now.difference(&self.ours).cloned().collect();
            return (others.len() < now.len()).then_some(others);
        }
        let desired = self.desired_addresses.as_ref()?;
        // Without addresses, this fleet removes what it wrote and nothing else.
        let nothing_to_say = desired.is_empty() && entry.written.is_none();
        (**desired != *now && !nothing_to_say).then(|| (**desired).clone())
    }

    fn set_state(&mut self, key: &ObjectKey, state: JobState) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        if let JobState::Due(before) = std::mem::replace(&mut entry.state, state) {
            self.due.remove(&(before, key.clone()));
        }
        if let JobState::Due(due) = state {
            self.due.insert((due, key.clone()));
        }
    }

    fn drop_entry(&mut self, key: &ObjectKey) {
        self.set_state(key, JobState::Rest);
        self.contested.remove(key);
        self.entries.remove(key);
    }
}

impl ScheduledIngress {
    fn new(observed: ObservedStatus) -> Self {
        Self {
            claim: ServedState::Served,
            observed,
            written: None,
            state: JobState::Rest,
            failures: JobFailures::None,
            contest: WriterConflict::default(),
        }
    }

    /// Observes the result of a write; a later state may have been observed before it.
    fn observe_written(&mut self, observed: ObservedStatus, desired: Option<&Addresses>, now: Instant) {
        let later = !self.observed.version.is_empty() && self.observed.is_newer_than(&observed);
        let later = later.then(|| self.observed.clone());
        self.observed = observed;
        if let Some(later) = later {
            self.observe(later, desired, now);
        }
    }

    /// Observes a status; detects whether another writer replaced the one written here.
    fn observe(&mut self, observed: ObservedStatus, desired: Option<&Addresses>, now: Instant) {
        let shown = |addresses: &BTreeSet<_>| desired.is_some_and(|wanted| **wanted == *addresses);
        let ours = self.written.as_ref() == Some(&self.observed.addresses) && shown(&self.observed.addresses);
        let replaced = ours && !shown(&observed.addresses) && self.claim == ServedState::Served;
        let unknown = observed.manager.is_none();
        self.observed = observed;
        if replaced {
            self.contest.record_replacement(now);
            if unknown {
                // It is read before it is written again, to find out who wrote it.
                self.observed.version = Arc::default();
            }
        }
    }
}

impl JobFailures {
    fn schedule_retry(&mut self, now: Instant) {
        let times = match self {
            Self::None => 0,
            Self::Some { times, .. } => times.saturating_add(1),
        };
        *self = Self::Some { times, retry_at: now + doubled_pause(FIRST_RETRY, times, MAX_RETRY) };
    }
}

/// Whether the addresses may be removed: no other writer is known.
fn is_own(observed: &ObservedStatus) -> bool {
    observed.manager.as_deref().is_none_or(|manager| manager == FIELD_MANAGER)
}
