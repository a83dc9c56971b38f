//! Services that decide about or change requests over gRPC: Envoy's `ext_authz` and `ext_proc`, and the endpoint
//! pickers of the Gateway API Inference Extension.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backend::BackendKey;
use crate::default::is_default;
use crate::policy::Timeouts;
use crate::template::Template;

/// A gRPC service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrpcService {
    /// Its endpoints; they speak HTTP/2.
    pub backend: BackendKey,
    /// The `:authority` of calls.
    pub authority: Arc<str>,
    /// Timeouts of a call.
    pub timeouts: Timeouts,
}

/// External authorization over gRPC (`envoy.service.auth.v3.Authorization/Check`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrpcAuth {
    /// The service that decides.
    pub service: GrpcService,
    /// Maximum bytes of the request body included in the check; 0 sends none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_body: u32,
    /// Whether a larger body is truncated; otherwise the request gets 413.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allow_partial_body: bool,
    /// Whether requests pass if the service gives no usable response.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failure_mode_allow: bool,
    /// `context_extensions` of the check.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<(Arc<str>, Arc<str>)>,
    /// Request headers included in the check, in lower case; empty includes all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sent: Vec<Arc<str>>,
}

/// A service that sees and may change requests and responses (`envoy.service.ext_proc.v3.ExternalProcessor/Process`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extension {
    /// Name in metrics and logs: `ExtensionPolicy/NAMESPACE/NAME`, `Ingress/NAMESPACE/NAME`,
    /// `InferencePool/NAMESPACE/NAME`.
    pub name: Arc<str>,
    /// The service to call.
    pub service: GrpcService,
    /// Timeout for the response to one message.
    pub message_timeout: Duration,
    /// Whether the exchange continues without a service that fails; otherwise it ends with 500.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failure_mode_allow: bool,
    /// Parts of requests sent to the service.
    pub request: ProcessingPhases,
    /// Parts of responses sent to the service.
    pub response: ProcessingPhases,
    /// Whether the service may change `request` and `response` for one exchange.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allow_mode_override: bool,
    /// Header changes that the service may make.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mutation_rules: MutationRules,
    /// Maximum body held by [`BodyMode::Buffered`] and [`BodyMode::BufferedPartial`], in bytes.
    pub max_buffered_body: u32,
    /// Request attributes in the first message, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<(Arc<str>, Template)>,
    /// `filter_metadata` of every stream: a JSON object by namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metadata: Vec<(Arc<str>, Arc<str>)>,
    /// Whether the service picks the endpoint.
    #[serde(default, skip_serializing_if = "is_default")]
    pub picks_endpoint: bool,
}

/// Parts of a message sent to a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessingPhases {
    /// Its headers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub headers: bool,
    /// Its body.
    #[serde(default, skip_serializing_if = "is_default")]
    pub body: BodyMode,
    /// Its trailers, if any.
    #[serde(default, skip_serializing_if = "is_default")]
    pub trailers: bool,
}

/// How a body is sent to a service (`envoy.extensions.filters.http.ext_proc.v3.ProcessingMode.BodySendMode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BodyMode {
    /// Not sent.
    #[default]
    None,
    /// In chunks; each is forwarded once the service has responded to it.
    Streamed,
    /// As a whole. A body over the limit gets 413, or 500 for a response.
    Buffered,
    /// As much as the limit allows, in one message; the rest is forwarded without the service.
    BufferedPartial,
    /// In chunks, while the service sends its own chunks independently.
    FullDuplexStreamed,
}

/// Header changes that a service may make (`envoy.config.common.mutation_rules.v3.HeaderMutationRules`). `Host`,
/// `:scheme`, hop-by-hop headers and headers that frame the message can never be changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MutationRules {
    /// Whether `:path` and `:method` of requests may be changed. The route stays the same.
    #[serde(skip_serializing_if = "is_default")]
    pub allow_path_and_method: bool,
    /// Whether `x-envoy-*` headers and headers that Fairway writes (such as `X-Forwarded-For`) may be changed.
    #[serde(skip_serializing_if = "is_default")]
    pub allow_forwarded: bool,
    /// Other headers that may not be changed, in lower case.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<Arc<str>>,
    /// Whether a forbidden change ends the exchange with 500; otherwise the change is dropped and counted.
    #[serde(skip_serializing_if = "is_default")]
    pub error_on_denied: bool,
}
