//! Authentication by JSON Web Token, API key or OpenID Connect login, and authorization. API keys and client secrets
//! never appear in `Debug` output or serialised data.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::backend::BackendKey;
use crate::default::is_default;
use crate::geo::CountryCode;
use crate::matches::NamedValueMatch;
use crate::policy::Timeouts;

/// Requires a valid JSON Web Token (RFC 7519); other requests get 401 or 403 as RFC 6750 §3 specifies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JwtAuth {
    /// The protection space (RFC 9110 §11.5): visible ASCII and spaces.
    pub realm: Arc<str>,
    /// Where requests carry the token; the first location with a value counts.
    pub locations: Vec<CredentialLocation>,
    /// Tolerated clock skew.
    pub skew: Duration,
    /// Trusted issuers; the token's `iss` selects one.
    pub issuers: Vec<JwtIssuer>,
}

/// A trusted token issuer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JwtIssuer {
    /// `iss`, byte for byte.
    pub issuer: Arc<str>,
    /// One of these must be in `aud`; if empty, only tokens without `aud` pass (RFC 7519 §4.1.3).
    pub audiences: Vec<Arc<str>>,
    /// Keys that verify its tokens.
    pub keys: JwtKeys,
    /// Claims that its tokens must have; all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<ClaimMatch>,
    /// Scopes that its tokens must have; all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<Arc<str>>,
    /// Claims sent to endpoints as headers. `_` and `-` are equal in these names: a client's header that differs only
    /// in them never reaches the endpoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<ClaimHeader>,
}

/// Keys that verify tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JwtKeys {
    /// This key set (RFC 7517 §5): public keys, in JSON.
    Inline(Arc<str>),
    /// A key set that the issuer publishes.
    Published(PublishedDocument),
}

/// A document that an issuer publishes: its key set or its metadata.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedDocument {
    /// Backend to fetch it from.
    pub backend: BackendKey,
    /// `Host` of the request.
    pub host: Arc<str>,
    /// Path and query of the request.
    pub target: Arc<str>,
    /// Timeouts of the request.
    pub timeouts: Timeouts,
}

/// A claim sent to endpoints as a header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimHeader {
    /// The claim.
    pub claim: Arc<str>,
    /// The header.
    pub header: Arc<str>,
}

/// Requires a claim to be one of several values, or to be a list that contains one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimMatch {
    /// The claim; dots lead into objects.
    pub claim: Arc<str>,
    /// Accepted values; numbers and booleans in JSON notation.
    pub values: Vec<Arc<str>>,
}

/// Where requests carry a credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CredentialLocation {
    /// In this header, after a prefix that is compared case-insensitively.
    Header {
        /// The header name.
        name: Arc<str>,
        /// Text before the credential, such as `Bearer `.
        prefix: Arc<str>,
    },
    /// In this cookie.
    Cookie(Arc<str>),
    /// In this query parameter.
    Query(Arc<str>),
}

/// Requires a login at an OpenID provider (OpenID Connect Core 1.0 §3.1). Browsers without a session are redirected
/// to the provider; requests that are not browser navigation get 401.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OidcAuth {
    /// Identifies the sessions: rules with the same namespace, issuer and client share them.
    pub sessions: Arc<str>,
    /// The issuer of the provider, byte for byte.
    pub issuer: Arc<str>,
    /// The provider's metadata document.
    pub metadata: PublishedDocument,
    /// Hosts of its token endpoint and keys; the first serves the metadata.
    pub hosts: Vec<ProviderHost>,
    /// The client id at the provider.
    pub client_id: Arc<str>,
    /// The client secret.
    #[serde(skip)]
    pub client_secret: ClientSecret,
    /// Secret and version that the client secret came from; empty for a public client.
    #[serde(default)]
    pub client_secret_version: Arc<str>,
    /// Requested scopes, in addition to `openid`.
    pub scopes: Vec<Arc<str>>,
    /// Provider-specific parameters of the authorization request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<(Arc<str>, Arc<str>)>,
    /// Paths reserved for the login.
    pub paths: OidcPaths,
    /// Time after which users must log in again, whatever the provider says.
    pub session_lifetime: Duration,
    /// Tolerated clock skew.
    pub skew: Duration,
    /// Whether endpoints get the access token, in `Authorization`.
    #[serde(default)]
    pub forwards_access_token: bool,
    /// Claims that the ID token must have; all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<ClaimMatch>,
    /// As in [`JwtIssuer`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<ClaimHeader>,
}

/// A host of a provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderHost {
    /// Scheme, host and port, in lower case; without the scheme's default port.
    pub origin: Arc<str>,
    /// Backend to send requests to.
    pub backend: BackendKey,
}

/// Paths that a login reserves on each host; compared byte for byte.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OidcPaths {
    /// Where the provider redirects browsers after a login.
    pub callback: Arc<str>,
    /// Where users log out.
    pub logout: Arc<str>,
    /// Where users are redirected after logging out.
    pub after_logout: Arc<str>,
    /// Where the provider reports logouts (OpenID Connect Back-Channel Logout 1.0 §2.5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back_channel_logout: Option<Arc<str>>,
}

impl OidcPaths {
    /// Paths that are never forwarded to endpoints.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        [&self.callback, &self.logout].into_iter().chain(&self.back_channel_logout).map(|path| &**path)
    }
}

/// The client secret for a provider; `None` for a public client. Compares by content; `Debug` and serialisation omit
/// the content.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ClientSecret(Option<Arc<str>>);

impl ClientSecret {
    /// From its text.
    #[must_use]
    pub fn new(secret: &str) -> Self {
        Self(Some(secret.into()))
    }

    /// The secret. Use it only for the provider, or to store it safely.
    #[must_use]
    pub fn text(&self) -> Option<&Arc<str>> {
        self.0.as_ref()
    }
}

impl fmt::Debug for ClientSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientSecret(..)")
    }
}

/// Requires a known API key; other requests get 401.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKeyAuth {
    /// Identifies the key set; equal for equal keys.
    pub policy: Arc<str>,
    /// Where requests carry the key; the first location with a value counts.
    pub locations: Vec<CredentialLocation>,
    /// The header that tells endpoints the client's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_header: Option<Arc<str>>,
    /// The keys.
    #[serde(skip)]
    pub keys: ApiKeys,
}

/// Client names by the SHA-256 of their keys. Compares by content; `Debug` and serialisation omit the content.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ApiKeys(Arc<BTreeMap<[u8; 32], Arc<str>>>);

impl ApiKeys {
    /// From pairs of key digest and client.
    pub fn new(keys: impl IntoIterator<Item = ([u8; 32], Arc<str>)>) -> Self {
        Self(Arc::new(keys.into_iter().collect()))
    }

    /// The client whose key has this SHA-256. A timing attack on the lookup would need keys with chosen hashes.
    #[must_use]
    pub fn client(&self, digest: &[u8; 32]) -> Option<&Arc<str>> {
        self.0.get(digest)
    }

    /// All entries. Use it only to store them safely.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8; 32], &Arc<str>)> {
        self.0.iter()
    }

    /// Whether there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKeys(..)")
    }
}

/// Authorization rules; refused requests get 403. Evaluated after all guards that authenticate the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authorization {
    /// The first rule that matches a request decides.
    pub rules: Vec<AuthorizationRule>,
}

impl Authorization {
    /// The decision for requests that match no rule: deny if any rule allows something.
    #[must_use]
    pub fn otherwise(&self) -> Decision {
        match self.rules.iter().any(|rule| rule.decision == Decision::Allow) {
            true => Decision::Deny,
            false => Decision::Allow,
        }
    }
}

/// A decision for requests that meet all conditions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthorizationRule {
    /// The decision.
    pub decision: Decision,
    /// Client addresses; one match suffices.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sources: Vec<IpNet>,
    /// Countries of client addresses; one match suffices.
    #[serde(default, skip_serializing_if = "is_default")]
    pub countries: Vec<CountryCode>,
    /// Autonomous system numbers of client addresses; one match suffices.
    #[serde(default, skip_serializing_if = "is_default")]
    pub asns: Vec<u32>,
    /// Methods, in upper case; one match suffices.
    #[serde(default, skip_serializing_if = "is_default")]
    pub methods: Vec<Arc<str>>,
    /// Claims of a verified token; all must match.
    #[serde(default, skip_serializing_if = "is_default")]
    pub claims: Vec<ClaimMatch>,
    /// Scopes of a verified token; all are required.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scopes: Vec<Arc<str>>,
    /// Clients of API keys; one match suffices.
    #[serde(default, skip_serializing_if = "is_default")]
    pub clients: Vec<Arc<str>>,
    /// Headers; all must match. Names in lower case.
    #[serde(default, skip_serializing_if = "is_default")]
    pub headers: Vec<NamedValueMatch>,
}

impl AuthorizationRule {
    /// A rule that matches every request.
    #[must_use]
    pub fn new(decision: Decision) -> Self {
        Self {
            decision,
            sources: Vec::new(),
            countries: Vec::new(),
            asns: Vec::new(),
            methods: Vec::new(),
            claims: Vec::new(),
            scopes: Vec::new(),
            clients: Vec::new(),
            headers: Vec::new(),
        }
    }
}

/// The result of an authorization rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// The request passes.
    Allow,
    /// The request gets 403.
    Deny,
}

/// How a rate limit groups requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LimitKey {
    /// By client address.
    #[default]
    Address,
    /// By the value of this claim; requests without it by address.
    Claim(Arc<str>),
    /// By API client; requests without an API key by address.
    ApiClient,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_keys_are_neither_printed_nor_serialised() {
        let keys = ApiKeys::new([([7; 32], "billing".into())]);
        let auth = ApiKeyAuth { policy: "a/keys".into(), locations: Vec::new(), client_header: None, keys };
        let shown = format!("{auth:?}{}", serde_json::to_string(&auth).unwrap());
        assert!(shown.contains("a/keys"), "{shown}");
        assert!(!shown.contains("billing") && !shown.contains("7, 7"), "{shown}");
        let read: ApiKeyAuth = serde_json::from_str(&serde_json::to_string(&auth).unwrap()).unwrap();
        assert!(read.keys.is_empty(), "nobody passes until they are put back");
    }

    #[test]
    fn the_secret_of_a_client_is_not_printed() {
        assert_eq!(format!("{:?}", ClientSecret::new("hunter2")), "ClientSecret(..)");
    }

    #[test]
    fn denies_by_default_if_any_rule_allows() {
        let access_for = |decisions: &[Decision]| {
            Authorization { rules: decisions.iter().copied().map(AuthorizationRule::new).collect() }
                .otherwise()
        };
        assert_eq!(access_for(&[Decision::Deny]), Decision::Allow);
        assert_eq!(access_for(&[Decision::Deny, Decision::Allow]), Decision::Deny);
        assert_eq!(access_for(&[]), Decision::Allow);
    }
}
