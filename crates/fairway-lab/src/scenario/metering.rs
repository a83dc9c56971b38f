//! The meter of a peer's pods while streams run: it follows pods that come and go. Never decides what a phase is.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::cluster::Cluster;
use crate::measure::{Meter, Spent, Subject};

/// How often pods are looked up and read.
const INTERVAL: Duration = Duration::from_millis(500);

/// A meter that is running.
pub(super) struct Metering {
    meter: Arc<Mutex<Meter>>,
    follow: Follow,
    reader: JoinHandle<()>,
}

/// Whose cost it is.
#[derive(Clone)]
pub(super) struct Follow {
    pub(super) cluster: Arc<Cluster>,
    pub(super) namespace: String,
    /// Without one there is nothing that could be read.
    pub(super) selector: Option<String>,
}

impl Follow {
    async fn subjects(&self) -> anyhow::Result<Vec<Subject>> {
        let Some(selector) = &self.selector else { return Ok(Vec::new()) };
        let pods = self.cluster.pods(&self.namespace, selector).await?;
        Ok(pods.into_iter().flat_map(|pod| pod.containers).map(Subject::Container).collect())
    }
}

impl Metering {
    pub(super) async fn begin(follow: Follow) -> anyhow::Result<Self> {
        let meter = Arc::new(Mutex::new(Meter::begin(&follow.subjects().await?)));
        let (shared, followed) = (meter.clone(), follow.clone());
        let reader = tokio::spawn(async move {
            loop {
                tokio::time::sleep(INTERVAL).await;
                // One look that fails leaves the readings before; the next one catches up.
                if let Ok(subjects) = followed.subjects().await {
                    shared.lock().await.read(&subjects);
                }
            }
        });
        Ok(Self { meter, follow, reader })
    }

    /// What was spent since the beginning or the last cut, and how many containers there are now.
    pub(super) async fn cut(&mut self) -> anyhow::Result<(Spent, usize)> {
        let subjects = self.follow.subjects().await?;
        let mut meter = self.meter.lock().await;
        meter.read(&subjects);
        let spent = meter.spent();
        *meter = Meter::begin(&subjects);
        Ok((spent, subjects.len()))
    }

    /// Ends it; [`Metering::cut`] comes first.
    pub(super) fn end(self) {
        self.reader.abort();
    }
}
