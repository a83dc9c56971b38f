//! The replicas of a fleet in a cluster and what each of them serves, asked through the API server with the caller's own
//! credentials. Asks once; waiting is the caller's business.

use std::fmt;

use fairway_control::admin::Served;
use fairway_objects::kinds::{ApiResource, GATEWAY_KINDS};
use fairway_objects::object::{ObjectKey, ObjectRef};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

/// Which pods are the fleet.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// Their namespace.
    pub namespace: String,
    /// Their labels.
    pub selector: String,
    /// Where they answer probes (`--probe`).
    pub port: u16,
}

/// A replica, and what it serves or why that is not known.
#[derive(Clone, Debug)]
pub struct Replica {
    /// The name of its pod.
    pub name: String,
    /// What it serves.
    pub served: Result<Served, String>,
}

/// An object that replicas are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// An Ingress.
    Ingress(ObjectKey),
    /// An object of the Gateway API or a policy, of a kind that has a status.
    Object(ObjectRef),
}

/// An object as it is written now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Its `metadata.uid`.
    pub uid: String,
    /// Its `metadata.resourceVersion`.
    pub resource_version: String,
    /// Its `metadata.generation`: whoever writes its status leaves it as it is.
    pub generation: Option<i64>,
}

impl Asked {
    /// The kinds of [`Asked::Object`]. Without conditions nothing is known of when an object serves.
    pub fn kinds() -> impl Iterator<Item = &'static ApiResource> {
        GATEWAY_KINDS.iter().filter(|known| known.has_conditions)
    }

    /// `KIND/NAMESPACE/NAME`, or `KIND/NAME` for what has no namespace; the kind in any case.
    #[must_use]
    pub fn object(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once('/')?;
        let known = Self::kinds().find(|known| known.name.eq_ignore_ascii_case(kind))?;
        let key = if known.is_namespaced { ObjectKey::parse(name)? } else { ObjectKey::new("", name) };
        Some(Self::Object(ObjectRef::new(known.kind, key)))
    }

    /// The query of `/served` that asks for it.
    #[must_use]
    pub fn query(&self) -> String {
        match self {
            Self::Ingress(key) => format!("?ingress={key}"),
            Self::Object(object) => format!("?object={}/{}", object.kind.name(), object.key),
        }
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ingress(key) => write!(f, "Ingress {key}"),
            Self::Object(object) => write!(f, "{} {}", object.kind.name(), object.key),
        }
    }
}

/// Why the fleet cannot be asked.
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
        /// What the API server said.
        #[source]
        source: Box<kube::Error>,
    },
}

impl Fleet {
    /// Asks every replica that is not about to end, for one object too, all at the same time.
    ///
    /// # Errors
    /// The pods cannot be listed. A pod that has not answered by `until` is reported as such, and delays no other.
    pub async fn ask(
        &self,
        client: &Client,
        object: Option<&Asked>,
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
        let asked = live.map(async |name| {
            let served = timeout_at(until, self.served(client, &name, object)).await;
            Replica { name, served: served.unwrap_or_else(|_| Err("no answer in time".to_owned())) }
        });
        Ok(futures_util::future::join_all(asked).await)
    }

    async fn served(&self, client: &Client, pod: &str, object: Option<&Asked>) -> Result<Served, String> {
        let query = object.map(Asked::query).unwrap_or_default();
        let path = format!(
            "/api/v1/namespaces/{}/pods/http:{pod}:{}/proxy/served{query}",
            self.namespace, self.port
        );
        let request = http::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
        client.request::<Served>(request).await.map_err(|error| match error {
            kube::Error::Api(status) if status.code == 403 => {
                format!("may not be asked (needs: get pods/proxy): {}", status.message)
            }
            error => error.to_string(),
        })
    }
}

fn is_live(pod: &Pod) -> bool {
    let ended = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    pod.metadata.deletion_timestamp.is_none() && !matches!(ended, Some("Succeeded" | "Failed"))
}

/// Whether an object read at `served` is the one written as `wanted` or a later one (Kubernetes API concepts, resource
/// versions: since 1.35 they are decimal numbers that can be compared; before, only equality means something).
#[must_use]
pub fn is_at_least(served: &str, wanted: &str) -> bool {
    match (served.parse::<u128>(), wanted.parse::<u128>()) {
        (Ok(served), Ok(wanted)) => served >= wanted,
        _ => served == wanted,
    }
}

/// An object as it is written now; `None` when there is none of this name.
///
/// # Errors
/// The API server does not say.
pub async fn written(client: &Client, asked: &Asked) -> Result<Option<Written>, kube::Error> {
    let metadata = match asked {
        Asked::Ingress(key) => {
            let ingresses =
                Api::<k8s_openapi::api::networking::v1::Ingress>::namespaced(client.clone(), &key.namespace);
            ingresses.get_metadata_opt(&key.name).await?.map(|found| found.metadata)
        }
        Asked::Object(object) => metadata(client, object).await?,
    };
    Ok(metadata.map(|metadata| Written {
        uid: metadata.uid.unwrap_or_default(),
        resource_version: metadata.resource_version.unwrap_or_default(),
        generation: metadata.generation,
    }))
}

/// The metadata of an object of the Gateway API, in the first version that the server offers and that is read.
async fn metadata(client: &Client, object: &ObjectRef) -> Result<Option<ObjectMeta>, kube::Error> {
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
            // The object is missing, or the version.
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
        let route = Asked::object("httproute/shop/web").unwrap();
        assert_eq!(
            (route.to_string(), route.query()),
            ("HTTPRoute shop/web".to_owned(), "?object=HTTPRoute/shop/web".to_owned())
        );
        let class = Asked::object("GatewayClass/fairway").unwrap();
        assert_eq!(class.query(), "?object=GatewayClass/fairway");
        for wrong in ["web", "httproute/web", "pod/shop/web", "referencegrant/shop/web", "httproute/a/b/c"] {
            assert_eq!(Asked::object(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn resource_versions_compare_as_numbers_and_else_only_equal() {
        assert!(is_at_least("10", "9") && is_at_least("9", "9") && !is_at_least("9", "10"));
        assert!(is_at_least("a", "a") && !is_at_least("b", "a"));
    }
}
