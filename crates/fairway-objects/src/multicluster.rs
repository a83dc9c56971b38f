//! ServiceImports of the Multi-Cluster Services API (KEP-1645): Services of a set of clusters, whose endpoints are in
//! EndpointSlices with their own label. Nothing here validates an object.

use k8s_openapi::api::core::v1::ServicePort;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::custom_resource::custom_resource;

/// The label of an EndpointSlice with the name of its ServiceImport, in the same namespace.
pub const IMPORT_LABEL: &str = "multicluster.kubernetes.io/service-name";

/// `multicluster.x-k8s.io/v1alpha1` ServiceImport, with the fields that matter for requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceImport {
    /// `metadata`.
    pub metadata: ObjectMeta,
    /// `spec`.
    pub spec: ServiceImportSpec,
}

custom_resource! {
    ServiceImport(ServiceImportSpec):
    "multicluster.x-k8s.io", "v1alpha1", "ServiceImport", "serviceimports", NamespaceResourceScope
}

/// `ServiceImport.spec`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceImportSpec {
    /// Its ports, with fields of those of a Service.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<ServicePort>,
}
