//! Applications without pods of their own: Services whose endpoints are existing pods, so that thousands of them cost the
//! machine nothing more. Objects as values, and their namespaces.

use std::net::IpAddr;

use anyhow::Context;
use serde_json::{Value, json};

use super::super::propagation::{Action, at_once};
use super::super::running_peer::RunningPeer;
use super::super::site::{BACKEND, NAMESPACE, PORT};

/// Namespaces that are created and removed together with their contents.
pub(super) struct Folders {
    names: Vec<String>,
}

impl Folders {
    /// The number of applications.
    pub(super) async fn make(running: &RunningPeer<'_>, word: &str, count: u32) -> anyhow::Result<Self> {
        let names: Vec<_> = (0..count).map(|number| format!("{NAMESPACE}-{word}-{number}")).collect();
        at_once(running, names.iter().map(|name| namespace(name)).collect(), Action::Apply).await?;
        Ok(Self { names })
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Removes the namespaces and waits until they no longer exist.
    pub(super) async fn remove(self, running: &RunningPeer<'_>) -> anyhow::Result<()> {
        at_once(running, self.names.iter().map(|name| namespace(name)).collect(), Action::Remove).await?;
        for name in &self.names {
            running.cluster.without_namespace(name).await?;
        }
        Ok(())
    }
}

fn namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}

/// The addresses of the pods behind the streams' route.
pub(super) async fn endpoints(running: &RunningPeer<'_>) -> anyhow::Result<Vec<IpAddr>> {
    let pods = running.cluster.pods(NAMESPACE, &format!("app={BACKEND}")).await?;
    let addresses: Vec<_> = pods.into_iter().filter_map(|pod| pod.address).collect();
    anyhow::ensure!(!addresses.is_empty(), "no pod of {BACKEND} has an address");
    Ok(addresses)
}

/// A headless Service without selector: nothing of the node but the API and the peers has work with it.
pub(super) fn service(name: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": name, "namespace": namespace },
        "spec": { "clusterIP": "None", "ports": [{ "name": "http", "port": 80, "targetPort": PORT }] },
    })
}

/// One of its EndpointSlices.
pub(super) fn slice(
    service: &str,
    namespace: &str,
    suffix: &str,
    addresses: &[IpAddr],
    port: u16,
) -> anyhow::Result<Value> {
    let first = addresses.first().context("a slice without addresses")?;
    let family = if first.is_ipv4() { "IPv4" } else { "IPv6" };
    let endpoint = |address: &IpAddr| json!({ "addresses": [address], "conditions": { "ready": true } });
    let endpoints: Vec<_> =
        addresses.iter().filter(|it| it.is_ipv4() == first.is_ipv4()).map(endpoint).collect();
    Ok(json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": format!("{service}{suffix}"), "namespace": namespace,
            "labels": { "kubernetes.io/service-name": service },
        },
        "addressType": family,
        "endpoints": endpoints,
        "ports": [{ "name": "http", "port": port, "protocol": "TCP" }],
    }))
}
