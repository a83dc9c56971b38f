//! Fairway's own policies for Gateway API, group `fairway.dev`, as plain structs. Their CRDs are in
//! `charts/fairway/charts/policy-crds/crds`; a test checks that both have the same fields.
//!
//! Enumerations are strings and numbers are as wide as the CRD allows, so that an unknown value leaves the rest of the object
//! readable; times are durations of GEP-2257. An absent list is an empty one. Nothing here validates an object.

mod backends;
mod clients;
mod extensions;
mod filters;
mod identity;
mod references;
mod security;
mod size;

pub use backends::{
    AdaptiveConcurrency, BackendLimits, BackendTrafficPolicy, BackendTrafficPolicySpec, BodyBufferSize,
    BodyBuffering, CompressionCoding, ErrorPages, HashPart, Health, HealthCheck, Hedging, LatencyEjection,
    LoadBalancing, OutlierEjection, PageService, ResponseCompression, RetryPolicy, SessionCookie,
};
pub use clients::{
    BlockedClients, ClientLimits, ClientTimeouts, ClientTracing, ClientTrafficPolicy,
    ClientTrafficPolicySpec, ForwardedHeaders, HeaderValue, Http3, ParentBasedSampling, ProxyProtocol,
    SamplingRate,
};
pub use extensions::{
    ExtensionPolicy, ExtensionPolicySpec, ExternalProcessor, HeaderMutationRules, MessageProcessing,
    ProcessingMode,
};
pub use filters::{DirectResponse, HeaderValues, NamedValue, PathSubstitution, RouteFilter, RouteFilterSpec};
pub use identity::{
    ApiKey, Authorization, AuthorizationRule, ClaimHeader, ClaimValues, CredentialSource, HeaderCondition,
    Jwt, JwtIssuer, JwtKeys, Oidc, OidcParameter,
};
pub use references::{SecretOrConfigMapReference, SecretReference, ServiceReference};
pub use security::{
    BasicAuth, ClientCertificates, ConcurrencyLimit, ExternalAuth, GrpcAuth, RateLimit, RefusedField,
    SecurityPolicy, SecurityPolicySpec, SourceRanges,
};
pub use size::Size;

/// The API group of all policies.
pub const GROUP: &str = <SecurityPolicy as k8s_openapi::Resource>::GROUP;
/// Their version.
pub const VERSION: &str = <SecurityPolicy as k8s_openapi::Resource>::VERSION;
