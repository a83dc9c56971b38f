//! Who asks, by a JSON Web Token, an API key or a login, and what that client may do. API keys and the secrets of clients never leave
//! through `Debug` or serialisation.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::backend::BackendKey;
use crate::default::is_default;
use crate::geo::CountryCode;
use crate::matches::FieldMatch;
use crate::policy::Timeouts;

/// Only requests with a valid JSON Web Token (RFC 7519) pass; others get 401 or 403 as RFC 6750 §3 says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JwtAuth {
    /// The protection space (RFC 9110 §11.5): visible ASCII and spaces.
    pub realm: Arc<str>,
    /// Where requests have the token; the first place that has something counts.
    pub locations: Vec<CredentialLocation>,
    /// How far the clocks of issuers may differ.
    pub skew: Duration,
    /// Who is trusted. The `iss` of a token says which of them is meant.
    pub issuers: Vec<JwtIssuer>,
}

/// An issuer of tokens that is trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JwtIssuer {
    /// `iss`, byte for byte.
    pub issuer: Arc<str>,
    /// One of these must be in `aud`; where there are none, only tokens without `aud` pass (RFC 7519 §4.1.3).
    pub audiences: Vec<Arc<str>>,
    /// What its tokens are verified with.
    pub keys: JwtKeys,
    /// What its tokens must say besides; all of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<ClaimMatch>,
    /// The scopes that its tokens must have; all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<Arc<str>>,
    /// Claims that endpoints get as headers. `_` and `-` are the same in their names: no header of the client's whose name differs in
    /// nothing else reaches the endpoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<ClaimHeader>,
}

/// What tokens are verified with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JwtKeys {
    /// This key set (RFC 7517 §5): public keys, in JSON.
    Inline(Arc<str>),
    /// What the issuer publishes.
    Published(PublishedDocument),
}

/// A document that an issuer publishes: a key set, or its metadata.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedDocument {
    /// Who is asked.
    pub backend: BackendKey,
    /// The `Host` of the request.
    pub host: Arc<str>,
    /// Its path and query.
    pub target: Arc<str>,
    /// How long each step of it may take.
    pub timeouts: Timeouts,
}

/// A claim as a header for endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimHeader {
    /// The claim.
    pub claim: Arc<str>,
    /// The header.
    pub header: Arc<str>,
}

/// A claim that is one of several values, or a list that contains one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimMatch {
    /// The claim; dots lead into objects.
    pub claim: Arc<str>,
    /// Numbers and booleans as JSON writes them.
    pub values: Vec<Arc<str>>,
}

/// Where requests have a credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CredentialLocation {
    /// Behind a prefix, for which upper and lower case are the same, in this header.
    Header {
        /// Its name.
        name: Arc<str>,
        /// What stands before the credential, such as `Bearer `.
        prefix: Arc<str>,
    },
    /// In this cookie.
    Cookie(Arc<str>),
    /// In this parameter of the query.
    Query(Arc<str>),
}

/// Only users who have logged in at a provider pass (OpenID Connect Core 1.0 §3.1). Browsers of others are sent there to log in; what is
/// no navigation of a browser gets 401.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OidcAuth {
    /// What its sessions are kept under: rules with the same namespace, issuer and client share them.
    pub sessions: Arc<str>,
    /// The issuer of the provider, byte for byte.
    pub issuer: Arc<str>,
    /// What the provider says of itself.
    pub metadata: PublishedDocument,
    /// Where its token endpoint and its keys may be; the first is that of the metadata.
    pub hosts: Vec<ProviderHost>,
    /// The name of the client at the provider.
    pub client_id: Arc<str>,
    /// What proves that Fairway is this client.
    #[serde(skip)]
    pub client_secret: ClientSecret,
    /// Which Secret that is from, in which state; empty for a public client.
    #[serde(default)]
    pub client_secret_version: Arc<str>,
    /// What is asked for, with `openid`.
    pub scopes: Vec<Arc<str>>,
    /// Parameters of the authorization request that only this provider knows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<(Arc<str>, Arc<str>)>,
    /// Paths with a meaning of their own.
    pub paths: OidcPaths,
    /// After which time a user logs in again, whatever the provider says.
    pub session_lifetime: Duration,
    /// How far the clock of the provider may differ.
    pub skew: Duration,
    /// Whether endpoints get the access token, in `Authorization`.
    #[serde(default)]
    pub forwards_access_token: bool,
    /// What an ID token must say besides; all of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<ClaimMatch>,
    /// As those of [`JwtIssuer`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<ClaimHeader>,
}

/// A host of a provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderHost {
    /// Scheme, host and port, in lower case; without the port of the scheme.
    pub origin: Arc<str>,
    /// Who is asked.
    pub backend: BackendKey,
}

/// Paths that a login needs on each host; compared byte for byte.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OidcPaths {
    /// Where the provider sends browsers back to.
    pub callback: Arc<str>,
    /// Where users log out.
    pub logout: Arc<str>,
    /// Where they are after that.
    pub after_logout: Arc<str>,
    /// Where the provider says that users have logged out elsewhere (OpenID Connect Back-Channel Logout 1.0 §2.5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back_channel_logout: Option<Arc<str>>,
}

impl OidcPaths {
    /// Those that no endpoint gets.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        [&self.callback, &self.logout].into_iter().chain(&self.back_channel_logout).map(|path| &**path)
    }
}

/// What proves to a provider that Fairway is its client; none for a public client. Compares by content, prints and serialises as
/// nothing.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ClientSecret(Option<Arc<str>>);

impl ClientSecret {
    /// Takes the secret.
    #[must_use]
    pub fn new(secret: &str) -> Self {
        Self(Some(secret.into()))
    }

    /// The secret: only for the provider, and to keep it safely.
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

/// Only requests with a known API key pass; others get 401.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKeyAuth {
    /// What the keys are kept under; equal where the keys are.
    pub policy: Arc<str>,
    /// Where requests have the key; the first place that has something counts.
    pub locations: Vec<CredentialLocation>,
    /// The header with which endpoints get the name of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_header: Option<Arc<str>>,
    /// The keys.
    #[serde(skip)]
    pub keys: ApiKeys,
}

/// Clients by the SHA-256 of their keys. Compares by content, prints and serialises as nothing.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ApiKeys(Arc<BTreeMap<[u8; 32], Arc<str>>>);

impl ApiKeys {
    /// Takes the client of each key.
    pub fn new(keys: impl IntoIterator<Item = ([u8; 32], Arc<str>)>) -> Self {
        Self(Arc::new(keys.into_iter().collect()))
    }

    /// Whose key has this SHA-256. A timing attack on the search would need keys with chosen hashes.
    #[must_use]
    pub fn client(&self, digest: &[u8; 32]) -> Option<&Arc<str>> {
        self.0.get(digest)
    }

    /// All of them: only to keep them safely.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8; 32], &Arc<str>)> {
        self.0.iter()
    }

    /// Whether there is none.
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

/// What is allowed to whom; others get 403. Asked after all guards that find out who the client is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authorization {
    /// The first rule that a request meets decides.
    pub rules: Vec<AuthorizationRule>,
}

impl Authorization {
    /// What becomes of requests that meet no rule: where something is allowed, all else is not.
    #[must_use]
    pub fn otherwise(&self) -> Decision {
        match self.rules.iter().any(|rule| rule.decision == Decision::Allow) {
            true => Decision::Deny,
            false => Decision::Allow,
        }
    }
}

/// Decides about the requests that meet all of its conditions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthorizationRule {
    /// What becomes of them.
    pub decision: Decision,
    /// Client addresses; one range is enough.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sources: Vec<IpNet>,
    /// Countries of client addresses; one is enough.
    #[serde(default, skip_serializing_if = "is_default")]
    pub countries: Vec<CountryCode>,
    /// Numbers of the autonomous systems of client addresses; one is enough.
    #[serde(default, skip_serializing_if = "is_default")]
    pub asns: Vec<u32>,
    /// Methods, in upper case; one is enough.
    #[serde(default, skip_serializing_if = "is_default")]
    pub methods: Vec<Arc<str>>,
    /// Claims of a verified token; all must hold.
    #[serde(default, skip_serializing_if = "is_default")]
    pub claims: Vec<ClaimMatch>,
    /// Scopes of a verified token; all must be there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scopes: Vec<Arc<str>>,
    /// The clients of API keys; one is enough.
    #[serde(default, skip_serializing_if = "is_default")]
    pub clients: Vec<Arc<str>>,
    /// Headers; all must hold. Names in lower case.
    #[serde(default, skip_serializing_if = "is_default")]
    pub headers: Vec<FieldMatch>,
}

impl AuthorizationRule {
    /// For all requests.
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

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// It passes.
    Allow,
    /// It is answered 403.
    Deny,
}

/// Whose requests a limit counts together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LimitKey {
    /// Those of an address.
    #[default]
    Address,
    /// Those with the same value of this claim; those without it by address.
    Claim(Arc<str>),
    /// Those with an API key of the same client; those without one by address.
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
    fn what_no_rule_is_about_is_denied_where_something_is_allowed() {
        let of = |decisions: &[Decision]| {
            Authorization { rules: decisions.iter().copied().map(AuthorizationRule::new).collect() }
                .otherwise()
        };
        assert_eq!(of(&[Decision::Deny]), Decision::Allow);
        assert_eq!(of(&[Decision::Deny, Decision::Allow]), Decision::Deny);
        assert_eq!(of(&[]), Decision::Allow);
    }
}
