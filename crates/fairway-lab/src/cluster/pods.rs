//! Pods: which are there, and whether a Deployment has exactly those that it should have.

use std::net::IpAddr;

use anyhow::Context;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::{Api, DeleteParams, ListParams};

use super::client::Cluster;
use super::wait;

/// A pod whose cost is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyPod {
    /// Its name.
    pub name: String,
    /// Its uid, by which cgroups may be named.
    pub uid: String,
    /// Its address, once it has one.
    pub address: Option<IpAddr>,
    /// The node it runs on, once it has one.
    pub node: Option<String>,
    /// The identifiers of its containers that run, without the runtime's prefix.
    pub containers: Vec<String>,
}

impl ProxyPod {
    fn of(pod: Pod) -> Self {
        let status = pod.status.unwrap_or_default();
        let containers = status.container_statuses.unwrap_or_default();
        let runs = |container: &ContainerStatus| {
            container.state.as_ref().is_some_and(|state| state.running.is_some())
        };
        Self {
            name: pod.metadata.name.unwrap_or_default(),
            uid: pod.metadata.uid.unwrap_or_default(),
            address: status.pod_ip.and_then(|address| address.parse().ok()),
            node: pod.spec.and_then(|spec| spec.node_name),
            containers: containers
                .into_iter()
                .filter(runs)
                .filter_map(|container| container.container_id)
                .map(|id| id.rsplit("//").next().unwrap_or_default().to_owned())
                .collect(),
        }
    }
}

impl Cluster {
    /// The pods that a label selector finds.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn pods(&self, namespace: &str, selector: &str) -> anyhow::Result<Vec<ProxyPod>> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let found = api
            .list(&ListParams::default().labels(selector))
            .await
            .with_context(|| format!("list the pods of {namespace} with {selector}"))?;
        Ok(found.items.into_iter().map(ProxyPod::of).collect())
    }

    /// Waits until a Deployment has as many ready pods as it should have, of its newest template, and no other.
    ///
    /// # Errors
    /// It does not get there.
    pub async fn settled(&self, namespace: &str, deployment: &str) -> anyhow::Result<()> {
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), namespace);
        let what = format!("Deployment {namespace}/{deployment} has its pods");
        wait::until(&what, async || Ok(is_settled(&api.get(deployment).await?).then_some(()))).await
    }

    /// Ends pods at once, however long they would like to drain.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn evict(&self, namespace: &str) -> anyhow::Result<()> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let at_once = DeleteParams::default().grace_period(0);
        api.delete_collection(&at_once, &ListParams::default())
            .await
            .map(|_| ())
            .with_context(|| format!("remove the pods of {namespace}"))
    }

    /// Waits until a Deployment's pods are gone, those that are still ending too.
    ///
    /// # Errors
    /// They stay.
    pub async fn vacant(&self, namespace: &str, selector: &str) -> anyhow::Result<()> {
        let what = format!("the pods of {namespace} with {selector} are gone");
        wait::until(&what, async || Ok(self.pods(namespace, selector).await?.is_empty().then_some(()))).await
    }
}

fn is_settled(deployment: &Deployment) -> bool {
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let Some(status) = &deployment.status else { return false };
    status.observed_generation == deployment.metadata.generation
        && status.replicas.unwrap_or(0) == wanted
        && status.updated_replicas.unwrap_or(0) == wanted
        && status.ready_replicas.unwrap_or(0) == wanted
}
