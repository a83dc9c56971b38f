//! The result of a translation. Owns its shape, and nothing of how it comes about.

use std::sync::Arc;

use fairway_gateway::GatewayTranslation;
use fairway_model::{Config, HostPattern};
use fairway_objects::diagnostic::Diagnostics;
use fairway_objects::object::ObjectKey;
use fairway_objects::shared;
use imbl::{OrdMap, OrdSet};
use k8s_openapi::api::networking::v1::Ingress;

/// What the objects mean. All parts are persistent: a clone costs nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Translation {
    /// What the data plane does.
    pub config: Config,
    /// All current diagnostics.
    pub diagnostics: Diagnostics,
    /// The Ingresses that are served.
    pub status: OrdMap<ObjectKey, Arc<IngressStatus>>,
    /// What is to be written about objects of the Gateway API, and what Gateways need.
    pub gateway: GatewayTranslation,
    /// External names that rules refer to and whose addresses are wanted as [`fairway_objects::resources::Change::Resolved`].
    pub external_names: OrdSet<Arc<str>>,
}

/// An Ingress that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngressStatus {
    /// Its name.
    pub ingress: ObjectKey,
    /// The hosts it has a part in.
    pub hosts: Vec<HostPattern>,
    /// Its `metadata.uid`; empty when it has none.
    pub uid: Arc<str>,
    /// Its `metadata.resourceVersion`: the state that `addresses` are from; empty when it has none.
    pub version: Arc<str>,
    /// Its `metadata.generation`.
    pub generation: Option<i64>,
    /// The IP addresses and host names in its `status.loadBalancer`, in its order.
    pub addresses: Vec<Arc<str>>,
}

impl IngressStatus {
    /// Of an Ingress with a part in `hosts`.
    pub(crate) fn new(key: &ObjectKey, ingress: &Ingress, hosts: Vec<HostPattern>) -> Self {
        let metadata = &ingress.metadata;
        let text = |field: &Option<String>| shared::text(field.as_deref().unwrap_or_default());
        Self {
            ingress: key.clone(),
            hosts,
            uid: text(&metadata.uid),
            version: text(&metadata.resource_version),
            generation: metadata.generation,
            addresses: addresses(ingress),
        }
    }
}

/// What `status.loadBalancer` says; an entry has an IP address or a host name (Ingress API reference).
fn addresses(ingress: &Ingress) -> Vec<Arc<str>> {
    let balancer = ingress.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let entries = balancer.and_then(|balancer| balancer.ingress.as_ref()).into_iter().flatten();
    entries.filter_map(|entry| entry.ip.as_deref().or(entry.hostname.as_deref())).map(Into::into).collect()
}
