//! A request to end early, which any part of a comparison can make and all of them follow.

use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;

/// Ends a comparison early; clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    why: OnceLock<String>,
    woken: Notify,
}

impl Stop {
    /// Stops. The first reason counts.
    pub fn because(&self, why: impl Into<String>) {
        // A second reason changes nothing.
        _ = self.0.why.set(why.into());
        self.0.woken.notify_waiters();
    }

    /// Why it stopped; `None` while it goes on.
    #[must_use]
    pub fn why(&self) -> Option<&str> {
        self.0.why.get().map(String::as_str)
    }

    /// Waits until it stops.
    pub(crate) async fn wait(&self) {
        let woken = self.0.woken.notified();
        let mut woken = std::pin::pin!(woken);
        // Whoever stops between this and the wait wakes it.
        woken.as_mut().enable();
        if self.why().is_none() {
            woken.await;
        }
    }
}
