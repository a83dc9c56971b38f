//! The verified identity of the client: stored for later guards and the log, and sent to endpoints in headers that clients
//! cannot set.

use std::borrow::Cow;
use std::sync::Arc;

use fairway_http::Head;
use fairway_model::{ApiKeyAuth, ClaimHeader, CredentialLocation, Decision, JwtAuth, LimitKey, OidcAuth};
use fairway_routing::{
    AnyOfCheck, AuthorizationCheck, Caller, GuardStep, LOGIN_COOKIE_PREFIX, LoginCheck, TokenCheck,
};
use fairway_token::digest;
use fairway_token::login::{CookieParts, find_cookie, without_cookies};

use super::auth_headers::{is_same_header, remove_auth_headers};
use super::credential::{self, Credential};
use super::verdict::{FilterContext, Verdict};
use crate::buffers::Buffers;
use crate::fault::{Denial, Fault};
use crate::geoip::Location;
use crate::guards::{OpenSession, VerifiedToken};
use crate::peer::Scheme;
use crate::request::validation::Intake;

/// The token of the request, unverified.
pub(crate) fn shown_token<'b>(
    check: &'b TokenCheck,
    intake: &Intake,
    buffers: &'b Buffers,
) -> Result<&'b [u8], Denial> {
    match credential::find(&check.auth.locations, intake, buffers) {
        Credential::Absent => Err(Denial::TokenMissing),
        Credential::Ambiguous => Err(Denial::TokenAmbiguous),
        Credential::Found(token) => Ok(token),
    }
}

/// The token of the request, if it is remembered as verified and no key has to be fetched.
pub(super) fn remembered_token(
    check: &TokenCheck,
    context: &FilterContext<'_>,
    buffers: &Buffers,
) -> Option<Arc<VerifiedToken>> {
    context.tokens?.find(check, shown_token(check, context.intake, buffers).ok()?)
}

/// Records the token with which the request passes, and adds its claim headers.
pub(crate) fn admit_token(auth: &JwtAuth, token: &Arc<VerifiedToken>, buffers: &mut Buffers) {
    remove_claims(auth, &mut buffers.request);
    admit_claims(token, buffers);
}

fn admit_claims(token: &Arc<VerifiedToken>, buffers: &mut Buffers) {
    for (header, value) in &token.headers {
        buffers.request.append(header.as_bytes(), value.as_bytes());
    }
    buffers.extras.write().identity.token = Some(Arc::clone(token));
}

/// Removes the headers for claims.
fn remove_claims(auth: &JwtAuth, request: &mut Head) {
    remove_headers(|| auth.issuers.iter().flat_map(|issuer| &issuer.headers), request);
}

fn remove_headers<'h, H: Iterator<Item = &'h ClaimHeader>>(headers: impl Fn() -> H, request: &mut Head) {
    if headers().next().is_some() {
        request.retain(|field| !headers().any(|header| is_same_header(field.name, header.header.as_bytes())));
    }
}

/// The session in the cookies of the request, still encrypted.
pub(crate) fn shown_session<'b>(check: &LoginCheck, buffers: &'b Buffers) -> Option<CookieParts<'b>> {
    find_cookie(buffers.request.all_named(b"Cookie"), &check.session_cookie)
}

/// The session of the request, if it is remembered as opened and nothing has to be refreshed.
pub(super) fn remembered_session(
    check: &LoginCheck,
    context: &FilterContext<'_>,
    buffers: &Buffers,
) -> Option<Arc<OpenSession>> {
    let path = context.intake.normalised(buffers);
    let paths = &check.auth.paths;
    if context.client.scheme == Scheme::Http || paths.all().any(|own| own.as_bytes() == path) {
        return None;
    }
    context.logins?.find(check, &buffers.host, &shown_session(check, buffers)?)
}

/// Records the session with which the request passes, and adds the headers of its ID token.
pub(crate) fn admit_session(auth: &OidcAuth, session: &OpenSession, buffers: &mut Buffers) {
    remove_headers(|| auth.headers.iter(), &mut buffers.request);
    if let Some(authorization) = &session.authorization {
        buffers.request.set(b"Authorization", authorization.as_bytes());
    }
    admit_claims(&session.token, buffers);
}

/// Removes login cookies from a request to another party: whoever has them has the session.
pub(crate) fn remove_login_cookies(request: &mut Head) {
    let prefix = LOGIN_COOKIE_PREFIX.as_bytes();
    if !request.all_named(b"Cookie").any(|line| memchr::memmem::find(line, prefix).is_some()) {
        return;
    }
    let mut remaining_cookies = Vec::new();
    without_cookies(request.all_named(b"Cookie"), prefix, &mut remaining_cookies);
    request.remove(b"Cookie");
    if !remaining_cookies.is_empty() {
        request.append(b"Cookie", &remaining_cookies);
    }
}

/// The client to which the API key of the request belongs.
pub(crate) fn api_client(auth: &ApiKeyAuth, intake: &Intake, buffers: &Buffers) -> Result<Arc<str>, Denial> {
    match credential::find(&auth.locations, intake, buffers) {
        Credential::Absent => Err(Denial::KeyMissing),
        Credential::Ambiguous => Err(Denial::KeyAmbiguous),
        Credential::Found(key) => auth.keys.client(&digest(key)).cloned().ok_or(Denial::KeyUnknown),
    }
}

/// Records the client with whose API key the request passes, and adds the header that names it.
pub(crate) fn admit_api_client(auth: &ApiKeyAuth, client: &Arc<str>, buffers: &mut Buffers) {
    remove_api_client(auth, &mut buffers.request);
    if let Some(header) = &auth.client_header {
        buffers.request.append(header.as_bytes(), client.as_bytes());
    }
    buffers.extras.write().identity.api_client = Some(Arc::clone(client));
}

/// Removes the headers that any of several guards could add: the one that let the request pass adds its own.
pub(crate) fn remove_identity_headers(any: &AnyOfCheck, request: &mut Head) {
    any.asking.iter().for_each(|auth_check| remove_auth_headers(auth_check, request));
    remove_credentials(any, request);
}

/// Removes the headers for claims and for the API key's client, but not the key itself.
pub(crate) fn remove_credentials(any: &AnyOfCheck, request: &mut Head) {
    any.jwt.iter().for_each(|check| remove_claims(&check.auth, request));
    any.api_key.iter().for_each(|auth| remove_api_client(auth, request));
}

/// Removes the header that names the API key's client.
fn remove_api_client(auth: &ApiKeyAuth, request: &mut Head) {
    if let Some(header) = &auth.client_header {
        request.retain(|field| !is_same_header(field.name, header.as_bytes()));
    }
}

/// Removes the headers with API keys, after all guards: several may read the same one.
pub(super) fn remove_api_keys(guards: &[GuardStep], request: &mut Head) {
    for location in guards.iter().filter_map(GuardStep::api_key).flat_map(|auth| &auth.locations) {
        if let CredentialLocation::Header { name, prefix } = location {
            // A value with another prefix is another credential.
            request.retain(|field| {
                let is_key = credential::strip_scheme(field.value, prefix.as_bytes()).is_some();
                !is_key || !is_same_header(field.name, name.as_bytes())
            });
        }
    }
}

/// Applies an authorization check.
pub(super) fn authorize<'r>(
    check: &AuthorizationCheck,
    context: &FilterContext<'_>,
    buffers: &Buffers,
) -> Verdict<'r> {
    let extras = buffers.extras.read();
    let (identity, location) = (&extras.identity, extras.location.as_deref());
    let caller = Caller {
        address: context.client.address,
        country: location.map(Location::country).unwrap_or_default(),
        asn: location.map(Location::asn).unwrap_or_default(),
        claims: identity.token.as_ref().map(|token| &token.claims),
        api_client: identity.api_client.as_deref(),
    };
    match context.intake.with_routing_request(buffers, |request| check.decide(request, caller)) {
        Decision::Allow => Verdict::Pass,
        Decision::Deny => Verdict::Refused(Fault::Credential(Denial::NotAllowed)),
    }
}

/// The identity that a limit counts by; `None` for limits by address.
pub(super) fn counted_identity<'b>(key: &LimitKey, buffers: &'b Buffers) -> Option<[Cow<'b, str>; 2]> {
    let identity = &buffers.extras.read().identity;
    match key {
        LimitKey::Address => None,
        LimitKey::ApiClient => Some([Cow::Borrowed(""), Cow::Borrowed(identity.api_client.as_deref()?)]),
        LimitKey::Claim(claim) => {
            let claims = &identity.token.as_ref()?.claims;
            // Two issuers may use the same name for different clients.
            Some([Cow::Borrowed(claims.issuer()?), claims.header_value(claim)?])
        }
    }
}
