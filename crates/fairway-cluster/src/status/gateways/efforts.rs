//! What was tried of what Gateways have, and when it may be tried again. Owns the pauses; the time is passed in.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fairway_objects::object::ObjectKey;
use tokio::time::Instant;

use super::edits::Failure;
use crate::status::pauses::growing;

const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// The watch shows what was written within this time; until then it is not written again.
pub(super) const ECHO: Duration = Duration::from_secs(5);

/// Something that is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Task {
    /// The list of ports.
    List,
    /// A Service.
    Service(ObjectKey),
    /// The slices of a Service.
    Slices(ObjectKey),
}

/// All that was tried.
#[derive(Debug, Default)]
pub(super) struct Efforts {
    tries: BTreeMap<Task, Try>,
    /// What was seen when something was written, and when that was.
    written: BTreeMap<Task, (String, Instant)>,
    /// Why a Service could not be written.
    pub(super) problems: BTreeMap<ObjectKey, Arc<str>>,
    again: Option<Instant>,
}

/// What failed is not tried before then.
#[derive(Clone, Copy, Debug)]
struct Try {
    times: u32,
    again: Instant,
}

impl Efforts {
    /// Everything is looked at anew.
    pub(super) fn begin(&mut self) {
        self.again = None;
    }

    /// When to look again, if nothing happens before.
    pub(super) fn again(&self) -> Option<Instant> {
        self.again
    }

    pub(super) fn look_again(&mut self, at: Instant) {
        self.again = Some(self.again.map_or(at, |again| again.min(at)));
    }

    /// Whether it must not be tried now: it failed a moment ago, or it was done and what is seen does not show it yet.
    pub(super) fn must_wait(&mut self, task: &Task, seen: &str, now: Instant) -> bool {
        let failed = self.tries.get(task).map(|it| it.again);
        let echo = self.written.get(task).filter(|(before, _)| before == seen).map(|(_, at)| *at + ECHO);
        let Some(until) = failed.max(echo).filter(|until| now < *until) else { return false };
        self.look_again(until);
        true
    }

    /// It was written when this was seen.
    pub(super) fn wrote(&mut self, task: Task, seen: String, now: Instant) {
        self.tries.remove(&task);
        self.written.insert(task, (seen, now));
    }

    /// It is as it should be.
    pub(super) fn is_good(&mut self, task: &Task) {
        self.tries.remove(task);
        self.written.remove(task);
        if let Task::Service(key) = task {
            self.problems.remove(key);
        }
    }

    /// It failed.
    pub(super) fn failed(&mut self, task: Task, failure: &Failure, now: Instant) {
        tracing::debug!(?task, ?failure, "what a Gateway has is not written; tried again");
        let times = self.tries.get(&task).map_or(0, |it| it.times.saturating_add(1));
        let again = now + growing(FIRST_RETRY, times, LONGEST_RETRY);
        self.tries.insert(task, Try { times, again });
        self.look_again(again);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_not_written_again_before_the_watch_has_shown_it() {
        let (mut efforts, now) = (Efforts::default(), Instant::now());
        let task = Task::Service(ObjectKey::new("shop", "edge"));
        assert!(!efforts.must_wait(&task, "7", now));
        efforts.wrote(task.clone(), "7".to_owned(), now);
        assert!(efforts.must_wait(&task, "7", now));
        assert_eq!(efforts.again(), Some(now + ECHO));
        assert!(!efforts.must_wait(&task, "8", now), "it was seen, and differs again");
        assert!(!efforts.must_wait(&task, "7", now + ECHO), "it was lost");
    }

    #[test]
    fn what_fails_is_tried_less_and_less_often() {
        let (mut efforts, mut now) = (Efforts::default(), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..8 {
            efforts.begin();
            efforts.failed(Task::List, &Failure::NoAnswer, now);
            let again = efforts.again().unwrap();
            assert!(efforts.must_wait(&Task::List, "", now));
            pauses.push((again - now).as_secs());
            now = again;
        }
        assert_eq!((pauses[0], pauses[1], pauses[7]), (1, 2, 60));
    }
}
