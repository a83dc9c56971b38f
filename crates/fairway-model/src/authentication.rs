//! Authentication by password or by an external service. Password hashes never appear in `Debug` output or serialised
//! data.

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

/// An external service decides whether a request may pass, as with nginx's `auth_request`: 2xx lets it pass, 401 and
/// 403 refuse it with that status, and everything else, including no response, yields 500.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalAuth {
    /// The service that decides. It gets the request's headers but no body.
    pub service: AuthService,
    /// Method of the auth request; `None` uses the method of the original request.
    pub method: Option<Arc<str>>,
    /// Path and query of the auth request.
    pub target: Template,
    /// Headers of an allowing response that replace those of the request, absent ones included. `_` and `-` are equal
    /// in these names: a client's header that differs only in them never reaches the endpoint.
    pub copied: Vec<Arc<str>>,
    /// Headers set on the auth request in place of the client's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<(Arc<str>, Template)>,
    /// `X-Auth-Request-Redirect` of the auth request; `None` sends the target of the original request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect: Option<Template>,
    /// Where clients that would get 401 are redirected instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign_in: Option<Template>,
    /// Which responses to the client carry the cookies that the service sets.
    #[serde(default)]
    pub cookies: AuthCookies,
    /// Timeouts of the auth request.
    pub timeouts: Timeouts,
    /// How responses are cached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<AuthCache>,
    /// Differences when a Gateway API filter asked for this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<AuthFilter>,
}

/// How the Gateway API `ExternalAuth` filter differs from nginx (GEP-1494): only 200 lets a request pass, and the
/// auth request has the host of the original request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthFilter {
    /// Request headers that are sent to the service, in lower case.
    pub sent: Vec<Arc<str>>,
    /// Whether the request gets all headers of an allowing response, not only [`ExternalAuth::copied`]. Headers that
    /// describe the response itself are never copied.
    pub copies_all: bool,
}

/// Which responses of an authentication service are cached, and for which requests (nginx `proxy_cache_key`,
/// `proxy_cache_valid`). A response that sets a cookie, or that says it is for one request only, is not cached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthCache {
    /// Cache key: requests of one rule and host with equal keys share a response.
    pub key: Template,
    /// Time to live by status; the first match counts, and `None` matches every status. Other statuses are not
    /// cached.
    pub times: Vec<(Option<u16>, Duration)>,
}

/// Where the authentication service runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuthService {
    /// The endpoints of a backend.
    Backend {
        /// The backend.
        backend: BackendKey,
        /// `Host` of the auth request.
        host: Arc<str>,
    },
    /// Whatever serves the path of the auth request on the original request's host. The rule is looked up as if the
    /// client had sent the request, over TLS or in plain text according to the scheme. A rule that would itself send
    /// an auth request is not followed.
    OwnHost {
        /// The scheme; `None` uses that of the original request.
        scheme: Option<UrlScheme>,
    },
}

/// A fixed URL scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UrlScheme {
    /// `http`.
    Http,
    /// `https`.
    Https,
}

/// Which responses carry the cookies of an authentication service (nginx `add_header`, with and without `always`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuthCookies {
    /// Those with status 200, 201, 204, 206, 301, 302, 303, 304, 307 or 308.
    #[default]
    OfSuccess,
    /// Every response to a request that the service allowed or refused.
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

/// HTTP Basic authentication (RFC 7617); requests without valid credentials get 401.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BasicAuth {
    /// Key for caching verified passwords; equal for equal users.
    pub policy: Arc<str>,
    /// The protection space (RFC 9110 §11.5): visible ASCII and spaces.
    pub realm: Arc<str>,
    /// Users that may pass.
    #[serde(skip)]
    pub users: Users,
}

/// Users and their password hashes, in the formats of `htpasswd` and `crypt(3)`. Compares by content; `Debug` and
/// serialisation omit the content.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Users(Arc<BTreeMap<Arc<str>, Arc<str>>>);

impl Users {
    /// From pairs of user and hash.
    pub fn new(users: impl IntoIterator<Item = (Arc<str>, Arc<str>)>) -> Self {
        Self(Arc::new(users.into_iter().collect()))
    }

    /// The password hash of a user. Use it only to verify a password.
    #[must_use]
    pub fn hash(&self, user: &str) -> Option<&Arc<str>> {
        self.0.get(user)
    }

    /// All users with their hashes. Use it only to store them safely.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        self.0.iter()
    }

    /// Whether there are no users.
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

/// Passes if one of these guards passes (nginx `satisfy any`). Absent guards never pass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnyGuard {
    /// By client address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<AccessList>,
    /// By password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basic: Option<BasicAuth>,
    /// By token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwt: Option<Arc<JwtAuth>>,
    /// By API key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<Arc<ApiKeyAuth>>,
    /// By an external service.
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
