//! Virtual host -> route -> rule -> match: which rule serves a request, and what the rule does.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::backend::BackendKey;
use crate::bodies::BodyHandling;
use crate::certificate::{CertificateKey, ClientVerification};
use crate::default::is_default;
use crate::host::HostPattern;
use crate::matches::Match;
use crate::origin::Origin;
use crate::phases::{Phases, RouteFilters};
use crate::policy::Policy;
use crate::tls::HostSuites;

/// Identifies a virtual host: a host pattern in a route table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostKey {
    /// The route table, as listeners name it (`ingress` for all Ingress objects).
    pub table: Arc<str>,
    /// The host pattern.
    pub host: HostPattern,
}

/// All routes of one host.
///
/// One virtual host serves a request: the exact name, else the longest wildcard, else [`HostPattern::Any`]. If none
/// of its rules matches, less specific hosts are *not* tried, except in Gateway API tables (`falls_through`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VirtualHost {
    /// Its table and host pattern.
    pub key: HostKey,
    /// How one of several matching rules is selected.
    pub order: RuleOrder,
    /// Form of the path that its rules match.
    pub path_form: PathForm,
    /// In the order in which [`RuleOrder::Listed`] tries them.
    pub routes: Vec<Arc<Route>>,
    /// Certificate for TLS clients that name this host; `None` uses the default certificate.
    pub certificate: Option<CertificateKey>,
    /// Verification of client certificates for this host; `None` uses the listener's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<Arc<ClientVerification>>,
    /// Cipher suites for TLS clients that name this host; `None` offers all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suites: Option<HostSuites>,
    /// Whether requests that match no rule here are tried on the next less specific host.
    pub falls_through: bool,
}

/// How one of several matching rules is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RuleOrder {
    /// Gateway API precedence: more specific hostname of the route, exact path, regular expression (longest text
    /// first), longest prefix, then method, number of header matches, number of query matches, oldest route,
    /// `namespace/name`, and the order of rules and matches. The specification does not rank regular expressions;
    /// after prefixes, a rule for `/` would hide them all.
    Precedence,
    /// The first matching rule, in order (an ingress-nginx host that uses regular expressions).
    Listed,
}

/// Form of the request path that rules match. Both resolve dot segments and merge slashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PathForm {
    /// Only unreserved characters are decoded (RFC 3986 §6.2.2.2): `%2F` stays.
    Normalised,
    /// Fully percent-decoded, as nginx matches (`/foo%2fbar` is `/foo/bar`).
    Decoded,
}

/// The rules that one object contributes to a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Route {
    /// The object.
    pub origin: Origin,
    /// Its creation time in seconds since 1970, for precedence; unknown counts as youngest.
    pub created: Option<i64>,
    /// Specificity of the hostname that the route named. Routes with a lower rank are tried only for requests that
    /// match no route with a higher rank ([`RuleOrder::Precedence`] only).
    #[serde(default, skip_serializing_if = "is_default")]
    pub hostname_rank: u32,
    /// Its rules in order.
    pub rules: Vec<Rule>,
}

/// What to do with requests that match.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// The field that defined it.
    pub origin: Origin,
    /// One match suffices. Never empty.
    pub matches: Vec<Match>,
    /// What else is done with requests and responses. Shared between rules with equal phases.
    #[serde(default, skip_serializing_if = "is_default")]
    pub phases: Arc<Phases>,
    /// What happens to requests that passed all guards.
    pub action: Action,
    /// Timeouts, body limit, retries. Shared between rules with equal policies.
    pub policy: Arc<Policy>,
    /// Names in metrics and logs.
    pub labels: RuleLabels,
}

/// Names of a rule in metrics and logs; the values of the ingress-nginx labels of the same names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RuleLabels {
    /// The namespace of the object.
    pub namespace: Arc<str>,
    /// The object's name.
    pub ingress: Arc<str>,
    /// The Service, or empty.
    pub service: Arc<str>,
    /// The Service's port as written (number or name), or empty.
    pub service_port: Arc<str>,
    /// The path as written in the object.
    pub path: Arc<str>,
}

impl RuleLabels {
    /// Headers that describe the rule to the backend of error pages, with the names that ingress-nginx uses.
    #[must_use]
    pub fn error_page_headers(&self) -> Vec<(Arc<str>, Arc<str>)> {
        let field = |name: &str, value: &Arc<str>| (name.into(), value.clone());
        vec![
            field("X-Namespace", &self.namespace),
            field("X-Ingress-Name", &self.ingress),
            field("X-Service-Name", &self.service),
            field("X-Service-Port", &self.service_port),
        ]
    }
}

/// What happens to a request that passed all guards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// Forwards to one of these backends by weight. If all weights are zero, or there is no backend, the response is
    /// 500.
    Forward(Vec<WeightedBackend>),
    /// Sends a response of the proxy.
    #[serde(rename = "Answer")]
    FixedResponse(FixedResponse),
}

/// A backend with its weight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WeightedBackend {
    /// The backend; one that does not exist in the configuration counts as having no endpoints.
    pub backend: BackendKey,
    /// Its weight, relative to the sum of all weights.
    pub weight: u32,
    /// Filters for requests to this backend, applied after the phases of the rule, and to its responses before them
    /// (Gateway API `backendRefs[].filters`). Most backends have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filters: Option<Box<RouteFilters>>,
    /// Body handling of this backend, if the backends of the rule differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bodies: Option<Arc<BodyHandling>>,
    /// Whether the reference to the backend is valid.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reference: ReferenceStatus,
}

/// Whether a reference to a backend is valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReferenceStatus {
    /// It names a backend.
    #[default]
    Resolved,
    /// It is not permitted, or its target does not exist: requests for this backend get 500 (Gateway API
    /// `HTTPBackendRef`). The backend key only serves as a name.
    Invalid,
}

impl WeightedBackend {
    /// A backend without filters.
    #[must_use]
    pub fn new(backend: BackendKey, weight: u32) -> Self {
        Self { backend, weight, filters: None, bodies: None, reference: ReferenceStatus::Resolved }
    }

    /// An invalid backend, whose requests get 500.
    #[must_use]
    pub fn invalid(backend: BackendKey, weight: u32) -> Self {
        Self { reference: ReferenceStatus::Invalid, ..Self::new(backend, weight) }
    }
}

/// A response with a short body derived from its status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixedResponse {
    /// 200..=599.
    pub status: u16,
    /// Why, for logs, metrics and `explain`.
    pub reason: FixedResponseReason,
}

/// Why the configuration itself responds instead of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FixedResponseReason {
    /// The object asks for protection that is not available, so it fails closed.
    ProtectionUnavailable,
    /// The original controller would reject a value of the object, which also asks for protection. Its paths are
    /// closed so that no less specific path serves their requests.
    Refused,
    /// A service that must see the requests of the rule cannot be used, so it fails closed.
    ExtensionUnavailable,
    /// The rule refers to something that does not exist.
    MissingReference,
    /// No rule and no default backend: the response of the catch-all.
    NoRoute,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::{HeaderEdit, RequestEdit};

    #[test]
    fn a_weighted_backend_round_trips() {
        let request = vec![RequestEdit::Headers(HeaderEdit::default())];
        let filters = Some(Box::new(RouteFilters { request, ..RouteFilters::default() }));
        for share in [
            WeightedBackend::new("shop/api:80".into(), 3),
            WeightedBackend::invalid("shop/gone:80".into(), 1),
            WeightedBackend { filters, ..WeightedBackend::new("shop/api:80".into(), 1) },
            WeightedBackend {
                bodies: BodyHandling { max_request: Some(9), ..BodyHandling::default() }.if_not_empty(),
                ..WeightedBackend::new("shop/api:80".into(), 1)
            },
        ] {
            let json = serde_json::to_string(&share).unwrap();
            assert_eq!(serde_json::from_str::<WeightedBackend>(&json).unwrap(), share);
        }
    }

    #[test]
    fn a_share_of_an_older_version_has_no_filters_and_is_valid() {
        let json = r#"{"backend":"shop/api:80","weight":3}"#;
        let share: WeightedBackend = serde_json::from_str(json).unwrap();
        assert_eq!(share, WeightedBackend::new("shop/api:80".into(), 3));
        assert_eq!(serde_json::to_string(&share).unwrap(), json);
    }
}
