//! Whose status is to be written, and when: of the objects of the Gateway API, which each have a status of their own. No input or
//! output, no clock: what should be said, answers and the time go in, jobs come out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fairway_objects::diagnostic::Diagnostic;
use fairway_objects::object::ObjectRef;
use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use tokio::time::Instant;

use super::pauses::{Pauses, growing};
use super::replacements::{Before, Contests};
use super::statement::{Fields, Statement};

const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// After a conflict the newer state of the object is on its way; it is asked for soon, and less and less soon.
const AFTER_CONFLICT: Duration = Duration::from_millis(20);

/// All objects with a status to say. `S` is what it should say.
#[derive(Debug)]
pub(crate) struct Objects<S> {
    desired: OrdMap<ObjectRef, Arc<S>>,
    /// Those with something to do, or that failed.
    entries: BTreeMap<ObjectRef, Entry>,
    due: BTreeSet<(Instant, ObjectRef)>,
    contests: Contests,
    /// Namespaces in which writing is refused.
    refused: Pauses,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    state: State,
    failures: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// To be taken then.
    Due(Instant),
    /// A job is under way.
    Busy,
    /// A job is under way, and the object has another version by now, of which the same should be said.
    Overtaken,
    /// A job is under way for something else than what should be said by now.
    Outdated,
    /// A job is under way for an object that has gone. There may be another one of its name by now.
    Gone,
}

/// What came of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// The status says what it should, the object is gone, or there will be another translation of it.
    Nothing,
    /// It was written. The API server did not keep these fields.
    Written(Fields),
    /// Another writer, perhaps of this name, replaced what this process wrote: nothing was written.
    Replaced(Option<Arc<str>>),
    /// Another changed it in between.
    Conflict,
    /// Not permitted.
    Refused,
    /// The API server cannot or did not answer.
    Failed,
}

impl<S: Statement> Objects<S> {
    /// Knows of no object yet.
    pub(crate) fn new() -> Self {
        Self {
            desired: OrdMap::new(),
            entries: BTreeMap::new(),
            due: BTreeSet::new(),
            contests: Contests::default(),
            refused: Pauses::default(),
        }
    }

    /// Takes what should be said, at a cost of what differs from the last call.
    pub(crate) fn want(&mut self, desired: &OrdMap<ObjectRef, Arc<S>>, now: Instant) {
        let before = std::mem::replace(&mut self.desired, desired.clone());
        for difference in before.diff(desired) {
            match difference {
                DiffItem::Update { old: (_, old), new: (object, new) } if new.repeats(old) => {
                    self.touch(object, State::Overtaken, now);
                }
                DiffItem::Add(object, _) | DiffItem::Update { new: (object, _), .. } => {
                    self.contests.outdated(object);
                    self.touch(object, State::Outdated, now);
                }
                DiffItem::Remove(object, _) => {
                    self.contests.forget(object);
                    self.leave(object);
                }
            }
        }
    }

    /// Everything is looked at again: nobody else writes from now on, and no job is under way.
    pub(crate) fn look_at_all(&mut self, now: Instant) {
        self.entries.clear();
        self.due.clear();
        let all: Vec<_> = self.desired.keys().cloned().collect();
        for object in all {
            self.put(&object, Entry { state: State::Due(now), failures: 0 });
        }
    }

    /// Another leads from now on: whatever replaces what was written here may be its work.
    pub(crate) fn forget_contests(&mut self) {
        self.contests = Contests::default();
    }

    /// Whose status another writer fights for. It costs what was replaced within the last hour.
    pub(crate) fn contested(&mut self, now: Instant) -> Vec<Diagnostic> {
        self.contests.diagnostics(now)
    }

    /// When the next job is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// A job that is due: the object and what its status should say.
    pub(crate) fn take(&mut self, now: Instant) -> Option<(ObjectRef, Arc<S>)> {
        loop {
            let (_, object) = self.due.first().filter(|(due, _)| *due <= now).cloned()?;
            let entry = *self.entries.get(&object)?;
            if let Some(until) = self.refused.until(&object.key.namespace, now) {
                self.put(&object, Entry { state: State::Due(until), ..entry });
                continue;
            }
            let Some(desired) = self.desired.get(&object).cloned() else {
                self.drop_entry(&object);
                continue;
            };
            self.put(&object, Entry { state: State::Busy, ..entry });
            return Some((object, desired));
        }
    }

    /// What is known of the status that a job is about.
    pub(crate) fn before(&self, object: &ObjectRef) -> Before {
        self.contests.before(object)
    }

    /// Takes what came of a job.
    pub(crate) fn done(&mut self, object: &ObjectRef, said: Said, now: Instant) {
        let Some(Entry { state, failures }) = self.entries.get(object).copied() else { return };
        if state == State::Gone {
            self.drop_entry(object);
            if self.desired.contains_key(object) {
                self.put(object, Entry { state: State::Due(now), failures: 0 });
            }
            return;
        }
        let again = |pause| {
            let times = failures.saturating_add(1);
            Entry { state: State::Due(now + growing(pause, failures, LONGEST_RETRY)), failures: times }
        };
        match said {
            Said::Nothing => self.settle(object, state, now),
            Said::Written(lost) => {
                if matches!(state, State::Busy | State::Overtaken) {
                    self.contests.wrote(object, lost);
                }
                self.settle(object, state, now);
            }
            Said::Replaced(by) => {
                let until = self.contests.replaced(object, by.as_ref(), now);
                self.put(object, Entry { state: State::Due(until), failures: 0 });
            }
            Said::Conflict => self.put(object, again(AFTER_CONFLICT)),
            Said::Failed => self.put(object, again(FIRST_RETRY)),
            Said::Refused => {
                self.refused.refused(&object.key.namespace, now);
                self.put(object, Entry { state: State::Due(now), failures });
            }
        }
    }

    /// The status says what it should have said when the job began.
    fn settle(&mut self, object: &ObjectRef, state: State, now: Instant) {
        self.refused.allowed(&object.key.namespace);
        match state {
            State::Overtaken | State::Outdated => {
                self.put(object, Entry { state: State::Due(now), failures: 0 });
            }
            _ => self.drop_entry(object),
        }
    }

    /// The object has another version, or something else should be said of it; `overtaken` is what a job under way is then.
    fn touch(&mut self, object: &ObjectRef, overtaken: State, now: Instant) {
        let entry = match self.entries.get(object).copied() {
            Some(Entry { state: State::Busy | State::Overtaken, failures }) => {
                Entry { state: overtaken, failures }
            }
            // What fails, or is replaced, is not tried more often because more is to be said; and only one job is under way.
            Some(waiting) => waiting,
            None => Entry { state: State::Due(now), failures: 0 },
        };
        self.put(object, entry);
    }

    /// The object is gone. Its job, if one is under way, may still write: until it ends, there is none for another object of
    /// this name.
    fn leave(&mut self, object: &ObjectRef) {
        if let Some(entry) = self.entries.get_mut(object)
            && !matches!(entry.state, State::Due(_))
        {
            entry.state = State::Gone;
            return;
        }
        self.drop_entry(object);
    }

    fn put(&mut self, object: &ObjectRef, entry: Entry) {
        self.drop_entry(object);
        if let State::Due(due) = entry.state {
            self.due.insert((due, object.clone()));
        }
        self.entries.insert(object.clone(), entry);
    }

    fn drop_entry(&mut self, object: &ObjectRef) {
        if let Some(Entry { state: State::Due(due), .. }) = self.entries.remove(object) {
            self.due.remove(&(due, object.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use fairway_objects::object::{Kind, ObjectKey};

    use super::*;

    const WRITTEN: Said = Said::Written(Fields::new());

    impl Statement for u32 {
        fn repeats(&self, before: &Self) -> bool {
            self == before
        }
    }

    fn route(name: &str) -> ObjectRef {
        ObjectRef::new(Kind::HttpRoute, ObjectKey::new("shop", name))
    }

    fn saying(says: &[(&str, u32)]) -> OrdMap<ObjectRef, Arc<u32>> {
        says.iter().map(|(name, says)| (route(name), Arc::new(*says))).collect()
    }

    fn taken(objects: &mut Objects<u32>, now: Instant) -> Vec<(String, u32)> {
        let jobs = std::iter::from_fn(|| objects.take(now));
        jobs.map(|(object, says)| (object.key.name.to_string(), *says)).collect()
    }

    #[test]
    fn each_difference_is_one_job() {
        let (mut objects, now) = (Objects::new(), Instant::now());
        objects.want(&saying(&[("a", 1), ("b", 1)]), now);
        assert_eq!(taken(&mut objects, now).len(), 2);
        for name in ["a", "b"] {
            objects.done(&route(name), WRITTEN, now);
        }
        objects.want(&saying(&[("a", 1), ("b", 2)]), now);
        assert_eq!(taken(&mut objects, now), [("b".to_owned(), 2)]);
        objects.done(&route("b"), Said::Nothing, now);
        assert_eq!(objects.next_due(), None);
    }

    #[test]
    fn what_changes_while_it_is_written_is_written_again() {
        let (mut objects, now) = (Objects::new(), Instant::now());
        objects.want(&saying(&[("a", 1)]), now);
        assert_eq!(taken(&mut objects, now), [("a".to_owned(), 1)]);
        objects.want(&saying(&[("a", 2)]), now);
        assert_eq!(taken(&mut objects, now), [], "one at a time");
        objects.done(&route("a"), WRITTEN, now);
        assert_eq!(taken(&mut objects, now), [("a".to_owned(), 2)]);
    }

    #[test]
    fn a_conflict_is_tried_again_soon_and_a_failure_less_and_less_often() {
        let (mut objects, now) = (Objects::new(), Instant::now());
        objects.want(&saying(&[("a", 1)]), now);
        taken(&mut objects, now);
        objects.done(&route("a"), Said::Conflict, now);
        assert_eq!(objects.next_due(), Some(now + AFTER_CONFLICT));
        let mut now = now + AFTER_CONFLICT;
        let mut pauses = Vec::new();
        for _ in 0..8 {
            taken(&mut objects, now);
            objects.done(&route("a"), Said::Failed, now);
            let next = objects.next_due().unwrap();
            pauses.push((next - now).as_secs());
            now = next;
        }
        assert_eq!((pauses[0], pauses[7]), (2, 60));
    }

    #[test]
    fn a_namespace_without_permission_holds_up_no_other() {
        let (mut objects, now) = (Objects::new(), Instant::now());
        objects.want(&saying(&[("a", 1), ("b", 1)]), now);
        objects.take(now);
        objects.done(&route("a"), Said::Refused, now);
        assert_eq!(taken(&mut objects, now), [], "all there wait");
        let other = ObjectRef::new(Kind::HttpRoute, ObjectKey::new("bank", "a"));
        let mut all = saying(&[("a", 1), ("b", 1)]);
        all.insert(other, Arc::new(1));
        objects.want(&all, now);
        assert_eq!(taken(&mut objects, now).len(), 1);
        assert_eq!(taken(&mut objects, now + Duration::from_secs(5)).len(), 2);
    }

    #[test]
    fn what_came_of_an_object_that_is_gone_says_nothing_of_another_one_of_its_name() {
        for said in [Said::Nothing, WRITTEN, Said::Failed, Said::Refused] {
            let (mut objects, now) = (Objects::new(), Instant::now());
            objects.want(&saying(&[("a", 1)]), now);
            taken(&mut objects, now);
            objects.want(&saying(&[]), now);
            objects.want(&saying(&[("a", 2)]), now);
            assert_eq!(taken(&mut objects, now), [], "one at a time: the other job may still write");
            objects.done(&route("a"), said, now);
            assert_eq!(taken(&mut objects, now), [("a".to_owned(), 2)]);
            objects.done(&route("a"), Said::Conflict, now);
            assert_eq!(objects.next_due(), Some(now + AFTER_CONFLICT), "this answer counts");
        }
    }

    #[test]
    fn an_object_that_is_gone_has_no_job_and_a_new_leader_looks_at_all() {
        let (mut objects, now) = (Objects::new(), Instant::now());
        objects.want(&saying(&[("a", 1), ("b", 1)]), now);
        taken(&mut objects, now);
        objects.want(&saying(&[("b", 1)]), now);
        objects.done(&route("a"), Said::Failed, now);
        objects.done(&route("b"), WRITTEN, now);
        assert_eq!(objects.next_due(), None);
        objects.look_at_all(now);
        assert_eq!(taken(&mut objects, now), [("b".to_owned(), 1)]);
    }

    #[test]
    fn a_new_leader_waits_for_no_job_of_an_object_that_went_while_it_was_none() {
        let (mut objects, now) = (Objects::new(), Instant::now());
        objects.want(&saying(&[("a", 1)]), now);
        taken(&mut objects, now);
        objects.want(&saying(&[]), now);
        objects.look_at_all(now);
        objects.want(&saying(&[("a", 2)]), now);
        assert_eq!(taken(&mut objects, now), [("a".to_owned(), 2)]);
    }
}
