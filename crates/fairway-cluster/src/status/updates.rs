//! Signals new pipeline views, at a limited rate.

use std::time::Duration;

use fairway_control::pipeline::{Freshness, View, Viewer};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Watches the pipeline.
pub(crate) struct ViewUpdates {
    viewer: Viewer,
    updates: watch::Receiver<u64>,
    looked: Instant,
    pause: Duration,
}

impl ViewUpdates {
    /// Reports at most one change per `pause`.
    pub(crate) fn new(viewer: Viewer, pause: Duration) -> Self {
        Self { updates: viewer.updates(), viewer, looked: Instant::now(), pause }
    }

    /// Waits for a new view. Cancel-safe.
    pub(crate) async fn changed(&mut self) {
        sleep_until(self.looked + self.pause).await;
        if self.updates.changed().await.is_err() {
            // The pipeline has ended: there will be no new view.
            std::future::pending::<()>().await;
        }
    }

    /// The current view. `None` for a configuration restored from an earlier process: it has no objects.
    pub(crate) fn view(&mut self) -> Option<View> {
        self.looked = Instant::now();
        self.viewer.view().filter(|view| view.freshness == Freshness::Current)
    }
}
