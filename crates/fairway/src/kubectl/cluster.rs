//! Finds the Fairway pods of a cluster.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use fairway_cluster::pods::{self, FairwayPod};
use fairway_cluster::source::{self, Client};

use crate::args::PodArgs;

/// A cluster and its Fairway pods, at least one.
#[derive(Clone)]
pub(super) struct Cluster {
    pub(super) client: Client,
    pub(super) pods: Vec<FairwayPod>,
    args: PodArgs,
}

impl Cluster {
    /// # Errors
    /// The cluster cannot be reached, its pods cannot be listed, or it has no Fairway pod.
    pub(super) async fn find(args: &PodArgs) -> Result<Self> {
        let client = source::connect(&args.credentials()).await?;
        let mut cluster = Self { client, pods: Vec::new(), args: args.clone() };
        cluster.pods = cluster.list().await?;
        Ok(cluster)
    }

    /// The same cluster with its current pods.
    ///
    /// # Errors
    /// The pods cannot be listed, or there is no Fairway pod.
    pub(super) async fn refreshed(&self) -> Result<Self> {
        Ok(Self { pods: self.list().await?, ..self.clone() })
    }

    async fn list(&self) -> Result<Vec<FairwayPod>> {
        let found = pods::find_pods(&self.client, &self.args.search()).await;
        let mut found = found.with_context(|| match &self.args.context {
            Some(context) => format!("context {context}"),
            None => "the current context".to_owned(),
        })?;
        if let Some(name) = &self.args.pod {
            let names: Vec<_> = found.iter().map(|pod| pod.name.clone()).collect();
            found.retain(|pod| pod.name == *name);
            if found.is_empty() {
                bail!("--pod {name}: is not a Fairway pod; the Fairway pods are {}", names.join(", "));
            }
        }
        if let Some(port) = self.args.admin_port {
            found.iter_mut().for_each(|pod| pod.admin_port = port);
        }
        Ok(found)
    }

    /// Checks that all pods belong to one installation.
    ///
    /// # Errors
    /// They belong to several installations, which may serve different configurations.
    pub(super) fn one_installation(self) -> Result<Self> {
        let installations: BTreeSet<_> = self.pods.iter().map(installation).collect();
        if installations.len() > 1 {
            let all: Vec<_> = installations.into_iter().collect();
            bail!(
                "Fairway is installed more than once: {}; choose one with --fairway-namespace NS, or with \
                 -l app.kubernetes.io/instance=NAME",
                all.join(" and ")
            );
        }
        Ok(self)
    }
}

/// Describes the installation of a pod.
pub(super) fn installation(pod: &FairwayPod) -> String {
    match &*pod.instance {
        "" => format!("namespace {}", pod.namespace),
        instance => format!("instance {instance} in namespace {}", pod.namespace),
    }
}
