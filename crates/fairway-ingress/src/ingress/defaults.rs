//! What an Ingress does that says nothing: the defaults of ingress-nginx, as far as the settings ConfigMap leaves them.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{
    AnswerEdit, Answers, Balancing, CodingRule, Compression, FieldTemplate, ForwardedPath, Forwarding,
    HttpsRedirect, Origin, Phases, Policy, Propagation, ReceivedEdit, Retry, SampleRatio, Timeouts, Tracing,
};
use fairway_objects::compression::{CODINGS, default_rule};
use fairway_snippet::{Directive, HostSnippet, HttpSnippet, PathSnippet};
use ipnet::IpNet;

use crate::ingress::closed::Closed;
use crate::ingress::external_auth::Question;
use crate::ingress::to_https::{Https, Redirects};
use crate::ingress::trust::{AddressSource, TrustsEverybody};
use crate::ingress::values::Values;
use crate::seclang::RuleText;

/// ingress-nginx: `proxy-connect-timeout` 5, `proxy-send-timeout` 60, `proxy-read-timeout` 60.
const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    send: Duration::from_secs(60),
    read: Duration::from_secs(60),
    request: None,
    backend_request: None,
};

/// ingress-nginx: `proxy-body-size` 1m.
const MAX_BODY: u64 = 1 << 20;

/// ingress-nginx: `proxy-next-upstream-tries` 3.
const TRIES: u8 = 3;

/// What an Ingress does that says nothing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Defaults {
    pub(crate) https: Https,
    pub(crate) limit_status: LimitStatus,
    /// The value of `Strict-Transport-Security`, where it is sent.
    pub(crate) hsts: Option<Arc<str>>,
    pub(crate) forwarding: ForwardingDefaults,
    /// `custom-http-errors`, in ascending order.
    pub(crate) errors: Vec<u16>,
    /// As they are written: ingress-nginx compares them with their case.
    pub(crate) allowed_headers: BTreeSet<String>,
    pub(crate) source_ranges: SourceRanges,
    /// Keys that are annotations as well.
    pub(crate) values: Values,
    /// By what every client may claim any address.
    pub(crate) trusts_everybody: Vec<TrustsEverybody>,
    pub(crate) authentication: AuthDefaults,
    pub(crate) headers: Headers,
    pub(crate) compression: CompressionDefaults,
    pub(crate) snippets: SnippetDefaults,
    pub(crate) tracing: TracingDefaults,
    pub(crate) firewall: FirewallDefaults,
    /// Why all Ingresses answer 503: the ConfigMap asks for protection that is not given yet.
    pub(crate) closed: Option<Closed>,
}

/// Snippets of the ConfigMap, and whether those of Ingresses act.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SnippetDefaults {
    /// `allow-snippet-annotations`.
    pub(crate) allowed: bool,
    /// The place of `server-snippet`.
    pub(crate) origin: Origin,
    /// Whether the settings say which peers are believed about clients.
    pub(crate) believes_peers: bool,
    /// `http-snippet`.
    pub(crate) http: HttpSnippet,
    /// `server-snippet`.
    pub(crate) server: Vec<Directive>,
    /// `location-snippet`.
    pub(crate) location: Vec<Directive>,
    /// What hosts do without a snippet of an Ingress.
    pub(crate) host: Option<Arc<HostSnippet>>,
    /// What paths do that belong to no Ingress.
    pub(crate) path: Option<Arc<PathSnippet>>,
}

/// The web application firewall where an Ingress says nothing.
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
pub(crate) struct Headers {
    /// `proxy-set-headers`.
    pub(crate) requests: Arc<[FieldTemplate]>,
    /// `add-headers`.
    pub(crate) answers: Arc<[FieldTemplate]>,
    /// `hide-headers`, in lower case.
    pub(crate) hidden: Arc<[Arc<str>]>,
}

impl Headers {
    /// What they make of requests that are forwarded, and of what comes back.
    pub(crate) fn of_forwarded(&self) -> Phases {
        let fields = (!self.requests.is_empty()).then(|| Arc::clone(&self.requests));
        let hidden = (!self.hidden.is_empty()).then(|| ReceivedEdit::Hide(Arc::clone(&self.hidden)));
        Phases {
            forwarding: Forwarding { fields, ..Forwarding::default() }.kept(),
            answers: Answers { received: hidden.into_iter().collect(), ..Answers::default() },
            ..Phases::default()
        }
    }

    /// What they make of answers, whoever makes them.
    pub(crate) fn of_answers(&self) -> Option<AnswerEdit> {
        (!self.answers.is_empty()).then(|| AnswerEdit::Fields(Arc::clone(&self.answers)))
    }
}

/// How requests are forwarded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ForwardingDefaults {
    pub(crate) timeouts: Timeouts,
    pub(crate) max_body: Option<u64>,
    /// `load-balance`.
    pub(crate) balancing: Balancing,
    /// `forwarded-path`.
    pub(crate) path: ForwardedPath,
    /// Of TCP and UDP services.
    pub(crate) streams: StreamDefaults,
}

/// How connections and datagrams of TCP and UDP services are forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamDefaults {
    /// `proxy-stream-timeout`, where it is given.
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
            timeouts: TIMEOUTS,
            max_body: Some(MAX_BODY),
            balancing: Balancing::RoundRobin,
            path: ForwardedPath::AsReceived,
            streams: StreamDefaults::default(),
        }
    }
}

/// How the responses of endpoints are compressed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CompressionDefaults {
    /// Those of all Ingresses.
    pub(crate) of_all: Option<Arc<Compression>>,
    /// Each coding as the keys have it, whether it is on or not, in the order in which they are preferred.
    pub(crate) codings: Vec<CodingRule>,
}

impl Default for CompressionDefaults {
    fn default() -> Self {
        Self { of_all: None, codings: CODINGS.map(default_rule).into() }
    }
}

/// How requests are traced.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TracingDefaults {
    /// `enable-opentelemetry`, where the ConfigMap has it.
    pub(crate) enabled: Option<bool>,
    /// How they are traced where an Ingress or the ConfigMap turns it on.
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

/// Who is let in where an Ingress says nothing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AuthDefaults {
    /// Whoever is asked.
    pub(crate) global: Option<Question>,
    /// Paths that begin so are for everybody.
    pub(crate) exempt: Vec<Arc<str>>,
}

impl Default for AuthDefaults {
    fn default() -> Self {
        // ingress-nginx: `no-auth-locations`.
        Self { global: None, exempt: vec!["/.well-known/acme-challenge".into()] }
    }
}

/// What clients are answered that ask for too much: 400..=599.
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

/// The lists of client addresses that stand where an Ingress has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceRanges {
    pub(crate) allow: Vec<IpNet>,
    pub(crate) deny: Vec<IpNet>,
    /// Refused whatever an Ingress says (`block-cidrs`).
    pub(crate) block: Vec<IpNet>,
    /// By what every client may claim any address.
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
            trusts_everybody: Vec::new(),
            authentication: AuthDefaults::default(),
            headers: Headers::default(),
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
            // nginx has no limit over all tries (proxy_next_upstream_timeout 0) besides that of each.
            retry: Retry {
                tries: TRIES,
                connect_total: timeouts.connect.saturating_mul(u32::from(TRIES)),
                ..Retry::default()
            },
            forwarded_path: self.forwarding.path,
            websocket: true,
        }
    }

    /// The redirect of plain requests.
    pub(crate) fn https_redirect(&self, redirects: Redirects) -> HttpsRedirect {
        HttpsRedirect {
            status: self.https.status,
            keep_trailing_slash: redirects.keep_trailing_slash,
            explicit_port: redirects.explicit_port,
        }
    }
}
