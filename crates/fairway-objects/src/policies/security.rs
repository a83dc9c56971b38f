//! SecurityPolicy: who may pass, and how often.

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
    /// What it asks for.
    pub spec: SecurityPolicySpec,
    /// What became of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<PolicyStatus>,
}

custom_resource! {
    SecurityPolicy(SecurityPolicySpec, PolicyStatus):
    "fairway.dev", "v1alpha1", "SecurityPolicy", "securitypolicies", NamespaceResourceScope
}

/// What a SecurityPolicy asks for. A request must pass all of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SecurityPolicySpec {
    /// Gateways, ListenerSets, HTTPRoutes and GRPCRoutes of its namespace; a `sectionName` is a listener or a rule.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub target_refs: Vec<PolicyTargetReference>,
    /// Whose more specific policies take the place of this one: `SameNamespace` (default), `All` or `None`. Others hold next
    /// to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaceable_by: Option<String>,
    /// Which client addresses may pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_ranges: Option<SourceRanges>,
    /// How often each client may ask.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rate_limits: Vec<RateLimit>,
    /// How many requests of each client may be under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency_limit: Option<ConcurrencyLimit>,
    /// Certificates of clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_certificates: Option<ClientCertificates>,
    /// A password.
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
    /// The word of another service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_auth: Option<ExternalAuth>,
    /// What is allowed to whom.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorization: Option<Authorization>,
    /// Why nothing above may be relied on; set by whoever read the policy, never written in one.
    #[serde(skip)]
    pub refused: Option<RefusedField>,
}

/// A field for which a policy is refused as a whole: without it the rest would protect less than its writer asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedField {
    /// The field, as in `spec.rateLimits[0].requests`.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

/// Which client addresses may pass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SourceRanges {
    /// Where there are some, nothing else passes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Refused first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
}

/// How often each client may ask.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RateLimit {
    /// So many requests, evenly spread over `per`.
    pub requests: i64,
    /// The time for them; `1s` where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per: Option<String>,
    /// So many may come early, at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<i64>,
    /// What is answered above it: 400 to 599, 429 where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<i32>,
    /// Addresses and ranges that are not counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exempt: Vec<String>,
    /// `ClientAddress` (default), `Claim` or `ApiKeyClient`: whose requests are counted together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The claim, with `Claim`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
    /// `Replica` (default) or `Fleet`: whether the limit holds for each replica, or for all replicas together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
}

/// How many requests of each client may be under way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ConcurrencyLimit {
    /// At most so many.
    pub requests: i64,
    /// What is answered above it: 400 to 599, 503 where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<i32>,
    /// Addresses and ranges that are not counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exempt: Vec<String>,
}

/// Certificates of clients, which HTTPS listeners ask for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClientCertificates {
    /// Secrets and ConfigMaps with the authorities in `ca.crt`. A `ca.crl` has lists of revoked certificates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ca_certificate_refs: Vec<SecretOrConfigMapReference>,
    /// `Required` (default) or `Optional`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// How many certificates may stand between a client's and an authority's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<i32>,
}

/// A password.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BasicAuth {
    /// The Secret with users and hashes.
    pub secret_ref: SecretReference,
    /// `File` (default): its entry `auth` is a file of `htpasswd`. `Map`: each entry is a user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// The protection space that browsers show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub realm: Option<String>,
}

/// The word of another service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExternalAuth {
    /// Who is asked.
    pub backend_ref: ServiceReference,
    /// The `Host` of the question; `name.namespace.svc` where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Path and query of the question; `/` where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The method of the question; `GET` where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Headers of an answer that lets the request pass, which the endpoint gets in place of the request's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub response_headers: Vec<String>,
    /// Where a client that is answered 401 is sent instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sign_in_url: Option<String>,
    /// How long each step of the question may take; `60s`, and `1s` for the connect, where it is absent. With `grpc`, how long the whole
    /// question may take; `10s` where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// Asks over gRPC instead of HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc: Option<GrpcAuth>,
}

/// The word of another service over gRPC (`ext_authz`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GrpcAuth {
    /// How much of a request's body the question has; nothing where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_request_bytes: Option<Size>,
    /// Whether a larger body is cut off there. Otherwise its request is answered 413.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_partial_body: Option<bool>,
    /// `Closed` (default) or `Open`: what becomes of requests while the service gives no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_mode: Option<String>,
    /// What the question has besides, as `context_extensions`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub context_extensions: BTreeMap<String, String>,
}
