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
    /// What it asks for.
    pub spec: BackendTrafficPolicySpec,
    /// What became of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<PolicyStatus>,
}

custom_resource! {
    BackendTrafficPolicy(BackendTrafficPolicySpec, PolicyStatus):
    "fairway.dev", "v1alpha1", "BackendTrafficPolicy", "backendtrafficpolicies", NamespaceResourceScope
}

/// What a BackendTrafficPolicy asks for. What is absent is as everywhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BackendTrafficPolicySpec {
    /// Services of its namespace; a `sectionName` is the name of a port.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub target_refs: Vec<PolicyTargetReference>,
    /// Which endpoint gets a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancing: Option<LoadBalancing>,
    /// A cookie that keeps requests with one endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_cookie: Option<SessionCookie>,
    /// Which failures are tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// When an endpoint that fails is not used for a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outlier_ejection: Option<OutlierEjection>,
    /// Which endpoints are fit for requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
    /// How much endpoints are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<BackendLimits>,
    /// Connects that are late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hedging: Option<Hedging>,
    /// Which responses are compressed, and how.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compression: Option<ResponseCompression>,
    /// Which bodies are held before they go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffering: Option<BodyBuffering>,
    /// Which responses another Service makes instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_pages: Option<ErrorPages>,
}

/// Which responses another Service makes instead.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ErrorPages {
    /// Statuses from 400 to 599.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub statuses: Vec<i32>,
    /// Who makes them.
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

/// Which endpoint gets a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LoadBalancing {
    /// `PeakEWMA` (default), `RoundRobin`, `LeastRequests` or `Random`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<String>,
    /// `PreferSameZone`, `PreferSameNode` or `Any`: which endpoints are preferred, whatever `spec.trafficDistribution` of the Service
    /// says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic_distribution: Option<String>,
    /// Requests in which all of these are equal belong to the same endpoint.
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

/// A cookie that keeps requests with one endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SessionCookie {
    /// Its name.
    pub name: String,
    /// Its `Path`; `/` where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Its `Domain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Its `Max-Age`, a duration of whole seconds; it lasts as long as the browser where it is absent.
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

/// Which failures are tried again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RetryPolicy {
    /// Attempts after the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<i32>,
    /// The least time between an attempt that failed and the next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<String>,
    /// Time for all attempts to connect together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_time: Option<String>,
    /// `Shared` (default) or `None`: whether the budget for retries of the worker counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
    /// Retries that a worker may make for the Service, in percent of its requests, instead of those of the budget of the worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_percent: Option<i32>,
    /// Retries that a worker may make for the Service every second besides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_retries_per_second: Option<i32>,
}

/// When an endpoint that fails is not used for a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OutlierEjection {
    /// `ConsecutiveFailures` (default) or `Off`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Failures in a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consecutive_failures: Option<i32>,
    /// How long the first time is; each further one is twice as long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_time: Option<String>,
    /// How long it is at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_time: Option<String>,
    /// When an endpoint that is slow is not used for a time, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyEjection>,
}

/// When an endpoint that is slow is not used for a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LatencyEjection {
    /// How many times as slow as the median of the others it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factor: Option<i32>,
    /// Responses of an endpoint below which an interval says nothing about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_responses: Option<i64>,
    /// How long is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<String>,
}

/// Which endpoints are fit for requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Health {
    /// What Fairway asks each endpoint by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<HealthCheck>,
    /// How long an endpoint that is new, or fit again, takes to get its whole share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_start: Option<String>,
    /// Where more than this percentage of the endpoints fail their checks, checks do not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub panic_threshold: Option<i32>,
}

/// A request of Fairway's own to each endpoint, again and again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HealthCheck {
    /// `HTTP` (default), `GRPC` or `TCP`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// With `HTTP`: path and query; `/` where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// With `HTTP`: the `Host`; the address of the endpoint where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// With `HTTP`: the statuses that are a success; 200 to 399 where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub expected_statuses: Vec<i32>,
    /// With `GRPC`: the service that is asked about; the server as a whole where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// From the beginning of one to the beginning of the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<String>,
    /// How long one may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// Failures in a row after which an endpoint is out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unhealthy_threshold: Option<i32>,
    /// Successes in a row after which it is in again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healthy_threshold: Option<i32>,
}

/// How much endpoints are asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BackendLimits {
    /// Requests, or forwarded connections, that a worker may have under way with one endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_endpoint: Option<i64>,
    /// Requests, or forwarded connections, that all workers together may have under way with the Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<i64>,
    /// Connections that all workers together may have to the endpoints of the Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<i64>,
    /// A limit of requests that await a response, which moves with how long responses take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adaptive_concurrency: Option<AdaptiveConcurrency>,
    /// Requests that may wait because one of these three limits is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_requests: Option<i64>,
    /// Requests of which an attempt may follow another one at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<i64>,
    /// Bytes that the body of a request may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_body: Option<Size>,
}

/// Between which numbers a limit moves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AdaptiveConcurrency {
    /// The limit is never lower.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum: Option<i64>,
    /// The limit is never higher.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum: Option<i64>,
}

/// Connects that are late.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Hedging {
    /// How long a connect may take before another endpoint is tried as well; `0s` is never.
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
    /// The preferred one first; all where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub codings: Vec<CompressionCoding>,
    /// The least `Content-Length`; each coding has its own default.
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
    /// How hard the compressor tries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<i32>,
}

/// Which bodies are held before they go on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BodyBuffering {
    /// Those of requests, until they are whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<BodyBufferSize>,
    /// Those of responses, while a client is slower than its endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub responses: Option<BodyBufferSize>,
}

/// Where a body is held.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BodyBufferSize {
    /// Bytes in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
    /// Bytes on disk behind those in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<Size>,
}
