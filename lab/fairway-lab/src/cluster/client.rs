//! An existing cluster: access to its API, its version and its addresses.

use std::collections::HashMap;
use std::net::IpAddr;

use anyhow::Context;
use k8s_openapi::api::core::v1::{Node, Service};
use kube::api::{Api, ApiResource, ListParams};
use kube::core::GroupVersionKind;
use tokio::sync::Mutex;

use super::wait;
#[cfg(doc)]
use super::wait::WAIT_TIMEOUT;

/// A cluster and the right to change objects in it.
pub struct Cluster {
    pub(super) client: kube::Client,
    /// The API resource of each kind, cached.
    pub(super) kinds: Mutex<HashMap<GroupVersionKind, (ApiResource, bool)>>,
}

impl Cluster {
    /// The cluster that `KUBECONFIG`, or else the pod's own token, names.
    ///
    /// # Errors
    /// There is no kubeconfig, or the cluster does not respond.
    pub async fn connect() -> anyhow::Result<Self> {
        let client = kube::Client::try_default()
            .await
            .context("no cluster: KUBECONFIG names none that can be used")?;
        Ok(Self { client, kinds: Mutex::default() })
    }

    /// The one behind this client.
    #[cfg(test)]
    pub(crate) fn with(client: kube::Client) -> Self {
        Self { client, kinds: Mutex::default() }
    }

    /// Kubernetes' version, e.g. `v1.36.3`.
    ///
    /// # Errors
    /// The API server does not respond.
    pub async fn version(&self) -> anyhow::Result<String> {
        let version = self.client.apiserver_version().await.context("ask the API server for its version")?;
        Ok(version.git_version)
    }

    /// The addresses that a Service is reached at from outside of the pods, once it has one.
    ///
    /// # Errors
    /// There is no address after [`WAIT_TIMEOUT`].
    pub async fn address(&self, namespace: &str, service: &str) -> anyhow::Result<IpAddr> {
        let services: Api<Service> = Api::namespaced(self.client.clone(), namespace);
        wait::until(&format!("Service {namespace}/{service} has an address"), async || {
            let found = services.get(service).await?;
            let ingress =
                found.status.and_then(|status| status.load_balancer).and_then(|balancer| balancer.ingress);
            Ok(ingress.into_iter().flatten().find_map(|point| point.ip?.parse().ok()))
        })
        .await
    }

    /// The address of a Gateway, once its status has one.
    ///
    /// # Errors
    /// There is no address after [`WAIT_TIMEOUT`].
    pub async fn gateway_address(&self, gateway: &serde_json::Value) -> anyhow::Result<IpAddr> {
        wait::until("the Gateway has an address in its status", async || {
            let found = self.read(gateway).await?.unwrap_or_default();
            let addresses = found["status"]["addresses"].as_array().cloned().unwrap_or_default();
            Ok(addresses.iter().find_map(|address| address["value"].as_str()?.parse().ok()))
        })
        .await
    }

    /// The address of the only node, at which pods reach processes of the node.
    ///
    /// # Errors
    /// There is no node, more than one, or it has no address.
    pub async fn node(&self) -> anyhow::Result<IpAddr> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let mut found = nodes.list(&ListParams::default()).await.context("list nodes")?.items;
        anyhow::ensure!(found.len() == 1, "the cluster has {} nodes instead of one", found.len());
        let addresses = found.pop().and_then(|node| node.status?.addresses).unwrap_or_default();
        let internal = addresses.iter().find(|address| address.type_ == "InternalIP");
        let address = &internal.context("the node has no InternalIP")?.address;
        address.parse().with_context(|| format!("the node's InternalIP {address:?} is no address"))
    }
}
