//! The result of a translation.

use std::sync::Arc;

use fairway_gateway::GatewayTranslation;
use fairway_model::{Config, HostPattern};
use fairway_objects::diagnostic::Diagnostics;
use fairway_objects::object::ObjectKey;
use fairway_objects::shared;
use imbl::{OrdMap, OrdSet};
use k8s_openapi::api::networking::v1::Ingress;

/// The result of a translation. All parts are persistent: a clone is free.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Translation {
    /// The configuration of the data plane.
    pub config: Config,
    /// All current diagnostics.
    pub diagnostics: Diagnostics,
    /// The served Ingresses.
    pub status: OrdMap<ObjectKey, Arc<IngressStatus>>,
    /// Statuses of Gateway API objects, and the needs of Gateways.
    pub gateway: GatewayTranslation,
    /// External names of Services; their addresses are expected as [`fairway_objects::resources::Change::Resolved`].
    pub external_names: OrdSet<Arc<str>>,
}

/// A served Ingress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngressStatus {
    /// Its name.
    pub ingress: ObjectKey,
    /// Its hosts.
    pub hosts: Vec<HostPattern>,
    /// Its `metadata.uid`, or empty.
    pub uid: Arc<str>,
    /// The `metadata.resourceVersion` that `addresses` were read from, or empty.
    pub version: Arc<str>,
    /// Its `metadata.generation`.
    pub generation: Option<i64>,
    /// IP addresses and host names in its `status.loadBalancer`, in order.
    pub addresses: Vec<Arc<str>>,
}

impl IngressStatus {
    /// For an Ingress that serves `hosts`.
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

/// The content of `status.loadBalancer`; an entry has an IP address or a host name (Ingress API reference).
fn addresses(ingress: &Ingress) -> Vec<Arc<str>> {
    let balancer = ingress.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let entries = balancer.and_then(|balancer| balancer.ingress.as_ref()).into_iter().flatten();
    entries.filter_map(|entry| entry.ip.as_deref().or(entry.hostname.as_deref())).map(Into::into).collect()
}
