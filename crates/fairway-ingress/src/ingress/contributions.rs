//! What the annotations of an Ingress contribute to the way of its requests. Owns the order in which guards are asked; never reads
//! an annotation.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::{
    AccessList, AnswerEdit, Authorization, AuthorizationRule, ChosenBy, CipherSuite, ClientCertificate,
    ClientDemand, ClientVerification, CredentialLocation, Deny, ExternalAuth, Guard, HeaderEdit, HostPattern,
    LimitKey, Match, Origin, Phases, Policy, RequestEdit, Stickiness, Template,
};
use fairway_objects::backend::{BackendRef, Purpose, Via};
use fairway_objects::balance::Balance;
use fairway_objects::transport::Transport;
use fairway_snippet::{HostSnippet, PathSnippet, Replaces, Uses};
use ipnet::IpNet;

use crate::ingress::canary::Canary;
use crate::ingress::closed::Closed;
use crate::ingress::compression::CompressionChoice;
use crate::ingress::defaults::Defaults;
use crate::ingress::errors::Errors;
use crate::ingress::to_https::Redirects;

/// When a guard is asked, in the order of nginx: `if` and `return` of the rewrite phase, the redirect to https at its end, the
/// limits, the access phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Turn {
    /// What is refused whatever else is asked for.
    Refuse,
    /// Answers of the snippet of the host.
    HostSnippet,
    /// Answers to preflight requests, before anything else.
    Preflight,
    /// Answers of the snippet of the path.
    Snippet,
    /// Redirects of all requests.
    Redirect,
    /// Redirects of plain requests to https, and what stands behind them.
    Https,
    /// How much each client may ask for.
    Limit,
    /// Who may pass.
    Access,
    /// How much each client may ask for, by what is known of it then.
    LateLimit,
}

impl Turn {
    /// That of a guard.
    pub(crate) fn of(guard: &Guard) -> Self {
        match guard {
            Guard::Deny(_) => Self::Refuse,
            Guard::Respond(respond) if respond.of_host.is_some() => Self::HostSnippet,
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

/// What annotations add to the phases of rules: guards in the order of their turns, all else in the order of its arrival. With it the
/// backends that it names.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Added {
    phases: Phases,
    backends: Vec<Named>,
}

/// A backend that an annotation names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Named {
    pub(crate) backend: BackendRef,
    /// Where it is named.
    pub(crate) origin: Origin,
    pub(crate) purpose: Purpose,
}

/// What the annotations of an Ingress make of its requests.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Contributions {
    /// Why all paths answer 503.
    pub(crate) closed: Option<Closed>,
    /// What is done on all paths.
    pub(crate) added: Added,
    /// When plain requests are sent to https: whether they are depends on the host and the path too.
    pub(crate) redirects: Redirects,
    /// What holds for its hosts as a whole.
    pub(crate) host: HostFeatures,
    /// Where `/` is redirected to.
    pub(crate) app_root: Option<Arc<str>>,
    /// What becomes of each path.
    pub(crate) rewrite: Rewrite,
    /// `use-regex`: whether its paths, and with them all paths of the host, are regular expressions.
    pub(crate) use_regex: bool,
    pub(crate) policy: Arc<Policy>,
    /// `fairway.dev/compression`.
    pub(crate) compression: CompressionChoice,
    /// How its Services are reached.
    pub(crate) upstream: Upstream,
    pub(crate) errors: Errors,
    /// `satisfy: any`.
    pub(crate) satisfies_any: bool,
    /// `configuration-snippet`, with `location-snippet` of the settings behind it.
    pub(crate) snippet: Option<Arc<SnippetOfPath>>,
    pub(crate) role: Role,
}

/// What the snippets of a path do that does not stand in its phases.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SnippetOfPath {
    /// `expires` and `add_header`, behind all other changes to answers.
    pub(crate) adds: Vec<AnswerEdit>,
    /// Whether they replace those of the host.
    pub(crate) replaces_adds: Replaces,
    /// What is done to the redirect to a path with a slash.
    pub(crate) on_entry: Vec<AnswerEdit>,
    /// What its headers have to do with.
    pub(crate) uses: Uses,
    /// Whether an answer has the type of the host.
    pub(crate) inherits_type: bool,
    /// Whether it rewrites the path.
    pub(crate) rewrites: bool,
    /// Whether `allow` and `deny` of the host are not for its paths.
    pub(crate) hides_access_of_host: bool,
    /// Whether `proxy_hide_header` of the host is not for its paths.
    pub(crate) hides_hidden_of_host: bool,
    /// Whether answers do not get the content coding gzip.
    pub(crate) gzip_off: bool,
}

impl SnippetOfPath {
    /// What stands in no phase of a snippet.
    pub(crate) fn of(snippet: &PathSnippet) -> Self {
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
    pub(crate) via: Via,
    /// `affinity-mode`, where it says something.
    pub(crate) mode: Option<Stickiness>,
    /// `upstream-vhost`: texts and labels of the rule.
    pub(crate) host: Option<Template>,
}

/// What an Ingress says about its hosts as a whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HostFeatures {
    /// `from-to-www-redirect`.
    pub(crate) www: bool,
    /// `server-alias`. A wildcard stands for any number of labels.
    pub(crate) aliases: BTreeSet<HostPattern>,
    /// `ssl-ciphers`.
    pub(crate) suites: Vec<CipherSuite>,
    /// `ssl-prefer-server-ciphers`.
    pub(crate) suite_chosen_by: Option<ChosenBy>,
    /// `auth-tls-secret`.
    pub(crate) clients: Option<HostClients>,
    /// `ssl-passthrough`.
    pub(crate) passthrough: bool,
    /// `server-snippet`.
    pub(crate) snippet: Option<ServerSnippet>,
}

/// What a host does before one of its paths is chosen.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ServerSnippet {
    /// This.
    Acts(Arc<HostSnippet>),
    /// It answers 503: nobody knows whom the snippet would keep out.
    Refused,
}

/// Which clients a host serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostClients {
    /// Those with such certificates.
    Verified(ClientCertificate),
    /// None: what it asks for cannot be read.
    Refused,
}

impl HostClients {
    /// What connections are verified by.
    pub(crate) fn rules(&self) -> Option<&Arc<ClientVerification>> {
        match self {
            Self::Verified(of) => Some(&of.rules),
            Self::Refused => None,
        }
    }

    /// Puts what asks for it before the guards of a rule.
    pub(crate) fn guard(&self, guards: &mut Vec<Guard>) {
        let of = match self {
            Self::Verified(of) => of,
            Self::Refused => {
                let deny = Deny { status: 403, when: vec![Match::default()] };
                return guards.insert(0, Guard::Deny(deny));
            }
        };
        guards.insert(0, Guard::ClientCertificate(of.clone()));
        if of.rules.demand == ClientDemand::Required {
            // Behind what sends requests in the clear to https.
            let redirect = guards.iter().position(|guard| matches!(guard, Guard::HttpsRedirect(_)));
            guards.insert(redirect.unwrap_or(0) + 1, Guard::OverTls);
        }
    }
}

/// What becomes of the paths of an Ingress.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rewrite {
    /// What each is rewritten to.
    pub(crate) target: Option<Arc<str>>,
    /// `X-Forwarded-Prefix` of requests whose path is rewritten.
    pub(crate) prefix: Option<Arc<str>>,
}

/// What an Ingress is to the others of its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It has paths of its own.
    Main,
    /// It takes a part of another Ingress's requests.
    Canary(Canary),
}

impl Added {
    /// Adds what is done; a guard comes behind those that have their turn with it or before it.
    pub(crate) fn add(&mut self, part: impl Into<Phases>) {
        self.phases.add(part);
        self.phases.guards.sort_by_key(Turn::of);
        // The annotations for CORS are read at any time; other changes to answers come behind its fields, and those of a snippet
        // before those of other annotations.
        self.phases.answers.edits.sort_by_key(|edit| match edit {
            AnswerEdit::Cors(_) => 0,
            AnswerEdit::Chosen(_) => 1,
            _ => 2,
        });
    }

    /// Notes a backend that an annotation names, and where it is written.
    pub(crate) fn name_backend(&mut self, backend: BackendRef, origin: Origin, purpose: Purpose) {
        self.backends.push(Named { backend, origin, purpose });
    }

    /// The backends that annotations name.
    pub(crate) fn backends(&self) -> &[Named] {
        &self.backends
    }

    /// Takes the lists of client addresses out.
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

    /// Refuses these clients, whatever else lets them pass.
    pub(crate) fn block(&mut self, ranges: &[IpNet]) {
        if !ranges.is_empty() {
            self.add(Guard::Access(AccessList { deny: ranges.to_vec(), allow: Vec::new() }));
        }
    }

    /// Takes out what asks who the client is; its address still counts. Endpoints get no header that would say who it is.
    pub(crate) fn let_everybody_in(&mut self) {
        let mut unknown = Vec::new();
        self.phases.guards.retain_mut(|guard| {
            unknown.extend(headers_about_client(guard));
            match guard {
                Guard::BasicAuth(_)
                | Guard::ExternalAuth(_)
                | Guard::GrpcAuth(_)
                | Guard::Jwt(_)
                | Guard::Oidc(_)
                | Guard::ApiKey(_) => false,
                Guard::Authorize(authorization) => !asks_about_client(authorization),
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

    /// The service that is asked who the client is.
    pub(crate) fn external_auth(&self) -> Option<&ExternalAuth> {
        self.phases.guards.iter().find_map(|guard| match guard {
            Guard::ExternalAuth(external) => Some(&**external),
            Guard::Any(any) => any.external.as_deref(),
            _ => None,
        })
    }

    /// Whether a password is asked for.
    pub(crate) fn asks_for_password(&self) -> bool {
        self.phases.guards.iter().any(|guard| guard.basic_auth().is_some())
    }

    /// Whether it is asked who the client is.
    pub(crate) fn asks_who(&self) -> bool {
        let by_identity =
            |guard: &Guard| guard.jwt().is_some() || guard.oidc().is_some() || guard.api_key().is_some();
        self.external_auth().is_some()
            || self.asks_for_password()
            || self.phases.guards.iter().any(by_identity)
    }

    /// A header, in lower case, that tells endpoints of a token or API key, if it is one of these.
    pub(crate) fn told_of_identity(&self, is_used: impl Fn(&String) -> bool) -> Option<String> {
        let guards = &self.phases.guards;
        let issuers = guards.iter().filter_map(Guard::jwt).flat_map(|auth| &auth.issuers);
        let logins = guards.iter().filter_map(Guard::oidc).flat_map(|auth| &auth.headers);
        let claims = issuers.flat_map(|issuer| &issuer.headers).chain(logins).map(|of| &of.header);
        let clients = guards.iter().filter_map(Guard::api_key).filter_map(|auth| auth.client_header.as_ref());
        claims.chain(clients).map(|header| header.to_ascii_lowercase()).find(is_used)
    }

    /// Whether requests have an API key in one of these headers, in lower case: endpoints do not get it.
    pub(crate) fn takes_key_from(&self, headers: &BTreeSet<String>) -> bool {
        let keys = self.phases.guards.iter().filter_map(Guard::api_key);
        keys.flat_map(|auth| &auth.locations).any(|location| match location {
            CredentialLocation::Header { name, .. } => headers.contains(&name.to_ascii_lowercase()),
            CredentialLocation::Cookie(_) | CredentialLocation::Query(_) => false,
        })
    }

    /// The fields of answers that annotations set, in lower case.
    pub(crate) fn answer_fields(&self) -> impl Iterator<Item = String> {
        let fields = self.phases.answers.edits.iter().flat_map(|edit| match edit {
            AnswerEdit::Fields(fields) => fields.iter().map(|field| &field.name).collect(),
            AnswerEdit::Headers(edit) => {
                let written = edit.set.iter().chain(&edit.add).map(|field| &field.name);
                edit.remove.iter().chain(written).collect::<Vec<_>>()
            }
            _ => Vec::new(),
        });
        fields.map(|name| name.to_ascii_lowercase())
    }

    /// Whether a service sees requests that may stop them.
    pub(crate) fn is_filtered(&self) -> bool {
        !self.phases.extensions.is_empty()
    }

    /// Whether requests are mirrored.
    pub(crate) fn mirrors(&self) -> bool {
        self.phases.forwarding.as_ref().is_some_and(|forwarding| !forwarding.mirrors.is_empty())
    }

    /// Whether it says who the client is.
    pub(crate) fn says_who(&self) -> bool {
        self.phases.client.is_some()
    }

    /// Whether a guard has this turn.
    pub(crate) fn has(&self, turn: Turn) -> bool {
        self.phases.guards.iter().any(|guard| Turn::of(guard) == turn)
    }

    /// What is done.
    pub(crate) fn phases(self) -> Phases {
        self.phases
    }
}

/// The headers by which a guard tells endpoints who the client is, or in which it reads a key; in lower case.
fn headers_about_client(guard: &Guard) -> Vec<Arc<str>> {
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

/// Whether something is allowed to some clients only.
fn asks_about_client(authorization: &Authorization) -> bool {
    let asks = |rule: &AuthorizationRule| {
        !(rule.claims.is_empty() && rule.scopes.is_empty() && rule.clients.is_empty())
    };
    authorization.rules.iter().any(asks)
}

impl Contributions {
    /// Of an Ingress without annotations.
    pub(crate) fn new(defaults: &Defaults) -> Self {
        Self {
            closed: defaults.closed,
            added: Added::default(),
            redirects: defaults.https.redirects,
            host: HostFeatures::default(),
            app_root: None,
            rewrite: Rewrite::default(),
            use_regex: false,
            policy: Arc::new(defaults.policy(defaults.forwarding.timeouts, defaults.forwarding.max_body)),
            compression: CompressionChoice::default(),
            upstream: Upstream::default(),
            errors: Errors::default(),
            satisfies_any: false,
            snippet: None,
            role: Role::Main,
        }
    }

    /// Whether they keep somebody out: close the paths, or say who may pass.
    pub(crate) fn protect(&self) -> bool {
        self.closed.is_some()
            || self.added.phases.client.is_some()
            || self.added.is_filtered()
            || self.host.snippet.is_some()
            || [Turn::Refuse, Turn::Snippet, Turn::Access, Turn::Limit]
                .into_iter()
                .any(|turn| self.added.has(turn))
    }

    /// Whether they check the addresses of clients.
    pub(crate) fn check_source_ranges(&self) -> bool {
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
    use fairway_model::{Cors, CorsManner};

    use super::*;

    #[test]
    fn guards_are_asked_in_the_order_of_their_turns_and_fields_of_cors_come_first() {
        let list =
            |range: &str| Guard::Access(AccessList { deny: vec![range.parse().unwrap()], allow: Vec::new() });
        let hsts = || AnswerEdit::StrictTransportSecurity("a".into());
        let cors = Cors {
            origins: Vec::new(),
            methods: "".into(),
            headers: "".into(),
            expose: "".into(),
            credentials: false,
            max_age: 0,
            manner: CorsManner::IngressNginx,
        };
        let mut added = Added::default();
        added.add(hsts());
        added.add(list("10.0.0.1/32"));
        added.add(cors.clone());
        added.add(list("10.0.0.2/32"));
        added.add(Guard::NeedsEndpoint);
        assert!(added.has(Turn::Access) && !added.has(Turn::Redirect));
        let (preflight, fields) = (Arc::new(cors.clone()), Arc::new(cors));
        let phases = added.phases();
        assert_eq!(
            phases.guards,
            [Guard::Preflight(preflight), Guard::NeedsEndpoint, list("10.0.0.1/32"), list("10.0.0.2/32"),]
        );
        assert_eq!(phases.answers.edits, [AnswerEdit::Cors(fields), hsts()]);
    }
}
