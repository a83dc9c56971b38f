//! SecurityPolicy: authentication, authorization and rate limits.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::custom_resource::custom_resource;
use crate::gateway_api::{PolicyStatus, PolicyTargetReference};
use crate::policies::identity::{ApiKey, Authorization, Jwt, Oidc};
use crate::policies::references::{SecretOrConfigMapReference, SecretReference, ServiceReference};
use crate::policies::size::Size;

/// `fairway.dev/v1alpha1` SecurityPolicy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SecurityPolicy {
    /// Its name and age.
    pub metadata: ObjectMeta,
    /// The settings.
    pub spec: SecurityPolicySpec,
    /// Its status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<PolicyStatus>,
}

custom_resource! {
    SecurityPolicy(SecurityPolicySpec, PolicyStatus):
    "fairway.dev", "v1alpha1", "SecurityPolicy", "securitypolicies", NamespaceResourceScope
}

/// The settings of a SecurityPolicy. A request must pass all of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SecurityPolicySpec {
    /// Gateways, ListenerSets, HTTPRoutes and GRPCRoutes of its namespace; a `sectionName` is a listener or a rule.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub target_refs: Vec<PolicyTargetReference>,
    /// Which more specific policies replace this one: `SameNamespace` (default), `All` or `None`. Others apply in addition to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaceable_by: Option<String>,
    /// Which client addresses are allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_ranges: Option<SourceRanges>,
    /// Rate limits per client.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rate_limits: Vec<RateLimit>,
    /// The limit of concurrent requests per client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency_limit: Option<ConcurrencyLimit>,
    /// Client certificates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_certificates: Option<ClientCertificates>,
    /// Password authentication.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basic_auth: Option<BasicAuth>,
    /// A JSON Web Token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwt: Option<Jwt>,
    /// A login with an OpenID provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oidc: Option<Oidc>,
    /// An API key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key: Option<ApiKey>,
    /// Authorization by an external service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_auth: Option<ExternalAuth>,
    /// Authorization rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorization: Option<Authorization>,
    /// Why nothing above is reliable; set by the reader of the policy, never written in one.
    #[serde(skip)]
    pub refused: Option<RefusedField>,
}

/// A field that makes the whole policy invalid: without it, the rest would protect less than its author intended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedField {
    /// The field, as in `spec.rateLimits[0].requests`.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

/// Which client addresses are allowed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SourceRanges {
    /// If not empty, only these are allowed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Refused; takes precedence over `allow`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
}

/// A rate limit per client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RateLimit {
    /// The number of requests, evenly spread over `per`.
    pub requests: i64,
    /// The period; default `1s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per: Option<String>,
    /// Additional requests that may arrive at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<i64>,
    /// The status above the limit: 400 to 599, default 429.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<i32>,
    /// Addresses and ranges that are not counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exempt: Vec<String>,
    /// `ClientAddress` (default), `Claim` or `ApiKeyClient`: which requests are counted together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The claim, for `Claim`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
    /// `Replica` (default) or `Fleet`: whether the limit applies per replica or to all replicas together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
}

/// The limit of concurrent requests per client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ConcurrencyLimit {
    /// The number of concurrent requests.
    pub requests: i64,
    /// The status above the limit: 400 to 599, default 503.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<i32>,
    /// Addresses and ranges that are not counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exempt: Vec<String>,
}

/// Client certificates, requested by HTTPS listeners.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClientCertificates {
    /// Secrets and ConfigMaps with the authorities in `ca.crt`. A `ca.crl` contains revocation lists.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ca_certificate_refs: Vec<SecretOrConfigMapReference>,
    /// `Required` (default) or `Optional`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The maximum number of certificates between a client's and an authority's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<i32>,
}

/// Password authentication.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BasicAuth {
    /// The Secret with users and password hashes.
    pub secret_ref: SecretReference,
    /// `File` (default): its entry `auth` is an `htpasswd` file. `Map`: each entry is a user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// The protection space shown by browsers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub realm: Option<String>,
}

/// Authorization by an external service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExternalAuth {
    /// The service.
    pub backend_ref: ServiceReference,
    /// The `Host` of the auth request; default: `name.namespace.svc`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Path and query of the auth request; default `/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The method of the auth request; default `GET`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Headers of an allowing response that replace those of the request for the endpoint.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub response_headers: Vec<String>,
    /// The URL that clients are redirected to on a 401.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sign_in_url: Option<String>,
    /// Timeout of each step of the auth request; default `60s`, and `1s` for the connect. With `grpc`, timeout of the whole call;
    /// default `10s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// Uses gRPC instead of HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc: Option<GrpcAuth>,
}

/// Authorization by an external service over gRPC (`ext_authz`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GrpcAuth {
    /// How much of a request's body the auth request includes; default: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_request_bytes: Option<Size>,
    /// Whether a larger body is truncated. Otherwise its request gets a 413 response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_partial_body: Option<bool>,
    /// `Closed` (default) or `Open`: how requests are treated while the service does not respond.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_mode: Option<String>,
    /// Additional information in the auth request, as `context_extensions`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub context_extensions: BTreeMap<String, String>,
}
