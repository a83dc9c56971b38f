//! Parses what policies and annotations say about JSON Web Tokens, API keys, logins and authorization. Strict: any invalid value
//! is an error that names its field, because a guess could grant access. Errors never repeat a key, a token or the name of a
//! Secret's entry.

mod api_keys;
mod authorization;
mod context;
mod credential_locations;
mod errors;
mod headers;
mod keys;
mod limits;
mod logins;
mod tokens;
mod values;

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::{
    ApiKeyAuth, Authorization, ClaimHeader, CredentialLocation, JwtAuth, LimitKey, OidcAuth, RateLimit,
};

use crate::identity::api_keys::read_api_key;
use crate::identity::authorization::{KnownCredentials, read_authorization};
use crate::identity::context::object;
use crate::identity::errors::IdentityResult;
use crate::identity::headers::is_same_header;
use crate::identity::keys::KeyFindings;
use crate::identity::limits::read_limits;
use crate::identity::logins::read_oidc;
use crate::identity::tokens::read_jwt;
use crate::object::{ObjectKey, ObjectRef};
use crate::policies as types;
use crate::service_url::{ServiceUrl, UrlDestination};

pub use context::{Context, Permits};
pub use errors::{IdentityFieldError, IdentityWarning};
pub use keys::KeySetBackend;

/// The identity settings of an object.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdentitySpec<'a> {
    /// Tokens.
    pub jwt: Option<&'a types::Jwt>,
    /// Logins.
    pub oidc: Option<&'a types::Oidc>,
    /// API keys.
    pub api_key: Option<&'a types::ApiKey>,
    /// Authorization rules.
    pub authorization: Option<&'a types::Authorization>,
    /// Rate limits per client.
    pub rate_limits: &'a [types::RateLimit],
    /// The name of their counters, for example `SecurityPolicy/shop/login`.
    pub counted_as: &'a str,
}

/// The parsed settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Identity {
    /// Tokens.
    pub jwt: Option<Arc<JwtAuth>>,
    /// Logins.
    pub oidc: Option<Arc<OidcAuth>>,
    /// API keys.
    pub api_key: Option<Arc<ApiKeyAuth>>,
    /// Authorization rules.
    pub authorization: Option<Arc<Authorization>>,
    /// Rate limits by address.
    pub limits: Vec<RateLimit>,
    /// Rate limits by identity, applied once it is known.
    pub late_limits: Vec<RateLimit>,
    /// The backends that publish keys.
    pub backends: Vec<KeySetBackend>,
    /// Settings that may be unintended.
    pub doubts: Vec<IdentityWarning>,
}

impl IdentitySpec<'_> {
    /// The Secrets and ConfigMaps that it references.
    #[must_use]
    pub fn referenced_objects(&self, namespace: &str) -> BTreeSet<ObjectRef> {
        let issuers = || self.jwt.iter().flat_map(|jwt| &jwt.issuers);
        let key_sets = issuers().filter_map(|issuer| issuer.keys.reference.as_ref());
        let key_sets =
            key_sets.filter_map(|it| object(&it.kind, it.namespace.as_deref(), namespace, &it.name));
        let providers = self.oidc.iter().flat_map(|oidc| &oidc.ca_certificate_refs);
        let authorities = issuers().flat_map(|issuer| &issuer.keys.ca_certificate_refs).chain(providers);
        let authorities =
            authorities.filter_map(|it| object(&it.kind, it.namespace.as_deref(), namespace, &it.name));
        let clients = self.oidc.iter().filter_map(|oidc| oidc.client_secret_ref.as_ref());
        let secrets = self.api_key.iter().flat_map(|api_key| &api_key.secret_refs).chain(clients);
        let secrets = secrets.filter_map(|it| object("Secret", it.namespace.as_deref(), namespace, &it.name));
        key_sets.chain(authorities).chain(secrets).collect()
    }

    /// The Services in the URLs of key sets and providers.
    #[must_use]
    pub fn services(&self) -> BTreeSet<ObjectKey> {
        let issuers = self.jwt.iter().flat_map(|jwt| &jwt.issuers);
        let providers = self.oidc.map(|oidc| oidc.metadata_url.as_deref().unwrap_or(&oidc.issuer));
        let urls = issuers.filter_map(|issuer| issuer.keys.url.as_deref()).chain(providers);
        urls.filter_map(|url| match ServiceUrl::parse(url).ok()?.destination {
            UrlDestination::Host(host) => host.service(),
            UrlDestination::OwnHost(_) => None,
        })
        .collect()
    }

    /// Parses all of it.
    ///
    /// # Errors
    /// The first invalid value.
    pub fn read(&self, context: Context<'_>) -> IdentityResult<Identity> {
        let mut identity = Identity::default();
        let known = limits::KnownClientFacts {
            token: self.jwt.is_some() || self.oidc.is_some(),
            api_key: self.api_key.is_some(),
        };
        let limits = read_limits(self.rate_limits, self.counted_as, known)?.into_iter();
        (identity.limits, identity.late_limits) = limits.partition(|limit| limit.key == LimitKey::Address);
        if let Some(jwt) = self.jwt {
            let mut found = KeyFindings::default();
            identity.jwt = Some(Arc::new(read_jwt(jwt, context, &mut found)?));
            (identity.backends, identity.doubts) = (found.backends, found.doubts);
        }
        if let Some(oidc) = self.oidc {
            if self.jwt.is_some() {
                let problem =
                    "jwt and oidc exclude each other: no request could have both a token and a session";
                return Err(IdentityFieldError::new("oidc", problem));
            }
            let mut found = KeyFindings::default();
            identity.oidc = Some(Arc::new(read_oidc(oidc, context, &mut found)?));
            (identity.backends, identity.doubts) = (found.backends, found.doubts);
        }
        if let Some(api_key) = self.api_key {
            let auth = read_api_key(api_key, context)?;
            identity.api_key = Some(Arc::new(auth));
        }
        if let Some(auth) = &identity.api_key {
            let written = identity.claim_headers();
            let is_read = |header: &str| {
                auth.locations.iter().any(|location| match location {
                    CredentialLocation::Header { name, .. } => is_same_header(name, header),
                    CredentialLocation::Cookie(_) | CredentialLocation::Query(_) => false,
                })
            };
            if written.into_iter().any(|location| is_read(&location.header)) {
                return Err(IdentityFieldError::new(
                    "apiKey.from",
                    "a claim is written to the header with the key",
                ));
            }
        }
        if let Some(header) = identity.api_key.as_ref().and_then(|auth| auth.client_header.as_deref())
            && identity.claim_headers().any(|it| is_same_header(&it.header, header))
        {
            let problem = "a claim is written to this header, too";
            return Err(IdentityFieldError::new("apiKey.clientHeader", problem));
        }
        if let Some(authorization) = self.authorization {
            let known = KnownCredentials {
                has_jwt: identity.jwt.is_some(),
                has_oidc: identity.oidc.is_some(),
                api_key: identity.api_key.as_deref(),
            };
            let auth = read_authorization(authorization, known, &mut identity.doubts)?;
            identity.authorization = Some(Arc::new(auth));
        }
        Ok(identity)
    }
}

impl Identity {
    /// The headers that claims are written to.
    fn claim_headers(&self) -> impl Iterator<Item = &ClaimHeader> {
        let tokens = self.jwt.iter().flat_map(|auth| &auth.issuers).flat_map(|issuer| &issuer.headers);
        tokens.chain(self.oidc.iter().flat_map(|auth| &auth.headers))
    }
}

#[cfg(test)]
mod tests;
