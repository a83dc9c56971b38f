//! What the annotations of an Ingress contribute to request handling, including the order of guards. Reads no
//! annotations.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::{
    AccessList, Authorization, AuthorizationRule, CipherSuite, ClientCertificate, ClientCertificateMode,
    ClientVerification, CredentialLocation, Deny, ExternalAuth, Guard, HeaderEdit, HostPattern, LimitKey,
    Match, Origin, Phases, Policy, RequestEdit, ResponseEdit, Stickiness, SuitePreference, Template,
};
use fairway_objects::backend::{BackendAddressSource, BackendPurpose, BackendRef};
use fairway_objects::balance::Balance;
use fairway_objects::transport::Transport;
use fairway_snippet::{HeaderUses, HostSnippet, PathSnippet, ReplacementScope};
use ipnet::IpNet;

use crate::ingress::canary::Canary;
use crate::ingress::closed::Closed;
use crate::ingress::compression::CompressionChoice;
use crate::ingress::defaults::Defaults;
use crate::ingress::errors::ErrorPageSettings;
use crate::ingress::to_https::Redirects;

/// When a guard runs, in nginx's order: `if` and `return` of the rewrite phase, then the redirect to https, limits,
/// and the access phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GuardStage {
    /// Unconditional refusals.
    Refuse,
    /// Responses of the host's snippet.
    HostSnippet,
    /// Responses to preflight requests.
    Preflight,
    /// Responses of the path's snippet.
    Snippet,
    /// Redirects of all requests.
    Redirect,
    /// Redirects of plain requests to https, and guards that follow them.
    Https,
    /// Limits per client.
    Limit,
    /// Access control.
    Access,
    /// Limits per authenticated client.
    LateLimit,
}

impl GuardStage {
    /// The stage of a guard.
    pub(crate) fn from_guard(guard: &Guard) -> Self {
        match guard {
            Guard::Deny(_) => Self::Refuse,
            Guard::Respond(respond) if respond.host_headers.is_some() => Self::HostSnippet,
            Guard::Respond(_) => Self::Snippet,
            Guard::Preflight(_) => Self::Preflight,
            Guard::Redirect(_) => Self::Redirect,
            Guard::HttpsRedirect(_) | Guard::NeedsEndpoint => Self::Https,
            Guard::RateLimit(limit) if limit.key != LimitKey::Address => Self::LateLimit,
            Guard::RateLimit(_) | Guard::ConcurrencyLimit(_) => Self::Limit,
            Guard::Access(_)
            | Guard::ClientCertificate(_)
            | Guard::OverTls
            | Guard::ExternalAuth(_)
            | Guard::GrpcAuth(_)
            | Guard::BasicAuth(_)
            | Guard::Jwt(_)
            | Guard::Oidc(_)
            | Guard::ApiKey(_)
            | Guard::Authorize(_)
            | Guard::Any(_) => Self::Access,
        }
    }
}

/// Phases added by annotations: guards ordered by stage, everything else in order of arrival. Includes the referenced
/// backends.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AddedPhases {
    phases: Phases,
    backends: Vec<NamedBackend>,
}

/// A backend that an annotation references.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NamedBackend {
    pub(crate) backend: BackendRef,
    /// Where it is referenced.
    pub(crate) origin: Origin,
    pub(crate) purpose: BackendPurpose,
}

/// What the annotations of an Ingress contribute.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Contributions {
    /// Why all paths return 503.
    pub(crate) closed: Option<Closed>,
    /// Phases of all paths.
    pub(crate) added: AddedPhases,
    /// Redirects to https, which also depend on the host and path.
    pub(crate) redirects: Redirects,
    /// Host-wide settings.
    pub(crate) host: HostFeatures,
    /// Target of redirects from `/`.
    pub(crate) app_root: Option<Arc<str>>,
    /// Rewrite of each path.
    pub(crate) rewrite: Rewrite,
    /// `use-regex`: whether its paths, and then all paths of the host, are regular expressions.
    pub(crate) use_regex: bool,
    pub(crate) policy: Arc<Policy>,
    /// `fairway.dev/compression`.
    pub(crate) compression: CompressionChoice,
    /// How its Services are reached.
    pub(crate) upstream: Upstream,
    pub(crate) errors: ErrorPageSettings,
    /// `satisfy: any`.
    pub(crate) satisfies_any: bool,
    /// `configuration-snippet`, followed by `location-snippet` of the settings.
    pub(crate) snippet: Option<Arc<PathSnippetEffects>>,
    pub(crate) role: IngressRole,
}

/// Effects of path snippets that are not part of the phases.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PathSnippetEffects {
    /// `expires` and `add_header`, applied after all other response changes.
    pub(crate) adds: Vec<ResponseEdit>,
    /// Whether they replace those of the host.
    pub(crate) replaces_adds: ReplacementScope,
    /// Changes to the redirect that adds a trailing slash.
    pub(crate) on_entry: Vec<ResponseEdit>,
    /// Headers that it uses.
    pub(crate) uses: HeaderUses,
    /// Whether a response inherits the media type of the host.
    pub(crate) inherits_type: bool,
    /// Whether it rewrites the path.
    pub(crate) rewrites: bool,
    /// Whether it overrides `allow` and `deny` of the host.
    pub(crate) hides_access_of_host: bool,
    /// Whether it overrides `proxy_hide_header` of the host.
    pub(crate) hides_hidden_of_host: bool,
    /// Whether gzip is disabled.
    pub(crate) gzip_off: bool,
}

impl PathSnippetEffects {
    /// The effects that are not in the phases of a snippet.
    pub(crate) fn from_snippet(snippet: &PathSnippet) -> Self {
        Self {
            adds: snippet.adds.clone(),
            replaces_adds: snippet.replaces_adds,
            on_entry: snippet.on_entry.clone(),
            uses: snippet.uses.clone(),
            inherits_type: snippet.inherits_type,
            rewrites: snippet.rewrites,
            hides_access_of_host: snippet.has_access,
            hides_hidden_of_host: !snippet.phases.answers.received.is_empty(),
            gzip_off: snippet.gzip_off,
        }
    }
}

/// How the Services of an Ingress are reached.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Upstream {
    pub(crate) transport: Transport,
    pub(crate) balance: Balance,
    pub(crate) via: BackendAddressSource,
    /// `affinity-mode`, if set.
    pub(crate) mode: Option<Stickiness>,
    /// `upstream-vhost`: text and rule labels.
    pub(crate) host: Option<Template>,
}

/// Host-wide settings of an Ingress.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HostFeatures {
    /// `from-to-www-redirect`.
    pub(crate) www: bool,
    /// `server-alias`. A wildcard covers any number of labels.
    pub(crate) aliases: BTreeSet<HostPattern>,
    /// `ssl-ciphers`.
    pub(crate) suites: Vec<CipherSuite>,
    /// `ssl-prefer-server-ciphers`.
    pub(crate) suite_chosen_by: Option<SuitePreference>,
    /// `auth-tls-secret`.
    pub(crate) clients: Option<HostClients>,
    /// `ssl-passthrough`.
    pub(crate) passthrough: bool,
    /// `server-snippet`.
    pub(crate) snippet: Option<ServerSnippet>,
}

/// What a host does before a path is selected.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ServerSnippet {
    /// This.
    Acts(Arc<HostSnippet>),
    /// The host returns 503, because it is unknown whom the snippet would refuse.
    Refused,
}

/// Which clients a host serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostClients {
    /// Clients with acceptable certificates.
    Verified(ClientCertificate),
    /// None: the requirements are unreadable.
    Refused,
}

impl HostClients {
    /// The verification of connections.
    pub(crate) fn rules(&self) -> Option<&Arc<ClientVerification>> {
        match self {
            Self::Verified(verification) => Some(&verification.rules),
            Self::Refused => None,
        }
    }

    /// Inserts the certificate check into the guards of a rule.
    pub(crate) fn add_guards(&self, guards: &mut Vec<Guard>) {
        let protections = match self {
            Self::Verified(verification) => verification,
            Self::Refused => {
                let deny = Deny { status: 403, when: vec![Match::default()] };
                return guards.insert(0, Guard::Deny(deny));
            }
        };
        guards.insert(0, Guard::ClientCertificate(protections.clone()));
        if protections.rules.demand == ClientCertificateMode::Required {
            // After the redirect of plain requests to https.
            let redirect = guards.iter().position(|guard| matches!(guard, Guard::HttpsRedirect(_)));
            guards.insert(redirect.unwrap_or(0) + 1, Guard::OverTls);
        }
    }
}

/// Path rewriting of an Ingress.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rewrite {
    /// The target of the rewrite.
    pub(crate) target: Option<Arc<str>>,
    /// `X-Forwarded-Prefix` of rewritten requests.
    pub(crate) prefix: Option<Arc<str>>,
}

/// The role of an Ingress on its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IngressRole {
    /// It has its own paths.
    Main,
    /// It takes some requests of another Ingress.
    Canary(Canary),
}

impl AddedPhases {
    /// Adds phases; a guard is inserted after those of the same or an earlier stage.
    pub(crate) fn add(&mut self, part: impl Into<Phases>) {
        self.phases.add(part);
        self.phases.guards.sort_by_key(GuardStage::from_guard);
        // CORS annotations may be read at any time; other response changes follow the CORS headers, and those of a
        // snippet precede those of other annotations.
        self.phases.answers.edits.sort_by_key(|edit| match edit {
            ResponseEdit::Cors(_) => 0,
            ResponseEdit::Chosen(_) => 1,
            _ => 2,
        });
    }

    /// Adds a backend that an annotation references.
    pub(crate) fn name_backend(&mut self, backend: BackendRef, origin: Origin, purpose: BackendPurpose) {
        self.backends.push(NamedBackend { backend, origin, purpose });
    }

    /// The backends that annotations reference.
    pub(crate) fn backends(&self) -> &[NamedBackend] {
        &self.backends
    }

    /// Removes and returns the client address lists.
    pub(crate) fn take_access_lists(&mut self) -> Vec<AccessList> {
        let mut lists = Vec::new();
        self.phases.guards.retain(|guard| match guard {
            Guard::Access(list) => {
                lists.push(list.clone());
                false
            }
            _ => true,
        });
        lists
    }

    /// Refuses these clients, whatever would admit them.
    pub(crate) fn block(&mut self, ranges: &[IpNet]) {
        if !ranges.is_empty() {
            self.add(Guard::Access(AccessList { deny: ranges.to_vec(), allow: Vec::new() }));
        }
    }

    /// Removes everything that identifies the client, except for its address. Endpoints get no identity headers.
    pub(crate) fn remove_authentication(&mut self) {
        let mut unknown = Vec::new();
        self.phases.guards.retain_mut(|guard| {
            unknown.extend(identity_headers(guard));
            match guard {
                Guard::BasicAuth(_)
                | Guard::ExternalAuth(_)
                | Guard::GrpcAuth(_)
                | Guard::Jwt(_)
                | Guard::Oidc(_)
                | Guard::ApiKey(_) => false,
                Guard::Authorize(authorization) => !needs_identity(authorization),
                Guard::Any(any) => {
                    let list = any.access.take().map(Guard::Access);
                    list.map(|list| *guard = list).is_some()
                }
                _ => true,
            }
        });
        if !unknown.is_empty() {
            self.add(RequestEdit::Headers(HeaderEdit { remove: unknown, ..HeaderEdit::default() }));
        }
    }

    /// The external authentication service.
    pub(crate) fn external_auth(&self) -> Option<&ExternalAuth> {
        self.phases.guards.iter().find_map(|guard| match guard {
            Guard::ExternalAuth(external) => Some(&**external),
            Guard::Any(any) => any.external.as_deref(),
            _ => None,
        })
    }

    /// Whether a password is required.
    pub(crate) fn asks_for_password(&self) -> bool {
        self.phases.guards.iter().any(|guard| guard.basic_auth().is_some())
    }

    /// Whether the client is authenticated.
    pub(crate) fn authenticates(&self) -> bool {
        let by_identity =
            |guard: &Guard| guard.jwt().is_some() || guard.oidc().is_some() || guard.api_key().is_some();
        self.external_auth().is_some()
            || self.asks_for_password()
            || self.phases.guards.iter().any(by_identity)
    }

    /// The first header, in lower case, that carries identity to endpoints and for which `is_used` is true.
    pub(crate) fn identity_header(&self, is_used: impl Fn(&String) -> bool) -> Option<String> {
        let guards = &self.phases.guards;
        let issuers = guards.iter().filter_map(Guard::jwt).flat_map(|auth| &auth.issuers);
        let logins = guards.iter().filter_map(Guard::oidc).flat_map(|auth| &auth.headers);
        let claims = issuers.flat_map(|issuer| &issuer.headers).chain(logins).map(|claim| &claim.header);
        let clients = guards.iter().filter_map(Guard::api_key).filter_map(|auth| auth.client_header.as_ref());
        claims.chain(clients).map(|header| header.to_ascii_lowercase()).find(is_used)
    }

    /// Whether API keys are read from one of these headers (lower case), which are not sent to endpoints.
    pub(crate) fn reads_key_from(&self, headers: &BTreeSet<String>) -> bool {
        let keys = self.phases.guards.iter().filter_map(Guard::api_key);
        keys.flat_map(|auth| &auth.locations).any(|location| match location {
            CredentialLocation::Header { name, .. } => headers.contains(&name.to_ascii_lowercase()),
            CredentialLocation::Cookie(_) | CredentialLocation::Query(_) => false,
        })
    }

    /// Response headers that annotations set, in lower case.
    pub(crate) fn response_header_names(&self) -> impl Iterator<Item = String> {
        let fields = self.phases.answers.edits.iter().flat_map(|edit| match edit {
            ResponseEdit::Fields(fields) => fields.iter().map(|field| &field.name).collect(),
            ResponseEdit::Headers(edit) => {
                let written = edit.set.iter().chain(&edit.add).map(|field| &field.name);
                edit.remove.iter().chain(written).collect::<Vec<_>>()
            }
            _ => Vec::new(),
        });
        fields.map(|name| name.to_ascii_lowercase())
    }

    /// Whether a service that may stop requests sees them.
    pub(crate) fn is_filtered(&self) -> bool {
        !self.phases.extensions.is_empty()
    }

    /// Whether requests are mirrored.
    pub(crate) fn mirrors(&self) -> bool {
        self.phases.forwarding.as_ref().is_some_and(|forwarding| !forwarding.mirrors.is_empty())
    }

    /// Whether it determines the client address.
    pub(crate) fn sets_client_address(&self) -> bool {
        self.phases.client.is_some()
    }

    /// Whether a guard has this stage.
    pub(crate) fn has(&self, turn: GuardStage) -> bool {
        self.phases.guards.iter().any(|guard| GuardStage::from_guard(guard) == turn)
    }

    /// The phases.
    pub(crate) fn phases(self) -> Phases {
        self.phases
    }
}

/// Headers, in lower case, that carry identity to endpoints or from which a guard reads a key.
fn identity_headers(guard: &Guard) -> Vec<Arc<str>> {
    let tokens = guard.jwt().into_iter().flat_map(|auth| &auth.issuers).flat_map(|issuer| &issuer.headers);
    let claims = tokens.chain(guard.oidc().into_iter().flat_map(|auth| &auth.headers));
    let keys = guard.api_key().into_iter().flat_map(|auth| {
        let keys = auth.locations.iter().filter_map(|location| match location {
            CredentialLocation::Header { name, .. } => Some(name),
            CredentialLocation::Cookie(_) | CredentialLocation::Query(_) => None,
        });
        keys.chain(&auth.client_header)
    });
    claims.map(|it| &it.header).chain(keys).map(|name| name.to_ascii_lowercase().into()).collect()
}

/// Whether the rules depend on the identity of the client.
fn needs_identity(authorization: &Authorization) -> bool {
    let asks = |rule: &AuthorizationRule| {
        !(rule.claims.is_empty() && rule.scopes.is_empty() && rule.clients.is_empty())
    };
    authorization.rules.iter().any(asks)
}

impl Contributions {
    /// The contributions of an Ingress without annotations.
    pub(crate) fn new(defaults: &Defaults) -> Self {
        Self {
            closed: defaults.closed,
            added: AddedPhases::default(),
            redirects: defaults.https.redirects,
            host: HostFeatures::default(),
            app_root: None,
            rewrite: Rewrite::default(),
            use_regex: false,
            policy: Arc::new(defaults.policy(defaults.forwarding.timeouts, defaults.forwarding.max_body)),
            compression: CompressionChoice::default(),
            upstream: Upstream::default(),
            errors: ErrorPageSettings::default(),
            satisfies_any: false,
            snippet: None,
            role: IngressRole::Main,
        }
    }

    /// Whether they restrict access: close the paths, or admit only some clients.
    pub(crate) fn restrict_access(&self) -> bool {
        self.closed.is_some()
            || self.added.phases.client.is_some()
            || self.added.is_filtered()
            || self.host.snippet.is_some()
            || [GuardStage::Refuse, GuardStage::Snippet, GuardStage::Access, GuardStage::Limit]
                .into_iter()
                .any(|turn| self.added.has(turn))
    }

    /// Whether they check client addresses.
    pub(crate) fn have_source_ranges(&self) -> bool {
        let is_list = |guard: &Guard| match guard {
            Guard::Access(_) => true,
            Guard::Any(any) => any.access.is_some(),
            _ => false,
        };
        self.added.phases.guards.iter().any(is_list)
    }
}

#[cfg(test)]
mod tests {
    use fairway_model::{Cors, CorsMode};

    use super::*;

    #[test]
    fn guards_run_in_the_order_of_their_stages_and_cors_headers_come_first() {
        let list =
            |range: &str| Guard::Access(AccessList { deny: vec![range.parse().unwrap()], allow: Vec::new() });
        let hsts = || ResponseEdit::StrictTransportSecurity("a".into());
        let cors = Cors {
            origins: Vec::new(),
            methods: "".into(),
            headers: "".into(),
            expose: "".into(),
            credentials: false,
            max_age: 0,
            manner: CorsMode::IngressNginx,
        };
        let mut added = AddedPhases::default();
        added.add(hsts());
        added.add(list("10.0.0.1/32"));
        added.add(cors.clone());
        added.add(list("10.0.0.2/32"));
        added.add(Guard::NeedsEndpoint);
        assert!(added.has(GuardStage::Access) && !added.has(GuardStage::Redirect));
        let (preflight, fields) = (Arc::new(cors.clone()), Arc::new(cors));
        let phases = added.phases();
        assert_eq!(
            phases.guards,
            [Guard::Preflight(preflight), Guard::NeedsEndpoint, list("10.0.0.1/32"), list("10.0.0.2/32"),]
        );
        assert_eq!(phases.answers.edits, [ResponseEdit::Cors(fields), hsts()]);
    }
}
