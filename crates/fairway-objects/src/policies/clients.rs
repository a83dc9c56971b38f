//! ClientTrafficPolicy: what holds for the clients of listeners.

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
    /// What it asks for.
    pub spec: ClientTrafficPolicySpec,
    /// What became of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<PolicyStatus>,
}

custom_resource! {
    ClientTrafficPolicy(ClientTrafficPolicySpec, PolicyStatus):
    "fairway.dev", "v1alpha1", "ClientTrafficPolicy", "clienttrafficpolicies", NamespaceResourceScope
}

/// What a ClientTrafficPolicy asks for. What is absent is as the flags and the settings ConfigMap have it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClientTrafficPolicySpec {
    /// Gateways and ListenerSets of its namespace; a `sectionName` is a listener.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub target_refs: Vec<PolicyTargetReference>,
    /// How connections begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<ProxyProtocol>,
    /// Whether HTTP/3 is spoken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http3: Option<Http3>,
    /// Whose `X-Forwarded-*` headers are believed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forwarded_headers: Option<ForwardedHeaders>,
    /// `Plain` (default), `Underscores` or `Any`: which names the headers of a request may have; others are removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_names: Option<String>,
    /// `Accept` (default) or `Reject`: what becomes of TLS clients that ask for no name, or for one that no host has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_names: Option<String>,
    /// Clients that are refused with 403.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked_clients: Option<BlockedClients>,
    /// How long clients may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<ClientTimeouts>,
    /// How much clients may ask for.
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
    /// Addresses and ranges that may send the header; others are refused. Needed where it is required.
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
    /// Whether requests in early data (0-RTT) are taken: `Enabled` or `Disabled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_data: Option<String>,
}

/// `X-Forwarded-*`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ForwardedHeaders {
    /// Addresses and ranges that are believed; nobody where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trusted_sources: Vec<String>,
    /// `Replace` (default) or `Append`: what becomes of the `X-Forwarded-For` of a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain: Option<String>,
    /// The header with the client's address, instead of `X-Forwarded-For`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address_header: Option<String>,
    /// `All` (default) or `Address`: what the trusted sources are believed about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
}

/// Clients that are refused with 403, whatever they ask for. Any value is enough.
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
    /// `Exact` (default), in upper or lower case, or `RegularExpression`, which is found anywhere in it.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// The text; of an absent header it is empty.
    pub value: String,
}

/// How long clients may take.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClientTimeouts {
    /// How long an idle connection is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<String>,
    /// How long the head of a request may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_head: Option<String>,
    /// How long TLS may take to be agreed on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_handshake: Option<String>,
}

/// How much clients may ask for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClientLimits {
    /// Connections of a listener that are open at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<i64>,
    /// Requests per connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_connection: Option<i64>,
    /// Streams of HTTP/2 that a connection may have open at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrent_streams: Option<i64>,
    /// Bytes that the body of a request may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_body: Option<Size>,
}

/// How requests are traced. Fields are called as in XTelemetryPolicy of Gateway API, where it has them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClientTracing {
    /// Which of the traces that begin here are sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling_rate: Option<SamplingRate>,
    /// Whether the sampling decision of a trace that is continued counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_based_sampling: Option<ParentBasedSampling>,
    /// `Restart` (default) or `Continue`: what becomes of the trace context of a client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incoming_context: Option<String>,
    /// `W3C` (default) or `W3CAndB3`: the headers in which contexts are read and sent.
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
    /// From 1 on; 100 where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denominator: Option<i64>,
}

/// Whether the sampling decision of a trace that is continued counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ParentBasedSampling {
    /// `Enabled` (default) or `Disabled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}
