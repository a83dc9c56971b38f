//! The vocabulary of Fairway: plain values that describe what the data plane shall do.
//!
//! Everything left of [`Config`] may know Kubernetes, nothing right of it does. This crate owns no behaviour beyond
//! constructing valid values: no I/O, no clocks, no threads, no Kubernetes types. `Origin` says which object, field and line wrote
//! a value. Neither `Debug` nor serialisation writes a private key.
//!
//! The order of the modules is the order in which a request meets them.

mod access;
mod answer;
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
mod place;
mod policy;
pub mod redaction;
mod redirect;
pub mod request_parts;
mod route;
mod settings;
mod stream;
mod template;
mod text;
mod tickets;
mod tls;
mod tracing;
mod traffic;
mod value_test;
pub mod variables;

pub use access::{AccessList, ConcurrencyLimit, LimitScope, RateLimit};
pub use answer::{AnswerRate, CookieRewrite, ErrorPages, LocationRewrite, Replacement};
pub use authentication::{
    AnyGuard, AuthCookies, AuthFilter, AuthService, BasicAuth, ExternalAuth, KeptAuth, OwnScheme, Users,
};
pub use backend::{
    Backend, BackendKey, BackendProtocol, Balancing, Endpoint, SameSite, SecureCookie, ServiceName,
    SessionCarrier, SessionCookie, SessionHash, SessionKey, SessionLifetime, SessionPart, SessionStart,
    Stickiness, StickyFailure, StickyShares, SubjectName, TrustedRoots, UpstreamTls, UpstreamVerification,
};
pub use bodies::{BodyHandling, smaller_limit};
pub use buffering::{BodyBuffer, Buffering};
pub use certificate::{Certificate, CertificateKey, ClientDemand, ClientVerification, Issued, PrivateKey};
pub use cipher_list::CipherList;
pub use circuit::{AdaptiveConcurrency, BackendLimits, RetryBudget};
pub use compression::{CodingRule, Compression, ContentCoding};
pub use condition::{ChosenFields, Condition, Content, Manner, OF_SUCCESS, Respond, Test};
pub use config::Config;
pub use cors::{Cors, CorsManner, CorsOrigin};
pub use edit::{AnswerEdit, HeaderEdit, HeaderField, PathRewrite, ReceivedEdit, RequestEdit};
pub use extension::{BodyMode, Extension, GrpcAuth, GrpcService, MutationRules, ProcessingPhases};
pub use field::FieldTemplate;
pub use forwarding::{Fallback, Forwarding, Mirror, MirrorTarget};
pub use geo::{CountryCode, GeoField, GeoFields, GeoKind, NoCountryCode};
pub use guard::{ClientCertificate, Deny, Guard};
pub use health::{EndpointHealth, HealthCheck, Probe};
pub use hop::{EndpointHop, HopConnection, HopVersion};
pub use host::{HostError, HostPattern, WildcardSpan};
pub use identity::{
    ApiKeyAuth, ApiKeys, Authorization, AuthorizationRule, ClaimHeader, ClaimMatch, ClientSecret,
    CredentialLocation, Decision, JwtAuth, JwtIssuer, JwtKeys, LimitKey, OidcAuth, OidcPaths, ProviderHost,
    PublishedDocument,
};
pub use introduction::Introduction;
pub use listener::{Listener, ListenerProtocol, ListenerTls, PortProtocol};
pub use log_format::{Escape, LogFormat, LogFormatError, Piece, ReadFormat, Variable, Word};
pub use matches::{FieldMatch, Match, PathMatch, TextMatch};
pub use origin::{Origin, SourceLine};
pub use phases::{AnswerBounds, Answers, Phases, RealIp, RouteFilters, Step};
pub use place::{Location, Nearness, Place, TrafficDistribution};
pub use policy::{ForwardedPath, Policy, Retry, RetryBy, Timeouts};
pub use redaction::{shown_url, without_userinfo};
pub use redirect::{HttpsRedirect, Redirect, RedirectTarget};
pub use route::{
    Action, Answer, AnswerReason, HostKey, PathForm, Reference, Route, Rule, RuleLabels, RuleOrder,
    VirtualHost, WeightedBackend,
};
pub use settings::{
    AccessLog, DatagramSettings, DownstreamSettings, ForwardedTrust, HeaderNames, Http2Settings,
    Http3Settings, Settings, StreamSettings, UpstreamSettings,
};
pub use stream::{ProxyHeaderVersion, StreamKey, StreamPolicy, StreamRoute};
pub use template::{RuleLabel, Template, TemplatePart};
pub use text::{is_layout_control, on_one_line};
pub use tickets::{Logout, SessionTickets, SharedTicketSecret, TicketSecret};
pub use tls::{ChosenBy, CipherSuite, HostSuites, KeyExchange, TlsVersions};
pub use tracing::{Collector, OtlpProtocol, Propagation, SampleRatio, Tracing};
pub use traffic::{BackendTraffic, ClientTraffic, Ejection, LatencyEjection};
pub use value_test::{BlockedClients, ValueTest};
