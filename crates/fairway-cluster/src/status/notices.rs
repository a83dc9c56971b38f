//! Which diagnostics are due as Events. No I/O and no clock: problems and the time go in, Events come out.
//!
//! A problem that disappears within a moment gets no Event. A lasting one gets an Event at once and then at intervals, so that
//! the Event does not expire; one that returns soon after its Event waits. A solved problem gets no Event: its Event is just not
//! repeated.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fairway_control::pipeline::View;
use fairway_ingress::Translation;
use fairway_objects::diagnostic::{Diagnostic, Diagnostics};
use fairway_objects::kinds::{KINDS, Kind};
use fairway_objects::object::ObjectKey;
use tokio::time::Instant;

use super::pauses::{NamespacePauses, doubled_pause};

/// A problem that lasts less gets no Event.
const MIN_DURATION: Duration = Duration::from_secs(1);
/// By default, a cluster keeps Events for an hour (`--event-ttl`).
const REPEAT_INTERVAL: Duration = Duration::from_secs(30 * 60);
/// The shortest interval between Events of one problem.
const MIN_REPEAT_INTERVAL: Duration = Duration::from_secs(5 * 60);
const FIRST_RETRY: Duration = Duration::from_secs(2);
const MAX_RETRY: Duration = Duration::from_secs(300);

/// Current and recent problems.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    notices: BTreeMap<NoticeText, Notice>,
    due: BTreeSet<(Instant, NoticeText)>,
    translated: Diagnostics,
    listed: BTreeMap<NoticeText, Diagnostic>,
    refused: NamespacePauses,
}

/// The text of a diagnostic; two with the same text are one.
type NoticeText = Arc<str>;

#[derive(Debug)]
struct Notice {
    diagnostic: Arc<Diagnostic>,
    /// How many sources report it.
    found: u32,
    due: Instant,
    event_state: EventState,
    failures: u32,
}

/// Whether it has an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventState {
    No,
    /// Written at this time; the count of its series.
    Written(Instant, i32),
}

/// An Event to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DueEvent {
    pub(crate) diagnostic: Arc<Diagnostic>,
    /// The count of its series.
    pub(crate) count: Option<i32>,
}

/// The result of writing an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteOutcome {
    /// It is written, with this count.
    Written(i32),
    /// The object is gone.
    ObjectGone,
    /// The write is forbidden.
    Refused,
    /// The API server did not answer, or answered with an error.
    Failed,
}

impl Notices {
    /// Updates the problems, at a cost proportional to the difference; `more` are problems that are not in the view.
    pub(crate) fn update(&mut self, view: &View, other_diagnostics: Vec<Diagnostic>, now: Instant) {
        let translation = &view.outcome.translation;
        let before = std::mem::replace(&mut self.translated, translation.diagnostics.clone());
        let after = &translation.diagnostics;
        let (mut came, mut went) = (Vec::new(), Vec::new());
        for scope in after.changed_since(&before) {
            let (before, after) = (before.group(scope), after.group(scope));
            came.extend(after.iter().filter(|it| !before.contains(it)).cloned());
            went.extend(before.iter().filter(|it| !after.contains(it)).cloned());
        }
        let listed = view.source.iter().chain(view.outcome.problems.iter()).cloned().chain(other_diagnostics);
        let listed: BTreeMap<_, _> = listed.map(|it| (notice_text(&it), it)).collect();
        let before = std::mem::take(&mut self.listed);
        let fresh = listed.iter().filter(|(words, _)| !before.contains_key(*words));
        came.extend(fresh.map(|(_, it)| it.clone()));
        went.extend(before.into_iter().filter(|(words, _)| !listed.contains_key(words)).map(|(_, it)| it));
        self.listed = listed;
        came.into_iter().filter(|it| is_reported(it, translation)).for_each(|it| self.add(it, now));
        went.iter().for_each(|it| self.remove(it, now));
        self.drop_expired(now);
    }

    /// When the next Event is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Takes an Event that is due.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<DueEvent> {
        loop {
            let (due, words) = self.due.first().filter(|(due, _)| *due <= now).cloned()?;
            self.due.remove(&(due, words.clone()));
            let Notice { diagnostic, event_state: said, .. } = self.notices.get(&words)?;
            if let Some(until) = self.refused.paused_until(&event_namespace(diagnostic), now) {
                self.schedule(&words, until);
                continue;
            }
            let count = match said {
                EventState::No => None,
                EventState::Written(_, count) => Some(*count),
            };
            return Some(DueEvent { diagnostic: diagnostic.clone(), count });
        }
    }

    /// Records the result of an Event that was taken.
    pub(crate) fn record_outcome(&mut self, it: &Diagnostic, wrote: WriteOutcome, now: Instant) {
        let words = notice_text(it);
        let Some(notice) = self.notices.get_mut(&words) else { return };
        let due = match wrote {
            WriteOutcome::Written(count) => {
                (notice.event_state, notice.failures) = (EventState::Written(now, count), 0);
                self.refused.record_success(&event_namespace(it));
                now + REPEAT_INTERVAL
            }
            WriteOutcome::ObjectGone => now + REPEAT_INTERVAL,
            WriteOutcome::Refused => {
                self.refused.record_refusal(&event_namespace(it), now);
                now + MIN_DURATION
            }
            WriteOutcome::Failed => {
                notice.failures = notice.failures.saturating_add(1);
                now + doubled_pause(FIRST_RETRY, notice.failures - 1, MAX_RETRY)
            }
        };
        self.schedule(&words, due);
    }

    /// Reschedules an Event that was taken but not written.
    pub(crate) fn reschedule(&mut self, it: &Diagnostic, now: Instant) {
        self.schedule(&notice_text(it), now);
    }

    fn add(&mut self, it: Diagnostic, now: Instant) {
        let words = notice_text(&it);
        let fresh = || Notice {
            diagnostic: Arc::new(it),
            found: 0,
            due: now,
            event_state: EventState::No,
            failures: 0,
        };
        let notice = self.notices.entry(words.clone()).or_insert_with(fresh);
        notice.found += 1;
        if notice.found > 1 {
            return;
        }
        let due = match notice.event_state {
            EventState::No => now + MIN_DURATION,
            EventState::Written(last, _) => (now + MIN_DURATION).max(last + MIN_REPEAT_INTERVAL),
        };
        self.schedule(&words, due);
    }

    fn remove(&mut self, it: &Diagnostic, now: Instant) {
        let words = notice_text(it);
        let Some(notice) = self.notices.get_mut(&words) else { return };
        notice.found = notice.found.saturating_sub(1);
        if notice.found == 0 {
            self.due.remove(&(notice.due, words.clone()));
            if notice.event_state == EventState::No {
                self.notices.remove(&words);
            } else {
                // Kept for a while: it may come back.
                notice.due = now;
            }
        }
    }

    fn drop_expired(&mut self, now: Instant) {
        self.notices.retain(|_, notice| notice.found > 0 || now < notice.due + MIN_REPEAT_INTERVAL);
    }

    fn schedule(&mut self, words: &NoticeText, due: Instant) {
        let Some(notice) = self.notices.get_mut(words).filter(|notice| notice.found > 0) else { return };
        self.due.remove(&(notice.due, words.clone()));
        notice.due = due;
        self.due.insert((due, words.clone()));
    }
}

fn notice_text(it: &Diagnostic) -> NoticeText {
    it.to_string().into()
}

/// The namespace of the Event: that of the object, or `default` (Event API reference).
pub(crate) fn event_namespace(it: &Diagnostic) -> Arc<str> {
    if it.origin.namespace.is_empty() { "default".into() } else { it.origin.namespace.clone() }
}

/// Whether it concerns a cluster object of this controller. Resources also contain Ingresses of other classes: it is reported
/// that they are not served, but that is no problem of theirs.
fn is_reported(it: &Diagnostic, translation: &Translation) -> bool {
    let origin = &it.origin;
    let key = ObjectKey { namespace: origin.namespace.clone(), name: origin.name.clone() };
    let ours = it.code != "ingress-class" || translation.status.contains_key(&key);
    let mut reported = KINDS.iter().filter(|known| known.kind != Kind::Namespace);
    let reported = reported.any(|known| *known.name == *origin.kind);
    ours && origin.source.is_none() && !origin.name.is_empty() && reported
}
