//! ClientTrafficPolicy: settings for the clients of listeners.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::custom_resource::custom_resource;
use crate::gateway_api::{PolicyStatus, PolicyTargetReference};
use crate::policies::size::Size;

/// `fairway.dev/v1alpha1` ClientTrafficPolicy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientTrafficPolicy {
    /// Its name and age.
    pub metadata: ObjectMeta,
    /// The settings.
    pub spec: ClientTrafficPolicySpec,
    /// Its status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<PolicyStatus>,
}

custom_resource! {
    ClientTrafficPolicy(ClientTrafficPolicySpec, PolicyStatus):
    "fairway.dev", "v1alpha1", "ClientTrafficPolicy", "clienttrafficpolicies", NamespaceResourceScope
}

/// The settings of a ClientTrafficPolicy. Absent fields are as in the flags and the settings ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClientTrafficPolicySpec {
    /// Gateways and ListenerSets of its namespace; a `sectionName` is a listener.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub target_refs: Vec<PolicyTargetReference>,
    /// Whether connections start with the PROXY protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<ProxyProtocol>,
    /// Whether HTTP/3 is enabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http3: Option<Http3>,
    /// Which peers' `X-Forwarded-*` headers are trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forwarded_headers: Option<ForwardedHeaders>,
    /// `Plain` (default), `Underscores` or `Any`: which header names requests may have; other headers are removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_names: Option<String>,
    /// `Accept` (default) or `Reject`: how TLS clients are treated that send no server name, or an unknown one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_names: Option<String>,
    /// Clients that are refused with 403.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked_clients: Option<BlockedClients>,
    /// Timeouts for clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<ClientTimeouts>,
    /// Limits for clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<ClientLimits>,
    /// How requests are traced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracing: Option<ClientTracing>,
}

/// The PROXY protocol.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ProxyProtocol {
    /// `Required` or `Off`.
    pub mode: String,
    /// Addresses and ranges that may send the header; others are refused. Required with `Required`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trusted_sources: Vec<String>,
}

/// HTTP/3 of HTTPS listeners.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Http3 {
    /// `Enabled` (default) or `Disabled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Whether requests in early data (0-RTT) are accepted: `Enabled` or `Disabled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_data: Option<String>,
}

/// `X-Forwarded-*`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ForwardedHeaders {
    /// Trusted addresses and ranges; none by default.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trusted_sources: Vec<String>,
    /// `Replace` (default) or `Append`: how the `X-Forwarded-For` of a request is forwarded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain: Option<String>,
    /// The header with the client's address, instead of `X-Forwarded-For`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address_header: Option<String>,
    /// `All` (default) or `Address`: which information of the trusted sources is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
}

/// Clients that are refused with 403 for any request. One matching value is enough.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BlockedClients {
    /// Values of `User-Agent`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub user_agents: Vec<HeaderValue>,
    /// Values of `Referer`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub referers: Vec<HeaderValue>,
}

/// A value of a header.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HeaderValue {
    /// `Exact` (default), case-insensitive, or `RegularExpression`, which may match anywhere in it.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// The text; an absent header counts as empty.
    pub value: String,
}

/// Timeouts for clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClientTimeouts {
    /// How long an idle connection is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<String>,
    /// Timeout of a request head.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_head: Option<String>,
    /// Timeout of the TLS handshake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_handshake: Option<String>,
}

/// Limits for clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClientLimits {
    /// Concurrent connections of a listener.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<i64>,
    /// Requests per connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_connection: Option<i64>,
    /// Concurrent HTTP/2 streams of a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrent_streams: Option<i64>,
    /// The maximum size of a request body, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_body: Option<Size>,
}

/// How requests are traced. Field names follow XTelemetryPolicy of Gateway API where possible.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClientTracing {
    /// Which of the traces that start here are sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling_rate: Option<SamplingRate>,
    /// Whether the sampling decision of a continued trace applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_based_sampling: Option<ParentBasedSampling>,
    /// `Restart` (default) or `Continue`: how the trace context of a client is treated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incoming_context: Option<String>,
    /// `W3C` (default) or `W3CAndB3`: the headers for trace contexts, incoming and outgoing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub propagation: Option<String>,
}

/// A share of all traces, as a fraction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SamplingRate {
    /// From 0 to the denominator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numerator: Option<i64>,
    /// At least 1; default 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denominator: Option<i64>,
}

/// Whether the sampling decision of a continued trace applies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ParentBasedSampling {
    /// `Enabled` (default) or `Disabled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}
