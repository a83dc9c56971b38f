//! Services that decide about requests and change them over gRPC: Envoy's `ext_authz` and `ext_proc`, and the endpoint pickers of the
//! Gateway API Inference Extension.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backend::BackendKey;
use crate::default::is_default;
use crate::policy::Timeouts;
use crate::template::Template;

/// A service that speaks gRPC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrpcService {
    /// Its endpoints; they speak HTTP/2.
    pub backend: BackendKey,
    /// The `:authority` of calls.
    pub authority: Arc<str>,
    /// How long each step of a call may take.
    pub timeouts: Timeouts,
}

/// Another service decides over gRPC whether a request may pass (`envoy.service.auth.v3.Authorization/Check`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrpcAuth {
    /// Who decides.
    pub service: GrpcService,
    /// How much of a request's body the question has, in bytes; 0 sends none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_body: u32,
    /// Whether a larger body is cut off there. Otherwise its request gets 413.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allow_partial_body: bool,
    /// Whether a request passes while the service gives no answer that can be used.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failure_mode_allow: bool,
    /// `context_extensions` of the question.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<(Arc<str>, Arc<str>)>,
    /// The fields of the request that the question has, in lower case; all, where none is named.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sent: Vec<Arc<str>>,
}

/// A service that sees requests and responses, and may change them
/// (`envoy.service.ext_proc.v3.ExternalProcessor/Process`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extension {
    /// What metrics and logs call it: `ExtensionPolicy/NAMESPACE/NAME`, `Ingress/NAMESPACE/NAME`, `InferencePool/NAMESPACE/NAME`.
    pub name: Arc<str>,
    /// Who is asked.
    pub service: GrpcService,
    /// How long the service may take for the answer to one message.
    pub message_timeout: Duration,
    /// Whether the exchange goes on without a service that fails. Otherwise it ends with 500.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failure_mode_allow: bool,
    /// What the service sees of requests.
    pub request: ProcessingPhases,
    /// What the service sees of responses.
    pub response: ProcessingPhases,
    /// Whether the service may change `request` and `response` for one exchange.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allow_mode_override: bool,
    /// Which headers the service may change.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mutation_rules: MutationRules,
    /// The longest body that [`BodyMode::Buffered`] and [`BodyMode::BufferedPartial`] hold, in bytes.
    pub max_buffered_body: u32,
    /// Attributes of the request that the first message has, by their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<(Arc<str>, Template)>,
    /// `filter_metadata` of every stream: by namespace, an object in JSON.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metadata: Vec<(Arc<str>, Arc<str>)>,
    /// Whether the service says which endpoint gets the request.
    #[serde(default, skip_serializing_if = "is_default")]
    pub picks_endpoint: bool,
}

/// What a service sees of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessingPhases {
    /// Its headers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub headers: bool,
    /// Its body.
    #[serde(default, skip_serializing_if = "is_default")]
    pub body: BodyMode,
    /// Its trailers, where it has some.
    #[serde(default, skip_serializing_if = "is_default")]
    pub trailers: bool,
}

/// How a body is shown to a service (`envoy.extensions.filters.http.ext_proc.v3.ProcessingMode.BodySendMode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BodyMode {
    /// Not at all.
    #[default]
    None,
    /// Piece by piece; each goes on once it was answered.
    Streamed,
    /// Once it is whole. A longer one than the bound gets 413, or 500 in a response.
    Buffered,
    /// As much of it as the bound allows, at once; the rest goes on unseen.
    BufferedPartial,
    /// Piece by piece, while the service sends pieces of its own at its own pace.
    FullDuplexStreamed,
}

/// Which headers a service may change (`envoy.config.common.mutation_rules.v3.HeaderMutationRules`). `Host`, `:scheme`, headers of one
/// connection and those that say where a message ends can never be changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MutationRules {
    /// Whether `:path` and `:method` of requests may be changed. The route stays the one that was chosen.
    #[serde(skip_serializing_if = "is_default")]
    pub allow_path_and_method: bool,
    /// Whether headers that begin with `x-envoy-` may be changed, and those that Fairway writes (`X-Forwarded-For` and its like).
    #[serde(skip_serializing_if = "is_default")]
    pub allow_forwarded: bool,
    /// Names of other headers that may not be changed, in lower case.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<Arc<str>>,
    /// Whether a change that is not allowed ends the exchange with 500. Otherwise it is left out and counted.
    #[serde(skip_serializing_if = "is_default")]
    pub error_on_denied: bool,
}
