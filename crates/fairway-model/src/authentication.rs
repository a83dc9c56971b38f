//! Who may pass by a password or by the word of another service. Hashes of passwords never leave through `Debug` or
//! serialisation.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::access::AccessList;
use crate::backend::BackendKey;
use crate::identity::{ApiKeyAuth, JwtAuth};
use crate::policy::Timeouts;
use crate::template::Template;

/// Another service decides whether a request may pass, as nginx's `auth_request` asks it: 2xx lets it pass, 401 and 403
/// refuse it with that status, everything else, no answer included, is answered 500.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalAuth {
    /// Who decides. The question has the request's fields but no body.
    pub service: AuthService,
    /// The question's method; none is the request's own.
    pub method: Option<Arc<str>>,
    /// The question's path and query.
    pub target: Template,
    /// Fields of an answer that lets the request pass which replace those of the request, absent ones included. `_` and `-`
    /// are the same in them: no field of the client's whose name differs in nothing else reaches the endpoint.
    pub copied: Vec<Arc<str>>,
    /// Fields that the question has instead of the request's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<(Arc<str>, Template)>,
    /// `X-Auth-Request-Redirect` of the question; none is the request's own target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect: Option<Template>,
    /// Where a client that is answered 401 is sent instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign_in: Option<Template>,
    /// Which answers to the client carry the cookies that the service set.
    #[serde(default)]
    pub cookies: AuthCookies,
    /// How long each step of the question may take.
    pub timeouts: Timeouts,
    /// Whether answers are kept for further requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptAuth>,
    /// What is otherwise, where a filter of Gateway API asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<AuthFilter>,
}

/// What the filter `ExternalAuth` of Gateway API does otherwise than nginx (GEP-1494): only 200 lets a request pass, and the question
/// has the request's own host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthFilter {
    /// The fields of the request that the question has, in lower case.
    pub sent: Vec<Arc<str>>,
    /// Whether the request gets all fields of an answer that lets it pass, and not [`ExternalAuth::copied`] alone. Fields that are about
    /// the answer itself are none of them.
    pub copies_all: bool,
}

/// Which answers of an authentication service are kept, and for which requests (nginx `proxy_cache_key`,
/// `proxy_cache_valid`). One that sets a cookie, or says itself that it is for one request only, is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptAuth {
    /// Requests of one rule and host with the same text here get the same answer.
    pub key: Template,
    /// For how long, by status; the first that fits counts, `None` fits all. Others are not kept.
    pub times: Vec<(Option<u16>, Duration)>,
}

/// Who decides whether a request may pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuthService {
    /// The endpoints of a backend.
    Backend {
        /// Which.
        backend: BackendKey,
        /// The question's `Host`.
        host: Arc<str>,
    },
    /// Whoever serves the question's path on the request's own host: the rule is looked up as if the client had asked, over
    /// TLS or in the clear as the scheme says. A rule that would itself ask is not followed.
    OwnHost {
        /// The scheme; none is the request's own.
        scheme: Option<OwnScheme>,
    },
}

/// A scheme that is fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OwnScheme {
    /// `http`.
    Http,
    /// `https`.
    Https,
}

/// Which answers carry the cookies of an authentication service (nginx `add_header`, with and without `always`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuthCookies {
    /// Those with status 200, 201, 204, 206, 301, 302, 303, 304, 307 or 308.
    #[default]
    OfSuccess,
    /// All that the service said yes or no to.
    Always,
}

impl fmt::Display for AuthService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backend { backend, .. } => write!(f, "{backend}"),
            Self::OwnHost { .. } => f.write_str("the request's own host"),
        }
    }
}

/// Only who knows a user's password may pass; others are answered 401 (RFC 7617).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BasicAuth {
    /// What verified passwords are remembered under; equal where the users are.
    pub policy: Arc<str>,
    /// The protection space (RFC 9110 §11.5): visible ASCII and spaces.
    pub realm: Arc<str>,
    /// Who may pass.
    #[serde(skip)]
    pub users: Users,
}

/// Users and the hashes of their passwords, as `htpasswd` and `crypt(3)` write them. Compares by content, prints and
/// serialises as nothing.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Users(Arc<BTreeMap<Arc<str>, Arc<str>>>);

impl Users {
    /// Takes the hash of each user.
    pub fn new(users: impl IntoIterator<Item = (Arc<str>, Arc<str>)>) -> Self {
        Self(Arc::new(users.into_iter().collect()))
    }

    /// The hash of a user's password: only to verify one.
    #[must_use]
    pub fn hash(&self, user: &str) -> Option<&Arc<str>> {
        self.0.get(user)
    }

    /// Everybody: only to keep them safely.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        self.0.iter()
    }

    /// Whether there is nobody.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Users(..)")
    }
}

/// One of several guards is enough (nginx `satisfy any`). Those that are absent let nobody pass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnyGuard {
    /// The client's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<AccessList>,
    /// A password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basic: Option<BasicAuth>,
    /// A token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwt: Option<Arc<JwtAuth>>,
    /// An API key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<Arc<ApiKeyAuth>>,
    /// The word of another service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<Box<ExternalAuth>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_neither_printed_nor_serialised() {
        let users = Users::new([("alice".into(), "{PLAIN}hunter2".into())]);
        let basic = BasicAuth { policy: "a/users".into(), realm: "r".into(), users };
        let any = AnyGuard { basic: Some(basic.clone()), ..AnyGuard::default() };
        let shown = format!("{any:?}{}", serde_json::to_string(&any).unwrap());
        assert!(shown.contains("a/users"), "{shown}");
        assert!(!shown.contains("alice") && !shown.contains("hunter2"), "{shown}");
        let read: BasicAuth = serde_json::from_str(&serde_json::to_string(&basic).unwrap()).unwrap();
        assert!(read.users.is_empty(), "nobody passes until they are put back");
    }
}
