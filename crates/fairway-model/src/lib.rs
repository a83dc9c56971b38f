//! The vocabulary of Fairway: plain values that describe what the data plane shall do.
//!
//! Everything left of [`Config`] may know Kubernetes, nothing right of it does. This crate owns no behaviour beyond
//! constructing valid values: no I/O, no clocks, no threads, no Kubernetes types.
//!
//! The order of the modules is the order in which a request meets them.

pub mod authentication;
pub mod backend;
pub mod certificate;
pub mod config;
pub mod filter;
pub mod guard;
pub mod host;
pub mod listener;
pub mod origin;
pub mod policy;
pub mod route;
pub mod settings;
pub mod stream;

pub use authentication::{
    AnyGuard, AuthCookies, AuthService, BasicAuth, ExternalAuth, OwnScheme, Template, TemplatePart, Users,
};
pub use backend::{
    Backend, BackendKey, BackendProtocol, Balancing, Endpoint, ServiceName, SessionCookie, SessionKey,
    SessionPart, UpstreamTls, UpstreamVerification,
};
pub use certificate::{Certificate, CertificateKey, ClientDemand, ClientVerification, PrivateKey};
pub use config::Config;
pub use filter::{
    Cors, CorsOrigin, Filter, HeaderEdit, HeaderField, HttpsRedirect, PathRewrite, Redirect, RedirectTarget,
};
pub use guard::{AccessList, ConcurrencyLimit, ErrorPages, Mirror, RateLimit};
pub use host::{HostError, HostPattern, WildcardSpan};
pub use listener::{Listener, ListenerProtocol, ListenerTls};
pub use origin::{Origin, SourceLine};
pub use policy::{ForwardedPath, Policy, Retry, Timeouts};
pub use route::{
    Action, Answer, AnswerReason, FieldMatch, HostKey, Match, PathForm, PathMatch, Route, Rule, RuleLabels,
    RuleOrder, TextMatch, VirtualHost, WeightedBackend,
};
pub use settings::{
    AccessLog, DownstreamSettings, ForwardedTrust, Http2Settings, Settings, UpstreamSettings,
};
pub use stream::{StreamKey, StreamRoute};
