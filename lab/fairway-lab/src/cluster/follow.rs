//! Every version of an object, with the time at which it was told: how often a status is written, and when it says what.

use std::time::{Duration, Instant};

use anyhow::Context;
use futures_util::{StreamExt, pin_mut};
use kube::api::{Api, DynamicObject, WatchEvent, WatchParams};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use super::client::Cluster;
use super::objects::title;

/// Before a watch that failed begins anew.
const PAUSE: Duration = Duration::from_millis(200);

/// An object as it was at a time.
#[derive(Clone, Debug)]
pub struct Version {
    /// When it was told.
    pub at: Instant,
    /// The object.
    pub object: Value,
}

/// The versions of an object from now on. Ends when it is dropped.
pub struct Following {
    versions: UnboundedReceiver<Version>,
    task: JoinHandle<()>,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Cluster {
    /// Follows an object that is there.
    ///
    /// # Errors
    /// It is not there, or the API server refuses.
    pub async fn follow(&self, object: &Value) -> anyhow::Result<Following> {
        let api = self.api_of(object).await?;
        let name = object["metadata"]["name"].as_str().context("an object without a name")?.to_owned();
        let found = api.get(&name).await.with_context(|| format!("read {}", title(object)))?;
        let (sender, versions) = unbounded_channel();
        let task = tokio::spawn(follow(api, name, found, sender));
        Ok(Following { versions, task })
    }
}

impl Following {
    /// The next version; `None` when there is none in time.
    pub async fn next(&mut self, patience: Duration) -> Option<Version> {
        tokio::time::timeout(patience, self.versions.recv()).await.ok().flatten()
    }
}

async fn follow(
    api: Api<DynamicObject>,
    name: String,
    first: DynamicObject,
    versions: UnboundedSender<Version>,
) {
    let parameters = WatchParams::default().fields(&format!("metadata.name={name}"));
    let mut last = first.metadata.resource_version.clone().unwrap_or_default();
    tell(&versions, &first);
    while !versions.is_closed() {
        if let Ok(events) = api.watch(&parameters, &last).await {
            pin_mut!(events);
            while let Some(Ok(event)) = events.next().await {
                let (WatchEvent::Added(object) | WatchEvent::Modified(object)) = event else { continue };
                last = object.metadata.resource_version.clone().unwrap_or_default();
                tell(&versions, &object);
            }
        }
        // The watch ended, or what it knew is too old: what is there now is the next version.
        tokio::time::sleep(PAUSE).await;
        let Ok(now) = api.get(&name).await else { continue };
        let version = now.metadata.resource_version.clone().unwrap_or_default();
        if version != last {
            last = version;
            tell(&versions, &now);
        }
    }
}

fn tell(versions: &UnboundedSender<Version>, object: &DynamicObject) {
    if let Ok(object) = serde_json::to_value(object) {
        // Who no longer listens ends the task too.
        _ = versions.send(Version { at: Instant::now(), object });
    }
}
