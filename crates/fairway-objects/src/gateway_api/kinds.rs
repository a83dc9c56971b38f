//! Generated from the CRDs of the Gateway API by `make gateway-types`; changes belong into `examples/generate.rs`.

#![allow(missing_docs, reason = "the fields are those of the Gateway API reference")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::custom_resource::custom_resource;
use crate::gateway_api::gateways::*;
use crate::gateway_api::routes::*;

/// `gateway.networking.k8s.io/v1` GatewayClass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GatewayClass {
    pub metadata: ObjectMeta,
    pub spec: GatewayClassSpec,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<GatewayClassStatus>,
}

custom_resource! {
    GatewayClass(GatewayClassSpec, GatewayClassStatus):
    "gateway.networking.k8s.io", "v1", "GatewayClass", "gatewayclasses", ClusterResourceScope
}

/// `gateway.networking.k8s.io/v1` Gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gateway {
    pub metadata: ObjectMeta,
    pub spec: GatewaySpec,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<GatewayStatus>,
}

custom_resource! {
    Gateway(GatewaySpec, GatewayStatus):
    "gateway.networking.k8s.io", "v1", "Gateway", "gateways", NamespaceResourceScope
}

/// `gateway.networking.k8s.io/v1` ListenerSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListenerSet {
    pub metadata: ObjectMeta,
    pub spec: ListenerSetSpec,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ListenerSetStatus>,
}

custom_resource! {
    ListenerSet(ListenerSetSpec, ListenerSetStatus):
    "gateway.networking.k8s.io", "v1", "ListenerSet", "listenersets", NamespaceResourceScope
}

/// `gateway.networking.k8s.io/v1` HTTPRoute.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HttpRoute {
    pub metadata: ObjectMeta,
    pub spec: HttpRouteSpec,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RouteStatus>,
}

custom_resource! {
    HttpRoute(HttpRouteSpec, RouteStatus):
    "gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes", NamespaceResourceScope
}

/// `gateway.networking.k8s.io/v1` GRPCRoute.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GrpcRoute {
    pub metadata: ObjectMeta,
    pub spec: GrpcRouteSpec,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RouteStatus>,
}

custom_resource! {
    GrpcRoute(GrpcRouteSpec, RouteStatus):
    "gateway.networking.k8s.io", "v1", "GRPCRoute", "grpcroutes", NamespaceResourceScope
}

/// `gateway.networking.k8s.io/v1` TLSRoute.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TlsRoute {
    pub metadata: ObjectMeta,
    pub spec: TlsRouteSpec,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RouteStatus>,
}

custom_resource! {
    TlsRoute(TlsRouteSpec, RouteStatus):
    "gateway.networking.k8s.io", "v1", "TLSRoute", "tlsroutes", NamespaceResourceScope
}

/// `gateway.networking.k8s.io/v1` TCPRoute.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TcpRoute {
    pub metadata: ObjectMeta,
    pub spec: StreamRouteSpec,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RouteStatus>,
}

custom_resource! {
    TcpRoute(StreamRouteSpec, RouteStatus):
    "gateway.networking.k8s.io", "v1", "TCPRoute", "tcproutes", NamespaceResourceScope
}

/// `gateway.networking.k8s.io/v1` UDPRoute.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UdpRoute {
    pub metadata: ObjectMeta,
    pub spec: StreamRouteSpec,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RouteStatus>,
}

custom_resource! {
    UdpRoute(StreamRouteSpec, RouteStatus):
    "gateway.networking.k8s.io", "v1", "UDPRoute", "udproutes", NamespaceResourceScope
}

/// `gateway.networking.k8s.io/v1` ReferenceGrant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReferenceGrant {
    pub metadata: ObjectMeta,
    pub spec: ReferenceGrantSpec,
}

custom_resource! {
    ReferenceGrant(ReferenceGrantSpec):
    "gateway.networking.k8s.io", "v1", "ReferenceGrant", "referencegrants", NamespaceResourceScope
}

/// `gateway.networking.k8s.io/v1` BackendTLSPolicy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackendTlsPolicy {
    pub metadata: ObjectMeta,
    pub spec: BackendTlsPolicySpec,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<PolicyStatus>,
}

custom_resource! {
    BackendTlsPolicy(BackendTlsPolicySpec, PolicyStatus):
    "gateway.networking.k8s.io", "v1", "BackendTLSPolicy", "backendtlspolicies", NamespaceResourceScope
}
