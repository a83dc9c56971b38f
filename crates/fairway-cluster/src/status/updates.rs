//! When there is something new to look at, and not more often than is of use.

use std::time::Duration;

use fairway_control::pipeline::{Freshness, View, Viewer};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Looks at the pipeline.
pub(crate) struct Updates {
    viewer: Viewer,
    updates: watch::Receiver<u64>,
    looked: Instant,
    pause: Duration,
}

impl Updates {
    /// Looks at most once in each `pause`.
    pub(crate) fn new(viewer: Viewer, pause: Duration) -> Self {
        Self { updates: viewer.updates(), viewer, looked: Instant::now(), pause }
    }

    /// Waits until there is something new. May be given up and asked again.
    pub(crate) async fn next(&mut self) {
        sleep_until(self.looked + self.pause).await;
        if self.updates.changed().await.is_err() {
            // The pipeline has ended: nothing new comes.
            std::future::pending::<()>().await;
        }
    }

    /// What there is now. Of a configuration that an earlier process left nothing is said: it knows no objects.
    pub(crate) fn view(&mut self) -> Option<View> {
        self.looked = Instant::now();
        self.viewer.view().filter(|view| view.freshness == Freshness::Current)
    }
}
