//! What the status of each Ingress says and what it should say, and when which is written. No input or output, no
//! clock: sightings, answers and the time go in, jobs come out.
//!
//! An Ingress that is served shows the addresses of this fleet. One that is no longer served loses those of this fleet
//! and keeps all others; so does every one when the last replica goes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fairway_ingress::{IngressStatus, Translation};
use fairway_objects::diagnostic::Diagnostic;
use fairway_objects::object::{Kind, ObjectKey};
use tokio::time::Instant;

use super::contest::Contest;
use super::observed::{FIELD_MANAGER, ObservedStatus};
use super::pauses::{Pauses, growing};
use super::publish::Addresses;

/// A class that changes and changes back within this time changes nothing.
const LEAVE_GRACE: Duration = Duration::from_secs(3);
/// What left so long ago has been seen to by the leader of that time.
const FORGET_LEFT: Duration = Duration::from_secs(120);
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

type Served = Arc<IngressStatus>;

/// All Ingresses.
#[derive(Debug)]
pub(crate) struct Schedule {
    mode: Mode,
    entries: BTreeMap<ObjectKey, Entry>,
    /// Those of them that another writer has replaced, ever.
    contested: BTreeSet<ObjectKey>,
    due: BTreeSet<(Instant, ObjectKey)>,
    served: Translation,
    wanted: Option<Addresses>,
    /// All addresses that were ever wanted: those are ours to remove.
    ours: BTreeSet<Arc<str>>,
    /// Namespaces in which writing is refused.
    refused: Pauses,
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Our addresses where we serve.
    Publishing,
    /// Our addresses nowhere.
    Clearing,
}

#[derive(Debug)]
struct Entry {
    claim: Claim,
    seen: ObservedStatus,
    /// What was written here last.
    written: Option<BTreeSet<Arc<str>>>,
    state: State,
    failures: Failures,
    contest: Contest,
}

/// Jobs that failed in a row.
#[derive(Clone, Copy, Debug, Default)]
enum Failures {
    #[default]
    None,
    Some {
        times: u32,
        again: Instant,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    Served,
    Left,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing to do.
    Rest,
    /// To be taken then.
    Due(Instant),
    /// A job is under way.
    Busy,
}

/// What to do about an Ingress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// Read it: its version or its writer is unknown.
    Read(ObjectKey),
    /// Write these addresses, if its version is still this.
    Write { ingress: ObjectKey, version: Arc<str>, addresses: BTreeSet<Arc<str>> },
}

/// What came of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// It was read.
    Read(ObservedStatus),
    /// It was written.
    Written(ObservedStatus),
    /// It does not exist.
    Gone,
    /// Another changed it in between.
    Conflict,
    /// Not permitted.
    Refused,
    /// The API server cannot or did not answer.
    Failed,
}

impl Schedule {
    /// Knows of no Ingress yet.
    pub(crate) fn new() -> Self {
        Self {
            mode: Mode::Publishing,
            entries: BTreeMap::new(),
            contested: BTreeSet::new(),
            due: BTreeSet::new(),
            served: Translation::default(),
            wanted: None,
            ours: BTreeSet::new(),
            refused: Pauses::default(),
        }
    }

    /// Takes the Ingresses that are served, at a cost of what differs from the last call.
    pub(crate) fn serve(&mut self, translation: &Translation, now: Instant) {
        let before = std::mem::replace(&mut self.served, translation.clone());
        for difference in before.status.diff(&translation.status) {
            match difference {
                imbl::ordmap::DiffItem::Add(key, status)
                | imbl::ordmap::DiffItem::Update { new: (key, status), .. } => self.seen(key, status, now),
                imbl::ordmap::DiffItem::Remove(key, _) => self.left(key, now),
            }
        }
    }

    /// The addresses to publish.
    pub(crate) fn wanted(&self) -> Option<&Addresses> {
        self.wanted.as_ref()
    }

    /// Takes the addresses to publish.
    pub(crate) fn want(&mut self, addresses: Option<Addresses>, now: Instant) {
        self.ours.extend(addresses.iter().flat_map(|all| all.iter()).cloned());
        self.wanted = addresses;
        self.consider_all(now);
    }

    /// From now on our addresses are removed. Said again, it changes nothing.
    pub(crate) fn clear(&mut self, now: Instant) {
        if std::mem::replace(&mut self.mode, Mode::Clearing) == Mode::Clearing {
            return;
        }
        self.refused.forget();
        self.consider_all(now);
    }

    /// Nothing is due or under way.
    pub(crate) fn rests(&self) -> bool {
        self.entries.values().all(|entry| entry.state == State::Rest)
    }

    /// The jobs under way will not be heard of: this replica no longer leads.
    pub(crate) fn abandon(&mut self, now: Instant) {
        let busy = self.entries.iter_mut().filter(|(_, entry)| entry.state == State::Busy);
        let busy: Vec<_> = busy.map(|(key, entry)| (key.clone(), entry.state = State::Rest)).collect();
        for (key, ()) in busy {
            self.unknown(&key);
            self.consider(&key, now);
        }
    }

    /// Forgets what left and was seen to by another leader.
    pub(crate) fn forget_left(&mut self, now: Instant) {
        let old = self.due.iter().take_while(|(due, _)| *due + FORGET_LEFT <= now);
        let left = |key: &&ObjectKey| self.entries.get(*key).is_some_and(|entry| entry.claim == Claim::Left);
        let forgotten: Vec<_> = old.map(|(_, key)| key).filter(left).cloned().collect();
        for key in forgotten {
            self.drop_entry(&key);
        }
    }

    /// When the next job is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// A job that is due.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Job> {
        loop {
            let (due, key) = self.due.first().filter(|(due, _)| *due <= now).cloned()?;
            self.due.remove(&(due, key.clone()));
            if let Some(until) = self.refused.until(&key.namespace, now) {
                self.set(&key, State::Due(until));
                continue;
            }
            let Some(job) = self.job(&key) else {
                self.set(&key, State::Rest);
                continue;
            };
            self.set(&key, State::Busy);
            return Some(job);
        }
    }

    /// Takes what came of a job.
    pub(crate) fn done(&mut self, key: &ObjectKey, done: Done, now: Instant) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.state = State::Rest;
        match done {
            Done::Gone => return self.drop_entry(key),
            Done::Read(observed) => {
                if let Some(manager) = observed.manager.as_ref().filter(|name| ***name != *FIELD_MANAGER) {
                    entry.contest.by(manager);
                }
                entry.see(observed, self.wanted.as_ref(), now);
                if entry.claim == Claim::Left && !is_own(&entry.seen) {
                    return self.drop_entry(key);
                }
            }
            Done::Written(observed) => {
                (entry.failures, entry.written) = (Failures::None, Some(observed.addresses.clone()));
                entry.see_written(observed, self.wanted.as_ref(), now);
                self.refused.allowed(&key.namespace);
            }
            Done::Conflict => {
                entry.failures.again(now);
                self.unknown(key);
            }
            Done::Failed => entry.failures.again(now),
            // There is no time to ask again.
            Done::Refused if self.mode == Mode::Clearing => return,
            Done::Refused => self.refused.refused(&key.namespace, now),
        }
        self.consider(key, now);
    }

    /// Whose status another writer fights for. Asked after every job: it costs what there is to say.
    pub(crate) fn contested(&self, now: Instant) -> Vec<Diagnostic> {
        let contested = self.contested.iter().filter_map(|key| self.entries.get_key_value(key));
        contested.filter_map(|(key, entry)| entry.contest.diagnostic(Kind::Ingress, key, now)).collect()
    }

    fn seen(&mut self, key: &ObjectKey, status: &Served, now: Instant) {
        let observed = ObservedStatus::from(&**status);
        let entry = self.entries.entry(key.clone()).or_insert_with(|| Entry::new(observed.clone()));
        entry.claim = Claim::Served;
        if observed.is_newer_than(&entry.seen) {
            entry.see(observed, self.wanted.as_ref(), now);
        }
        self.consider(key, now);
    }

    fn left(&mut self, key: &ObjectKey, now: Instant) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.claim = Claim::Left;
        entry.failures = Failures::None;
        self.unknown(key);
        if self.entries.get(key).is_some_and(|entry| entry.state != State::Busy) {
            self.set(key, State::Due(now + LEAVE_GRACE));
        }
    }

    /// The version of an Ingress is not what was thought: it is read before it is written.
    fn unknown(&mut self, key: &ObjectKey) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.seen.version = Arc::default();
        }
    }

    fn consider_all(&mut self, now: Instant) {
        let keys: Vec<_> = self.entries.keys().cloned().collect();
        for key in keys {
            self.consider(&key, now);
        }
    }

    /// Puts an Ingress where it belongs: at rest or due.
    fn consider(&mut self, key: &ObjectKey, now: Instant) {
        let Some(entry) = self.entries.get(key) else { return };
        if entry.contest != Contest::Peace {
            self.contested.insert(key.clone());
        }
        if entry.state == State::Busy {
            return;
        }
        let unread = entry.claim == Claim::Left && entry.seen.version.is_empty();
        if !unread && self.target(entry).is_none() {
            if entry.claim == Claim::Left {
                return self.drop_entry(key);
            }
            return self.set(key, State::Rest);
        }
        let mut due = now;
        if let State::Due(before) = entry.state {
            due = due.max(before.min(now + LEAVE_GRACE));
        }
        if let Failures::Some { again, .. } = entry.failures {
            due = due.max(again);
        }
        if let Some(until) = entry.contest.pause_until().filter(|_| self.mode == Mode::Publishing) {
            due = due.max(until);
        }
        self.set(key, State::Due(due));
    }

    fn job(&self, key: &ObjectKey) -> Option<Job> {
        let entry = self.entries.get(key)?;
        if entry.seen.version.is_empty() {
            return Some(Job::Read(key.clone()));
        }
        let addresses = self.target(entry)?;
        Some(Job::Write { ingress: key.clone(), version: entry.seen.version.clone(), addresses })
    }

    /// What the status should say, where it says something else.
    fn target(&self, entry: &Entry) -> Option<BTreeSet<Arc<str>>> {
        let now = &entry.seen.addresses;
        if self.mode == Mode::Clearing || entry.claim == Claim::Left {
            let others: BTreeSet<_> = now.difference(&self.ours).cloned().collect();
            return (others.len() < now.len()).then_some(others);
        }
        let wanted = self.wanted.as_ref()?;
        // Without an address of its own, this fleet takes back what it wrote and nothing else.
        let nothing_to_say = wanted.is_empty() && entry.written.is_none();
        (**wanted != *now && !nothing_to_say).then(|| (**wanted).clone())
    }

    fn set(&mut self, key: &ObjectKey, state: State) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        if let State::Due(before) = std::mem::replace(&mut entry.state, state) {
            self.due.remove(&(before, key.clone()));
        }
        if let State::Due(due) = state {
            self.due.insert((due, key.clone()));
        }
    }

    fn drop_entry(&mut self, key: &ObjectKey) {
        self.set(key, State::Rest);
        self.contested.remove(key);
        self.entries.remove(key);
    }
}

impl Entry {
    fn new(seen: ObservedStatus) -> Self {
        Self {
            claim: Claim::Served,
            seen,
            written: None,
            state: State::Rest,
            failures: Failures::None,
            contest: Contest::default(),
        }
    }

    /// Takes the answer to a write; what others wrote since may have been seen before it came.
    fn see_written(&mut self, observed: ObservedStatus, wanted: Option<&Addresses>, now: Instant) {
        let later = !self.seen.version.is_empty() && self.seen.is_newer_than(&observed);
        let later = later.then(|| self.seen.clone());
        self.seen = observed;
        if let Some(later) = later {
            self.see(later, wanted, now);
        }
    }

    /// Takes a sighting, and notices when another writer replaced what was written here.
    fn see(&mut self, observed: ObservedStatus, wanted: Option<&Addresses>, now: Instant) {
        let shown = |addresses: &BTreeSet<_>| wanted.is_some_and(|wanted| **wanted == *addresses);
        let ours = self.written.as_ref() == Some(&self.seen.addresses) && shown(&self.seen.addresses);
        let replaced = ours && !shown(&observed.addresses) && self.claim == Claim::Served;
        let unknown = observed.manager.is_none();
        self.seen = observed;
        if replaced {
            self.contest.replaced(now);
            if unknown {
                // It is read before it is written again, to know who that was.
                self.seen.version = Arc::default();
            }
        }
    }
}

impl Failures {
    fn again(&mut self, now: Instant) {
        let times = match self {
            Self::None => 0,
            Self::Some { times, .. } => times.saturating_add(1),
        };
        *self = Self::Some { times, again: now + growing(FIRST_RETRY, times, LONGEST_RETRY) };
    }
}

/// Whether the addresses may be taken away: nobody else is known to have written them.
fn is_own(observed: &ObservedStatus) -> bool {
    observed.manager.as_deref().is_none_or(|manager| manager == FIELD_MANAGER)
}
