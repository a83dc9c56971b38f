//! Starts the configuration source and serves the last good configuration until the source has delivered one.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use fairway_cluster::source::{Client, Cluster};
use fairway_cluster::{ReadyReplicas, Replicas, follow_ready_replicas};
use fairway_control::admin::Readiness;
use fairway_control::directory::{DirectoryUpdate, WatchedDirectory};
use fairway_control::state::{self, StateWriter};
use fairway_control::{ChangeBatch, Freshness, Pipeline};
use fairway_objects::object::ObjectKey;
use fairway_proxy::{Borrower, FleetLimits, FleetSize};

use super::gate::Gate;
use super::leases::run_rounds;
use super::reporting::{Reporting, SharedWithDataPlane};
use crate::args::{ClusterArgs, RunArgs, Source};

/// Timeout for the first configuration from files; 10,000 files take about a second.
const FIRST_CONFIGURATION_TIMEOUT: Duration = Duration::from_secs(600);
/// How long to wait for the API server after a start before the last good configuration is served.
const API_GRACE_PERIOD: Duration = Duration::from_secs(5);
/// Interval of the log messages about a source that has not delivered a configuration yet.
const REMINDER_INTERVAL: Duration = Duration::from_secs(10);

/// The running source.
pub(super) enum Feed {
    /// A directory of manifests.
    Directory(WatchedDirectory, PathBuf),
    /// A cluster, the reporting to it, and its number of replicas.
    Cluster(Arc<Cluster>, Reporting, FleetSize),
}

/// The other replicas.
#[derive(Clone)]
pub(super) enum Fleet {
    /// There are none: each process reads files for itself.
    Alone,
    /// Unknown, because the name of this pod is not set.
    Unknown,
    /// The replicas of the cluster.
    Of(Arc<Replicas>),
}

/// The state of the source, shared with other threads.
#[derive(Clone)]
pub(super) enum SourceCondition {
    /// A directory. Its problems are reported as diagnostics.
    Directory,
    /// A cluster.
    Cluster(Arc<Cluster>, Reporting, FleetSize),
}

impl Feed {
    pub(super) fn start(
        args: &RunArgs,
        source: &Source<'_>,
        pipeline: &Pipeline,
        gate: &Gate,
    ) -> Result<Self> {
        match source {
            Source::Manifests(manifests) => {
                let inlet = pipeline.inlet();
                let tell = move |DirectoryUpdate { changes, diagnostics, received_at: heard }| {
                    inlet.send(ChangeBatch { changes, diagnostics, received_at: heard, written: None });
                };
                let directory = WatchedDirectory::start(manifests, tell).context("--manifests")?;
                Ok(Self::Directory(directory, manifests.to_path_buf()))
            }
            Source::Kubernetes(cluster) => Self::cluster(args, cluster, pipeline, gate),
        }
    }

    fn cluster(args: &RunArgs, cluster: &ClusterArgs, pipeline: &Pipeline, gate: &Gate) -> Result<Self> {
        if let Some(directory) = &args.source.state_dir {
            let keeper = StateWriter::start(directory);
            gate.set_keeper(keeper.with_context(|| format!("--state-dir {}", directory.display()))?);
        }
        let selection = cluster.selection(args.options()?)?;
        let source =
            Cluster::start(cluster.credentials(), selection, pipeline.inlet()).context("--kubernetes")?;
        let (bindings, tickets, logouts) = (gate.bindings(), gate.tickets(), gate.logouts());
        let shared = SharedWithDataPlane { bindings, tickets, logouts };
        let reporting = Reporting::start(args, &source, pipeline, shared)?;
        let fleet = gate.fleet();
        match own_pod(args) {
            Some(own) => share_limits(args, &source, own, &fleet),
            None => fleet.size().set(1),
        }
        Ok(Self::Cluster(Arc::new(source), reporting, fleet.size().clone()))
    }

    /// Waits for the first configuration.
    pub(super) fn wait_for_first(&self, args: &RunArgs, pipeline: &Pipeline) -> Result<()> {
        let Self::Cluster(cluster, ..) = self else {
            let first = pipeline.wait_for_first(FIRST_CONFIGURATION_TIMEOUT);
            first.context("the first configuration took more than ten minutes")?;
            return Ok(());
        };
        if pipeline.wait_for_first(API_GRACE_PERIOD).is_some() {
            return Ok(());
        }
        if let Some(directory) = &args.source.state_dir {
            restore(directory, pipeline);
        }
        while pipeline.wait_for_first(REMINDER_INTERVAL).is_none() {
            let condition = cluster.condition();
            for problem in condition.problems() {
                tracing::warn!(problem, "nothing to serve yet");
            }
        }
        Ok(())
    }

    /// The client of the cluster, if the source is one.
    pub(super) fn client(&self) -> Option<Client> {
        match self {
            Self::Directory(..) => None,
            Self::Cluster(cluster, ..) => Some(cluster.client()),
        }
    }

    /// The other replicas.
    pub(super) fn replicas(&self, args: &RunArgs) -> Fleet {
        let Self::Cluster(cluster, ..) = self else { return Fleet::Alone };
        let Some(own) = own_pod(args) else { return Fleet::Unknown };
        let probe = args.listen.addresses.probe.first().copied();
        Fleet::Of(Arc::new(Replicas::new(&cluster.client(), own, probe)))
    }

    pub(super) fn condition(&self) -> SourceCondition {
        match self {
            Self::Directory(..) => SourceCondition::Directory,
            Self::Cluster(cluster, reporting, fleet_size) => {
                SourceCondition::Cluster(cluster.clone(), reporting.clone(), fleet_size.clone())
            }
        }
    }

    /// The reporting to stop when draining starts.
    pub(super) fn reporting(&self) -> Option<Reporting> {
        match self {
            Self::Directory(..) => None,
            Self::Cluster(_, reporting, _) => Some(reporting.clone()),
        }
    }

    pub(super) fn stop(self) {
        match self {
            Self::Directory(directory, _) => directory.stop(),
            Self::Cluster(cluster, reporting, _) => {
                reporting.stop();
                cluster.stop();
            }
        }
    }
}

/// Follows the ready replicas of the fleet, and borrows limit shares from them if they have a probe address.
fn share_limits(args: &RunArgs, source: &Cluster, own_pod: ObjectKey, fleet: &FleetLimits) {
    let probe = args.listen.addresses.probe.first().copied();
    let (name, limits) = (Arc::clone(&own_pod.name), fleet.clone());
    let tell = move |ready: ReadyReplicas| {
        // Set the count before shares are requested, because their size depends on it.
        limits.size().set(ready.count);
        let at = |(name, ip): (String, IpAddr)| Some((name.into(), SocketAddr::new(ip, probe?.port())));
        limits.set_members(Arc::clone(&name), ready.others.into_iter().filter_map(at).collect());
    };
    let is_ipv4 = probe.is_none_or(|probe| probe.is_ipv4());
    source.spawn(follow_ready_replicas(source.client(), own_pod, is_ipv4, tell));
    if probe.is_some()
        && let Some(borrower) = Borrower::new(fleet.clone())
    {
        source.spawn(run_rounds(borrower));
    }
}

/// Serves the last good configuration of an earlier process, if there is one.
fn restore(directory: &Path, pipeline: &Pipeline) {
    match state::load(directory) {
        Ok(Some(config)) => {
            tracing::warn!(
                "the API server has not responded: serving the last good configuration until it does"
            );
            pipeline.inlet().restore(config);
        }
        Ok(None) => tracing::warn!(
            directory = %directory.display(),
            "the API server has not responded and there is no earlier configuration: serving nothing until it does"
        ),
        Err(error) => tracing::error!(%error, "the last good configuration cannot be used"),
    }
}

/// The pod of this process, if the flags name it.
fn own_pod(args: &RunArgs) -> Option<ObjectKey> {
    let (namespace, name) = (args.report.pod_namespace.as_ref()?, args.report.pod_name.as_ref()?);
    Some(ObjectKey::new(namespace, name))
}

impl SourceCondition {
    /// Adds to the readiness what the source is still waiting for.
    pub(super) fn explain(&self, readiness: Readiness) -> Readiness {
        match (readiness, self) {
            (Readiness::Loading(_), Self::Cluster(cluster, ..)) => {
                let condition = cluster.condition();
                let problems: Vec<_> = condition.problems().collect();
                Readiness::Loading((!problems.is_empty()).then(|| problems.join("; ")))
            }
            // A ready pod gets traffic for Gateways, so it must listen for it.
            (Readiness::Ready { freshness: Freshness::Current, .. }, Self::Cluster(_, reporting, _))
                if !reporting.has_placed_gateways() =>
            {
                Readiness::Loading(Some("the ports of Gateways are not bound yet".to_owned()))
            }
            // The other replicas must be able to decrypt the login state that this one encrypts.
            (Readiness::Ready { freshness: Freshness::Current, .. }, Self::Cluster(_, reporting, _))
                if !reporting.knows_ticket_keys() =>
            {
                Readiness::Loading(Some(
                    "the session keys of the other replicas have not been read yet".to_owned(),
                ))
            }
            // Without the number of replicas, this one would apply the limit of the whole fleet alone.
            (Readiness::Ready { freshness: Freshness::Current, .. }, Self::Cluster(.., fleet_size))
                if !fleet_size.is_known() =>
            {
                Readiness::Loading(Some("the replicas have not been counted yet".to_owned()))
            }
            (Readiness::Draining { .. }, Self::Cluster(_, reporting, _)) => {
                Readiness::Draining { pod_is_deleted: reporting.pod_is_deleted() }
            }
            (readiness, _) => readiness,
        }
    }

    /// The metrics of the source. `identity` are the labels that all metrics of ingress-nginx have.
    pub(super) fn metrics_text(&self, identity: &str) -> String {
        match self {
            Self::Directory => String::new(),
            Self::Cluster(cluster, reporting, _) => {
                cluster.condition().metrics_text() + &reporting.metrics_text(identity)
            }
        }
    }
}

impl fmt::Display for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(_, path) => write!(f, "{}", path.display()),
            Self::Cluster(..) => f.write_str("the Kubernetes API"),
        }
    }
}
