//! Defaults of an Ingress: those of ingress-nginx, modified by the settings ConfigMap.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{
    Balancing, CodingRule, Compression, ForwardedPath, Forwarding, HeaderTemplate, HttpsRedirect, Origin,
    Phases, Policy, Propagation, ResponseEdit, ResponseHandling, Retry, SampleRatio, Timeouts, Tracing,
    UpstreamResponseEdit,
};
use fairway_objects::compression::{CODINGS, default_rule};
use fairway_snippet::{Directive, HostSnippet, HttpSnippet, PathSnippet};
use ipnet::IpNet;

use crate::ingress::closed::Closed;
use crate::ingress::external_auth::AuthRequest;
use crate::ingress::to_https::{Https, Redirects};
use crate::ingress::trust::{AddressSource, UniversalTrust};
use crate::ingress::values::Values;
use crate::seclang::RuleText;

/// ingress-nginx: `proxy-connect-timeout` 5, `proxy-send-timeout` 60, `proxy-read-timeout` 60.
const DEFAULT_TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    send: Duration::from_secs(60),
    read: Duration::from_secs(60),
    request: None,
    backend_request: None,
};

/// ingress-nginx: `proxy-body-size` 1m.
const DEFAULT_MAX_BODY: u64 = 1 << 20;

/// ingress-nginx: `proxy-next-upstream-tries` 3.
const DEFAULT_TRIES: u8 = 3;

/// Defaults of an Ingress.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Defaults {
    pub(crate) https: Https,
    pub(crate) limit_status: LimitStatus,
    /// The value of `Strict-Transport-Security`, if sent.
    pub(crate) hsts: Option<Arc<str>>,
    pub(crate) forwarding: ForwardingDefaults,
    /// `custom-http-errors`, in ascending order.
    pub(crate) errors: Vec<u16>,
    /// With their original case, as ingress-nginx compares them.
    pub(crate) allowed_headers: BTreeSet<String>,
    pub(crate) source_ranges: SourceRanges,
    /// Keys that are also annotations.
    pub(crate) values: Values,
    /// Why every client can claim any address.
    pub(crate) universal_trust: Vec<UniversalTrust>,
    pub(crate) authentication: AuthDefaults,
    pub(crate) headers: GlobalHeaders,
    pub(crate) compression: CompressionDefaults,
    pub(crate) snippets: SnippetDefaults,
    pub(crate) tracing: TracingDefaults,
    pub(crate) firewall: FirewallDefaults,
    /// Why all Ingresses return 503: the ConfigMap asks for protection that is not supported yet.
    pub(crate) closed: Option<Closed>,
}

/// Snippets of the ConfigMap, and whether snippets of Ingresses are allowed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SnippetDefaults {
    /// `allow-snippet-annotations`.
    pub(crate) allowed: bool,
    /// The origin of `server-snippet`.
    pub(crate) origin: Origin,
    /// Whether the settings trust peers about client addresses.
    pub(crate) believes_peers: bool,
    /// `http-snippet`.
    pub(crate) http: HttpSnippet,
    /// `server-snippet`.
    pub(crate) server: Vec<Directive>,
    /// `location-snippet`.
    pub(crate) location: Vec<Directive>,
    /// Snippet of hosts without one from an Ingress.
    pub(crate) host: Option<Arc<HostSnippet>>,
    /// Snippet of paths that belong to no Ingress.
    pub(crate) path: Option<Arc<PathSnippet>>,
}

/// Default of the web application firewall.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FirewallDefaults {
    /// `enable-modsecurity`.
    pub(crate) enabled: bool,
    /// `enable-owasp-modsecurity-crs`.
    pub(crate) core_rule_set: bool,
    /// `modsecurity-snippet`.
    pub(crate) rules: Option<Arc<RuleText>>,
}

/// Headers of all Ingresses.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct GlobalHeaders {
    /// `proxy-set-headers`.
    pub(crate) requests: Arc<[HeaderTemplate]>,
    /// `add-headers`.
    pub(crate) response_headers: Arc<[HeaderTemplate]>,
    /// `hide-headers`, in lower case.
    pub(crate) hidden: Arc<[Arc<str>]>,
}

impl GlobalHeaders {
    /// Header changes for forwarded requests and their responses.
    pub(crate) fn forwarding_phases(&self) -> Phases {
        let fields = (!self.requests.is_empty()).then(|| Arc::clone(&self.requests));
        let hidden = (!self.hidden.is_empty()).then(|| UpstreamResponseEdit::Hide(Arc::clone(&self.hidden)));
        Phases {
            forwarding: Forwarding { fields, ..Forwarding::default() }.if_not_empty(),
            answers: ResponseHandling {
                received: hidden.into_iter().collect(),
                ..ResponseHandling::default()
            },
            ..Phases::default()
        }
    }

    /// Header changes for all responses.
    pub(crate) fn response_edit(&self) -> Option<ResponseEdit> {
        (!self.response_headers.is_empty()).then(|| ResponseEdit::Fields(Arc::clone(&self.response_headers)))
    }
}

/// Forwarding defaults.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ForwardingDefaults {
    pub(crate) timeouts: Timeouts,
    pub(crate) max_body: Option<u64>,
    /// `load-balance`.
    pub(crate) balancing: Balancing,
    /// `forwarded-path`.
    pub(crate) path: ForwardedPath,
    /// For TCP and UDP services.
    pub(crate) streams: StreamDefaults,
}

/// Defaults for forwarding connections and datagrams of TCP and UDP services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamDefaults {
    /// `proxy-stream-timeout`, if set.
    pub(crate) timeout: Option<Duration>,
    /// `proxy-stream-responses`; 0 is none.
    pub(crate) responses: Option<NonZeroU32>,
}

impl Default for StreamDefaults {
    fn default() -> Self {
        Self { timeout: None, responses: Some(NonZeroU32::MIN) }
    }
}

impl Default for ForwardingDefaults {
    fn default() -> Self {
        Self {
            timeouts: DEFAULT_TIMEOUTS,
            max_body: Some(DEFAULT_MAX_BODY),
            balancing: Balancing::RoundRobin,
            path: ForwardedPath::AsReceived,
            streams: StreamDefaults::default(),
        }
    }
}

/// Response compression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CompressionDefaults {
    /// Compression of all Ingresses.
    pub(crate) of_all: Option<Arc<Compression>>,
    /// Each coding as configured, enabled or not, in order of preference.
    pub(crate) codings: Vec<CodingRule>,
}

impl Default for CompressionDefaults {
    fn default() -> Self {
        Self { of_all: None, codings: CODINGS.map(default_rule).into() }
    }
}

/// Tracing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TracingDefaults {
    /// `enable-opentelemetry`, if set.
    pub(crate) enabled: Option<bool>,
    /// Tracing settings when an Ingress or the ConfigMap enables it.
    pub(crate) traced: Tracing,
}

impl Default for TracingDefaults {
    fn default() -> Self {
        // ingress-nginx: `otel-sampler` AlwaysOn, `otel-sampler-parent-based` and `opentelemetry-trust-incoming-span` true.
        let traced = Tracing {
            ratio: SampleRatio::ALL,
            parent_based: true,
            trust_incoming: true,
            propagation: Propagation::W3c,
            span_name: None,
        };
        Self { enabled: None, traced }
    }
}

/// Authentication defaults.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AuthDefaults {
    /// The global external authentication.
    pub(crate) global: Option<AuthRequest>,
    /// Path prefixes that are exempt from it.
    pub(crate) exempt: Vec<Arc<str>>,
}

impl Default for AuthDefaults {
    fn default() -> Self {
        // ingress-nginx: `no-auth-locations`.
        Self { global: None, exempt: vec!["/.well-known/acme-challenge".into()] }
    }
}

/// Response statuses for exceeded limits: 400..=599.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LimitStatus {
    /// `limit-req-status-code`.
    pub(crate) rate: u16,
    /// `limit-conn-status-code`.
    pub(crate) connections: u16,
}

impl Default for LimitStatus {
    fn default() -> Self {
        Self { rate: 503, connections: 503 }
    }
}

/// Client address lists for Ingresses without their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceRanges {
    pub(crate) allow: Vec<IpNet>,
    pub(crate) deny: Vec<IpNet>,
    /// Always refused (`block-cidrs`).
    pub(crate) block: Vec<IpNet>,
    /// Why every client can claim any address.
    pub(crate) claimable_by: Vec<AddressSource>,
}

/// The parts of `Strict-Transport-Security` (RFC 6797 §6.1), with the defaults of ingress-nginx.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hsts {
    /// Whether the header is sent.
    pub(crate) is_sent: bool,
    pub(crate) max_age: u64,
    pub(crate) include_subdomains: bool,
    pub(crate) preload: bool,
}

impl Default for Hsts {
    fn default() -> Self {
        Self { is_sent: true, max_age: 31_536_000, include_subdomains: true, preload: false }
    }
}

impl Hsts {
    /// The value of the header.
    pub(crate) fn value(self) -> Option<Arc<str>> {
        let subdomains = if self.include_subdomains { "; includeSubDomains" } else { "" };
        let preload = if self.preload { "; preload" } else { "" };
        self.is_sent.then(|| format!("max-age={}{subdomains}{preload}", self.max_age).into())
    }
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            https: Https::default(),
            limit_status: LimitStatus::default(),
            hsts: Hsts::default().value(),
            forwarding: ForwardingDefaults::default(),
            errors: Vec::new(),
            allowed_headers: BTreeSet::new(),
            source_ranges: SourceRanges::default(),
            values: Values::default(),
            universal_trust: Vec::new(),
            authentication: AuthDefaults::default(),
            headers: GlobalHeaders::default(),
            compression: CompressionDefaults::default(),
            snippets: SnippetDefaults::default(),
            tracing: TracingDefaults::default(),
            firewall: FirewallDefaults::default(),
            closed: None,
        }
    }
}

impl Defaults {
    /// The policy of requests with these limits.
    pub(crate) fn policy(&self, timeouts: Timeouts, max_body: Option<u64>) -> Policy {
        Policy {
            timeouts,
            max_body,
            // nginx has no limit for all attempts together (proxy_next_upstream_timeout 0), only one for each.
            retry: Retry {
                tries: DEFAULT_TRIES,
                connect_total: timeouts.connect.saturating_mul(u32::from(DEFAULT_TRIES)),
                ..Retry::default()
            },
            forwarded_path: self.forwarding.path,
            websocket: true,
        }
    }

    /// The redirect of plain requests to https.
    pub(crate) fn https_redirect(&self, redirects: Redirects) -> HttpsRedirect {
        HttpsRedirect {
            status: self.https.status,
            keep_trailing_slash: redirects.keep_trailing_slash,
            explicit_port: redirects.explicit_port,
        }
    }
}
