//! The vocabulary of Fairway: plain values that describe what the data plane does.
//!
//! Code that produces a [`Config`] may know Kubernetes; code that consumes one must not. This crate only constructs
//! valid values: no I/O, no clocks, no threads, no Kubernetes types. `Origin` records the object, field and line that
//! a value came from. Neither `Debug` nor serialisation writes a private key.
//!
//! Modules are listed in the order in which a request meets them.

mod access;
mod authentication;
mod backend;
mod bodies;
mod buffering;
mod certificate;
mod cipher_list;
mod circuit;
mod compression;
mod condition;
mod config;
mod cors;
mod default;
mod edit;
mod extension;
mod field;
mod forwarding;
mod geo;
mod guard;
mod health;
mod hop;
mod host;
mod identity;
mod introduction;
mod listener;
mod log_format;
mod matches;
mod origin;
mod phases;
mod policy;
pub mod redaction;
mod redirect;
pub mod request_parts;
mod response;
mod route;
mod settings;
mod stream;
mod template;
mod text;
mod tickets;
mod tls;
mod topology;
mod tracing;
mod traffic;
mod value_test;
pub mod variables;

pub use access::{AccessList, ConcurrencyLimit, LimitScope, RateLimit};
pub use authentication::{
    AnyGuard, AuthCache, AuthCookies, AuthFilter, AuthService, BasicAuth, ExternalAuth, UrlScheme, Users,
};
pub use backend::{
    Backend, BackendKey, BackendProtocol, Balancing, Endpoint, SameSite, SecureCookie, ServiceName,
    SessionCarrier, SessionCookie, SessionHash, SessionKey, SessionLifetime, SessionPart, SessionStart,
    Stickiness, StickyBackends, StickyFailure, SubjectName, TrustedRoots, UpstreamTls, UpstreamVerification,
};
pub use bodies::{BodyHandling, smaller_limit};
pub use buffering::{BodyBuffer, Buffering};
pub use certificate::{
    Certificate, CertificateKey, ClientCertificateMode, ClientVerification, Issuance, PrivateKey,
};
pub use cipher_list::CipherList;
pub use circuit::{AdaptiveConcurrency, BackendLimits, RetryBudget};
pub use compression::{CodingRule, Compression, ContentCoding};
pub use condition::{
    ADD_HEADER_STATUSES, Condition, ConditionTest, ConditionalHeaders, ConditionalResponse, HeaderOperation,
    ResponseContent,
};
pub use config::Config;
pub use cors::{Cors, CorsMode, CorsOrigin};
pub use edit::{HeaderEdit, HeaderField, PathRewrite, RequestEdit, ResponseEdit, UpstreamResponseEdit};
pub use extension::{BodyMode, Extension, GrpcAuth, GrpcService, MutationRules, ProcessingPhases};
pub use field::HeaderTemplate;
pub use forwarding::{Fallback, Forwarding, Mirror, MirrorTarget};
pub use geo::{CountryCode, GeoField, GeoFields, GeoKind, InvalidCountryCode};
pub use guard::{ClientCertificate, Deny, Guard};
pub use health::{EndpointHealth, HealthCheck, Probe};
pub use hop::{ConnectionHeader, Http1Options, Http1Version};
pub use host::{HostError, HostPattern, WildcardSpan};
pub use identity::{
    ApiKeyAuth, ApiKeys, Authorization, AuthorizationRule, ClaimHeader, ClaimMatch, ClientSecret,
    CredentialLocation, Decision, JwtAuth, JwtIssuer, JwtKeys, LimitKey, OidcAuth, OidcPaths, ProviderHost,
    PublishedDocument,
};
pub use introduction::ProxyProtocolMode;
pub use listener::{Listener, ListenerProtocol, ListenerTls, PortProtocol};
pub use log_format::{
    LogEscape, LogFormat, LogFormatError, LogFormatPart, LogVariable, ParsedLogFormat, Word,
};
pub use matches::{Match, NamedValueMatch, PathMatch, TextMatch};
pub use origin::{Origin, SourceLine};
pub use phases::{Phases, RealIp, ResponseHandling, ResponseLimits, RouteFilters, RuleStep};
pub use policy::{ForwardedPath, Policy, Retry, RetrySource, Timeouts};
pub use redaction::{redact_url, redact_userinfo};
pub use redirect::{HttpsRedirect, Redirect, RedirectTarget};
pub use response::{CookieRewrite, ErrorPages, LocationRewrite, Replacement, ResponseRate};
pub use route::{
    Action, FixedResponse, FixedResponseReason, HostKey, PathForm, ReferenceStatus, Route, Rule, RuleLabels,
    RuleOrder, VirtualHost, WeightedBackend,
};
pub use settings::{
    AccessLog, DatagramSettings, DownstreamSettings, ForwardedTrust, HeaderNames, Http2Settings,
    Http3Settings, Settings, StreamSettings, UpstreamSettings,
};
pub use stream::{ProxyHeaderVersion, StreamKey, StreamPolicy, StreamRoute};
pub use template::{RuleLabel, Template, TemplatePart};
pub use text::{is_layout_control, on_one_line};
pub use tickets::{Logout, SessionTickets, SharedTicketSecret, TicketSecret};
pub use tls::{CipherSuite, HostSuites, KeyExchange, SuitePreference, TlsVersions};
pub use topology::{EndpointTopology, Proximity, ProxyLocation, TrafficDistribution};
pub use tracing::{Collector, OtlpProtocol, Propagation, SampleRatio, Tracing};
pub use traffic::{BackendTraffic, ClientTraffic, Ejection, LatencyEjection};
pub use value_test::{BlockedClients, ValueTest};
