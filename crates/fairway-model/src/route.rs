//! Virtual host -> route -> rule -> match: which rule a request belongs to, and what the rule does with it.

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

/// Names a virtual host: a host pattern in a route table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostKey {
    /// The route table, as listeners name it (`ingress` for all Ingress objects).
    pub table: Arc<str>,
    /// The host pattern in it.
    pub host: HostPattern,
}

/// All routes of one host.
///
/// Exactly one virtual host serves a request: the exact name, else the longest wildcard, else [`HostPattern::Any`];
/// when none of its rules matches, a less specific host is *not* tried, except that Gateway API tables fall through to
/// it (`falls_through`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VirtualHost {
    /// Its table and host pattern.
    pub key: HostKey,
    /// How the winner among several matching rules is found.
    pub order: RuleOrder,
    /// Which form of the path the rules are written for.
    pub path_form: PathForm,
    /// In the order that [`RuleOrder::Listed`] tries them.
    pub routes: Vec<Arc<Route>>,
    /// The certificate for TLS clients that name this host; the default certificate where there is none.
    pub certificate: Option<CertificateKey>,
    /// Which certificates TLS clients that name this host must show; what their listener says where there is nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<Arc<ClientVerification>>,
    /// Which cipher suites TLS clients that name this host are offered; all where there is nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suites: Option<HostSuites>,
    /// Whether a request that no rule here matches is tried on the next less specific host.
    pub falls_through: bool,
}

/// How the winner among several matching rules is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RuleOrder {
    /// Gateway API precedence: the more specific hostname of the route, exact path, regular expression (longest text first), longest prefix, then method, number
    /// of header matches, number of query matches, oldest route, `namespace/name`, rule and match as listed. The
    /// specification leaves open where regular expressions come; behind prefixes, a rule for `/` would hide them all.
    Precedence,
    /// The first rule that matches, as listed (an ingress-nginx host on which a regular expression is in use).
    Listed,
}

/// Which form of the request's path the rules see. Both have dot segments resolved and slashes merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PathForm {
    /// Only unreserved bytes are decoded (RFC 3986 §6.2.2.2): `%2F` stays.
    Normalised,
    /// Fully percent-decoded, as nginx matches (`/foo%2fbar` is `/foo/bar`).
    Decoded,
}

/// The rules that one object gave to a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Route {
    /// The object.
    pub origin: Origin,
    /// Its creation time in seconds since 1970, for precedence; unknown is youngest.
    pub created: Option<i64>,
    /// Where the routes of a host differ in this, those of a higher rank are asked first, and a lower one only for requests that
    /// none of them matches ([`RuleOrder::Precedence`] only). It says how specific the hostname was that the route named.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hostname_rank: u32,
    /// Its rules as listed.
    pub rules: Vec<Rule>,
}

/// What to do with the requests that one of the matches describes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// The field that wrote it.
    pub origin: Origin,
    /// Any one is enough. Never empty.
    pub matches: Vec<Match>,
    /// What else is done with requests and answers. Rules share it where it is the same.
    #[serde(default, skip_serializing_if = "is_default")]
    pub phases: Arc<Phases>,
    /// What happens to requests that every guard let pass.
    pub action: Action,
    /// Time-outs, sizes, retries. Rules share it where it is the same.
    pub policy: Arc<Policy>,
    /// How metrics and logs name it.
    pub labels: RuleLabels,
}

/// How metrics and logs name a rule; the values of the ingress-nginx labels of the same names.
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
    /// The fields that tell whoever makes error pages which rule it was, as ingress-nginx names them.
    #[must_use]
    pub fn fields_for_pages(&self) -> Vec<(Arc<str>, Arc<str>)> {
        let field = |name: &str, value: &Arc<str>| (name.into(), value.clone());
        vec![
            field("X-Namespace", &self.namespace),
            field("X-Ingress-Name", &self.ingress),
            field("X-Service-Name", &self.service),
            field("X-Service-Port", &self.service_port),
        ]
    }
}

/// What happens to a request that every guard let pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// It is forwarded to one of these by weight. Weights that are all zero, or no backend, are answered 500.
    Forward(Vec<WeightedBackend>),
    /// The proxy answers itself.
    Answer(Answer),
}

/// A backend and its share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WeightedBackend {
    /// The backend; one that the configuration does not have counts as one without endpoints.
    pub backend: BackendKey,
    /// Its share of the sum of all weights.
    pub weight: u32,
    /// Applied to the requests of this share after the phases of the rule, and to their answers before those of the rule
    /// (Gateway API `backendRefs[].filters`). Most shares have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filters: Option<Box<RouteFilters>>,
    /// How bodies of this share are handled, where the shares of a rule differ in that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bodies: Option<Arc<BodyHandling>>,
    /// What became of the reference that names it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reference: Reference,
}

/// What became of a reference to a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reference {
    /// It names a backend.
    #[default]
    Resolved,
    /// It may not be followed, or leads nowhere: the requests of the share are answered 500 (Gateway API
    /// `HTTPBackendRef`). The key of the backend only names it.
    Invalid,
}

impl WeightedBackend {
    /// A share without filters of its own.
    #[must_use]
    pub fn new(backend: BackendKey, weight: u32) -> Self {
        Self { backend, weight, filters: None, bodies: None, reference: Reference::Resolved }
    }

    /// A share whose requests are answered 500.
    #[must_use]
    pub fn invalid(backend: BackendKey, weight: u32) -> Self {
        Self { reference: Reference::Invalid, ..Self::new(backend, weight) }
    }
}

/// A fixed answer with a short body made of its status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// 200..=599.
    pub status: u16,
    /// Why, for logs, metrics and `explain`.
    pub reason: AnswerReason,
}

/// Why the configuration itself answers instead of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AnswerReason {
    /// The object asks for protection that cannot be given: closed rather than open.
    ProtectionUnavailable,
    /// The object has a value for which the controller that it was written for would not serve it, and asks for protection: its paths
    /// are closed, so that no wider path takes their requests.
    Refused,
    /// A service that must see the requests of the rule cannot be asked: closed rather than open.
    ExtensionUnavailable,
    /// What the rule refers to does not exist.
    MissingReference,
    /// No rule and no default backend: the answer of the catch-all.
    NoRoute,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::{HeaderEdit, RequestEdit};

    #[test]
    fn a_share_is_read_as_it_was_written() {
        let request = vec![RequestEdit::Headers(HeaderEdit::default())];
        let filters = Some(Box::new(RouteFilters { request, ..RouteFilters::default() }));
        for share in [
            WeightedBackend::new("shop/api:80".into(), 3),
            WeightedBackend::invalid("shop/gone:80".into(), 1),
            WeightedBackend { filters, ..WeightedBackend::new("shop/api:80".into(), 1) },
            WeightedBackend {
                bodies: BodyHandling { max_request: Some(9), ..BodyHandling::default() }.kept(),
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
