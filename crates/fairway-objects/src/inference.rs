//! InferencePools of the Gateway API Inference Extension v1, as plain structs: Pods that serve a model, and the picker that
//! chooses among them. Enumerations are strings and lists may be absent, as in the kinds of the Gateway API. Nothing here
//! validates an object.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::custom_resource::custom_resource;
use crate::gateway_api::RouteStatus;

/// `inference.networking.k8s.io/v1` InferencePool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct InferencePool {
    /// `metadata`.
    pub metadata: ObjectMeta,
    /// `spec`.
    pub spec: InferencePoolSpec,
    /// `status`, with entries like those of a route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RouteStatus>,
}

custom_resource! {
    InferencePool(InferencePoolSpec, RouteStatus):
    "inference.networking.k8s.io", "v1", "InferencePool", "inferencepools", NamespaceResourceScope
}

/// `InferencePool.spec`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct InferencePoolSpec {
    /// Selects the member Pods in its namespace.
    pub selector: PodSelector,
    /// Each is an endpoint of every member.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub target_ports: Vec<PoolPort>,
    /// `http` or `kubernetes.io/h2c`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
    /// The service that chooses an endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint_picker_ref: Option<EndpointPickerRef>,
}

/// `InferencePool.spec.selector`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSelector {
    /// Labels that a member must have, all of them.
    pub match_labels: BTreeMap<String, String>,
}

/// `InferencePool.spec.targetPorts[]`, and `endpointPickerRef.port`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolPort {
    /// 1..=65535.
    pub number: i32,
}

/// `InferencePool.spec.endpointPickerRef`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointPickerRef {
    /// The group of its kind; empty for Services.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// `Service` where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Its name, in the namespace of the pool.
    pub name: String,
    /// The port of the Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<PoolPort>,
    /// `FailOpen` or `FailClose`, which is the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_mode: Option<String>,
}
