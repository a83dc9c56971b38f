//! The source of configuration: which one, what it waits for, and what is served until it has told something.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use fairway_cluster::source::{Client, Cluster};
use fairway_cluster::{ReadyReplicas, Replicas, follow_ready_replicas};
use fairway_control::admin::Readiness;
use fairway_control::directory::{Directory, News};
use fairway_control::state::{self, Keeper};
use fairway_control::{Batch, Freshness, Pipeline};
use fairway_objects::object::ObjectKey;
use fairway_proxy::{Borrower, FleetLimits, FleetSize};

use super::gate::Gate;
use super::leases::run_rounds;
use super::reporting::{Reporting, SharedWithDataPlane};
use crate::args::{ClusterArgs, RunArgs, Source};

/// How long the first configuration from files may take; 10,000 files take about a second.
const FIRST_CONFIGURATION: Duration = Duration::from_secs(600);
/// How long the API may be silent after a start before the last good configuration is served.
const SILENCE: Duration = Duration::from_secs(5);
/// How often a start without a configuration says what it waits for.
const REMINDER: Duration = Duration::from_secs(10);

/// The running source.
pub(super) enum Feed {
    /// A directory.
    Directory(Directory, PathBuf),
    /// A cluster, what it is told in return, and how many replicas it has.
    Cluster(Arc<Cluster>, Reporting, FleetSize),
}

/// Which replicas there are besides this one.
#[derive(Clone)]
pub(super) enum Fleet {
    /// None: files are read by each process for itself.
    Alone,
    /// Nobody said which pod this is.
    Unknown,
    /// Those that this tells of.
    Of(Arc<Replicas>),
}

/// What a source says about itself, for other threads.
#[derive(Clone)]
pub(super) enum Condition {
    /// A directory has nothing to say: its problems are diagnostics.
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
                let tell = move |News { changes, diagnostics, heard }| {
                    inlet.send(Batch { changes, diagnostics, heard, written: None });
                };
                let directory = Directory::start(manifests, tell).context("--manifests")?;
                Ok(Self::Directory(directory, manifests.to_path_buf()))
            }
            Source::Kubernetes(cluster) => Self::cluster(args, cluster, pipeline, gate),
        }
    }

    fn cluster(args: &RunArgs, cluster: &ClusterArgs, pipeline: &Pipeline, gate: &Gate) -> Result<Self> {
        if let Some(directory) = &args.source.state_dir {
            let keeper = Keeper::start(directory);
            gate.keep(keeper.with_context(|| format!("--state-dir {}", directory.display()))?);
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

    /// Waits for something to serve.
    pub(super) fn wait_for_first(&self, args: &RunArgs, pipeline: &Pipeline) -> Result<()> {
        let Self::Cluster(cluster, ..) = self else {
            let first = pipeline.wait_for_first(FIRST_CONFIGURATION);
            first.context("the first configuration took more than ten minutes")?;
            return Ok(());
        };
        if pipeline.wait_for_first(SILENCE).is_some() {
            return Ok(());
        }
        if let Some(directory) = &args.source.state_dir {
            restore(directory, pipeline);
        }
        while pipeline.wait_for_first(REMINDER).is_none() {
            let condition = cluster.condition();
            for problem in condition.problems() {
                tracing::warn!(problem, "nothing to serve yet");
            }
        }
        Ok(())
    }

    /// The client of the cluster, where there is one.
    pub(super) fn client(&self) -> Option<Client> {
        match self {
            Self::Directory(..) => None,
            Self::Cluster(cluster, ..) => Some(cluster.client()),
        }
    }

    /// Which replicas there are besides this one.
    pub(super) fn replicas(&self, args: &RunArgs) -> Fleet {
        let Self::Cluster(cluster, ..) = self else { return Fleet::Alone };
        let Some(own) = own_pod(args) else { return Fleet::Unknown };
        let probe = args.listen.addresses.probe.first().copied();
        Fleet::Of(Arc::new(Replicas::new(&cluster.client(), own, probe)))
    }

    pub(super) fn condition(&self) -> Condition {
        match self {
            Self::Directory(..) => Condition::Directory,
            Self::Cluster(cluster, reporting, fleet_size) => {
                Condition::Cluster(cluster.clone(), reporting.clone(), fleet_size.clone())
            }
        }
    }

    /// What is to be done when the drain begins.
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

/// Follows the ready replicas of the fleet, and borrows from them where they answer probes.
fn share_limits(args: &RunArgs, source: &Cluster, own: ObjectKey, fleet: &FleetLimits) {
    let probe = args.listen.addresses.probe.first().copied();
    let (name, limits) = (Arc::clone(&own.name), fleet.clone());
    let tell = move |ready: ReadyReplicas| {
        // Before shares are asked for by this number.
        limits.size().set(ready.count);
        let at = |(name, ip): (String, IpAddr)| Some((name.into(), SocketAddr::new(ip, probe?.port())));
        limits.set_members(Arc::clone(&name), ready.others.into_iter().filter_map(at).collect());
    };
    let is_ipv4 = probe.is_none_or(|probe| probe.is_ipv4());
    source.spawn(follow_ready_replicas(source.client(), own, is_ipv4, tell));
    if probe.is_some()
        && let Some(borrower) = Borrower::new(fleet.clone())
    {
        source.spawn(run_rounds(borrower));
    }
}

/// Serves what an earlier process served, if that is known.
fn restore(directory: &Path, pipeline: &Pipeline) {
    match state::load(directory) {
        Ok(Some(config)) => {
            tracing::warn!("the API has not answered: the last good configuration is served until it does");
            pipeline.inlet().restore(config);
        }
        Ok(None) => tracing::warn!(
            directory = %directory.display(),
            "the API has not answered, and no earlier configuration is kept: nothing is served until it does"
        ),
        Err(error) => tracing::error!(%error, "the last good configuration cannot be used"),
    }
}

/// The pod that this process runs in, where somebody said it.
fn own_pod(args: &RunArgs) -> Option<ObjectKey> {
    let (namespace, name) = (args.report.pod_namespace.as_ref()?, args.report.pod_name.as_ref()?);
    Some(ObjectKey::new(namespace, name))
}

impl Condition {
    /// The readiness with what the source waits for.
    pub(super) fn explain(&self, readiness: Readiness) -> Readiness {
        match (readiness, self) {
            (Readiness::Loading(_), Self::Cluster(cluster, ..)) => {
                let condition = cluster.condition();
                let problems: Vec<_> = condition.problems().collect();
                Readiness::Loading((!problems.is_empty()).then(|| problems.join("; ")))
            }
            // Who is sent traffic for a Gateway must be listening for it.
            (Readiness::Ready { freshness: Freshness::Current, .. }, Self::Cluster(_, reporting, _))
                if !reporting.has_placed_gateways() =>
            {
                Readiness::Loading(Some("the ports of Gateways are not bound yet".to_owned()))
            }
            // What it encrypts for a login must open on the other replicas.
            (Readiness::Ready { freshness: Freshness::Current, .. }, Self::Cluster(_, reporting, _))
                if !reporting.knows_ticket_keys() =>
            {
                Readiness::Loading(Some("the session keys of the other replicas are not read yet".to_owned()))
            }
            // Until it knows of the others, it would let through what all of them may together.
            (Readiness::Ready { freshness: Freshness::Current, .. }, Self::Cluster(.., fleet_size))
                if !fleet_size.is_known() =>
            {
                Readiness::Loading(Some("the replicas are not counted yet".to_owned()))
            }
            (Readiness::Draining { .. }, Self::Cluster(_, reporting, _)) => {
                Readiness::Draining { pod_is_deleted: reporting.pod_is_deleted() }
            }
            (readiness, _) => readiness,
        }
    }

    /// What it counts; `identity` are the labels that the metrics of ingress-nginx all have.
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
