//! Detects whether an endpoint is still there while it does not respond.
//!
//! A host that lost power sends nothing, and the network reports nothing; only missing acknowledgements reveal it. The kernel
//! could check that (`TCP_USER_TIMEOUT`), but it would also give up a healthy endpoint that pauses reading: its window is
//! closed, which may last as long as `proxy-send-timeout`.

use std::task::Context;
use std::time::Duration;

use fairway_connection::sides::Upstream;
use fairway_net::clock::Instant;
use fairway_net::response_waits::ResponseWait;

use crate::network::Network;
use crate::worker::Worker;

/// The interval between two checks of an endpoint.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Checks one endpoint periodically.
#[derive(Default)]
pub(crate) struct PeerWatch<'w> {
    wait: Option<ResponseWait<'w>>,
    /// When it was first seen to owe an acknowledgement, if nothing has arrived from it since.
    unacknowledged_since: Option<Instant>,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerState {
    /// No check is due.
    NotYet,
    /// It has acknowledged all that was sent.
    Present,
    /// It owes an acknowledgement.
    Silent,
    /// It has owed one for longer than the limit, and sent nothing.
    Gone,
}

impl<'w> PeerWatch<'w> {
    /// Checks the endpoint if that is due: first at `first`, then as [`PeerWatch::schedule_next_check`] schedules.
    pub(crate) fn check<N: Network>(
        &mut self,
        cx: &Context<'_>,
        first: impl FnOnce() -> Instant,
        worker: &'w Worker<N>,
        up: &impl Upstream,
    ) -> PeerState {
        self.check_with(cx, first, worker, || up.unacknowledged_for())
    }

    /// The same, with a function that returns how long the endpoint has owed an acknowledgement.
    pub(crate) fn check_with<N: Network>(
        &mut self,
        cx: &Context<'_>,
        first: impl FnOnce() -> Instant,
        worker: &'w Worker<N>,
        owes: impl FnOnce() -> Option<Duration>,
    ) -> PeerState {
        let wait = self.wait.get_or_insert_with(|| worker.waits.start(first(), cx.waker()));
        if !wait.take_due() {
            return PeerState::NotYet;
        }
        let Some(unheard) = owes() else {
            self.unacknowledged_since = None;
            return PeerState::Present;
        };
        let now = Instant::now();
        // Anything received since then may have acknowledged what was owed.
        let is_same = |since: &Instant| now.saturating_duration_since(*since) <= unheard;
        let since = self.unacknowledged_since.filter(is_same).unwrap_or(now);
        self.unacknowledged_since = Some(since);
        let limit = worker.options.limits.upstream_unacknowledged;
        match unheard >= limit && now.saturating_duration_since(since) + CHECK_INTERVAL >= limit {
            true => PeerState::Gone,
            false => PeerState::Silent,
        }
    }

    /// How long it has owed the same acknowledgement, as seen by checks.
    pub(crate) fn unacknowledged_for(&self) -> Duration {
        self.unacknowledged_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Schedules the next check.
    pub(crate) fn schedule_next_check(&self) {
        if let Some(wait) = &self.wait {
            wait.restart(Instant::now() + CHECK_INTERVAL);
        }
    }

    /// Stops checking; the next [`PeerWatch::check`] starts again.
    pub(crate) fn reset(&mut self) {
        self.wait = None;
    }

    /// The time of the first check after something was sent.
    pub(crate) fn first_check_at() -> Instant {
        Instant::now() + CHECK_INTERVAL
    }
}
