//! How many replicas of the own fleet are ready, and where the others are, for limits that they share. Owns from when on a count holds;
//! what is divided by it, and what replicas tell each other, is the data plane's.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use fairway_objects::object::ObjectKey;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::replicas::address;
use crate::source::collection::Collection;
use crate::source::fault::Fault;
use crate::source::follow::{Followed, News, Whole};
use crate::status::{Fleet, is_ready};

/// A lower count holds once it was lower for this time: replicas that leave still serve the connections that they have, and in a roll
/// others come at once.
const FALL_DELAY: Duration = Duration::from_secs(10);
/// Whoever waits for the first count waits no longer.
const FIRST_COUNT: Duration = Duration::from_secs(10);
/// The pause before the own pod is asked for again.
const LEARN_AGAIN: Duration = Duration::from_secs(5);

const LOST: &str = "limits of the fleet are divided by the replicas that were ready before, or not at all";

/// The fleet as limits are shared in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadyReplicas {
    /// How many replicas limits are divided by.
    pub count: u32,
    /// The pods besides the own one that are ready now, with their addresses.
    pub others: Vec<(String, IpAddr)>,
}

/// Tells how many replicas the fleet of the pod `own` has, now and after each change: those that are ready, and this one, which is
/// ready or will be. Where the cluster does not say, the last count stays; before the first one, this replica counts as the only one.
/// Where a pod has addresses of both families, the one of IPv4 is told if `is_ipv4` says so, else the other.
pub async fn follow_ready_replicas(
    client: Client,
    own: ObjectKey,
    is_ipv4: bool,
    tell: impl Fn(ReadyReplicas),
) {
    let tell_count = |count| tell(ReadyReplicas { count, others: Vec::new() });
    let mut count = Count { held: 1, fall: None };
    let (learned, patience) = (labels(client.clone(), own.clone()), sleep(FIRST_COUNT));
    let (mut learned, mut patience) = (std::pin::pin!(learned), std::pin::pin!(patience));
    let labels = tokio::select! {
        labels = &mut learned => labels,
        () = &mut patience => {
            tell_count(count.held);
            learned.await
        }
    };
    // No Deployment or DaemonSet made this pod.
    let Some(labels) = labels else { return tell_count(count.held) };
    let pods = Followed::<Pod>::default();
    let collection = Collection { labels: Some(labels.into()), ..Pod::within(Some(&own.namespace)) };
    let (news, mut heard) = mpsc::unbounded_channel();
    // Nobody listens only when both are given up.
    let watch = pods.clone().follow(client, collection, move |it| _ = news.send(it));
    let mut watch = std::pin::pin!(watch);
    let (mut holds, mut told, mut is_denied) = (patience.is_elapsed(), ReadyReplicas::default(), false);
    let mut others = Vec::new();
    loop {
        let falls = count.falls_at();
        tokio::select! {
            () = &mut watch => return,
            Some(news) = heard.recv() => match news {
                News::Listed | News::Changed => {
                    let ready = other_replicas(&pods, &own);
                    count.see(u32::try_from(ready.len()).unwrap_or(u32::MAX).saturating_add(1), Instant::now());
                    others = ready.iter().filter_map(|pod| Some((pod.name_any(), address(pod, is_ipv4)?))).collect();
                    holds = true;
                }
                News::Failed(Fault::Denied(why)) => {
                    holds = true;
                    if !std::mem::replace(&mut is_denied, true) {
                        tracing::info!(why, "without permission to list and watch the pods of the fleet, {LOST}");
                    }
                }
                News::Failed(fault) => tracing::debug!(%fault, "the replicas of the fleet cannot be counted; tried again"),
            },
            () = &mut patience, if !holds => holds = true,
            () = sleep_until(falls.unwrap_or_else(Instant::now)), if falls.is_some() => count.fall(Instant::now()),
        }
        if holds && (told.count, &told.others) != (count.held, &others) {
            tracing::debug!(replicas = count.held, "limits of the fleet are divided by the ready replicas");
            told = ReadyReplicas { count: count.held, others: others.clone() };
            tell(told.clone());
        }
    }
}

/// What selects the pods of the fleet; `None` where the own pod is alone. Asks until the cluster says it.
async fn labels(client: Client, own: ObjectKey) -> Option<String> {
    let mut fleet = Fleet::new(&client, own, Arc::default()).losing(LOST);
    loop {
        match timeout(LEARN_AGAIN, fleet.learn()).await {
            Ok(Ok(())) => return fleet.selector(),
            Ok(Err(error)) => tracing::debug!(%error, "the labels of the fleet are not known; tried again"),
            Err(_) => tracing::debug!("the labels of the fleet are not known; tried again"),
        }
        sleep(LEARN_AGAIN).await;
    }
}

/// The replicas that are ready besides this one.
fn other_replicas(pods: &Followed<Pod>, own: &ObjectKey) -> Vec<Arc<Pod>> {
    let pods = pods.objects();
    let others = pods.values().filter(|pod| pod.name_any() != *own.name && is_ready(pod));
    others.cloned().collect()
}

/// Which count holds: a higher one at once, a lower one later.
struct Count {
    held: u32,
    fall: Option<Fall>,
}

/// Counts below the one that holds.
struct Fall {
    since: Instant,
    highest: u32,
    latest: u32,
}

impl Count {
    fn see(&mut self, ready: u32, now: Instant) {
        if ready >= self.held {
            *self = Self { held: ready, fall: None };
            return;
        }
        let fall = self.fall.get_or_insert(Fall { since: now, highest: ready, latest: ready });
        fall.highest = fall.highest.max(ready);
        fall.latest = ready;
    }

    fn falls_at(&self) -> Option<Instant> {
        self.fall.as_ref().map(|fall| fall.since + FALL_DELAY)
    }

    /// Takes the highest of the counts that were lower for long enough.
    fn fall(&mut self, now: Instant) {
        if self.falls_at().is_none_or(|at| now < at) {
            return;
        }
        if let Some(Fall { highest, latest, .. }) = self.fall.take() {
            self.held = highest;
            self.see(latest, now);
        }
    }
}

#[cfg(test)]
mod tests;
