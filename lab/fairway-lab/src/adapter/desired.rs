//! The desired state of a proxy, independent of any proxy: derived from objects, rendered to configurations.

use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Everything that a proxy is to serve.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DesiredState {
    /// Hosts by name.
    pub hosts: BTreeMap<String, Host>,
    /// Ready endpoints in order, by the backend name used in rules.
    pub backends: BTreeMap<String, Vec<SocketAddr>>,
    /// Backends by the name that hosts refer to.
    pub certificates: BTreeMap<String, Certificate>,
}

/// A host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Host {
    /// Its certificate; without one it is served over plain HTTP only.
    pub certificate: Option<String>,
    /// Its rules, the one to be tried first first: exact paths, then prefixes from long to short.
    pub rules: Vec<Rule>,
    /// Headers added to each response.
    pub response_headers: Vec<(String, String)>,
    /// Whether CORS headers allow every origin.
    pub cors: bool,
}

/// A rule for the requests of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// The matching requests.
    pub path: PathMatch,
    /// The action.
    pub action: Action,
}

/// A path match. Prefixes match whole segments.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PathMatch {
    /// This path alone.
    Exact(String),
    /// This path and all below it.
    Prefix(String),
}

/// The action for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Requests go to a backend.
    Forward {
        /// Its name.
        backend: String,
        /// A prefix of the path that the backend does not see.
        strip: Option<String>,
    },
    /// Redirect with 302.
    Redirect {
        /// The Location.
        target: String,
    },
}

/// A certificate with its key, PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    /// The chain, leaf first.
    pub chain: String,
    /// The private key.
    pub key: String,
}

/// The CORS headers of a response: the defaults of ingress-nginx's annotation `enable-cors`, with `*` for every origin and
/// therefore without credentials.
pub(crate) const CORS_HEADERS: [(&str, &str); 4] = [
    ("Access-Control-Allow-Origin", "*"),
    ("Access-Control-Allow-Methods", "GET, PUT, POST, DELETE, PATCH, OPTIONS"),
    (
        "Access-Control-Allow-Headers",
        "DNT,Keep-Alive,User-Agent,X-Requested-With,If-Modified-Since,Cache-Control,Content-Type,Range,Authorization",
    ),
    ("Access-Control-Max-Age", "1728000"),
];

impl Host {
    /// Puts the rules into the order in which they are tried.
    pub(crate) fn sort(&mut self) {
        self.rules.sort_by(|one, other| one.path.rank().cmp(&other.path.rank()));
        self.rules.dedup_by(|later, earlier| later.path == earlier.path);
    }
}

impl PathMatch {
    fn rank(&self) -> (bool, std::cmp::Reverse<usize>, &str) {
        match self {
            Self::Exact(path) => (false, std::cmp::Reverse(path.len()), path),
            Self::Prefix(path) => (true, std::cmp::Reverse(path.len()), path),
        }
    }

    /// The prefix without its last slash: `/` is the empty text.
    #[must_use]
    pub(crate) fn stem(path: &str) -> &str {
        path.strip_suffix('/').unwrap_or(path)
    }
}
