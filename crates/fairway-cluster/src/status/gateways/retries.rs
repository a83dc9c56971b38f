//! Tracks which writes were tried and when each may be retried. The time is passed in.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fairway_objects::object::ObjectKey;
use tokio::time::Instant;

use super::edits::WriteFailure;
use crate::status::pauses::doubled_pause;

const FIRST_RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY: Duration = Duration::from_secs(60);
/// The watch shows a write within this time; until then it is not repeated.
pub(super) const WATCH_DELAY: Duration = Duration::from_secs(5);

/// A write.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WriteTask {
    /// The port list.
    PortList,
    /// A Service.
    Service(ObjectKey),
    /// The EndpointSlices of a Service.
    Slices(ObjectKey),
}

/// All writes and their retries.
#[derive(Debug, Default)]
pub(super) struct WriteRetries {
    failed_writes: BTreeMap<WriteTask, FailedWrite>,
    /// The version seen when an object was written, and the time.
    written: BTreeMap<WriteTask, (String, Instant)>,
    /// Why a Service could not be written.
    pub(super) problems: BTreeMap<ObjectKey, Arc<str>>,
    next_retry_at: Option<Instant>,
}

/// A failed write; it is not retried before `retry_at`.
#[derive(Clone, Copy, Debug)]
struct FailedWrite {
    times: u32,
    retry_at: Instant,
}

impl WriteRetries {
    /// Starts a new pass.
    pub(super) fn start_pass(&mut self) {
        self.next_retry_at = None;
    }

    /// When to look again, if nothing changes before.
    pub(super) fn next_look_at(&self) -> Option<Instant> {
        self.next_retry_at
    }

    pub(super) fn schedule_look(&mut self, at: Instant) {
        self.next_retry_at = Some(self.next_retry_at.map_or(at, |again| again.min(at)));
    }

    /// Whether it must not be tried now: it failed recently, or it succeeded and the watch does not show it yet.
    pub(super) fn must_wait(&mut self, task: &WriteTask, current_versions: &str, now: Instant) -> bool {
        let failed = self.failed_writes.get(task).map(|it| it.retry_at);
        let echo = self
            .written
            .get(task)
            .filter(|(before, _)| before == current_versions)
            .map(|(_, at)| *at + WATCH_DELAY);
        let Some(until) = failed.max(echo).filter(|until| now < *until) else { return false };
        self.schedule_look(until);
        true
    }

    /// The write succeeded; `current_versions` were the versions at that time.
    pub(super) fn record_success(&mut self, task: WriteTask, current_versions: String, now: Instant) {
        self.failed_writes.remove(&task);
        self.written.insert(task, (current_versions, now));
    }

    /// The object is as it should be.
    pub(super) fn mark_up_to_date(&mut self, task: &WriteTask) {
        self.failed_writes.remove(task);
        self.written.remove(task);
        if let WriteTask::Service(key) = task {
            self.problems.remove(key);
        }
    }

    /// The write failed.
    pub(super) fn record_failure(&mut self, task: WriteTask, failure: &WriteFailure, now: Instant) {
        tracing::debug!(?task, ?failure, "an object of a Gateway is not written; retrying");
        let times = self.failed_writes.get(&task).map_or(0, |it| it.times.saturating_add(1));
        let again = now + doubled_pause(FIRST_RETRY, times, MAX_RETRY);
        self.failed_writes.insert(task, FailedWrite { times, retry_at: again });
        self.schedule_look(again);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_not_repeated_before_the_watch_shows_it() {
        let (mut efforts, now) = (WriteRetries::default(), Instant::now());
        let task = WriteTask::Service(ObjectKey::new("shop", "edge"));
        assert!(!efforts.must_wait(&task, "7", now));
        efforts.record_success(task.clone(), "7".to_owned(), now);
        assert!(efforts.must_wait(&task, "7", now));
        assert_eq!(efforts.next_look_at(), Some(now + WATCH_DELAY));
        assert!(!efforts.must_wait(&task, "8", now), "it was seen, and differs again");
        assert!(!efforts.must_wait(&task, "7", now + WATCH_DELAY), "it was lost");
    }

    #[test]
    fn failed_writes_are_retried_less_and_less_often() {
        let (mut efforts, mut now) = (WriteRetries::default(), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..8 {
            efforts.start_pass();
            efforts.record_failure(WriteTask::PortList, &WriteFailure::NoAnswer, now);
            let again = efforts.next_look_at().unwrap();
            assert!(efforts.must_wait(&WriteTask::PortList, "", now));
            pauses.push((again - now).as_secs());
            now = again;
        }
        assert_eq!((pauses[0], pauses[1], pauses[7]), (1, 2, 60));
    }
}
