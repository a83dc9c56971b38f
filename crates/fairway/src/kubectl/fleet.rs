//! The replicas to query: pods of a cluster through port-forwards, or processes by their admin addresses.

use std::fmt;
use std::net::SocketAddr;

use anyhow::{Context, Result, anyhow, bail};
use fairway_cluster::pods::{self, FairwayPod, Tunnel};
use fairway_cluster::source::Client;

use super::cluster::Cluster;
use crate::admin_client::{self, Extent};
use crate::args::TargetArgs;

/// The Host header for the admin server, which it accepts at every address.
const ADMIN_HOST: &str = "localhost";

/// A replica.
#[derive(Clone)]
pub(crate) enum Replica {
    /// A process with this admin address.
    Process(SocketAddr),
    /// A pod.
    Pod { client: Client, pod: Box<FairwayPod> },
}

/// The replicas to query, at least one.
pub(crate) struct Fleet {
    pub(crate) replicas: Vec<Replica>,
    /// The cluster of the pods.
    cluster: Option<Cluster>,
}

/// A page of a replica's admin server.
pub(crate) struct ReplicaPage {
    /// Name of the replica.
    pub(crate) replica: String,
    pub(crate) body: Vec<u8>,
}

impl Fleet {
    /// Finds the replicas of all installations.
    ///
    /// # Errors
    /// There is none, or the cluster cannot be queried.
    pub(super) async fn find(args: &TargetArgs) -> Result<Self> {
        Ok(match args.admin {
            Some(admin) => Self { replicas: vec![Replica::Process(admin)], cluster: None },
            None => Self::from_cluster(Cluster::find(&args.pods).await?),
        })
    }

    /// Finds the replicas of the only installation.
    ///
    /// # Errors
    /// There is no replica, there are several installations, or the cluster cannot be queried.
    pub(crate) async fn find_one(args: &TargetArgs) -> Result<Self> {
        let Self { replicas, cluster } = Self::find(args).await?;
        match cluster {
            Some(cluster) => Ok(Self::from_cluster(cluster.one_installation()?)),
            None => Ok(Self { replicas, cluster: None }),
        }
    }

    /// The processes with these admin addresses.
    pub(crate) fn of_processes(admins: &[SocketAddr]) -> Self {
        Self { replicas: admins.iter().copied().map(Replica::Process).collect(), cluster: None }
    }

    fn from_cluster(cluster: Cluster) -> Self {
        let replica =
            |pod: &FairwayPod| Replica::Pod { client: cluster.client.clone(), pod: Box::new(pod.clone()) };
        Self { replicas: cluster.pods.iter().map(replica).collect(), cluster: Some(cluster) }
    }

    /// Updates the list of pods. Keeps the known pods if they cannot be listed.
    pub(super) async fn refresh(&mut self) {
        let Some(cluster) = &self.cluster else { return };
        let now = cluster.refreshed().await;
        if let Ok(cluster) = now {
            *self = Self::from_cluster(cluster);
        }
    }

    /// The namespace of the objects to show unless a flag names another one; `None` without a cluster.
    pub(super) fn default_namespace(&self) -> Option<&str> {
        self.cluster.as_ref().map(|cluster| cluster.client.default_namespace())
    }

    /// Queries all replicas concurrently. The results are in the order of the replicas.
    pub(crate) async fn query_all<T, F>(&self, ask: impl Fn(Replica) -> F) -> Result<Vec<T>>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let tasks: Vec<_> = self.replicas.iter().map(|replica| tokio::spawn(ask(replica.clone()))).collect();
        let mut results = Vec::new();
        for result in tasks {
            results.push(result.await?);
        }
        Ok(results)
    }

    /// The page `path` of the first replica that responds. Ready replicas are tried first.
    ///
    /// # Errors
    /// No replica responds.
    pub(crate) async fn first_page(&self, path: &str) -> Result<ReplicaPage> {
        let (ready, others): (Vec<_>, Vec<_>) = self.replicas.iter().partition(|it| it.is_ready());
        let mut problems = Vec::new();
        for replica in ready.into_iter().chain(others) {
            match replica.page(path, Extent::Whole).await {
                Ok(body) => return Ok(ReplicaPage { replica: replica.to_string(), body }),
                Err(error) => problems.push(format!("{error:#}")),
            }
        }
        bail!("{}", problems.join("; "))
    }
}

impl Replica {
    /// Whether the cluster reports the pod as ready. A process always counts as ready.
    fn is_ready(&self) -> bool {
        match self {
            Self::Process(_) => true,
            Self::Pod { pod, .. } => pod.is_ready,
        }
    }

    /// Requests a page of the replica's admin server.
    ///
    /// # Errors
    /// The replica cannot be reached, or does not return the page.
    pub(crate) async fn page(&self, path: &str, extent: Extent) -> Result<Vec<u8>> {
        match self {
            Self::Process(admin) => {
                admin_client::page_up_to(*admin, path, extent).await.with_context(|| self.to_string())
            }
            Self::Pod { client, pod } => {
                // Errors of `connect` already name the pod.
                let Tunnel { stream, refusal } = pods::connect(client, pod, pod.admin_port).await?;
                let page = tokio::select! {
                    biased;
                    refusal = refusal => Err(anyhow!("no response on port {}: {refusal}", pod.admin_port)),
                    page = admin_client::request_page(stream, ADMIN_HOST, path, extent) => page,
                };
                page.with_context(|| self.to_string())
            }
        }
    }
}

impl fmt::Display for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(admin) => write!(f, "the process at {admin}"),
            Self::Pod { pod, .. } => write!(f, "the pod {}/{}", pod.namespace, pod.name),
        }
    }
}
