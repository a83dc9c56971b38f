//! Whether the endpoint is still there while it answers nothing.
//!
//! A host that lost its power says nothing, and neither does the network. What tells is that it acknowledges nothing. The
//! kernel could count that (`TCP_USER_TIMEOUT`), but it also gives up an endpoint that is well and pauses reading: there
//! only the window is closed, which may last as long as `proxy-send-timeout`.

use std::task::Context;
use std::time::Duration;

use fairway_connection::sides::Upstream;
use fairway_net::clock::Instant;
use fairway_net::waits::Wait;

use crate::network::Network;
use crate::worker::Worker;

/// An endpoint that was looked at is looked at again after this.
const AGAIN: Duration = Duration::from_millis(250);

/// Looks at one endpoint from time to time.
#[derive(Default)]
pub(crate) struct PeerWatch<'w> {
    wait: Option<Wait<'w>>,
    /// When it was first seen to owe an acknowledgement; nothing has come from it since.
    owes_since: Option<Instant>,
}

/// What a look saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerState {
    /// It is not time to look.
    NotYet,
    /// It has acknowledged all that was sent.
    Present,
    /// It owes an acknowledgement.
    Silent,
    /// It has owed one for longer than the limit, and nothing came from it.
    Gone,
}

impl<'w> PeerWatch<'w> {
    /// Looks at the endpoint, if it is time: for the first time at `first`, then as often as [`PeerWatch::go_on`] says.
    pub(crate) fn look<N: Network>(
        &mut self,
        cx: &Context<'_>,
        first: impl FnOnce() -> Instant,
        worker: &'w Worker<N>,
        up: &impl Upstream,
    ) -> PeerState {
        self.look_at(cx, first, worker, || up.owes_acknowledgement())
    }

    /// The same of whatever says how long the endpoint has owed an acknowledgement.
    pub(crate) fn look_at<N: Network>(
        &mut self,
        cx: &Context<'_>,
        first: impl FnOnce() -> Instant,
        worker: &'w Worker<N>,
        owes: impl FnOnce() -> Option<Duration>,
    ) -> PeerState {
        let wait = self.wait.get_or_insert_with(|| worker.waits.begin(first(), cx.waker()));
        if !wait.take_due() {
            return PeerState::NotYet;
        }
        let Some(unheard) = owes() else {
            self.owes_since = None;
            return PeerState::Present;
        };
        let now = Instant::now();
        // Whatever came from it since may have acknowledged what it owed then.
        let is_same = |since: &Instant| now.saturating_duration_since(*since) <= unheard;
        let since = self.owes_since.filter(is_same).unwrap_or(now);
        self.owes_since = Some(since);
        let limit = worker.options.limits.upstream_unacknowledged;
        match unheard >= limit && now.saturating_duration_since(since) + AGAIN >= limit {
            true => PeerState::Gone,
            false => PeerState::Silent,
        }
    }

    /// How long it has owed the same acknowledgement, as far as looks have seen.
    pub(crate) fn owed_for(&self) -> Duration {
        self.owes_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// There is more to see.
    pub(crate) fn go_on(&self) {
        if let Some(wait) = &self.wait {
            wait.again(Instant::now() + AGAIN);
        }
    }

    /// Nothing is owed: the next [`PeerWatch::look`] begins anew.
    pub(crate) fn rest(&mut self) {
        self.wait = None;
    }

    /// When something that was just sent is to be acknowledged.
    pub(crate) fn soon() -> Instant {
        Instant::now() + AGAIN
    }
}
