//! The replicas of a fleet and what each of them serves, queried through the API server with the caller's own credentials.
//! Queries once; waiting is up to the caller.

use std::fmt;

use fairway_control::admin::ServedConfig;
use fairway_objects::kinds::{ApiResource, GATEWAY_KINDS};
use fairway_objects::object::{ObjectKey, ObjectRef};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

/// Selects the pods of a fleet.
#[derive(Clone, Debug)]
pub struct FleetSelector {
    /// Their namespace.
    pub namespace: String,
    /// Their labels.
    pub selector: String,
    /// Their probe port (`--probe`).
    pub port: u16,
}

/// A replica, and what it serves or why that is unknown.
#[derive(Clone, Debug)]
pub struct Replica {
    /// The name of its pod.
    pub name: String,
    /// What it serves.
    pub served: Result<ServedConfig, String>,
}

/// An object that replicas are asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueriedObject {
    /// An Ingress.
    Ingress(ObjectKey),
    /// An object of the Gateway API or a policy, of a kind with a status.
    Object(ObjectRef),
}

/// The version of an object as it is stored now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectVersion {
    /// Its `metadata.uid`.
    pub uid: String,
    /// Its `metadata.resourceVersion`.
    pub resource_version: String,
    /// Its `metadata.generation`, which status updates do not change.
    pub generation: Option<i64>,
}

impl QueriedObject {
    /// The kinds of [`QueriedObject::Object`]. Without conditions it is unknown when an object is served.
    pub fn kinds() -> impl Iterator<Item = &'static ApiResource> {
        GATEWAY_KINDS.iter().filter(|known| known.has_conditions)
    }

    /// Parses `KIND/NAMESPACE/NAME`, or `KIND/NAME` for cluster-scoped kinds; the kind in any case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once('/')?;
        let known = Self::kinds().find(|known| known.name.eq_ignore_ascii_case(kind))?;
        let key = if known.is_namespaced { ObjectKey::parse(name)? } else { ObjectKey::new("", name) };
        Some(Self::Object(ObjectRef::new(known.kind, key)))
    }

    /// The query string of `/served` for this object.
    #[must_use]
    pub fn query_string(&self) -> String {
        match self {
            Self::Ingress(key) => format!("?ingress={key}"),
            Self::Object(object) => format!("?object={}/{}", object.kind.name(), object.key),
        }
    }
}

impl fmt::Display for QueriedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ingress(key) => write!(f, "Ingress {key}"),
            Self::Object(object) => write!(f, "{} {}", object.kind.name(), object.key),
        }
    }
}

/// Why the fleet cannot be queried.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// The pods cannot be listed.
    #[error(
        "the pods with the labels {selector} in the namespace {namespace} cannot be listed (needs: list pods): {source}"
    )]
    List {
        /// The labels.
        selector: String,
        /// The namespace.
        namespace: String,
        /// The error of the API server.
        #[source]
        source: Box<kube::Error>,
    },
}

impl FleetSelector {
    /// Queries all running replicas concurrently, optionally about one object.
    ///
    /// # Errors
    /// The pods cannot be listed. A pod that does not answer by `until` is reported as such and delays no other.
    pub async fn query_replicas(
        &self,
        client: &Client,
        object: Option<&QueriedObject>,
        until: Instant,
    ) -> Result<Vec<Replica>, FleetError> {
        let pods = Api::<Pod>::namespaced(client.clone(), &self.namespace);
        let listed = pods.list(&ListParams::default().labels(&self.selector)).await;
        let listed = listed.map_err(|source| FleetError::List {
            selector: self.selector.clone(),
            namespace: self.namespace.clone(),
            source: Box::new(source),
        })?;
        let live = listed.items.into_iter().filter(is_live).map(|pod| pod.name_any());
        let queries = live.map(async |name| {
            let served = timeout_at(until, self.served(client, &name, object)).await;
            Replica { name, served: served.unwrap_or_else(|_| Err("no answer in time".to_owned())) }
        });
        Ok(futures_util::future::join_all(queries).await)
    }

    async fn served(
        &self,
        client: &Client,
        pod: &str,
        object: Option<&QueriedObject>,
    ) -> Result<ServedConfig, String> {
        let query = object.map(QueriedObject::query_string).unwrap_or_default();
        let path = format!(
            "/api/v1/namespaces/{}/pods/http:{pod}:{}/proxy/served{query}",
            self.namespace, self.port
        );
        let request = http::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
        client.request::<ServedConfig>(request).await.map_err(|error| match error {
            kube::Error::Api(status) if status.code == 403 => {
                format!("may not be queried (needs: get pods/proxy): {}", status.message)
            }
            error => error.to_string(),
        })
    }
}

fn is_live(pod: &Pod) -> bool {
    let ended = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    pod.metadata.deletion_timestamp.is_none() && !matches!(ended, Some("Succeeded" | "Failed"))
}

/// Whether an object read at version `served` is at least as new as `wanted` (Kubernetes API concepts, resource versions: since
/// 1.35 they are comparable decimal numbers; before, only equality is meaningful).
#[must_use]
pub fn is_at_least(served: &str, minimum: &str) -> bool {
    match (served.parse::<u128>(), minimum.parse::<u128>()) {
        (Ok(served), Ok(wanted)) => served >= wanted,
        _ => served == minimum,
    }
}

/// The stored version of an object; `None` if it does not exist.
///
/// # Errors
/// The API server gives no answer.
pub async fn fetch_version(
    client: &Client,
    asked: &QueriedObject,
) -> Result<Option<ObjectVersion>, kube::Error> {
    let metadata = match asked {
        QueriedObject::Ingress(key) => {
            let ingresses =
                Api::<k8s_openapi::api::networking::v1::Ingress>::namespaced(client.clone(), &key.namespace);
            ingresses.get_metadata_opt(&key.name).await?.map(|found| found.metadata)
        }
        QueriedObject::Object(object) => fetch_metadata(client, object).await?,
    };
    Ok(metadata.map(|metadata| ObjectVersion {
        uid: metadata.uid.unwrap_or_default(),
        resource_version: metadata.resource_version.unwrap_or_default(),
        generation: metadata.generation,
    }))
}

/// The metadata of an object of the Gateway API, in the first supported version that the server offers.
async fn fetch_metadata(client: &Client, object: &ObjectRef) -> Result<Option<ObjectMeta>, kube::Error> {
    #[derive(Debug, Deserialize)]
    struct Object {
        metadata: ObjectMeta,
    }
    let Some(kind) = object.kind.of_gateways() else { return Ok(None) };
    for version in kind.versions {
        let path = kind.path(version, &object.key.namespace, &object.key.name);
        let request = http::Request::get(path).body(Vec::new());
        let request = request.map_err(kube::Error::HttpError)?;
        match client.request::<Object>(request).await {
            Ok(found) => return Ok(Some(found.metadata)),
            // The object or this version of its API is missing.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_named_by_its_kind_in_any_case() {
        let route = QueriedObject::parse("httproute/shop/web").unwrap();
        assert_eq!(
            (route.to_string(), route.query_string()),
            ("HTTPRoute shop/web".to_owned(), "?object=HTTPRoute/shop/web".to_owned())
        );
        let class = QueriedObject::parse("GatewayClass/fairway").unwrap();
        assert_eq!(class.query_string(), "?object=GatewayClass/fairway");
        for wrong in ["web", "httproute/web", "pod/shop/web", "referencegrant/shop/web", "httproute/a/b/c"] {
            assert_eq!(QueriedObject::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn resource_versions_compare_as_numbers_and_else_only_equal() {
        assert!(is_at_least("10", "9") && is_at_least("9", "9") && !is_at_least("9", "10"));
        assert!(is_at_least("a", "a") && !is_at_least("b", "a"));
    }
}
