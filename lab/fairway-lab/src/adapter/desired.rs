//! What a proxy is to serve, in no proxy's words: the value that objects are turned into and configurations are rendered
//! from. Never knows where it came from.

use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Everything that a proxy is to serve.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Desired {
    /// By host name.
    pub hosts: BTreeMap<String, Host>,
    /// Ready endpoints in order, by the name that rules use.
    pub backends: BTreeMap<String, Vec<SocketAddr>>,
    /// By the name that hosts use.
    pub certificates: BTreeMap<String, Certificate>,
}

/// A host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Host {
    /// Its certificate; without one it is served over plain HTTP only.
    pub certificate: Option<String>,
    /// Its rules, the one to be tried first first: exact paths, then prefixes from long to short.
    pub rules: Vec<Rule>,
    /// Headers that are added to each answer.
    pub response_headers: Vec<(String, String)>,
    /// Whether answers say that every origin may read them.
    pub cors: bool,
}

/// What is done with the requests of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// Which requests.
    pub path: PathMatch,
    /// What is done.
    pub action: Action,
}

/// A match of paths. A prefix is one of whole segments.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PathMatch {
    /// This path alone.
    Exact(String),
    /// This path and all below it.
    Prefix(String),
}

/// What is done with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// It goes to a backend.
    Forward {
        /// Its name.
        backend: String,
        /// A prefix of the path that the backend does not see.
        strip: Option<String>,
    },
    /// It is answered with 302.
    Redirect {
        /// The Location.
        to: String,
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

/// What CORS adds to an answer: what the annotation `enable-cors` of ingress-nginx adds by default, with `*` for every
/// origin and therefore without credentials.
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
