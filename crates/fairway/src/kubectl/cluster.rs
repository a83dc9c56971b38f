//! A cluster with its Fairway pods.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use fairway_cluster::pods::{self, FairwayPod};
use fairway_cluster::source::{self, Client};

use crate::args::PodArgs;

/// A cluster with its Fairway pods; at least one.
#[derive(Clone)]
pub(super) struct Cluster {
    pub(super) client: Client,
    pub(super) pods: Vec<FairwayPod>,
    args: PodArgs,
}

impl Cluster {
    /// # Errors
    /// There is no way to the cluster, its pods cannot be listed, or there is none of Fairway.
    pub(super) async fn find(args: &PodArgs) -> Result<Self> {
        let client = source::connect(&args.credentials()).await?;
        let mut cluster = Self { client, pods: Vec::new(), args: args.clone() };
        cluster.pods = cluster.list().await?;
        Ok(cluster)
    }

    /// The same with the pods of now.
    ///
    /// # Errors
    /// They cannot be listed, or there is none of Fairway.
    pub(super) async fn again(&self) -> Result<Self> {
        Ok(Self { pods: self.list().await?, ..self.clone() })
    }

    async fn list(&self) -> Result<Vec<FairwayPod>> {
        let found = pods::find(&self.client, &self.args.search()).await;
        let mut found = found.with_context(|| match &self.args.context {
            Some(context) => format!("context {context}"),
            None => "the current context".to_owned(),
        })?;
        if let Some(name) = &self.args.pod {
            let names: Vec<_> = found.iter().map(|pod| pod.name.clone()).collect();
            found.retain(|pod| pod.name == *name);
            if found.is_empty() {
                bail!("--pod {name}: is no Fairway pod; there is {}", names.join(", "));
            }
        }
        if let Some(port) = self.args.admin_port {
            found.iter_mut().for_each(|pod| pod.admin_port = port);
        }
        Ok(found)
    }

    /// The same, where all its pods are of one installation.
    ///
    /// # Errors
    /// They are of several, whose answers may differ.
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

/// Which installation a pod belongs to, in words.
pub(super) fn installation(pod: &FairwayPod) -> String {
    match &*pod.instance {
        "" => format!("namespace {}", pod.namespace),
        instance => format!("instance {instance} in namespace {}", pod.namespace),
    }
}
