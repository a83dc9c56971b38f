//! What the guards found out about who asks: kept for the guards and the log that come later, and told to endpoints in headers that
//! nobody else may write.

use std::borrow::Cow;
use std::sync::Arc;

use fairway_http::Head;
use fairway_model::{ApiKeyAuth, ClaimHeader, CredentialLocation, Decision, JwtAuth, LimitKey, OidcAuth};
use fairway_routing::{
    AnyOf, AuthorizationCheck, Caller, GuardStep, LOGIN_COOKIE_PREFIX, LoginCheck, TokenCheck,
};
use fairway_token::digest;
use fairway_token::login::{CookieParts, find_cookie, without_cookies};

use super::credential::{self, Credential};
use super::verdict::{FilterContext, Verdict};
use super::vouched::{is_same, vouch_for_nobody};
use crate::buffers::Buffers;
use crate::fault::{Denial, Fault};
use crate::geoip::Location;
use crate::guards::{OpenSession, VerifiedToken};
use crate::peer::Scheme;
use crate::request::intake::Intake;

/// The token of the request in the buffers; nothing of it is verified.
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

/// The token of the request, if it was verified before and nobody has to be waited for.
pub(super) fn verified_before(
    check: &TokenCheck,
    context: &FilterContext<'_>,
    buffers: &Buffers,
) -> Option<Arc<VerifiedToken>> {
    context.tokens?.find(check, shown_token(check, context.intake, buffers).ok()?)
}

/// The request passes with a token: what it says is known from here on.
pub(crate) fn admit_token(auth: &JwtAuth, token: &Arc<VerifiedToken>, buffers: &mut Buffers) {
    remove_claims(auth, &mut buffers.request);
    admit_claims(token, buffers);
}

fn admit_claims(token: &Arc<VerifiedToken>, buffers: &mut Buffers) {
    for (header, value) in &token.headers {
        buffers.request.append(header.as_bytes(), value.as_bytes());
    }
    buffers.forms.write().identity.token = Some(Arc::clone(token));
}

/// Removes the headers that claims are told in, whoever wrote them.
fn remove_claims(auth: &JwtAuth, request: &mut Head) {
    remove_headers(|| auth.issuers.iter().flat_map(|issuer| &issuer.headers), request);
}

fn remove_headers<'h, H: Iterator<Item = &'h ClaimHeader>>(headers: impl Fn() -> H, request: &mut Head) {
    if headers().next().is_some() {
        request.retain(|field| !headers().any(|of| is_same(field.name, of.header.as_bytes())));
    }
}

/// The session in the cookies of the request; nothing of it is opened.
pub(crate) fn shown_session<'b>(check: &LoginCheck, buffers: &'b Buffers) -> Option<CookieParts<'b>> {
    find_cookie(buffers.request.all_named(b"Cookie"), &check.session_cookie)
}

/// The session of the request, if it was opened before and nobody has to be waited for.
pub(super) fn opened_before(
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

/// The request passes with a session: what its ID token says is known from here on.
pub(crate) fn admit_session(auth: &OidcAuth, session: &OpenSession, buffers: &mut Buffers) {
    remove_headers(|| auth.headers.iter(), &mut buffers.request);
    if let Some(authorization) = &session.authorization {
        buffers.request.set(b"Authorization", authorization.as_bytes());
    }
    admit_claims(&session.token, buffers);
}

/// Removes the cookies of logins from a request for anybody else: whoever has them has the session.
pub(crate) fn remove_login_cookies(request: &mut Head) {
    let prefix = LOGIN_COOKIE_PREFIX.as_bytes();
    if !request.all_named(b"Cookie").any(|line| memchr::memmem::find(line, prefix).is_some()) {
        return;
    }
    let mut kept = Vec::new();
    without_cookies(request.all_named(b"Cookie"), prefix, &mut kept);
    request.remove(b"Cookie");
    if !kept.is_empty() {
        request.append(b"Cookie", &kept);
    }
}

/// Whose API key the request in the buffers has.
pub(crate) fn api_client(auth: &ApiKeyAuth, intake: &Intake, buffers: &Buffers) -> Result<Arc<str>, Denial> {
    match credential::find(&auth.locations, intake, buffers) {
        Credential::Absent => Err(Denial::KeyMissing),
        Credential::Ambiguous => Err(Denial::KeyAmbiguous),
        Credential::Found(key) => auth.keys.client(&digest(key)).cloned().ok_or(Denial::KeyUnknown),
    }
}

/// The request passes with the API key of a client, which is known from here on.
pub(crate) fn admit_api_client(auth: &ApiKeyAuth, client: &Arc<str>, buffers: &mut Buffers) {
    remove_api_client(auth, &mut buffers.request);
    if let Some(header) = &auth.client_header {
        buffers.request.append(header.as_bytes(), client.as_bytes());
    }
    buffers.forms.write().identity.api_client = Some(Arc::clone(client));
}

/// One of several guards lets the request pass: what each of them could say of its client is gone, whoever wrote it.
pub(crate) fn vouch_for_none(any: &AnyOf, request: &mut Head) {
    any.asking.iter().for_each(|asking| vouch_for_nobody(asking, request));
    remove_credentials(any, request);
}

/// Removes what a token or an API key could say of the client, but for the key itself.
pub(crate) fn remove_credentials(any: &AnyOf, request: &mut Head) {
    any.jwt.iter().for_each(|check| remove_claims(&check.auth, request));
    any.api_key.iter().for_each(|auth| remove_api_client(auth, request));
}

/// Removes the header with the name of the key's client, whoever wrote it.
fn remove_api_client(auth: &ApiKeyAuth, request: &mut Head) {
    if let Some(header) = &auth.client_header {
        request.retain(|field| !is_same(field.name, header.as_bytes()));
    }
}

/// Removes the headers with API keys, behind all guards: several may ask for the same.
pub(super) fn remove_api_keys(guards: &[GuardStep], request: &mut Head) {
    for location in guards.iter().filter_map(GuardStep::api_key).flat_map(|auth| &auth.locations) {
        if let CredentialLocation::Header { name, prefix } = location {
            // What begins otherwise is another credential.
            request.retain(|field| {
                let is_key = credential::behind(field.value, prefix.as_bytes()).is_some();
                !is_key || !is_same(field.name, name.as_bytes())
            });
        }
    }
}

/// Lets a request pass that is allowed.
pub(super) fn authorize<'r>(
    check: &AuthorizationCheck,
    context: &FilterContext<'_>,
    buffers: &Buffers,
) -> Verdict<'r> {
    let forms = buffers.forms.read();
    let (identity, location) = (&forms.identity, forms.location.as_deref());
    let caller = Caller {
        address: context.client.address,
        country: location.map(Location::country).unwrap_or_default(),
        asn: location.map(Location::asn).unwrap_or_default(),
        claims: identity.token.as_ref().map(|token| &token.claims),
        api_client: identity.api_client.as_deref(),
    };
    match context.intake.as_routed(buffers, |request| check.decide(request, caller)) {
        Decision::Allow => Verdict::Pass,
        Decision::Deny => Verdict::Refused(Fault::Credential(Denial::NotAllowed)),
    }
}

/// Whose requests a limit counts together, where it is not those of an address.
pub(super) fn counted_identity<'b>(key: &LimitKey, buffers: &'b Buffers) -> Option<[Cow<'b, str>; 2]> {
    let identity = &buffers.forms.read().identity;
    match key {
        LimitKey::Address => None,
        LimitKey::ApiClient => Some([Cow::Borrowed(""), Cow::Borrowed(identity.api_client.as_deref()?)]),
        LimitKey::Claim(claim) => {
            let claims = &identity.token.as_ref()?.claims;
            // Two issuers may call different clients the same.
            Some([Cow::Borrowed(claims.issuer()?), claims.header_value(claim)?])
        }
    }
}
