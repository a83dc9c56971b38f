//! Schedules status writes of Gateway API objects, which each have their own status. No I/O and no clock: desired statuses,
//! results and the time go in, jobs come out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fairway_objects::diagnostic::Diagnostic;
use fairway_objects::object::ObjectRef;
use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use tokio::time::Instant;

use super::pauses::{NamespacePauses, doubled_pause};
use super::replacements::{LastWritten, WriterConflicts};
use super::statement::{ComparableStatus, FieldNames};

const FIRST_RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY: Duration = Duration::from_secs(60);
/// After a conflict the newer object is on its way; it is read again soon, then with growing delays.
const FIRST_CONFLICT_RETRY: Duration = Duration::from_millis(20);

/// All objects with a desired status of type `S`.
#[derive(Debug)]
pub(crate) struct ObjectSchedule<S> {
    desired: OrdMap<ObjectRef, Arc<S>>,
    /// Objects with pending work, or whose last write failed.
    entries: BTreeMap<ObjectRef, ScheduledObject>,
    due: BTreeSet<(Instant, ObjectRef)>,
    contests: WriterConflicts,
    /// Namespaces in which writes are forbidden.
    refused: NamespacePauses,
}

#[derive(Clone, Copy, Debug)]
struct ScheduledObject {
    state: JobState,
    failures: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobState {
    /// Due at this time.
    Due(Instant),
    /// A job is running.
    Busy,
    /// A job is running, and the object has a newer version that needs the same status.
    Overtaken,
    /// A job is running for an outdated status.
    Outdated,
    /// A job is running for a deleted object. A new object of its name may exist by now.
    Gone,
}

/// The result of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JobResult {
    /// The status is up to date, the object is gone, or a newer status will follow.
    NoWrite,
    /// It was written. The API server dropped these fields.
    Written(FieldNames),
    /// Another writer, possibly of the same name, replaced the status that this process wrote: nothing was written.
    Replaced(Option<Arc<str>>),
    /// The object was changed concurrently.
    Conflict,
    /// The write is forbidden.
    Refused,
    /// The API server did not answer, or answered with an error.
    Failed,
}

impl<S: ComparableStatus> ObjectSchedule<S> {
    /// Starts empty.
    pub(crate) fn new() -> Self {
        Self {
            desired: OrdMap::new(),
            entries: BTreeMap::new(),
            due: BTreeSet::new(),
            contests: WriterConflicts::default(),
            refused: NamespacePauses::default(),
        }
    }

    /// Updates the desired statuses, at a cost proportional to the difference.
    pub(crate) fn update_desired(&mut self, desired: &OrdMap<ObjectRef, Arc<S>>, now: Instant) {
        let before = std::mem::replace(&mut self.desired, desired.clone());
        for difference in before.diff(desired) {
            match difference {
                DiffItem::Update { old: (_, old), new: (object, new) } if new.is_same_as(old) => {
                    self.reschedule(object, JobState::Overtaken, now);
                }
                DiffItem::Add(object, _) | DiffItem::Update { new: (object, _), .. } => {
                    self.contests.forget_written(object);
                    self.reschedule(object, JobState::Outdated, now);
                }
                DiffItem::Remove(object, _) => {
                    self.contests.forget(object);
                    self.remove(object);
                }
            }
        }
    }

    /// Schedules every object: only this replica writes from now on, and no job is running.
    pub(crate) fn schedule_all(&mut self, now: Instant) {
        self.entries.clear();
        self.due.clear();
        let all: Vec<_> = self.desired.keys().cloned().collect();
        for object in all {
            self.set_entry(&object, ScheduledObject { state: JobState::Due(now), failures: 0 });
        }
    }

    /// Another replica leads from now on: it may be the one that replaces statuses.
    pub(crate) fn forget_conflicts(&mut self) {
        self.contests = WriterConflicts::default();
    }

    /// The conflicts over statuses. Costs as much as was replaced within the last hour.
    pub(crate) fn conflict_diagnostics(&mut self, now: Instant) -> Vec<Diagnostic> {
        self.contests.diagnostics(now)
    }

    /// When the next job is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Takes a due job: the object and its desired status.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<(ObjectRef, Arc<S>)> {
        loop {
            let (_, object) = self.due.first().filter(|(due, _)| *due <= now).cloned()?;
            let entry = *self.entries.get(&object)?;
            if let Some(until) = self.refused.paused_until(&object.key.namespace, now) {
                self.set_entry(&object, ScheduledObject { state: JobState::Due(until), ..entry });
                continue;
            }
            let Some(desired) = self.desired.get(&object).cloned() else {
                self.drop_entry(&object);
                continue;
            };
            self.set_entry(&object, ScheduledObject { state: JobState::Busy, ..entry });
            return Some((object, desired));
        }
    }

    /// What is known about the last write of an object's status.
    pub(crate) fn last_written(&self, object: &ObjectRef) -> LastWritten {
        self.contests.last_written(object)
    }

    /// Records the result of a job.
    pub(crate) fn record_result(&mut self, object: &ObjectRef, result: JobResult, now: Instant) {
        let Some(ScheduledObject { state, failures }) = self.entries.get(object).copied() else { return };
        if state == JobState::Gone {
            self.drop_entry(object);
            if self.desired.contains_key(object) {
                self.set_entry(object, ScheduledObject { state: JobState::Due(now), failures: 0 });
            }
            return;
        }
        let again = |pause| {
            let times = failures.saturating_add(1);
            ScheduledObject {
                state: JobState::Due(now + doubled_pause(pause, failures, MAX_RETRY)),
                failures: times,
            }
        };
        match result {
            JobResult::NoWrite => self.finish_job(object, state, now),
            JobResult::Written(lost) => {
                if matches!(state, JobState::Busy | JobState::Overtaken) {
                    self.contests.record_written(object, lost);
                }
                self.finish_job(object, state, now);
            }
            JobResult::Replaced(by) => {
                let until = self.contests.record_replacement(object, by.as_ref(), now);
                self.set_entry(object, ScheduledObject { state: JobState::Due(until), failures: 0 });
            }
            JobResult::Conflict => self.set_entry(object, again(FIRST_CONFLICT_RETRY)),
            JobResult::Failed => self.set_entry(object, again(FIRST_RETRY)),
            JobResult::Refused => {
                self.refused.record_refusal(&object.key.namespace, now);
                self.set_entry(object, ScheduledObject { state: JobState::Due(now), failures });
            }
        }
    }

    /// The status is as it was desired when the job started.
    fn finish_job(&mut self, object: &ObjectRef, state: JobState, now: Instant) {
        self.refused.record_success(&object.key.namespace);
        match state {
            JobState::Overtaken | JobState::Outdated => {
                self.set_entry(object, ScheduledObject { state: JobState::Due(now), failures: 0 });
            }
            _ => self.drop_entry(object),
        }
    }

    /// The object or its desired status changed; `overtaken` is the new state of a running job.
    fn reschedule(&mut self, object: &ObjectRef, overtaken: JobState, now: Instant) {
        let entry = match self.entries.get(object).copied() {
            Some(ScheduledObject { state: JobState::Busy | JobState::Overtaken, failures }) => {
                ScheduledObject { state: overtaken, failures }
            }
            // A new desired status does not speed up retries after a failure or a replacement, and only one job runs per object.
            Some(waiting) => waiting,
            None => ScheduledObject { state: JobState::Due(now), failures: 0 },
        };
        self.set_entry(object, entry);
    }

    /// The object is gone. A running job may still write: until it ends, no job starts for a new object of this name.
    fn remove(&mut self, object: &ObjectRef) {
        if let Some(entry) = self.entries.get_mut(object)
            && !matches!(entry.state, JobState::Due(_))
        {
            entry.state = JobState::Gone;
            return;
        }
        self.drop_entry(object);
    }

    fn set_entry(&mut self, object: &ObjectRef, entry: ScheduledObject) {
        self.drop_entry(object);
        if let JobState::Due(due) = entry.state {
            self.due.insert((due, object.clone()));
        }
        self.entries.insert(object.clone(), entry);
    }

    fn drop_entry(&mut self, object: &ObjectRef) {
        if let Some(ScheduledObject { state: JobState::Due(due), .. }) = self.entries.remove(object) {
            self.due.remove(&(due, object.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use fairway_objects::object::{Kind, ObjectKey};

    use super::*;

    const WRITTEN: JobResult = JobResult::Written(FieldNames::new());

    impl ComparableStatus for u32 {
        fn is_same_as(&self, before: &Self) -> bool {
            self == before
        }
    }

    fn route(name: &str) -> ObjectRef {
        ObjectRef::new(Kind::HttpRoute, ObjectKey::new("shop", name))
    }

    fn desired_statuses(says: &[(&str, u32)]) -> OrdMap<ObjectRef, Arc<u32>> {
        says.iter().map(|(name, says)| (route(name), Arc::new(*says))).collect()
    }

    fn take_all(objects: &mut ObjectSchedule<u32>, now: Instant) -> Vec<(String, u32)> {
        let jobs = std::iter::from_fn(|| objects.take_due(now));
        jobs.map(|(object, says)| (object.key.name.to_string(), *says)).collect()
    }

    #[test]
    fn each_difference_is_one_job() {
        let (mut objects, now) = (ObjectSchedule::new(), Instant::now());
        objects.update_desired(&desired_statuses(&[("a", 1), ("b", 1)]), now);
        assert_eq!(take_all(&mut objects, now).len(), 2);
        for name in ["a", "b"] {
            objects.record_result(&route(name), WRITTEN, now);
        }
        objects.update_desired(&desired_statuses(&[("a", 1), ("b", 2)]), now);
        assert_eq!(take_all(&mut objects, now), [("b".to_owned(), 2)]);
        objects.record_result(&route("b"), JobResult::NoWrite, now);
        assert_eq!(objects.next_due(), None);
    }

    #[test]
    fn a_change_during_a_write_is_written_again() {
        let (mut objects, now) = (ObjectSchedule::new(), Instant::now());
        objects.update_desired(&desired_statuses(&[("a", 1)]), now);
        assert_eq!(take_all(&mut objects, now), [("a".to_owned(), 1)]);
        objects.update_desired(&desired_statuses(&[("a", 2)]), now);
        assert_eq!(take_all(&mut objects, now), [], "one at a time");
        objects.record_result(&route("a"), WRITTEN, now);
        assert_eq!(take_all(&mut objects, now), [("a".to_owned(), 2)]);
    }

    #[test]
    fn conflicts_are_retried_soon_and_failures_less_and_less_often() {
        let (mut objects, now) = (ObjectSchedule::new(), Instant::now());
        objects.update_desired(&desired_statuses(&[("a", 1)]), now);
        take_all(&mut objects, now);
        objects.record_result(&route("a"), JobResult::Conflict, now);
        assert_eq!(objects.next_due(), Some(now + FIRST_CONFLICT_RETRY));
        let mut now = now + FIRST_CONFLICT_RETRY;
        let mut pauses = Vec::new();
        for _ in 0..8 {
            take_all(&mut objects, now);
            objects.record_result(&route("a"), JobResult::Failed, now);
            let next = objects.next_due().unwrap();
            pauses.push((next - now).as_secs());
            now = next;
        }
        assert_eq!((pauses[0], pauses[7]), (2, 60));
    }

    #[test]
    fn a_forbidden_namespace_does_not_block_others() {
        let (mut objects, now) = (ObjectSchedule::new(), Instant::now());
        objects.update_desired(&desired_statuses(&[("a", 1), ("b", 1)]), now);
        objects.take_due(now);
        objects.record_result(&route("a"), JobResult::Refused, now);
        assert_eq!(take_all(&mut objects, now), [], "all there wait");
        let other = ObjectRef::new(Kind::HttpRoute, ObjectKey::new("bank", "a"));
        let mut all = desired_statuses(&[("a", 1), ("b", 1)]);
        all.insert(other, Arc::new(1));
        objects.update_desired(&all, now);
        assert_eq!(take_all(&mut objects, now).len(), 1);
        assert_eq!(take_all(&mut objects, now + Duration::from_secs(5)).len(), 2);
    }

    #[test]
    fn the_result_for_a_deleted_object_does_not_count_for_its_successor() {
        for said in [JobResult::NoWrite, WRITTEN, JobResult::Failed, JobResult::Refused] {
            let (mut objects, now) = (ObjectSchedule::new(), Instant::now());
            objects.update_desired(&desired_statuses(&[("a", 1)]), now);
            take_all(&mut objects, now);
            objects.update_desired(&desired_statuses(&[]), now);
            objects.update_desired(&desired_statuses(&[("a", 2)]), now);
            assert_eq!(take_all(&mut objects, now), [], "one at a time: the other job may still write");
            objects.record_result(&route("a"), said, now);
            assert_eq!(take_all(&mut objects, now), [("a".to_owned(), 2)]);
            objects.record_result(&route("a"), JobResult::Conflict, now);
            assert_eq!(objects.next_due(), Some(now + FIRST_CONFLICT_RETRY), "this answer counts");
        }
    }

    #[test]
    fn a_deleted_object_has_no_job_and_a_new_leader_schedules_all() {
        let (mut objects, now) = (ObjectSchedule::new(), Instant::now());
        objects.update_desired(&desired_statuses(&[("a", 1), ("b", 1)]), now);
        take_all(&mut objects, now);
        objects.update_desired(&desired_statuses(&[("b", 1)]), now);
        objects.record_result(&route("a"), JobResult::Failed, now);
        objects.record_result(&route("b"), WRITTEN, now);
        assert_eq!(objects.next_due(), None);
        objects.schedule_all(now);
        assert_eq!(take_all(&mut objects, now), [("b".to_owned(), 1)]);
    }

    #[test]
    fn a_new_leader_does_not_wait_for_jobs_of_objects_deleted_before() {
        let (mut objects, now) = (ObjectSchedule::new(), Instant::now());
        objects.update_desired(&desired_statuses(&[("a", 1)]), now);
        take_all(&mut objects, now);
        objects.update_desired(&desired_statuses(&[]), now);
        objects.schedule_all(now);
        objects.update_desired(&desired_statuses(&[("a", 2)]), now);
        assert_eq!(take_all(&mut objects, now), [("a".to_owned(), 2)]);
    }
}
