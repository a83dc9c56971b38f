//! The replicas that are asked: pods of a cluster through port-forwards, or one process by its admin address.

use std::fmt;
use std::net::SocketAddr;

use anyhow::{Context, Result, anyhow, bail};
use fairway_cluster::pods::{self, FairwayPod, Tunnel};
use fairway_cluster::source::Client;

use super::cluster::Cluster;
use crate::args::AskedArgs;
use crate::ask::{self, Extent};

/// The admin server answers by this name whatever its address is.
const HOST: &str = "localhost";

/// One process.
#[derive(Clone)]
pub(crate) enum Replica {
    /// By the address of its admin server.
    Process(SocketAddr),
    /// In a pod.
    Pod { client: Client, pod: Box<FairwayPod> },
}

/// The replicas that are asked; at least one.
pub(crate) struct Fleet {
    pub(crate) replicas: Vec<Replica>,
    /// The cluster that they are in.
    cluster: Option<Cluster>,
}

/// A page of one replica.
pub(crate) struct Answer {
    /// Whose it is.
    pub(crate) replica: String,
    pub(crate) body: Vec<u8>,
}

impl Fleet {
    /// All of them, of all installations.
    ///
    /// # Errors
    /// There is none, or the cluster cannot be asked.
    pub(super) async fn find(args: &AskedArgs) -> Result<Self> {
        Ok(match args.admin {
            Some(admin) => Self { replicas: vec![Replica::Process(admin)], cluster: None },
            None => Self::of(Cluster::find(&args.pods).await?),
        })
    }

    /// Those of one installation, which serve the same.
    ///
    /// # Errors
    /// There is none, there are several installations, or the cluster cannot be asked.
    pub(crate) async fn find_one(args: &AskedArgs) -> Result<Self> {
        let Self { replicas, cluster } = Self::find(args).await?;
        match cluster {
            Some(cluster) => Ok(Self::of(cluster.one_installation()?)),
            None => Ok(Self { replicas, cluster: None }),
        }
    }

    /// The processes with these admin addresses.
    pub(crate) fn of_processes(admins: &[SocketAddr]) -> Self {
        Self { replicas: admins.iter().copied().map(Replica::Process).collect(), cluster: None }
    }

    fn of(cluster: Cluster) -> Self {
        let replica =
            |pod: &FairwayPod| Replica::Pod { client: cluster.client.clone(), pod: Box::new(pod.clone()) };
        Self { replicas: cluster.pods.iter().map(replica).collect(), cluster: Some(cluster) }
    }

    /// Looks for the pods of now, and keeps those that are known where they cannot be listed.
    pub(super) async fn refresh(&mut self) {
        let Some(cluster) = &self.cluster else { return };
        let now = cluster.again().await;
        if let Ok(cluster) = now {
            *self = Self::of(cluster);
        }
    }

    /// The namespace that objects are shown of unless a flag names another one; `None` without a cluster.
    pub(super) fn default_namespace(&self) -> Option<&str> {
        self.cluster.as_ref().map(|cluster| cluster.client.default_namespace())
    }

    /// What each replica gives, in their order. All are asked at the same time.
    pub(crate) async fn each<T, F>(&self, ask: impl Fn(Replica) -> F) -> Result<Vec<T>>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let asked: Vec<_> = self.replicas.iter().map(|replica| tokio::spawn(ask(replica.clone()))).collect();
        let mut given = Vec::new();
        for answer in asked {
            given.push(answer.await?);
        }
        Ok(given)
    }

    /// The page `path` of a replica, whichever answers: those that are ready are asked first.
    ///
    /// # Errors
    /// No replica answers.
    pub(crate) async fn any(&self, path: &str) -> Result<Answer> {
        let (ready, others): (Vec<_>, Vec<_>) = self.replicas.iter().partition(|it| it.is_ready());
        let mut problems = Vec::new();
        for replica in ready.into_iter().chain(others) {
            match replica.page(path, Extent::Whole).await {
                Ok(body) => return Ok(Answer { replica: replica.to_string(), body }),
                Err(error) => problems.push(format!("{error:#}")),
            }
        }
        bail!("{}", problems.join("; "))
    }
}

impl Replica {
    /// Whether the cluster says that it is ready. Of a process nobody says otherwise.
    fn is_ready(&self) -> bool {
        match self {
            Self::Process(_) => true,
            Self::Pod { pod, .. } => pod.is_ready,
        }
    }

    /// A page of its admin server.
    ///
    /// # Errors
    /// It cannot be reached, or does not answer with the page.
    pub(crate) async fn page(&self, path: &str, extent: Extent) -> Result<Vec<u8>> {
        match self {
            Self::Process(admin) => ask::part(*admin, path, extent).await.with_context(|| self.to_string()),
            Self::Pod { client, pod } => {
                // Its errors name the pod.
                let Tunnel { stream, refusal } = pods::connect(client, pod, pod.admin_port).await?;
                let answer = tokio::select! {
                    biased;
                    refusal = refusal => Err(anyhow!("nothing answers on port {}: {refusal}", pod.admin_port)),
                    answer = ask::read(stream, HOST, path, extent) => answer,
                };
                answer.with_context(|| self.to_string())
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
