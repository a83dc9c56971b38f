//! What may keep a request from being forwarded: it is answered, refused, or told to wait.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::access::{AccessList, ConcurrencyLimit, RateLimit};
use crate::authentication::{AnyGuard, BasicAuth, ExternalAuth};
use crate::certificate::ClientVerification;
use crate::condition::Respond;
use crate::cors::Cors;
use crate::extension::GrpcAuth;
use crate::identity::{ApiKeyAuth, Authorization, JwtAuth, OidcAuth};
use crate::matches::{Match, PathMatch};
use crate::redirect::{HttpsRedirect, Redirect};

/// One question that a request must pass before anything is changed or forwarded. The first guard that answers ends the exchange.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Guard {
    /// Answers plain requests with a redirect to https.
    HttpsRedirect(HttpsRedirect),
    /// Answers every request with a redirect.
    Redirect(Redirect),
    /// Lets some client addresses through.
    Access(AccessList),
    /// Refuses clients by their certificates, and tells the endpoint of them.
    ClientCertificate(ClientCertificate),
    /// Refuses requests that come in the clear.
    OverTls,
    /// Refuses some requests.
    Deny(Deny),
    /// Answers some requests.
    Respond(Arc<Respond>),
    /// Answers 503 while the rule's backends and fallbacks have no endpoint, before the guards that follow.
    NeedsEndpoint,
    /// Answers preflights (Fetch Standard §3.2.2). Answers get their fields from [`crate::AnswerEdit::Cors`].
    Preflight(Arc<Cors>),
    /// Asks another service whether the request may pass.
    ExternalAuth(Box<ExternalAuth>),
    /// Asks another service over gRPC whether the request may pass.
    GrpcAuth(Box<GrpcAuth>),
    /// Lets those through who know a password.
    BasicAuth(BasicAuth),
    /// Lets those through who show a token of an issuer that is trusted.
    Jwt(Arc<JwtAuth>),
    /// Lets those through who know an API key.
    ApiKey(Arc<ApiKeyAuth>),
    /// Lets those through who have logged in at a provider.
    Oidc(Arc<OidcAuth>),
    /// Lets those through to whom it is allowed.
    Authorize(Arc<Authorization>),
    /// Lets through whom one of several guards lets through.
    Any(Box<AnyGuard>),
    /// Bounds how often each client may ask.
    RateLimit(RateLimit),
    /// Bounds how many requests of each client are under way.
    ConcurrencyLimit(ConcurrencyLimit),
}

impl Guard {
    /// What it knows of passwords.
    #[must_use]
    pub fn basic_auth(&self) -> Option<&BasicAuth> {
        match self {
            Self::BasicAuth(basic) => Some(basic),
            Self::Any(any) => any.basic.as_ref(),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub fn basic_auth_mut(&mut self) -> Option<&mut BasicAuth> {
        match self {
            Self::BasicAuth(basic) => Some(basic),
            Self::Any(any) => any.basic.as_mut(),
            _ => None,
        }
    }

    /// What it knows of API keys.
    #[must_use]
    pub fn api_key(&self) -> Option<&Arc<ApiKeyAuth>> {
        match self {
            Self::ApiKey(auth) => Some(auth),
            Self::Any(any) => any.api_key.as_ref(),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub fn api_key_mut(&mut self) -> Option<&mut ApiKeyAuth> {
        match self {
            Self::ApiKey(auth) => Some(Arc::make_mut(auth)),
            Self::Any(any) => any.api_key.as_mut().map(Arc::make_mut),
            _ => None,
        }
    }

    /// By which provider users log in.
    #[must_use]
    pub fn oidc(&self) -> Option<&Arc<OidcAuth>> {
        match self {
            Self::Oidc(auth) => Some(auth),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub fn oidc_mut(&mut self) -> Option<&mut OidcAuth> {
        match self {
            Self::Oidc(auth) => Some(Arc::make_mut(auth)),
            _ => None,
        }
    }

    /// Whose tokens it trusts.
    #[must_use]
    pub fn jwt(&self) -> Option<&Arc<JwtAuth>> {
        match self {
            Self::Jwt(auth) => Some(auth),
            Self::Any(any) => any.jwt.as_ref(),
            _ => None,
        }
    }
}

/// Whose certificates are good enough, and what becomes of the others. Requests in the clear have none and pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientCertificate {
    /// By which the certificate was verified, when its connection began.
    pub rules: Arc<ClientVerification>,
    /// A regular expression that is found in the subject (RFC 2253), where there is one; others are answered 403.
    pub subject: Option<Arc<str>>,
    /// Where clients without a good certificate are sent, with 302, instead of being answered 400.
    pub error_page: Option<Arc<str>>,
    /// Whether the endpoint gets the certificate itself.
    pub forwarded: bool,
}

/// Which requests are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deny {
    /// What they are answered: 400..=599.
    pub status: u16,
    /// Any one is enough. Every value of a header, parameter or cookie is compared, also all of a header as one, and what is too
    /// long to be compared counts as a match.
    pub when: Vec<Match>,
}

impl Deny {
    /// Refuses paths with a line break: `.` does not match one, so such a path gets past a pattern that guards others.
    #[must_use]
    pub fn line_breaks() -> Self {
        let path = PathMatch::Regex { pattern: r"(?s:.*)[\n\r]".into(), ignore_case: false };
        Self { status: 400, when: vec![Match { path, ..Match::default() }] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_of_an_ingress_pays_for_the_largest_guard() {
        assert!(size_of::<Guard>() <= 96, "{}", size_of::<Guard>());
    }
}
