//! ExtensionPolicy: services that see requests and responses, and may change them.

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
    /// What it asks for.
    pub spec: ExtensionPolicySpec,
    /// What became of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<PolicyStatus>,
}

custom_resource! {
    ExtensionPolicy(ExtensionPolicySpec, PolicyStatus):
    "fairway.dev", "v1alpha1", "ExtensionPolicy", "extensionpolicies", NamespaceResourceScope
}

/// What an ExtensionPolicy asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExtensionPolicySpec {
    /// Gateways, ListenerSets, HTTPRoutes and GRPCRoutes of its namespace; a `sectionName` is a listener or a rule.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub target_refs: Vec<PolicyTargetReference>,
    /// Services that speak `ext_proc`, in the order in which requests meet them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ext_proc: Vec<ExternalProcessor>,
    /// Why nothing above may be relied on; set by whoever read the policy, never written in one.
    #[serde(skip)]
    pub refused: Option<RefusedField>,
}

/// A service that speaks `ext_proc`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExternalProcessor {
    /// Who is asked.
    pub backend_ref: ServiceReference,
    /// The `:authority` of calls; `name.namespace.svc` where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// How long the answer to one message may take; `200ms` where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_timeout: Option<String>,
    /// `Closed` (default) or `Open`: what becomes of requests while the service cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_mode: Option<String>,
    /// What the service sees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processing_mode: Option<ProcessingMode>,
    /// Whether the service may choose for each request what it sees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_mode_override: Option<bool>,
    /// Which headers it may change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mutation_rules: Option<HeaderMutationRules>,
    /// The longest body that `Buffered` and `BufferedPartial` hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_buffered_bytes: Option<Size>,
    /// Names of attributes of requests that it gets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<String>,
    /// What it gets with every request besides: by namespace, an object.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, Map<String, Value>>,
}

/// What a service sees.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ProcessingMode {
    /// Of requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<MessageProcessing>,
    /// Of responses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<MessageProcessing>,
}

/// What a service sees of a message.
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
    /// Whether a change that is not allowed ends the request with 500. Otherwise it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_on_denied: Option<bool>,
}
