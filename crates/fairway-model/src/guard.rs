//! Guards: checks that may respond to or refuse a request before it is forwarded.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::access::{AccessList, ConcurrencyLimit, RateLimit};
use crate::authentication::{AnyGuard, BasicAuth, ExternalAuth};
use crate::certificate::ClientVerification;
use crate::condition::ConditionalResponse;
use crate::cors::Cors;
use crate::extension::GrpcAuth;
use crate::identity::{ApiKeyAuth, Authorization, JwtAuth, OidcAuth};
use crate::matches::{Match, PathMatch};
use crate::redirect::{HttpsRedirect, Redirect};

/// A check that a request must pass before it is changed or forwarded. The first guard that responds ends the
/// exchange.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Guard {
    /// Redirects plain HTTP requests to https.
    HttpsRedirect(HttpsRedirect),
    /// Redirects every request.
    Redirect(Redirect),
    /// Restricts client addresses.
    Access(AccessList),
    /// Restricts requests by client certificate, and tells the endpoint about the certificate.
    ClientCertificate(ClientCertificate),
    /// Refuses requests over plain HTTP.
    OverTls,
    /// Refuses requests that match.
    Deny(Deny),
    /// Responds to requests that meet conditions.
    Respond(Arc<ConditionalResponse>),
    /// Returns 503 if neither the rule's backends nor its fallbacks have endpoints, before the guards that follow.
    NeedsEndpoint,
    /// Answers preflight requests (Fetch Standard §3.2.2). [`crate::ResponseEdit::Cors`] adds the response headers.
    Preflight(Arc<Cors>),
    /// Asks an external service over HTTP.
    ExternalAuth(Box<ExternalAuth>),
    /// Asks an external service over gRPC.
    GrpcAuth(Box<GrpcAuth>),
    /// Requires HTTP Basic credentials.
    BasicAuth(BasicAuth),
    /// Requires a token of a trusted issuer.
    Jwt(Arc<JwtAuth>),
    /// Requires an API key.
    ApiKey(Arc<ApiKeyAuth>),
    /// Requires a login at an OpenID provider.
    Oidc(Arc<OidcAuth>),
    /// Checks what the authenticated client is allowed to do.
    Authorize(Arc<Authorization>),
    /// Passes if one of several guards passes.
    Any(Box<AnyGuard>),
    /// Limits the request rate per client.
    RateLimit(RateLimit),
    /// Limits concurrent requests per client.
    ConcurrencyLimit(ConcurrencyLimit),
}

impl Guard {
    /// The Basic authentication in this guard.
    #[must_use]
    pub fn basic_auth(&self) -> Option<&BasicAuth> {
        match self {
            Self::BasicAuth(basic) => Some(basic),
            Self::Any(any) => any.basic.as_ref(),
            _ => None,
        }
    }

    /// Mutable access to [`Self::basic_auth`].
    pub fn basic_auth_mut(&mut self) -> Option<&mut BasicAuth> {
        match self {
            Self::BasicAuth(basic) => Some(basic),
            Self::Any(any) => any.basic.as_mut(),
            _ => None,
        }
    }

    /// The API key authentication in this guard.
    #[must_use]
    pub fn api_key(&self) -> Option<&Arc<ApiKeyAuth>> {
        match self {
            Self::ApiKey(auth) => Some(auth),
            Self::Any(any) => any.api_key.as_ref(),
            _ => None,
        }
    }

    /// Mutable access to [`Self::api_key`].
    pub fn api_key_mut(&mut self) -> Option<&mut ApiKeyAuth> {
        match self {
            Self::ApiKey(auth) => Some(Arc::make_mut(auth)),
            Self::Any(any) => any.api_key.as_mut().map(Arc::make_mut),
            _ => None,
        }
    }

    /// The OpenID Connect login in this guard.
    #[must_use]
    pub fn oidc(&self) -> Option<&Arc<OidcAuth>> {
        match self {
            Self::Oidc(auth) => Some(auth),
            _ => None,
        }
    }

    /// Mutable access to [`Self::oidc`].
    pub fn oidc_mut(&mut self) -> Option<&mut OidcAuth> {
        match self {
            Self::Oidc(auth) => Some(Arc::make_mut(auth)),
            _ => None,
        }
    }

    /// The token authentication in this guard.
    #[must_use]
    pub fn jwt(&self) -> Option<&Arc<JwtAuth>> {
        match self {
            Self::Jwt(auth) => Some(auth),
            Self::Any(any) => any.jwt.as_ref(),
            _ => None,
        }
    }
}

/// Requirements on client certificates. Requests over plain HTTP have no certificate and pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientCertificate {
    /// The rules by which the TLS handshake verified the certificate.
    pub rules: Arc<ClientVerification>,
    /// A regular expression that must match the subject (RFC 2253); others get 403.
    pub subject: Option<Arc<str>>,
    /// Where clients without an acceptable certificate are redirected with 302, instead of getting 400.
    pub error_page: Option<Arc<str>>,
    /// Whether the certificate is sent to the endpoint.
    pub forwarded: bool,
}

/// Requests that are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deny {
    /// The response status: 400..=599.
    pub status: u16,
    /// One match suffices. Every value of a header, parameter or cookie is compared, as well as all values of a
    /// header combined. A value that is too long to compare counts as a match.
    pub when: Vec<Match>,
}

impl Deny {
    /// Refuses paths with a line break. `.` does not match a line break, so such a path would bypass patterns that
    /// protect other paths.
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
    fn guards_stay_small() {
        assert!(size_of::<Guard>() <= 96, "{}", size_of::<Guard>());
    }
}
