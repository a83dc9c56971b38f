//! Ends sessions early: a user logs out here (OpenID Connect RP-Initiated Logout 1.0), or the provider reports a logout
//! elsewhere (OpenID Connect Back-Channel Logout 1.0).

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use fairway_connection::sides::Downstream;
use fairway_http::{BodySize, Method};
use fairway_model::OidcAuth;
use fairway_net::clock::Instant;
use fairway_routing::LoginCheck;
use fairway_token::Expected;
use fairway_token::login::{Endpoint, LogoutToken, Session, removal_lines};

use super::environment::{ClientSide, Exchange};
use super::issuer::unix_time;
use super::provider::{await_provider, redirect, verify_signature};
use super::refused::{GuardError, wait};
use super::transact::send_continue;
use crate::fault::{Denial, Fault};
use crate::filter::{ResponseScope, Verdict, own_origin, shown_session, start_own_response};
use crate::guards::{NotShared, Purpose};
use crate::network::Network;

/// The longest ID token that a logout sends to the provider, in bytes: it is part of a URL.
const MAX_HINT_BYTES: usize = 6 << 10;
/// The longest accepted form with a logout token, in bytes; the token may be escaped.
const MAX_FORM_BYTES: usize = 64 << 10;
/// How long a provider may take to send the form, and how long it waits for all replicas to learn of the logout.
const LOGOUT_TIMEOUT: Duration = Duration::from_secs(11);

/// Logs a browser out, here and at the provider.
pub(super) async fn log_out<'r, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    check: &LoginCheck,
) -> Result<Verdict<'r>, GuardError> {
    if !is_same_origin(exchange) {
        return Err(GuardError::Denied(Denial::LogoutForeign));
    }
    let auth = &check.auth;
    let Exchange { env, buffers, .. } = exchange;
    let logins = &env.worker.guards.logins;
    let shown = shown_session(check, buffers).and_then(|parts| parts.value());
    let opened = shown.and_then(|text| logins.open(Purpose::Session, check, &buffers.host, &text));
    let session = opened.and_then(|opened| Session::from_bytes(&opened.value));
    let mut after = own_origin(&env.client, buffers);
    after.extend_from_slice(auth.paths.after_logout.as_bytes());
    let after = String::from_utf8(after).map_err(|_| GuardError::Denied(Denial::LoginMalformed))?;
    let removed: Vec<_> =
        removal_lines(buffers.request.all_named(b"Cookie"), &check.session_cookie, 0).collect();
    // Without a session, or if the provider does not respond, the user is at least logged out here.
    let provider = match session {
        Some(_) => await_provider(exchange, check).await.ok(),
        None => None,
    };
    let end = provider.as_ref().and_then(|provider| provider.end_session_endpoint.as_ref());
    let location = match (end, &session) {
        (Some(end), Some(session)) => logout_url(end, auth, session, &after),
        _ => after,
    };
    redirect(exchange.buffers, &location, removed);
    Ok(Verdict::Responded(ResponseScope::Rule))
}

/// The logout URL of the provider (OpenID Connect RP-Initiated Logout 1.0 §2).
fn logout_url(endpoint: &Endpoint, auth: &OidcAuth, session: &Session, after: &str) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    if session.id_token().len() <= MAX_HINT_BYTES {
        query.append_pair("id_token_hint", session.id_token());
    }
    query.append_pair("client_id", &auth.client_id).append_pair("post_logout_redirect_uri", after);
    endpoint.with_query(&query.finish())
}

/// Whether the request comes from the user or a page of the same host: other sites must not be able to log users out.
fn is_same_origin<N: Network, D>(exchange: &Exchange<'_, '_, N, D>) -> bool {
    let Exchange { env, buffers, .. } = exchange;
    let request = &buffers.request;
    let origin = own_origin(&env.client, buffers);
    if let Some(site) = request.named(b"Sec-Fetch-Site") {
        return site == b"same-origin" || site == b"none" && env.intake.method == Method::Get;
    }
    if let Some(from) = request.named(b"Origin") {
        return from == origin;
    }
    let from = request.named(b"Referer").and_then(|from| from.strip_prefix(&*origin));
    from.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// Ends the sessions that a provider reports as ended, on all replicas. The provider gets an error if they may continue
/// somewhere (§2.8). The rule's error pages do not replace this response.
pub(super) async fn end_sessions<'r, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    check: &LoginCheck,
) -> Result<Verdict<'r>, GuardError> {
    let (status, fault) = match process_logout_token(exchange, check).await {
        Ok(()) => (200, None),
        Err(GuardError::Denied(denial)) => (denial.status(), Some(Fault::Credential(denial))),
        Err(GuardError::Failed(fault @ (Fault::ClientGone | Fault::ClientTimeout | Fault::Malformed(_)))) => {
            return Err(fault.into());
        }
        Err(GuardError::Failed(fault)) => (fault.status(), Some(fault)),
    };
    exchange.record.fault = fault;
    start_own_response(exchange.buffers, status, fault.map(Fault::label));
    exchange.buffers.response.append(b"Cache-Control", b"no-store");
    Ok(Verdict::Responded(ResponseScope::Rule))
}

async fn process_logout_token<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    check: &LoginCheck,
) -> Result<(), GuardError> {
    // Limited because anyone can send an invalid logout.
    let _permit = exchange.env.worker.guards.logins.permit().ok_or(Fault::Overloaded)?;
    let form = read_form(exchange).await?;
    let mut tokens = form_urlencoded::parse(&form).filter(|(name, _)| name == "logout_token");
    let (Some((_, text)), None) = (tokens.next(), tokens.next()) else {
        return Err(GuardError::Denied(Denial::LogoutMalformed));
    };
    let auth = &check.auth;
    let token = LogoutToken::parse(text.as_bytes()).map_err(Denial::LogoutToken)?;
    let now = unix_time();
    let expected = Expected { issuer: &auth.issuer, audiences: &[&*auth.client_id], skew: auth.skew, now };
    token.check(&expected).map_err(Denial::LogoutToken)?;
    let provider = await_provider(exchange, check).await?;
    match verify_signature(exchange, check, &provider, token.token()).await {
        Err(GuardError::Denied(Denial::LoginToken(refusal))) => {
            return Err(Denial::LogoutToken(refusal).into());
        }
        outcome => outcome?,
    }
    let logins = &exchange.env.worker.guards.logins;
    let sharing: Vec<_> = token.ended(&auth.sessions).map(|ended| logins.end(ended, now)).collect();
    for sharing in sharing {
        let shared = match sharing {
            Ok(None) => true,
            Ok(Some(sharing)) => match wait(exchange, sharing, LOGOUT_TIMEOUT).await {
                Ok(sharing) => sharing.is_ok(),
                Err(Fault::ClientGone) => return Err(Fault::ClientGone.into()),
                Err(_) => false,
            },
            Err(NotShared) => false,
        };
        if !shared {
            tracing::warn!(
                issuer = %auth.issuer, client = %auth.client_id,
                "a logout could not be shared with the other replicas: the provider gets an error"
            );
            return Err(Fault::ProtectionUnavailable.into());
        }
    }
    Ok(())
}

/// Reads the form that a provider sends.
async fn read_form<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
) -> Result<Vec<u8>, GuardError> {
    let Exchange { env, buffers, .. } = exchange;
    let kind = buffers.request.named(b"Content-Type").unwrap_or_default();
    let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    if env.intake.method != Method::Post || !kind.eq_ignore_ascii_case(b"application/x-www-form-urlencoded") {
        return Err(GuardError::Denied(Denial::LogoutMalformed));
    }
    if matches!(env.intake.body, BodySize::Exact(length) if length > MAX_FORM_BYTES as u64) {
        return Err(Fault::BodyTooLarge.into());
    }
    send_continue(exchange);
    let Exchange { env, client_side, buffers, .. } = exchange;
    let ClientSide { down, deadline, .. } = &mut **client_side;
    env.arm(deadline, Instant::now(), LOGOUT_TIMEOUT);
    let mut form = Vec::new();
    poll_fn(|cx| {
        if down.queued() > 0 && matches!(down.poll_flush(cx), Poll::Ready(Err(_))) {
            return Poll::Ready(Err(Fault::ClientGone));
        }
        match buffers.body.poll_read(cx, down, &mut form, MAX_FORM_BYTES) {
            Poll::Ready(outcome) => Poll::Ready(outcome),
            Poll::Pending => deadline.poll_passed(cx).map(|()| Err(Fault::ClientTimeout)),
        }
    })
    .await?;
    Ok(form)
}
