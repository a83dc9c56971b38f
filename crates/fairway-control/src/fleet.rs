//! The replicas of a fleet in a cluster and what each of them serves, asked through the API server with the caller's own
//! credentials. Asks once; waiting is the caller's business.

use fairway_translate::ObjectKey;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use crate::admin::Served;

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
    /// Asks every replica that is not about to end, for one Ingress too.
    ///
    /// # Errors
    /// The pods cannot be listed. A pod that does not answer is told as such.
    pub async fn ask(
        &self,
        client: &Client,
        ingress: Option<&ObjectKey>,
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
            let served = self.served(client, &name, ingress).await;
            Replica { name, served }
        });
        Ok(futures_util::future::join_all(asked).await)
    }

    async fn served(
        &self,
        client: &Client,
        pod: &str,
        ingress: Option<&ObjectKey>,
    ) -> Result<Served, String> {
        let query = ingress.map(|key| format!("?ingress={key}")).unwrap_or_default();
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

/// The `metadata.uid` and `metadata.resourceVersion` of an Ingress now; `None` when there is none of this name.
///
/// # Errors
/// The API server does not say.
pub async fn written(client: &Client, key: &ObjectKey) -> Result<Option<(String, String)>, kube::Error> {
    let api = Api::<k8s_openapi::api::networking::v1::Ingress>::namespaced(client.clone(), &key.namespace);
    let found = api.get_metadata_opt(&key.name).await?;
    Ok(found.map(|found| {
        let metadata = found.metadata;
        (metadata.uid.unwrap_or_default(), metadata.resource_version.unwrap_or_default())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_versions_compare_as_numbers_and_else_only_equal() {
        assert!(is_at_least("10", "9") && is_at_least("9", "9") && !is_at_least("9", "10"));
        assert!(is_at_least("a", "a") && !is_at_least("b", "a"));
    }
}
