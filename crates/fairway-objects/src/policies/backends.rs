//! BackendTrafficPolicy: how the endpoints of Services are used.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::custom_resource::custom_resource;
use crate::gateway_api::{PolicyStatus, PolicyTargetReference};
use crate::policies::size::Size;

/// `fairway.dev/v1alpha1` BackendTrafficPolicy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackendTrafficPolicy {
    /// Its name and age.
    pub metadata: ObjectMeta,
    /// The settings.
    pub spec: BackendTrafficPolicySpec,
    /// Its status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<PolicyStatus>,
}

custom_resource! {
    BackendTrafficPolicy(BackendTrafficPolicySpec, PolicyStatus):
    "fairway.dev", "v1alpha1", "BackendTrafficPolicy", "backendtrafficpolicies", NamespaceResourceScope
}

/// The settings of a BackendTrafficPolicy. Absent fields have their defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BackendTrafficPolicySpec {
    /// Services of its namespace; a `sectionName` is the name of a port.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub target_refs: Vec<PolicyTargetReference>,
    /// How requests are balanced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancing: Option<LoadBalancing>,
    /// A cookie that binds requests to one endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_cookie: Option<SessionCookie>,
    /// Which failures are retried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// When a failing endpoint is ejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outlier_ejection: Option<OutlierEjection>,
    /// Health checks and slow start of endpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
    /// Limits of requests and connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<BackendLimits>,
    /// A second connect if the first one is slow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hedging: Option<Hedging>,
    /// Which responses are compressed, and how.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compression: Option<ResponseCompression>,
    /// Which bodies are buffered before they are forwarded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffering: Option<BodyBuffering>,
    /// Responses that another Service replaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_pages: Option<ErrorPages>,
}

/// Responses that another Service replaces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ErrorPages {
    /// Statuses from 400 to 599.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub statuses: Vec<i32>,
    /// The Service that provides the pages.
    pub backend_ref: PageService,
}

/// A port of a Service in the namespace of the policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PageService {
    /// Its name.
    pub name: String,
    /// The number of its port.
    pub port: i32,
}

/// How requests are balanced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LoadBalancing {
    /// `PeakEWMA` (default), `RoundRobin`, `LeastRequests` or `Random`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<String>,
    /// `PreferSameZone`, `PreferSameNode` or `Any`: which endpoints are preferred, overriding `spec.trafficDistribution` of the
    /// Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic_distribution: Option<String>,
    /// Requests in which all of these parts are equal go to the same endpoint.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hash: Vec<HashPart>,
}

/// A part of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HashPart {
    /// `ClientAddress`, `Host`, `Path`, `Header`, `Cookie` or `QueryParam`.
    #[serde(rename = "type")]
    pub type_: String,
    /// The name of a header, cookie or query parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A cookie that binds requests to one endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SessionCookie {
    /// Its name.
    pub name: String,
    /// Its `Path`; default `/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Its `Domain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Its `Max-Age`, a duration of whole seconds; by default a session cookie.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_age: Option<String>,
    /// `OverTLS` (default) or `Always`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secure: Option<String>,
    /// `None`, `Lax` or `Strict`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_site: Option<String>,
    /// `Balanced` (default) or `Persistent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stickiness: Option<String>,
    /// `Return` (default) or `Move`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<String>,
}

/// Which failures are retried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RetryPolicy {
    /// Attempts after the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<i32>,
    /// The minimum pause after a failed attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<String>,
    /// The total time for connecting, over all attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_time: Option<String>,
    /// `Shared` (default) or `None`: whether the retry budget of the worker applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
    /// Retries of a worker for the Service, in percent of its requests; replaces the budget of the worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_percent: Option<i32>,
    /// Additional retries of a worker for the Service per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_retries_per_second: Option<i32>,
}

/// When a failing endpoint is ejected.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OutlierEjection {
    /// `ConsecutiveFailures` (default) or `Off`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Consecutive failures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consecutive_failures: Option<i32>,
    /// The duration of the first ejection; it doubles each time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_time: Option<String>,
    /// The maximum duration of an ejection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_time: Option<String>,
    /// When a slow endpoint is ejected, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyEjection>,
}

/// When a slow endpoint is ejected.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LatencyEjection {
    /// How many times slower than the median of the others it must be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factor: Option<i32>,
    /// The minimum of responses of an endpoint for which an interval counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_responses: Option<i64>,
    /// The measuring interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<String>,
}

/// Health checks and slow start of endpoints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Health {
    /// Health checks that Fairway sends to each endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<HealthCheck>,
    /// How long an endpoint that is new, or healthy again, takes to get its full share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_start: Option<String>,
    /// If more than this percentage of the endpoints fail their checks, checks are ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub panic_threshold: Option<i32>,
}

/// A periodic check of each endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HealthCheck {
    /// `HTTP` (default), `GRPC` or `TCP`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// With `HTTP`: path and query; default `/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// With `HTTP`: the `Host`; default: the address of the endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// With `HTTP`: the statuses that count as success; default: 200 to 399.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub expected_statuses: Vec<i32>,
    /// With `GRPC`: the service to check; default: the server as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// From the start of one check to the start of the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<String>,
    /// Timeout of a check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// Consecutive failures that mark an endpoint unhealthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unhealthy_threshold: Option<i32>,
    /// Consecutive successes that mark it healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healthy_threshold: Option<i32>,
}

/// Limits of requests and connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BackendLimits {
    /// Concurrent requests, or forwarded connections, of a worker to one endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_endpoint: Option<i64>,
    /// Concurrent requests, or forwarded connections, of all workers together to the Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<i64>,
    /// Connections of all workers together to the endpoints of the Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<i64>,
    /// A limit of requests that await a response, which adapts to response times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adaptive_concurrency: Option<AdaptiveConcurrency>,
    /// Requests that may wait because one of these three limits is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_requests: Option<i64>,
    /// Concurrent requests that are being retried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<i64>,
    /// The maximum size of a request body, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_body: Option<Size>,
}

/// The bounds of an adaptive limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AdaptiveConcurrency {
    /// The lower bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum: Option<i64>,
    /// The upper bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum: Option<i64>,
}

/// A second connect if the first one is slow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Hedging {
    /// How long a connect may take before another endpoint is tried as well; `0s` means never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_delay: Option<String>,
}

/// Which responses are compressed, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResponseCompression {
    /// `Enabled` (default) or `Disabled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The preferred one first; default: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub codings: Vec<CompressionCoding>,
    /// The minimum `Content-Length`; each coding has its own default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_content_length: Option<Size>,
    /// Media types; each coding has its own default.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub content_types: Vec<String>,
}

/// A content coding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CompressionCoding {
    /// `Brotli`, `Gzip` or `Zstd`.
    #[serde(rename = "type")]
    pub type_: String,
    /// The compression level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<i32>,
}

/// Which bodies are buffered before they are forwarded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BodyBuffering {
    /// Request bodies, until they are complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<BodyBufferSize>,
    /// Response bodies, while a client is slower than its endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub responses: Option<BodyBufferSize>,
}

/// Buffer sizes for a body.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BodyBufferSize {
    /// Bytes in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
    /// Bytes on disk, in addition to those in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<Size>,
}
