//! What the guards found out about who asks: kept for the guards and the log that come later, and told to endpoints in headers that
//! nobody else may write.

use std::borrow::Cow;
use std::sync::Arc;

use fairway_http::Head;
use fairway_model::{ApiKeyAuth, CredentialLocation, Decision, JwtAuth, LimitKey};
use fairway_routing::{AnyOf, AuthorizationCheck, Caller, GuardStep, TokenCheck};
use fairway_token::digest;

use super::credential::{self, Credential};
use super::verdict::{FilterContext, Verdict};
use super::vouched::{is_same, vouch_for_nobody};
use crate::buffers::Buffers;
use crate::fault::{Denial, Fault};
use crate::guards::VerifiedToken;
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
    for (header, value) in &token.headers {
        buffers.request.append(header.as_bytes(), value.as_bytes());
    }
    buffers.forms.write().identity.token = Some(Arc::clone(token));
}

/// Removes the headers that claims are told in, whoever wrote them.
fn remove_claims(auth: &JwtAuth, request: &mut Head) {
    let headers = || auth.issuers.iter().flat_map(|issuer| &issuer.headers);
    if headers().next().is_some() {
        request.retain(|field| !headers().any(|of| is_same(field.name, of.header.as_bytes())));
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
    let identity = &buffers.forms.read().identity;
    let caller = Caller {
        address: context.client.address,
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
