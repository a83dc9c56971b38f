//! Whether the endpoint is still there while it answers nothing.
//!
//! A host that lost its power says nothing, and neither does the network. What tells is that it acknowledges nothing. The
//! kernel could count that (`TCP_USER_TIMEOUT`), but it also gives up an endpoint that is well and pauses reading: there
//! only the window is closed, which may last as long as `proxy-send-timeout`.

use std::task::Context;
use std::time::Duration;

use super::sides::Upstream;
use crate::clock::Instant;
use crate::worker::{Wait, Waits};

/// An endpoint that was looked at is looked at again after this.
const AGAIN: Duration = Duration::from_millis(250);

/// Looks at one endpoint from time to time.
pub(crate) struct Vigil<'w> {
    waits: &'w Waits,
    wait: Option<Wait<'w>>,
    /// How long it may owe an acknowledgement and say nothing at all.
    limit: Duration,
    /// When it was first seen to owe one.
    owes_since: Option<Instant>,
}

/// What a look saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// It is not time to look.
    NotYet,
    /// It has acknowledged all that was sent.
    Present,
    /// It owes an acknowledgement.
    Silent,
    /// It has owed one for longer than the limit, and nothing came from it.
    Gone,
}

impl<'w> Vigil<'w> {
    pub(crate) const fn new(waits: &'w Waits, limit: Duration) -> Self {
        Self { waits, wait: None, limit, owes_since: None }
    }

    /// Looks at the endpoint, if it is time: for the first time at `first`, then as often as [`Vigil::go_on`] says.
    pub(crate) fn look(
        &mut self,
        cx: &Context<'_>,
        first: impl FnOnce() -> Instant,
        up: &impl Upstream,
    ) -> Sight {
        let waits = self.waits;
        let wait = self.wait.get_or_insert_with(|| waits.begin(first(), cx.waker()));
        if !wait.take_due() {
            return Sight::NotYet;
        }
        let Some(unheard) = up.owes_acknowledgement() else {
            self.owes_since = None;
            return Sight::Present;
        };
        let now = Instant::now();
        let since = *self.owes_since.get_or_insert(now);
        match unheard >= self.limit && now.saturating_duration_since(since) + AGAIN >= self.limit {
            true => Sight::Gone,
            false => Sight::Silent,
        }
    }

    /// There is more to see.
    pub(crate) fn go_on(&self) {
        if let Some(wait) = &self.wait {
            wait.again(Instant::now() + AGAIN);
        }
    }

    /// Nothing is owed: the next [`Vigil::look`] begins anew.
    pub(crate) fn rest(&mut self) {
        self.wait = None;
    }

    /// When something that was just sent is to be acknowledged.
    pub(crate) fn soon() -> Instant {
        Instant::now() + AGAIN
    }
}
