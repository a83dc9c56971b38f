//! Counts the ready replicas of this fleet and finds their addresses, for limits they share. Decides when a new count takes
//! effect; dividing limits and talking to other replicas is up to the data plane.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use fairway_objects::object::ObjectKey;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::replicas::pod_address;
use crate::source::collection::Collection;
use crate::source::fault::Fault;
use crate::source::object_store::{FullObject, ObjectStore, StoreEvent};
use crate::status::{OwnFleet, is_ready};

/// A lower count takes effect after this delay: departing replicas still serve their connections, and in a rolling update
/// replacements start at once.
const LOWER_COUNT_DELAY: Duration = Duration::from_secs(10);
/// How long a caller waits for the first count.
const FIRST_COUNT_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause before the pod's labels are read again.
const LABELS_RETRY_INTERVAL: Duration = Duration::from_secs(5);

const WITHOUT_COUNT: &str =
    "limits of the fleet are divided by the replicas that were ready before, or not at all";

/// The replicas that share the limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadyReplicas {
    /// The number that limits are divided by.
    pub count: u32,
    /// The other pods that are ready now, with their addresses.
    pub others: Vec<(String, IpAddr)>,
}

/// Reports the ready replicas of the fleet of the pod `own`, now and after each change. This replica always counts, ready or not.
/// While the cluster does not answer, the last count stays; before the first answer, the count is one. For a dual-stack pod, the
/// address is IPv4 if `is_ipv4` is set, else IPv6.
pub async fn follow_ready_replicas(
    client: Client,
    own: ObjectKey,
    is_ipv4: bool,
    tell: impl Fn(ReadyReplicas),
) {
    let tell_count = |count| tell(ReadyReplicas { count, others: Vec::new() });
    let mut count = StableCount { effective: 1, fall: None };
    let (learned, patience) = (fleet_labels(client.clone(), own.clone()), sleep(FIRST_COUNT_TIMEOUT));
    let (mut learned, mut patience) = (std::pin::pin!(learned), std::pin::pin!(patience));
    let labels = tokio::select! {
        labels = &mut learned => labels,
        () = &mut patience => {
            tell_count(count.effective);
            learned.await
        }
    };
    // No Deployment or DaemonSet created this pod.
    let Some(labels) = labels else { return tell_count(count.effective) };
    let pods = ObjectStore::<Pod>::default();
    let collection = Collection { labels: Some(labels.into()), ..Pod::within(Some(&own.namespace)) };
    let (news, mut heard) = mpsc::unbounded_channel();
    // The receiver is gone only when both are dropped.
    let watch = pods.clone().run(client, collection, move |it| _ = news.send(it));
    let mut watch = std::pin::pin!(watch);
    let (mut holds, mut told, mut is_denied) = (patience.is_elapsed(), ReadyReplicas::default(), false);
    let mut others = Vec::new();
    loop {
        let falls = count.decrease_due_at();
        tokio::select! {
            () = &mut watch => return,
            Some(news) = heard.recv() => match news {
                StoreEvent::Listed | StoreEvent::Changed => {
                    let ready = other_replicas(&pods, &own);
                    count.observe(u32::try_from(ready.len()).unwrap_or(u32::MAX).saturating_add(1), Instant::now());
                    others = ready.iter().filter_map(|pod| Some((pod.name_any(), pod_address(pod, is_ipv4)?))).collect();
                    holds = true;
                }
                StoreEvent::Failed(Fault::Denied(why)) => {
                    holds = true;
                    if !std::mem::replace(&mut is_denied, true) {
                        tracing::info!(why, "without permission to list and watch the pods of the fleet, {WITHOUT_COUNT}");
                    }
                }
                StoreEvent::Failed(fault) => tracing::debug!(%fault, "the replicas of the fleet cannot be counted; retrying"),
            },
            () = &mut patience, if !holds => holds = true,
            () = sleep_until(falls.unwrap_or_else(Instant::now)), if falls.is_some() => count.apply_decrease(Instant::now()),
        }
        if holds && (told.count, &told.others) != (count.effective, &others) {
            tracing::debug!(
                replicas = count.effective,
                "limits of the fleet are divided by the ready replicas"
            );
            told = ReadyReplicas { count: count.effective, others: others.clone() };
            tell(told.clone());
        }
    }
}

/// The label selector of the fleet's pods; `None` if this pod has no labels. Retries until the cluster answers.
async fn fleet_labels(client: Client, own_pod: ObjectKey) -> Option<String> {
    let mut fleet = OwnFleet::new(&client, own_pod, Arc::default()).with_consequence(WITHOUT_COUNT);
    loop {
        match timeout(LABELS_RETRY_INTERVAL, fleet.load_labels()).await {
            Ok(Ok(())) => return fleet.selector(),
            Ok(Err(error)) => tracing::debug!(%error, "the labels of the fleet are unknown; retrying"),
            Err(_) => tracing::debug!("the labels of the fleet are unknown; retrying"),
        }
        sleep(LABELS_RETRY_INTERVAL).await;
    }
}

/// The other replicas that are ready.
fn other_replicas(pods: &ObjectStore<Pod>, own_pod: &ObjectKey) -> Vec<Arc<Pod>> {
    let pods = pods.snapshot();
    let others = pods.values().filter(|pod| pod.name_any() != *own_pod.name && is_ready(pod));
    others.cloned().collect()
}

/// The effective count: increases apply at once, decreases later.
struct StableCount {
    effective: u32,
    fall: Option<PendingDecrease>,
}

/// Counts seen since they fell below the effective one.
struct PendingDecrease {
    since: Instant,
    highest: u32,
    latest: u32,
}

impl StableCount {
    fn observe(&mut self, ready: u32, now: Instant) {
        if ready >= self.effective {
            *self = Self { effective: ready, fall: None };
            return;
        }
        let fall = self.fall.get_or_insert(PendingDecrease { since: now, highest: ready, latest: ready });
        fall.highest = fall.highest.max(ready);
        fall.latest = ready;
    }

    fn decrease_due_at(&self) -> Option<Instant> {
        self.fall.as_ref().map(|fall| fall.since + LOWER_COUNT_DELAY)
    }

    /// Applies the highest count seen during the delay.
    fn apply_decrease(&mut self, now: Instant) {
        if self.decrease_due_at().is_none_or(|at| now < at) {
            return;
        }
        if let Some(PendingDecrease { highest, latest, .. }) = self.fall.take() {
            self.effective = highest;
            self.observe(latest, now);
        }
    }
}

#[cfg(test)]
mod tests;
