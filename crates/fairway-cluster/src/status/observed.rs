//! The observed status of an Ingress, and which of two observations is newer. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_ingress::IngressStatus;
use k8s_openapi::api::networking::v1::Ingress;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;

/// The field manager of this controller (`metadata.managedFields`).
pub(crate) const FIELD_MANAGER: &str = "fairway";

/// The status of an Ingress at one resource version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObservedStatus {
    /// `metadata.resourceVersion`; empty when unknown.
    pub(crate) version: Arc<str>,
    /// The addresses of `status.loadBalancer`, unordered.
    pub(crate) addresses: BTreeSet<Arc<str>>,
    /// The field manager that wrote them, if the object says so.
    pub(crate) manager: Option<Arc<str>>,
}

impl ObservedStatus {
    /// Whether this was observed after `other`. Versions of one kind are increasing numbers (Kubernetes 1.35, KEP 5504);
    /// otherwise the later observation counts as newer.
    pub(crate) fn is_newer_than(&self, other: &Self) -> bool {
        match (self.version.parse::<u64>(), other.version.parse::<u64>()) {
            (Ok(this), Ok(other)) => this > other,
            _ => self.version != other.version || self.version.is_empty(),
        }
    }
}

impl From<&IngressStatus> for ObservedStatus {
    fn from(status: &IngressStatus) -> Self {
        let addresses = status.addresses.iter().cloned().collect();
        Self { version: status.version.clone(), addresses, manager: None }
    }
}

impl From<&Ingress> for ObservedStatus {
    fn from(ingress: &Ingress) -> Self {
        let balancer = ingress.status.as_ref().and_then(|status| status.load_balancer.as_ref());
        let entries = balancer.and_then(|balancer| balancer.ingress.as_ref()).into_iter().flatten();
        let texts = entries.filter_map(|entry| entry.ip.as_deref().or(entry.hostname.as_deref()));
        Self {
            version: ingress.metadata.resource_version.as_deref().unwrap_or_default().into(),
            addresses: texts.map(Into::into).collect(),
            manager: ingress.metadata.managed_fields.as_deref().and_then(last_writer),
        }
    }
}

/// The last writer of `status.loadBalancer`.
fn last_writer(fields: &[ManagedFieldsEntry]) -> Option<Arc<str>> {
    let wrote = |entry: &&ManagedFieldsEntry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        fields.is_some_and(|fields| fields.pointer("/f:status/f:loadBalancer").is_some())
    };
    let last = fields.iter().filter(wrote).max_by_key(|entry| entry.time.as_ref().map(|time| time.0))?;
    last.manager.as_deref().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(version: &str) -> ObservedStatus {
        ObservedStatus { version: version.into(), ..ObservedStatus::default() }
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(at("10").is_newer_than(&at("9")));
        assert!(!at("9").is_newer_than(&at("10")));
        assert!(!at("9").is_newer_than(&at("9")));
        assert!(at("9").is_newer_than(&at("")));
    }

    #[test]
    fn the_last_writer_of_the_load_balancer_is_named() {
        let ingress: Ingress = serde_json::from_value(serde_json::json!({"metadata": {"managedFields": [
            {"manager": "old", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:status": {"f:loadBalancer": {}}}},
            {"manager": "nginx", "time": "2026-01-02T00:00:00Z", "fieldsV1": {"f:status": {"f:loadBalancer": {}}}},
            {"manager": "kubectl", "time": "2026-01-03T00:00:00Z", "fieldsV1": {"f:spec": {}}}
        ]}}))
        .unwrap();
        assert_eq!(ObservedStatus::from(&ingress).manager.as_deref(), Some("nginx"));
    }
}
