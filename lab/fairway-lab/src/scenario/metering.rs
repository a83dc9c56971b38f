//! The meter of a peer's pods while streams run: it follows pods that come and go, and reads their cgroups where they run
//! on this machine, else the counters of their kubelets. Never decides what a phase is.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fairway_lab_measure::results::Cost;
use fairway_lab_measure::{Meter, Sample, SampledUsage, Spent, Subject};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::cluster::{Cluster, ProxyPod};
use crate::peers::CpuSource;

/// How often pods are listed and cgroups are read.
const CGROUP_INTERVAL: Duration = Duration::from_millis(500);
/// How often the API server is queried: samples are renewed about every 10 s.
const METRICS_INTERVAL: Duration = Duration::from_secs(2);

/// A meter that is running.
pub(super) struct Metering {
    gauge: Arc<Mutex<Gauge>>,
    follow: Follow,
    reader: JoinHandle<()>,
}

/// The measured peer.
#[derive(Clone)]
pub(super) struct Follow {
    pub(super) cluster: Arc<Cluster>,
    pub(super) namespace: String,
    /// Without a source, usage cannot be read.
    pub(super) selector: Option<String>,
    pub(super) source: CpuSource,
}

/// The source of measurements.
enum Gauge {
    /// By their cgroups, on these nodes, which are this machine.
    Here { meter: Meter, nodes: BTreeSet<String>, elsewhere: Option<String> },
    /// From samples of the kubelets.
    There(SampledUsage),
    /// Unknown, with the reason.
    Nothing(String),
}

/// The usage between two cuts, or why it is unknown.
#[derive(Clone, Debug, Default)]
pub(super) struct MeteredUsage {
    pub(super) spent: Spent,
    source: &'static str,
    container_count: usize,
    unread: Option<String>,
}

impl MeteredUsage {
    /// Adds the usage of the following period.
    pub(super) fn and(self, next: &Self) -> Self {
        Self {
            spent: self.spent.and(&next.spent),
            source: next.source,
            container_count: self.container_count.max(next.container_count),
            unread: self.unread.or_else(|| next.unread.clone()),
        }
    }

    /// The cost of `requests` requests, or why it is unknown.
    pub(super) fn cost(&self, requests: u64) -> Result<Cost, String> {
        if let Some(reason) = &self.unread {
            return Err(reason.clone());
        }
        let unit = if self.source == "cgroup" { "containers" } else { "pods" };
        self.spent.cost(requests, self.source, &format!("{} {unit}", self.container_count))
    }
}

/// A cost or the reason why it is unknown, in the format of a measure.
pub(super) fn split(cost: Result<Cost, String>) -> (Option<Cost>, Option<String>) {
    match cost {
        Ok(cost) => (Some(cost), None),
        Err(reason) => (None, Some(reason)),
    }
}

impl Follow {
    async fn pods(&self) -> anyhow::Result<Vec<ProxyPod>> {
        let Some(selector) = &self.selector else { return Ok(Vec::new()) };
        let mut pods = self.cluster.pods(&self.namespace, selector).await?;
        pods.retain(|pod| !pod.containers.is_empty());
        Ok(pods)
    }

    async fn samples(&self, pods: &[ProxyPod]) -> anyhow::Result<Vec<Sample>> {
        self.cluster.kubelets(&nodes(pods), &self.namespace).await
    }

    /// Chooses how these pods are read.
    async fn gauge(&self, pods: &[ProxyPod]) -> Gauge {
        let Some(selector) = &self.selector else {
            return Gauge::Nothing("its pods are not known: describe it with selector=LABELS".to_owned());
        };
        if pods.is_empty() {
            return Gauge::Nothing(format!(
                "no pod that runs in {} has the labels {selector}",
                self.namespace
            ));
        }
        let mut reasons = Vec::new();
        if self.source != CpuSource::Kubelet {
            let on_this_machine = machine(pods);
            if pods.iter().all(|pod| pod.node.as_ref().is_some_and(|node| on_this_machine.contains(node))) {
                return Gauge::Here {
                    meter: Meter::start(&subjects(pods)),
                    nodes: on_this_machine,
                    elsewhere: None,
                };
            }
            reasons.push(format!("the cgroups of pods of {} cannot be seen from here", self.namespace));
        }
        if self.source != CpuSource::Cgroup {
            match self.samples(pods).await {
                Ok(samples) => return Gauge::There(SampledUsage::start(now(), &samples)),
                Err(error) => reasons.push(format!("{error:#}")),
            }
        }
        Gauge::Nothing(reasons.join("; "))
    }

    /// Reads current values. After a failure the previous readings stay; the next read catches up.
    async fn read(&self, gauge: &mut Gauge) -> anyhow::Result<usize> {
        let pods = self.pods().await?;
        match gauge {
            Gauge::Here { meter, nodes, elsewhere } => {
                let subjects = subjects(&pods);
                meter.read(&subjects);
                let stranger =
                    pods.iter().find(|pod| pod.node.as_ref().is_some_and(|node| !nodes.contains(node)));
                if let Some(pod) = stranger {
                    let node = pod.node.as_deref().unwrap_or_default();
                    *elsewhere = Some(format!(
                        "pod {} came up on node {node}, whose cgroups are not here; say cpu=kubelet",
                        pod.name
                    ));
                }
                Ok(subjects.len())
            }
            Gauge::There(sampled) => {
                let samples = self.samples(&pods).await?;
                let names: Vec<_> = pods.into_iter().map(|pod| pod.name).collect();
                sampled.read(now(), &names, &samples);
                Ok(names.len())
            }
            Gauge::Nothing(_) => Ok(0),
        }
    }
}

impl Gauge {
    fn interval(&self) -> Duration {
        match self {
            Self::There(_) => METRICS_INTERVAL,
            Self::Here { .. } | Self::Nothing(_) => CGROUP_INTERVAL,
        }
    }
}

fn subjects(pods: &[ProxyPod]) -> Vec<Subject> {
    pods.iter().flat_map(|pod| &pod.containers).cloned().map(Subject::Container).collect()
}

/// The nodes whose cgroups are visible from here: one visible container is enough, because another may just have ended.
fn machine(pods: &[ProxyPod]) -> BTreeSet<String> {
    let is_local = |pod: &&ProxyPod| {
        pod.containers.iter().cloned().map(Subject::Container).any(|subject| Meter::reads(&subject))
    };
    pods.iter().filter(is_local).filter_map(|pod| pod.node.clone()).collect()
}

fn nodes(pods: &[ProxyPod]) -> BTreeSet<String> {
    pods.iter().filter_map(|pod| pod.node.clone()).collect()
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

impl Metering {
    pub(super) async fn start(follow: Follow) -> anyhow::Result<Self> {
        let gauge = follow.gauge(&follow.pods().await?).await;
        let interval = gauge.interval();
        let gauge = Arc::new(Mutex::new(gauge));
        let (shared, followed) = (gauge.clone(), follow.clone());
        let reader = tokio::spawn(async move {
            loop {
                tokio::time::sleep(interval).await;
                if let Err(error) = followed.read(&mut *shared.lock().await).await {
                    tracing::debug!(%error, "pods could not be read this time");
                }
            }
        });
        Ok(Self { gauge, follow, reader })
    }

    /// The usage since the start or the last cut.
    pub(super) async fn cut(&mut self) -> anyhow::Result<MeteredUsage> {
        let mut gauge = self.gauge.lock().await;
        let reading = match self.follow.read(&mut gauge).await {
            Ok(reading) => reading,
            // Samples are then missing, and their number is counted.
            Err(error) if matches!(*gauge, Gauge::There(_)) => {
                tracing::debug!(%error, "samples could not be had at the end");
                0
            }
            Err(error) => return Err(error),
        };
        let metered = match &mut *gauge {
            Gauge::Here { meter, elsewhere, .. } => MeteredUsage {
                spent: meter.spent(),
                source: "cgroup",
                container_count: reading,
                unread: elsewhere.take(),
            },
            Gauge::There(sampled) => {
                let spent = sampled.spent();
                sampled.cut();
                return Ok(MeteredUsage { spent, source: "kubelet", container_count: reading, unread: None });
            }
            Gauge::Nothing(reason) => {
                return Ok(MeteredUsage { unread: Some(reason.clone()), ..MeteredUsage::default() });
            }
        };
        *gauge = self.follow.gauge(&self.follow.pods().await?).await;
        Ok(metered)
    }

    /// Ends it; [`Metering::cut`] comes first.
    pub(super) fn end(self) {
        self.reader.abort();
    }
}

#[cfg(test)]
#[path = "metering_tests.rs"]
mod tests;
