//! Finds the pods that run Fairway by their labels, and describes them.

use std::net::SocketAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use tokio::time::timeout;

use super::error::{PodError, PodOperation};

/// Where to look for Fairway if listing pods in all namespaces is forbidden.
pub const DEFAULT_NAMESPACE: &str = "fairway";

/// The default port of `--admin`.
const ADMIN_PORT: u16 = 10_254;

/// The container name in the chart.
const CONTAINER_NAME: &str = "fairway";

/// Names the release of the chart that a pod belongs to.
const INSTANCE_LABEL: &str = "app.kubernetes.io/instance";

/// Upper bound of a fleet; further pods are ignored.
const MAX_PODS: u32 = 1_000;

/// Timeout of the API server for listing them.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// Which pods to look for.
#[derive(Clone, Debug)]
pub struct PodSearch {
    /// Their namespace; `None` means every namespace, or [`DEFAULT_NAMESPACE`] if listing every one is forbidden.
    pub namespace: Option<String>,
    /// Their labels.
    pub selector: String,
}

/// A pod that runs Fairway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FairwayPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The release it belongs to (`app.kubernetes.io/instance`), or empty.
    pub instance: String,
    /// Whether it is ready.
    pub is_ready: bool,
    /// Its phase, or `Terminating`.
    pub phase: String,
    /// How often its container was restarted.
    pub restarts: i32,
    /// Creation time, in seconds since 1970.
    pub created: Option<i64>,
    /// The node it runs on, or empty.
    pub node: String,
    /// The container of Fairway.
    pub container: String,
    /// The image of that container.
    pub image: String,
    /// The port of its admin server.
    pub admin_port: u16,
}

/// The pods of a search that have not ended, by namespace and name; at least one.
///
/// # Errors
/// The pods cannot be listed, or there are none.
pub async fn find_pods(client: &Client, search: &PodSearch) -> Result<Vec<FairwayPod>, PodError> {
    let selector = &search.selector;
    let listed = list(client, search.namespace.as_deref(), selector).await;
    let (pods, place, advice) = match (listed, &search.namespace) {
        (Ok(pods), Some(namespace)) => (
            pods,
            describe_namespace(Some(namespace)),
            "name another namespace with --fairway-namespace, or the labels with --selector",
        ),
        (Ok(pods), None) => (
            pods,
            "any namespace".to_owned(),
            "if Fairway runs in this cluster, name the labels of its pods with --selector",
        ),
        (Err(PodError::Forbidden { .. }), None) => (
            list(client, Some(DEFAULT_NAMESPACE), selector).await?,
            describe_namespace(Some(DEFAULT_NAMESPACE)),
            "you may not list pods of all namespaces, so name the namespace of Fairway with --fairway-namespace",
        ),
        (Err(error), _) => return Err(error),
    };
    if pods.is_empty() {
        return Err(PodError::NotFound { selector: selector.clone(), location: place, advice });
    }
    Ok(pods)
}

async fn list(client: &Client, namespace: Option<&str>, selector: &str) -> Result<Vec<FairwayPod>, PodError> {
    let pods: Api<Pod> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let scope = describe_namespace(namespace);
    let attempt = PodOperation {
        action: format!("listing the pods with the labels {selector} in {scope}"),
        requirement: format!("the verb list on pods in {scope}"),
    };
    let params = ListParams::default().labels(selector).limit(MAX_PODS);
    let listed = match timeout(LIST_TIMEOUT, pods.list(&params)).await {
        Ok(Ok(listed)) => listed,
        Ok(Err(error)) => return Err(attempt.failure(&error)),
        Err(_) => return Err(attempt.timed_out()),
    };
    let mut found: Vec<_> = listed.items.iter().filter(|pod| !has_ended(pod)).map(describe).collect();
    found.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    Ok(found)
}

fn describe_namespace(namespace: Option<&str>) -> String {
    namespace.map_or_else(|| "all namespaces".to_owned(), |namespace| format!("the namespace {namespace}"))
}

fn phase(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.phase.as_deref()
}

fn has_ended(pod: &Pod) -> bool {
    matches!(phase(pod), Some("Succeeded" | "Failed"))
}

fn describe(pod: &Pod) -> FairwayPod {
    let spec = pod.spec.as_ref();
    let containers = spec.map(|spec| spec.containers.as_slice()).unwrap_or_default();
    let container = containers.iter().find(|it| it.name == CONTAINER_NAME).or(containers.first());
    let status = pod.status.as_ref();
    let statuses: &[ContainerStatus] =
        status.and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
    let name = container.map_or(CONTAINER_NAME, |container| container.name.as_str());
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let phase = match pod.metadata.deletion_timestamp {
        Some(_) => "Terminating",
        None => phase(pod).unwrap_or("Unknown"),
    };
    FairwayPod {
        namespace: pod.namespace().unwrap_or_default(),
        name: pod.name_any(),
        instance: pod.labels().get(INSTANCE_LABEL).cloned().unwrap_or_default(),
        is_ready: conditions.iter().any(|it| it.type_ == "Ready" && it.status == "True"),
        phase: phase.to_owned(),
        restarts: statuses.iter().find(|it| it.name == name).map_or(0, |it| it.restart_count),
        created: pod.metadata.creation_timestamp.as_ref().map(|time| time.0.as_second()),
        node: spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
        container: name.to_owned(),
        image: container.and_then(|it| it.image.clone()).unwrap_or_default(),
        admin_port: container.and_then(admin_port).unwrap_or(ADMIN_PORT),
    }
}

/// The port of `--admin` in the container's arguments, else in `FAIRWAY_ADMIN`.
fn admin_port(container: &Container) -> Option<u16> {
    let arguments = container.args.as_deref().unwrap_or_default();
    let joined = arguments.iter().rev().find_map(|it| it.strip_prefix("--admin="));
    let separate = || arguments.windows(2).rev().find(|pair| pair[0] == "--admin").map(|pair| &*pair[1]);
    let variables = container.env.as_deref().unwrap_or_default();
    let variable =
        || variables.iter().find(|it| it.name == "FAIRWAY_ADMIN").and_then(|it| it.value.as_deref());
    let address = joined.or_else(separate).or_else(variable)?;
    Some(address.parse::<SocketAddr>().ok()?.port())
}

#[cfg(test)]
mod tests {
    use fairway_testkit::api_server::{ApiServer, Failure};
    use serde_json::{Value, json};

    use super::*;
    use crate::testing;

    fn pod(namespace: &str, name: &str) -> Value {
        json!({
            "metadata": {
                "namespace": namespace, "name": name, "creationTimestamp": "2026-11-21T02:48:17Z",
                "labels": { "app.kubernetes.io/name": "fairway", INSTANCE_LABEL: "edge" },
            },
            "spec": {
                "nodeName": "one",
                "containers": [
                    { "name": "beside", "image": "other:1" },
                    { "name": "fairway", "image": "fairway:1", "args": ["run", "--admin=127.0.0.1:10300"] },
                ],
            },
            "status": {
                "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }],
                "containerStatuses": [
                    { "name": "beside", "restartCount": 7 }, { "name": "fairway", "restartCount": 2 },
                ],
            },
        })
    }

    async fn search(server: &ApiServer, namespace: Option<&str>) -> Result<Vec<String>, String> {
        let client = testing::client(server, std::sync::Arc::default());
        let search = PodSearch {
            namespace: namespace.map(str::to_owned),
            selector: "app.kubernetes.io/name=fairway".to_owned(),
        };
        let found = find_pods(&client, &search).await.map_err(|error| error.to_string())?;
        Ok(found.into_iter().map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect())
    }

    #[tokio::test]
    async fn pods_are_described_by_the_container_of_fairway() {
        let server = ApiServer::new();
        server.put("pods", pod("edge", "a"));
        let client = testing::client(&server, std::sync::Arc::default());
        let search = PodSearch { namespace: None, selector: "app.kubernetes.io/name=fairway".to_owned() };
        let found = find_pods(&client, &search).await.unwrap();
        assert_eq!(
            found,
            [FairwayPod {
                namespace: "edge".to_owned(),
                name: "a".to_owned(),
                instance: "edge".to_owned(),
                is_ready: true,
                phase: "Running".to_owned(),
                restarts: 2,
                created: Some(1_795_229_297),
                node: "one".to_owned(),
                container: "fairway".to_owned(),
                image: "fairway:1".to_owned(),
                admin_port: 10_300,
            }]
        );
    }

    #[tokio::test]
    async fn pods_are_found_wherever_they_may_be_listed() {
        let server = ApiServer::new();
        server.put("pods", pod("edge", "b"));
        server.put("pods", pod("edge", "a"));
        server.put("pods", pod(DEFAULT_NAMESPACE, "c"));
        assert_eq!(search(&server, None).await.unwrap(), ["edge/a", "edge/b", "fairway/c"]);
        assert_eq!(search(&server, Some("edge")).await.unwrap(), ["edge/a", "edge/b"]);
        let none = search(&server, Some("shop")).await.unwrap_err();
        assert!(none.contains("in the namespace shop") && none.contains("--fairway-namespace"), "{none}");
        server.fail(Failure::Forbidden, |request| request.namespace().is_empty());
        assert_eq!(search(&server, None).await.unwrap(), ["fairway/c"]);
        server.fail(Failure::Forbidden, |_| true);
        let refused = search(&server, None).await.unwrap_err();
        assert!(refused.contains("it needs the verb list on pods in the namespace fairway"), "{refused}");
    }

    #[test]
    fn the_port_of_the_admin_server_is_that_of_its_arguments() {
        let container = |args: &[&str], env: Value| -> Container {
            serde_json::from_value(json!({ "name": "fairway", "args": args, "env": env })).unwrap()
        };
        for (args, env, port) in [
            (&["run", "--admin", "127.0.0.1:1"][..], json!([]), Some(1)),
            (&["run", "--admin=[::1]:2"], json!([]), Some(2)),
            (&["run"], json!([{ "name": "FAIRWAY_ADMIN", "value": "127.0.0.1:3" }]), Some(3)),
            (&["run", "--admin=nonsense"], json!([]), None),
            (&["run"], json!([]), None),
        ] {
            assert_eq!(admin_port(&container(args, env)), port, "{args:?}");
        }
    }
}
