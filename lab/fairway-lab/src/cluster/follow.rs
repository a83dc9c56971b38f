//! Follows an object and records each version with the time of its event: how often a status is written, and when it has
//! which value.

use std::time::{Duration, Instant};

use anyhow::Context;
use futures_util::{StreamExt, pin_mut};
use kube::api::{Api, DynamicObject, WatchEvent, WatchParams};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use super::client::Cluster;
use super::objects::title;

/// Delay before a failed watch is restarted.
const RESTART_DELAY: Duration = Duration::from_millis(200);

/// An object as it was at a time.
#[derive(Clone, Debug)]
pub struct Version {
    /// The time of the event.
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
    /// Follows an existing object.
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
    /// The next version; `None` on timeout.
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
    send_version(&versions, &first);
    while !versions.is_closed() {
        if let Ok(events) = api.watch(&parameters, &last).await {
            pin_mut!(events);
            while let Some(Ok(event)) = events.next().await {
                let (WatchEvent::Added(object) | WatchEvent::Modified(object)) = event else { continue };
                last = object.metadata.resource_version.clone().unwrap_or_default();
                send_version(&versions, &object);
            }
        }
        // The watch ended or expired: the current object is the next version.
        tokio::time::sleep(RESTART_DELAY).await;
        let Ok(now) = api.get(&name).await else { continue };
        let version = now.metadata.resource_version.clone().unwrap_or_default();
        if version != last {
            last = version;
            send_version(&versions, &now);
        }
    }
}

fn send_version(versions: &UnboundedSender<Version>, object: &DynamicObject) {
    if let Ok(object) = serde_json::to_value(object) {
        // The task also ends when the receiver is gone.
        _ = versions.send(Version { at: Instant::now(), object });
    }
}
