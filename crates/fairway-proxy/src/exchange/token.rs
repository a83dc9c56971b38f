//! A token that was not verified before: with the keys of its issuer, which may have to be asked for first. Also asks for credentials
//! that a request does not have.

use std::sync::Arc;

use fairway_connection::sides::Downstream;
use fairway_model::{JwtAuth, JwtIssuer, JwtKeys};
use fairway_routing::{KeySource, TokenCheck};
use fairway_token::{Expected, Refusal, Token};

use super::environment::Exchange;
use super::issuer::{self, PublishedKeys, since_1970};
use super::refused::Refused;
use crate::fault::{Denial, Fault};
use crate::filter::{own_answer, shown_token};
use crate::guards::VerifiedToken;
use crate::network::Network;

/// The token of the request, if it passes the check.
pub(super) async fn verified<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    check: &TokenCheck,
) -> Result<Arc<VerifiedToken>, Refused> {
    let Exchange { env, buffers, .. } = exchange;
    let text = shown_token(check, &env.intake, buffers).map_err(Refused::Denied)?;
    if let Some(verified) = env.worker.guards.tokens.find(check, text) {
        return Ok(verified);
    }
    // The buffers may not be lent while keys are waited for.
    let text = text.to_vec();
    verify(exchange, check, &text).await
}

async fn verify<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    check: &TokenCheck,
    text: &[u8],
) -> Result<Arc<VerifiedToken>, Refused> {
    let token = Token::parse(text)?;
    let issued_by = |issuer: &JwtIssuer| token.issuer() == Some(&*issuer.issuer);
    let number = check.auth.issuers.iter().position(issued_by).ok_or(Refusal::Issuer)?;
    let trusted = &check.auth.issuers[number];
    let (now, skew) = (since_1970(), check.auth.skew);
    token.check(&Expected { issuer: &trusted.issuer, audiences: &trusted.audiences, skew, now })?;
    match (&check.keys[number], &trusted.keys) {
        (KeySource::Inline(keys), _) => token.verify(keys)?,
        (KeySource::Published { id, rule }, JwtKeys::Published(document)) => {
            let source = PublishedKeys { id, rule, host: &document.host, target: &document.target };
            issuer::verify(exchange, &token, source).await?;
        }
        (KeySource::Published { .. }, JwtKeys::Inline(_)) => {
            return Err(Refused::Failed(Fault::ProtectionUnavailable));
        }
    }
    let lifetime = token.lifetime(now, skew);
    let claims = token.into_claims();
    if !trusted.claims.iter().all(|of| claims.has_any(&of.claim, of.values.iter().map(|value| &**value))) {
        return Err(Refused::Denied(Denial::TokenClaim));
    }
    if !trusted.scopes.iter().all(|scope| claims.has_scope(scope)) {
        return Err(Refused::Denied(Denial::TokenScope));
    }
    let verified = VerifiedToken::new(number, claims, &trusted.headers);
    exchange.env.worker.guards.tokens.remember(check, text, Arc::clone(&verified), lifetime);
    Ok(verified)
}

/// Writes the answer that asks for a token, or says what is wrong with the one that came (RFC 6750 §3).
pub(super) fn challenge<N: Network, D>(
    exchange: &mut Exchange<'_, '_, N, D>,
    auth: &JwtAuth,
    denial: Denial,
) {
    own_answer(exchange.buffers, denial.status(), Some(denial.label()));
    exchange.buffers.answer.append_with(b"WWW-Authenticate", |value| {
        let mut write = |text: &str| value.extend_from_slice(text.as_bytes());
        write("Bearer realm=\"");
        write(&auth.realm);
        write("\"");
        if let Some((error, description)) = denial.bearer_error() {
            [", error=\"", error, "\", error_description=\"", description, "\""].into_iter().for_each(write);
        }
    });
}

/// Writes the answer that asks for an API key. There is no scheme for them, so the one that is named is ours (RFC 9110 §11.6.1).
pub(super) fn challenge_for_api_key<N: Network, D>(exchange: &mut Exchange<'_, '_, N, D>, denial: Denial) {
    own_answer(exchange.buffers, denial.status(), Some(denial.label()));
    exchange.buffers.answer.append(b"WWW-Authenticate", b"ApiKey");
}
