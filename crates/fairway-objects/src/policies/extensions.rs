//! ExtensionPolicy: services that get requests and responses, and may change them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::custom_resource::custom_resource;
use crate::gateway_api::{PolicyStatus, PolicyTargetReference};
use crate::policies::references::ServiceReference;
use crate::policies::security::RefusedField;
use crate::policies::size::Size;

/// `fairway.dev/v1alpha1` ExtensionPolicy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExtensionPolicy {
    /// Its name and age.
    pub metadata: ObjectMeta,
    /// The settings.
    pub spec: ExtensionPolicySpec,
    /// Its status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<PolicyStatus>,
}

custom_resource! {
    ExtensionPolicy(ExtensionPolicySpec, PolicyStatus):
    "fairway.dev", "v1alpha1", "ExtensionPolicy", "extensionpolicies", NamespaceResourceScope
}

/// The settings of an ExtensionPolicy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExtensionPolicySpec {
    /// Gateways, ListenerSets, HTTPRoutes and GRPCRoutes of its namespace; a `sectionName` is a listener or a rule.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub target_refs: Vec<PolicyTargetReference>,
    /// `ext_proc` services, in the order in which they process requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ext_proc: Vec<ExternalProcessor>,
    /// Why nothing above is reliable; set by the reader of the policy, never written in one.
    #[serde(skip)]
    pub refused: Option<RefusedField>,
}

/// An `ext_proc` service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExternalProcessor {
    /// The service.
    pub backend_ref: ServiceReference,
    /// The `:authority` of calls; default: `name.namespace.svc`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Timeout of a response to one message; default `200ms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_timeout: Option<String>,
    /// `Closed` (default) or `Open`: how requests are treated while the service is unavailable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_mode: Option<String>,
    /// What the service gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processing_mode: Option<ProcessingMode>,
    /// Whether the service may choose what it gets, per request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_mode_override: Option<bool>,
    /// Which headers it may change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mutation_rules: Option<HeaderMutationRules>,
    /// The maximum body size for `Buffered` and `BufferedPartial`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_buffered_bytes: Option<Size>,
    /// Names of request attributes that it gets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<String>,
    /// Metadata that it gets with every request: an object per namespace.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, Map<String, Value>>,
}

/// What a service gets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ProcessingMode {
    /// For requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<MessageProcessing>,
    /// For responses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<MessageProcessing>,
}

/// What a service gets of a message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MessageProcessing {
    /// `Send` (default) or `Skip`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<String>,
    /// `None` (default), `Streamed`, `Buffered`, `BufferedPartial` or `FullDuplexStreamed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// `Send` or `Skip` (default).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trailers: Option<String>,
}

/// Which headers a service may change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HeaderMutationRules {
    /// Whether it may change the path and the method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_path_and_method: Option<bool>,
    /// Whether it may change `X-Forwarded-*` and `X-Envoy-*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_forwarded: Option<bool>,
    /// Names of other headers that it may not change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<String>,
    /// Whether a forbidden change ends the request with 500. Otherwise it is ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_on_denied: Option<bool>,
}
