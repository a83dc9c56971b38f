//! Generated from the CRDs of the Gateway API by `make gateway-types`; changes belong into `examples/generate.rs`.

#![allow(missing_docs, reason = "the fields are those of the Gateway API reference")]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use serde::{Deserialize, Serialize};

/// `GatewayClass.spec.parametersRef`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ParametersReference {
    pub group: String,
    pub kind: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// `GatewayClass.spec`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GatewayClassSpec {
    pub controller_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters_ref: Option<ParametersReference>,
}

/// `GatewayClass.status.supportedFeatures[]`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SupportedFeature {
    pub name: String,
}

/// `GatewayClass.status`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GatewayClassStatus {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub supported_features: Vec<SupportedFeature>,
}

/// `Gateway.spec.addresses[]`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GatewayAddress {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routability: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// `Gateway.spec.allowedListeners.namespaces`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct FromNamespaces {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// `Gateway.spec.allowedListeners`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AllowedListeners {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<FromNamespaces>,
}

/// `Gateway.spec.infrastructure.parametersRef`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LocalObjectReference {
    pub group: String,
    pub kind: String,
    pub name: String,
}

/// `Gateway.spec.infrastructure`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GatewayInfrastructure {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters_ref: Option<LocalObjectReference>,
}

/// `Gateway.spec.listeners[].allowedRoutes.kinds[]`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RouteGroupKind {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    pub kind: String,
}

/// `Gateway.spec.listeners[].allowedRoutes`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AllowedRoutes {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<RouteGroupKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<FromNamespaces>,
}

/// `Gateway.spec.listeners[].filters.requests[].externalAuth.backendRef`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BackendObjectReference {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
}

/// `Gateway.spec.listeners[].filters.requests[].externalAuth.forwardBody`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ForwardBodyConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_size: Option<i32>,
}

/// `Gateway.spec.listeners[].filters.requests[].externalAuth.grpc`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GrpcAuthConfig {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_headers: Vec<String>,
}

/// `Gateway.spec.listeners[].filters.requests[].externalAuth.http`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HttpAuthConfig {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_headers: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_response_headers: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// `Gateway.spec.listeners[].filters.requests[].externalAuth`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HttpExternalAuthFilter {
    pub backend_ref: BackendObjectReference,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward_body: Option<ForwardBodyConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc: Option<GrpcAuthConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpAuthConfig>,
    pub protocol: String,
}

/// `Gateway.spec.listeners[].filters.requests[]`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ListenerFilter {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extension_ref: Option<LocalObjectReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_auth: Option<HttpExternalAuthFilter>,
    pub type_: String,
}

/// `Gateway.spec.listeners[].filters`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ListenerFilters {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<ListenerFilter>,
}

/// `Gateway.spec.listeners[].tls.certificateRefs[]`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectReference {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// `Gateway.spec.listeners[].tls`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ListenerTls {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub certificate_refs: Vec<ObjectReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
}

/// `Gateway.spec.listeners[]`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Listener {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_routes: Option<AllowedRoutes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filters: Option<Box<ListenerFilters>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    pub name: String,
    pub port: i32,
    pub protocol: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ListenerTls>,
}

/// `Gateway.spec.tls.backend`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GatewayBackendTls {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_certificate_ref: Option<ObjectReference>,
}

/// `Gateway.spec.tls.frontend.default.validation`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct FrontendTlsValidation {
    pub ca_certificate_refs: Vec<ParametersReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

/// `Gateway.spec.tls.frontend.default`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct FrontendTlsConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<FrontendTlsValidation>,
}

/// `Gateway.spec.tls.frontend.perPort[]`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct FrontendTlsPort {
    pub port: i32,
    pub tls: FrontendTlsConfig,
}

/// `Gateway.spec.tls.frontend`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct FrontendTls {
    pub default: FrontendTlsConfig,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub per_port: Vec<FrontendTlsPort>,
}

/// `Gateway.spec.tls`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GatewayTls {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<GatewayBackendTls>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frontend: Option<FrontendTls>,
}

/// `Gateway.spec`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GatewaySpec {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<GatewayAddress>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_listeners: Option<AllowedListeners>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_scope: Option<String>,
    pub gateway_class_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure: Option<GatewayInfrastructure>,
    pub listeners: Vec<Listener>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<GatewayTls>,
}

/// `Gateway.status.addresses[]`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatusAddress {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routability: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    pub value: String,
}

/// `Gateway.status.listeners[]`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ListenerStatus {
    pub attached_routes: i32,
    pub conditions: Vec<Condition>,
    pub name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub supported_kinds: Vec<RouteGroupKind>,
}

/// `Gateway.status`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GatewayStatus {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<StatusAddress>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attached_listener_sets: Option<i32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub listeners: Vec<ListenerStatus>,
}

/// `ListenerSet.spec`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ListenerSetSpec {
    pub listeners: Vec<Listener>,
    pub parent_ref: ObjectReference,
}

/// `ListenerSet.status`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ListenerSetStatus {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub listeners: Vec<ListenerStatus>,
}
