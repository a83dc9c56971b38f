//! Lists pods and checks whether a Deployment has exactly the pods it should have.

use std::net::IpAddr;

use anyhow::Context;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::{Api, DeleteParams, ListParams, LogParams};

use super::client::Cluster;
use super::wait;

/// A pod whose cost is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyPod {
    /// Its name.
    pub name: String,
    /// Its uid, which may be part of cgroup names.
    pub uid: String,
    /// Its address, if it has one yet.
    pub address: Option<IpAddr>,
    /// The node it runs on, once it has one.
    pub node: Option<String>,
    /// The identifiers of its containers that run, without the runtime's prefix.
    pub containers: Vec<String>,
}

impl ProxyPod {
    fn from_pod(pod: Pod) -> Self {
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
        Ok(found.items.into_iter().map(ProxyPod::from_pod).collect())
    }

    /// Waits until a Deployment has as many ready pods as it should have, of its newest template, and no other.
    ///
    /// # Errors
    /// It does not get there.
    pub async fn wait_until_settled(&self, namespace: &str, deployment: &str) -> anyhow::Result<()> {
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), namespace);
        let condition = format!("Deployment {namespace}/{deployment} has its pods");
        wait::until(&condition, async || Ok(is_settled(&api.get(deployment).await?).then_some(()))).await
    }

    /// The same for a new Deployment; fails at once, with the container's last lines, if a container keeps crashing.
    ///
    /// # Errors
    /// It does not get there.
    pub async fn wait_until_started(&self, namespace: &str, deployment: &str) -> anyhow::Result<()> {
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), namespace);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let condition = format!("Deployment {namespace}/{deployment} has its pods");
        let started = wait::until(&condition, async || {
            if is_settled(&api.get(deployment).await?) {
                return Ok(Some(Ok(())));
            }
            let all = pods.list(&ListParams::default()).await?;
            let Some((pod, container)) = all.items.iter().find_map(dying) else { return Ok(None) };
            let last = LogParams {
                container: Some(container.clone()),
                previous: true,
                tail_lines: Some(LOG_TAIL_LINES),
                ..LogParams::default()
            };
            let log = pods.logs(&pod, &last).await.unwrap_or_else(|error| format!("unknown: {error}"));
            let log = log.trim().replace('\n', "; ");
            Ok(Some(Err(anyhow::anyhow!(
                "container {container} of pod {namespace}/{pod} dies whenever it is started; its last lines: {log}"
            ))))
        });
        started.await?
    }

    /// Deletes pods without a grace period.
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

    /// Waits until all pods of a Deployment have ended.
    ///
    /// # Errors
    /// Some still exist after the timeout.
    pub async fn vacant(&self, namespace: &str, selector: &str) -> anyhow::Result<()> {
        let condition = format!("the pods of {namespace} with {selector} are gone");
        wait::until(&condition, async || Ok(self.pods(namespace, selector).await?.is_empty().then_some(())))
            .await
    }
}

/// The names of a pod and of its container that kubelet waits to start again, because it died soon after it was.
fn dying(pod: &Pod) -> Option<(String, String)> {
    let containers = pod.status.as_ref()?.container_statuses.as_ref()?;
    let is_dying = |container: &&ContainerStatus| {
        let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref());
        waiting.and_then(|waiting| waiting.reason.as_deref()) == Some("CrashLoopBackOff")
    };
    let container = containers.iter().find(is_dying)?;
    Some((pod.metadata.name.clone()?, container.name.clone()))
}

/// The number of a container's last log lines reported.
const LOG_TAIL_LINES: i64 = 5;

fn is_settled(deployment: &Deployment) -> bool {
    let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let Some(status) = &deployment.status else { return false };
    status.observed_generation == deployment.metadata.generation
        && status.replicas.unwrap_or(0) == replicas
        && status.updated_replicas.unwrap_or(0) == replicas
        && status.ready_replicas.unwrap_or(0) == replicas
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_container_that_crashes_repeatedly_is_named_and_a_starting_one_is_not() {
        let pod = |state: serde_json::Value| -> Pod {
            let container = |name: &str, state: &serde_json::Value| {
                let mut container = json!({"name": name, "image": "", "imageID": "", "ready": false});
                container["restartCount"] = json!(1);
                container["state"] = state.clone();
                container
            };
            let fine = json!({"running": {}});
            let containers = [container("metrics", &fine), container("proxy", &state)];
            serde_json::from_value(
                json!({"metadata": {"name": "proxy-1"}, "status": {"containerStatuses": containers}}),
            )
            .unwrap()
        };
        let dead = pod(json!({"waiting": {"reason": "CrashLoopBackOff"}}));
        assert_eq!(dying(&dead), Some(("proxy-1".to_owned(), "proxy".to_owned())));
        for state in [json!({"waiting": {"reason": "ContainerCreating"}}), json!({"running": {}}), json!({})]
        {
            assert_eq!(dying(&pod(state.clone())), None, "{state}");
        }
        assert_eq!(dying(&Pod::default()), None);
    }
}
