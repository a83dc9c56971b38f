//! Which diagnostics are due as Events. No input or output, no clock: what is wrong and the time go in, what to say
//! comes out.
//!
//! What is gone again within a moment is not said. What stands is said once, and again from time to time so that it
//! does not expire; what comes back soon after it was said waits. What is solved is no Event: it just is not repeated.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fairway_control::pipeline::View;
use fairway_ingress::Translation;
use fairway_objects::diagnostic::{Diagnostic, Diagnostics};
use fairway_objects::kinds::{KINDS, Kind};
use fairway_objects::object::ObjectKey;
use tokio::time::Instant;

use super::pauses::{Pauses, growing};

/// What lasts less is flicker.
const SETTLE: Duration = Duration::from_secs(1);
/// An Event lives for an hour in a cluster with its defaults (`--event-ttl`).
const REPEAT: Duration = Duration::from_secs(30 * 60);
/// What was said is not said again within this time.
const QUIET: Duration = Duration::from_secs(5 * 60);
const FIRST_RETRY: Duration = Duration::from_secs(2);
const LONGEST_RETRY: Duration = Duration::from_secs(300);

/// Everything that stands or stood a while ago.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    notices: BTreeMap<Words, Notice>,
    due: BTreeSet<(Instant, Words)>,
    translated: Diagnostics,
    listed: BTreeMap<Words, Diagnostic>,
    refused: Pauses,
}

/// What a diagnostic says; two that say the same are one.
type Words = Arc<str>;

#[derive(Debug)]
struct Notice {
    diagnostic: Arc<Diagnostic>,
    /// By how many it is found.
    found: u32,
    due: Instant,
    said: EventState,
    failures: u32,
}

/// Whether there is an Event of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventState {
    No,
    /// Last then; its series has come to so many.
    At(Instant, i32),
}

/// An Event to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) diagnostic: Arc<Diagnostic>,
    /// How often this process has said it.
    pub(crate) count: Option<i32>,
}

/// What came of writing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteOutcome {
    /// It is there, with this count.
    Event(i32),
    /// The object is gone.
    Nothing,
    /// Not permitted.
    Refused,
    /// The API server cannot or did not answer.
    Failed,
}

impl Notices {
    /// Takes what is wrong now, at a cost of what differs; `more` is what is known beside the view.
    pub(crate) fn look(&mut self, view: &View, more: Vec<Diagnostic>, now: Instant) {
        let translation = &view.outcome.translation;
        let before = std::mem::replace(&mut self.translated, translation.diagnostics.clone());
        let after = &translation.diagnostics;
        let (mut came, mut went) = (Vec::new(), Vec::new());
        for scope in after.changed_since(&before) {
            let (before, after) = (before.of(scope), after.of(scope));
            came.extend(after.iter().filter(|it| !before.contains(it)).cloned());
            went.extend(before.iter().filter(|it| !after.contains(it)).cloned());
        }
        let listed = view.source.iter().chain(view.outcome.problems.iter()).cloned().chain(more);
        let listed: BTreeMap<_, _> = listed.map(|it| (words(&it), it)).collect();
        let before = std::mem::take(&mut self.listed);
        let fresh = listed.iter().filter(|(words, _)| !before.contains_key(*words));
        came.extend(fresh.map(|(_, it)| it.clone()));
        went.extend(before.into_iter().filter(|(words, _)| !listed.contains_key(words)).map(|(_, it)| it));
        self.listed = listed;
        came.into_iter().filter(|it| concerns(it, translation)).for_each(|it| self.came(it, now));
        went.iter().for_each(|it| self.went(it, now));
        self.forget(now);
    }

    /// When the next Event is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// An Event that is due.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Due> {
        loop {
            let (due, words) = self.due.first().filter(|(due, _)| *due <= now).cloned()?;
            self.due.remove(&(due, words.clone()));
            let Notice { diagnostic, said, .. } = self.notices.get(&words)?;
            if let Some(until) = self.refused.until(&namespace(diagnostic), now) {
                self.put(&words, until);
                continue;
            }
            let count = match said {
                EventState::No => None,
                EventState::At(_, count) => Some(*count),
            };
            return Some(Due { diagnostic: diagnostic.clone(), count });
        }
    }

    /// Takes what came of an Event that was taken.
    pub(crate) fn wrote(&mut self, it: &Diagnostic, wrote: WriteOutcome, now: Instant) {
        let words = words(it);
        let Some(notice) = self.notices.get_mut(&words) else { return };
        let due = match wrote {
            WriteOutcome::Event(count) => {
                (notice.said, notice.failures) = (EventState::At(now, count), 0);
                self.refused.allowed(&namespace(it));
                now + REPEAT
            }
            WriteOutcome::Nothing => now + REPEAT,
            WriteOutcome::Refused => {
                self.refused.refused(&namespace(it), now);
                now + SETTLE
            }
            WriteOutcome::Failed => {
                notice.failures = notice.failures.saturating_add(1);
                now + growing(FIRST_RETRY, notice.failures - 1, LONGEST_RETRY)
            }
        };
        self.put(&words, due);
    }

    /// What was taken and not written is due again.
    pub(crate) fn give_back(&mut self, it: &Diagnostic, now: Instant) {
        self.put(&words(it), now);
    }

    fn came(&mut self, it: Diagnostic, now: Instant) {
        let words = words(&it);
        let fresh =
            || Notice { diagnostic: Arc::new(it), found: 0, due: now, said: EventState::No, failures: 0 };
        let notice = self.notices.entry(words.clone()).or_insert_with(fresh);
        notice.found += 1;
        if notice.found > 1 {
            return;
        }
        let due = match notice.said {
            EventState::No => now + SETTLE,
            EventState::At(last, _) => (now + SETTLE).max(last + QUIET),
        };
        self.put(&words, due);
    }

    fn went(&mut self, it: &Diagnostic, now: Instant) {
        let words = words(it);
        let Some(notice) = self.notices.get_mut(&words) else { return };
        notice.found = notice.found.saturating_sub(1);
        if notice.found == 0 {
            self.due.remove(&(notice.due, words.clone()));
            if notice.said == EventState::No {
                self.notices.remove(&words);
            } else {
                // Remembered for a while: it may come back.
                notice.due = now;
            }
        }
    }

    fn forget(&mut self, now: Instant) {
        self.notices.retain(|_, notice| notice.found > 0 || now < notice.due + QUIET);
    }

    fn put(&mut self, words: &Words, due: Instant) {
        let Some(notice) = self.notices.get_mut(words).filter(|notice| notice.found > 0) else { return };
        self.due.remove(&(notice.due, words.clone()));
        notice.due = due;
        self.due.insert((due, words.clone()));
    }
}

fn words(it: &Diagnostic) -> Words {
    it.to_string().into()
}

/// The namespace that an Event about it is written to: that of the object, or `default` (Event API reference).
pub(crate) fn namespace(it: &Diagnostic) -> Arc<str> {
    if it.origin.namespace.is_empty() { "default".into() } else { it.origin.namespace.clone() }
}

/// Whether it is about an object of a cluster that is ours. Only of Ingresses is there more than what ours refer to:
/// for those of other classes it is said that they are not served, and that is no problem of theirs.
fn concerns(it: &Diagnostic, translation: &Translation) -> bool {
    let origin = &it.origin;
    let key = ObjectKey { namespace: origin.namespace.clone(), name: origin.name.clone() };
    let ours = it.code != "ingress-class" || translation.status.contains_key(&key);
    let mut reported = KINDS.iter().filter(|known| known.kind != Kind::Namespace);
    let reported = reported.any(|known| *known.name == *origin.kind);
    ours && origin.source.is_none() && !origin.name.is_empty() && reported
}
