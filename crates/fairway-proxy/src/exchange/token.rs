//! Verifies tokens that are not remembered, with the keys of their issuer, which may have to be fetched first. Also writes the
//! challenges for missing or invalid credentials.

use std::sync::Arc;

use fairway_connection::sides::Downstream;
use fairway_model::{JwtAuth, JwtIssuer, JwtKeys};
use fairway_routing::{KeySource, TokenCheck};
use fairway_token::{Expected, Refusal, Token};

use super::environment::Exchange;
use super::issuer::{self, PublishedKeys, unix_time};
use super::refused::GuardError;
use crate::fault::{Denial, Fault};
use crate::filter::{shown_token, start_own_response};
use crate::guards::VerifiedToken;
use crate::network::Network;

/// The token of the request, if it passes the check.
pub(super) async fn verified_token<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    check: &TokenCheck,
) -> Result<Arc<VerifiedToken>, GuardError> {
    let Exchange { env, buffers, .. } = exchange;
    let text = shown_token(check, &env.intake, buffers).map_err(GuardError::Denied)?;
    if let Some(verified) = env.worker.guards.tokens.find(check, text) {
        return Ok(verified);
    }
    // The buffers cannot stay borrowed while keys are fetched.
    let text = text.to_vec();
    verify_token(exchange, check, &text).await
}

async fn verify_token<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    check: &TokenCheck,
    text: &[u8],
) -> Result<Arc<VerifiedToken>, GuardError> {
    let token = Token::parse(text)?;
    let issued_by = |issuer: &JwtIssuer| token.issuer() == Some(&*issuer.issuer);
    let number = check.auth.issuers.iter().position(issued_by).ok_or(Refusal::Issuer)?;
    let trusted = &check.auth.issuers[number];
    let (now, skew) = (unix_time(), check.auth.skew);
    token.check(&Expected { issuer: &trusted.issuer, audiences: &trusted.audiences, skew, now })?;
    match (&check.keys[number], &trusted.keys) {
        (KeySource::Inline(keys), _) => token.verify(keys)?,
        (KeySource::Published { id, rule }, JwtKeys::Published(document)) => {
            let source = PublishedKeys { id, rule, host: &document.host, target: &document.target };
            issuer::verify_published(exchange, &token, source).await?;
        }
        (KeySource::Published { .. }, JwtKeys::Inline(_)) => {
            return Err(GuardError::Failed(Fault::ProtectionUnavailable));
        }
    }
    let lifetime = token.lifetime(now, skew);
    let claims = token.into_claims();
    if !trusted
        .claims
        .iter()
        .all(|required| claims.has_any(&required.claim, required.values.iter().map(|value| &**value)))
    {
        return Err(GuardError::Denied(Denial::TokenClaim));
    }
    if !trusted.scopes.iter().all(|scope| claims.has_scope(scope)) {
        return Err(GuardError::Denied(Denial::TokenScope));
    }
    let verified = VerifiedToken::new(number, claims, &trusted.headers);
    exchange.env.worker.guards.tokens.remember(check, text, Arc::clone(&verified), lifetime);
    Ok(verified)
}

/// Writes the response that asks for a token, or says what is wrong with the one sent (RFC 6750 §3).
pub(super) fn challenge<N: Network, D>(
    exchange: &mut Exchange<'_, '_, N, D>,
    auth: &JwtAuth,
    denial: Denial,
) {
    start_own_response(exchange.buffers, denial.status(), Some(denial.label()));
    exchange.buffers.response.append_with(b"WWW-Authenticate", |value| {
        let mut write = |text: &str| value.extend_from_slice(text.as_bytes());
        write("Bearer realm=\"");
        write(&auth.realm);
        write("\"");
        if let Some((error, description)) = denial.bearer_error() {
            [", error=\"", error, "\", error_description=\"", description, "\""].into_iter().for_each(write);
        }
    });
}

/// Writes the response that asks for an API key. There is no registered scheme for them; `ApiKey` is Fairway's own (RFC 9110
/// §11.6.1).
pub(super) fn challenge_for_api_key<N: Network, D>(exchange: &mut Exchange<'_, '_, N, D>, denial: Denial) {
    start_own_response(exchange.buffers, denial.status(), Some(denial.label()));
    exchange.buffers.response.append(b"WWW-Authenticate", b"ApiKey");
}
