//! A request to end the comparison early, which any part of it can make.

use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;

/// Ends a comparison early. Clones share the state.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<StopState>);

#[derive(Debug, Default)]
struct StopState {
    why: OnceLock<String>,
    woken: Notify,
}

impl Stop {
    /// Stops the comparison. Only the first reason is kept.
    pub fn because(&self, why: impl Into<String>) {
        // Later reasons are ignored.
        _ = self.0.why.set(why.into());
        self.0.woken.notify_waiters();
    }

    /// Why the comparison was stopped; `None` while it runs.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.0.why.get().map(String::as_str)
    }

    /// Waits until the comparison is stopped.
    pub(crate) async fn wait(&self) {
        let woken = self.0.woken.notified();
        let mut woken = std::pin::pin!(woken);
        // A stop between this check and the wait still wakes the waiter.
        woken.as_mut().enable();
        if self.reason().is_none() {
            woken.await;
        }
    }
}
