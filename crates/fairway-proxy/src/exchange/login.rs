//! Logins with an OpenID provider: redirects browsers to it, handles their return, and refreshes their sessions.
//! `fairway_token::login` decides and formats; this module makes the requests and waits. `logout` ends sessions.

use std::sync::Arc;
use std::time::Duration;

use fairway_connection::sides::{Downstream, Upgrade};
use fairway_http::Method;
use fairway_http::grpc::Dialect;
use fairway_model::OidcAuth;
use fairway_net::clock::Instant;
use fairway_routing::LoginCheck;
use fairway_token::login::{
    AuthorizationRequest, Callback, CallbackRefusal, ClientCredentials, LoginAttempt, MAX_ATTEMPT_AGE,
    Provider, Session, TokenRequest, Tokens, cookie_lines, cookie_names, find_cookie, is_refused_grant,
    removal_line, removal_lines,
};
use fairway_token::{Expected, Refusal, Token, digest};
use tokio::sync::oneshot;

use super::environment::Exchange;
use super::issuer::{self, IssuerRequest, IssuerResponse, RESPONSE_TIMEOUT, unix_time};
use super::logout;
use super::provider::{await_provider, endpoint_rule, ready_provider, redirect, verify_signature};
use super::refused::{GuardError, refuse_credential, wait};
use crate::buffers::Buffers;
use crate::fault::{Denial, Fault};
use crate::filter::{
    ResponseScope, Verdict, admit_session, keep_login_cookie, own_origin, shown_session, start_own_response,
};
use crate::guards::{OpenSession, Permit, Purpose, RefreshFailure, Refreshed, VerifiedToken};
use crate::network::Network;
use crate::peer::Scheme;

/// The longest path and query that a login returns to, in bytes: it is stored in a cookie.
const MAX_TARGET_BYTES: usize = 2 << 10;
/// How many logins a browser may have started: each is a cookie that all of its requests carry.
const MAX_ATTEMPTS: usize = 5;
/// The longest accepted response of a token endpoint, in bytes.
const MAX_TOKENS_BYTES: usize = 64 << 10;
/// How long a request whose session is still valid waits for a refresh.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(2);

/// Lets a request with a session pass. Others are redirected to log in, or refused.
pub(super) async fn require_session<'r, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    check: &LoginCheck,
) -> Verdict<'r> {
    match session_verdict(exchange, check).await {
        Ok(verdict) => verdict,
        Err(GuardError::Failed(fault)) => Verdict::Refused(fault),
        Err(GuardError::Denied(denial)) => {
            start_own_response(exchange.buffers, denial.status(), Some(denial.label()));
            exchange.buffers.response.append(b"Cache-Control", b"no-store");
            if denial.status() == 401 {
                // There is no authentication scheme for logins; `Bearer` comes closest (RFC 9110 §11.6.1).
                exchange.buffers.response.append(b"WWW-Authenticate", b"Bearer");
            }
            refuse_credential(exchange, denial)
        }
    }
}

async fn session_verdict<'r, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    check: &LoginCheck,
) -> Result<Verdict<'r>, GuardError> {
    let Exchange { env, buffers, .. } = exchange;
    // Browsers would not store the cookies, and anyone on the network could read them.
    if env.client.scheme == Scheme::Http {
        return Err(GuardError::Denied(Denial::LoginInsecure));
    }
    let path = env.intake.normalised(buffers);
    if path == check.auth.paths.callback.as_bytes() {
        return finish_login(exchange, check).await;
    }
    if path == check.auth.paths.logout.as_bytes() {
        return logout::log_out(exchange, check).await;
    }
    if check.auth.paths.back_channel_logout.as_deref().is_some_and(|own| own.as_bytes() == path) {
        return logout::end_sessions(exchange, check).await;
    }
    match open_session(exchange, check).await? {
        Some(session) => {
            admit_session(&check.auth, &session, exchange.buffers);
            Ok(Verdict::Pass)
        }
        None => start_login(exchange, check).await,
    }
}

/// Redirects a browser to the provider.
async fn start_login<'r, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    check: &LoginCheck,
) -> Result<Verdict<'r>, GuardError> {
    if !is_navigation(exchange) {
        return Err(GuardError::Denied(Denial::LoginMissing));
    }
    let provider = await_provider(exchange, check).await?;
    let auth = &check.auth;
    let Exchange { env, buffers, .. } = exchange;
    let target = match str::from_utf8(env.intake.received(buffers)) {
        Ok(target) if target.len() <= MAX_TARGET_BYTES => target.to_owned(),
        _ => "/".to_owned(),
    };
    let unavailable = || GuardError::Failed(Fault::ProviderUnavailable);
    let attempt = LoginAttempt::begin(target, unix_time()).ok_or_else(unavailable)?;
    let logins = &env.worker.guards.logins;
    let sealed =
        logins.seal(Purpose::Attempt, check, &buffers.host, &attempt.to_bytes()).ok_or_else(unavailable)?;
    let name = [&check.attempt_cookie, attempt.name()].concat();
    let cookies = cookie_lines(&name, &sealed, Some(MAX_ATTEMPT_AGE)).ok_or_else(unavailable)?;
    let url = attempt.url(&AuthorizationRequest {
        endpoint: &provider.authorization_endpoint,
        client_id: &auth.client_id,
        redirect_uri: &redirect_uri(exchange, auth)?,
        scopes: &auth.scopes,
        parameters: &auth.parameters,
    });
    let surplus = surplus_attempt_removals(check, exchange.buffers);
    redirect(exchange.buffers, &url, cookies.into_iter().chain(surplus));
    Ok(Verdict::Responded(ResponseScope::Rule))
}

/// Whether the browser navigates to a page and would follow a redirect to a login. Scripts and clients other than browsers
/// would not.
fn is_navigation<N: Network, D>(exchange: &Exchange<'_, '_, N, D>) -> bool {
    let Exchange { env, buffers, .. } = exchange;
    let request = &buffers.request;
    let intake = &env.intake;
    if intake.method != Method::Get || intake.upgrade != Upgrade::None || intake.dialect != Dialect::None {
        return false;
    }
    if request.named(b"X-Requested-With").is_some() {
        return false;
    }
    match request.named(b"Sec-Fetch-Mode") {
        Some(mode) => mode == b"navigate",
        None => {
            let takes_pages = |accept: &[u8]| {
                let mut ranges = accept.split(|byte| *byte == b',').map(|range| {
                    range
                        .split(|byte| *byte == b';')
                        .next()
                        .unwrap_or_default()
                        .trim_ascii()
                        .to_ascii_lowercase()
                });
                ranges.any(|range| [&b"text/html"[..], b"text/*", b"*/*"].contains(&&*range))
            };
            let mut accepted = request.all_named(b"Accept").peekable();
            accepted.peek().is_none() || accepted.any(takes_pages)
        }
    }
}

/// Handles the return of a browser from the provider.
async fn finish_login<'r, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    check: &LoginCheck,
) -> Result<Verdict<'r>, GuardError> {
    let Exchange { env, buffers, .. } = exchange;
    let auth = &check.auth;
    if env.intake.method != Method::Get {
        return Err(GuardError::Denied(Denial::LoginMalformed));
    }
    let callback = Callback::parse(env.intake.query(buffers))?;
    let unknown = || GuardError::Denied(Denial::LoginUnknown);
    let name = LoginAttempt::name_of(&callback.state).ok_or_else(unknown)?;
    let cookie = [&check.attempt_cookie, name].concat();
    let shown = find_cookie(buffers.request.all_named(b"Cookie"), &cookie).and_then(|parts| parts.value());
    let opened =
        shown.and_then(|text| env.worker.guards.logins.open(Purpose::Attempt, check, &buffers.host, &text));
    let attempt = opened.and_then(|opened| LoginAttempt::from_bytes(&opened.value)).ok_or_else(unknown)?;
    let provider = await_provider(exchange, check).await?;
    let code = callback.code(&attempt, &auth.issuer, provider.names_issuer, unix_time())?;
    let redirect_uri = redirect_uri(exchange, auth)?;
    let request =
        TokenRequest::for_code(credentials(auth, &provider), code, &redirect_uri, attempt.verifier());
    let tokens = exchange_code(exchange, check, &provider, request).await?;
    let id_token = tokens.id_token.clone().ok_or(GuardError::Denied(Denial::LoginFailed))?;
    verify_id_token(exchange, check, &provider, &id_token, Some(attempt.nonce())).await?;
    let now = unix_time();
    let session = Session::begin(tokens, auth.forwards_access_token, auth.session_lifetime, now)
        .map_err(|refusal| GuardError::Denied(Denial::LoginToken(refusal)))?;
    // A user whom the rule does not admit gets no session: it would only be refused again.
    authorized_session(auth, &session)?;
    let cookies = session_cookies(exchange, check, &session)?;
    let Exchange { env, buffers, .. } = exchange;
    let mut location = own_origin(&env.client, buffers);
    location.extend_from_slice(attempt.target.as_bytes());
    let location = String::from_utf8(location).map_err(|_| GuardError::Denied(Denial::LoginMalformed))?;
    let started = removal_lines(buffers.request.all_named(b"Cookie"), &cookie, 0).collect::<Vec<_>>();
    redirect(buffers, &location, cookies.into_iter().chain(started));
    Ok(Verdict::Responded(ResponseScope::Rule))
}

/// Exchanges a code for tokens.
async fn exchange_code<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    check: &LoginCheck,
    provider: &Provider,
    request: TokenRequest,
) -> Result<Tokens, GuardError> {
    let permit = exchange.env.worker.guards.logins.permit().ok_or(Fault::Overloaded)?;
    let (send, receive) = oneshot::channel();
    request_tokens(exchange, check, provider, request, move |response| {
        drop::<Permit>(permit);
        // The exchange that waited may have ended.
        _ = send.send(response);
    })?;
    let response = wait(exchange, receive, RESPONSE_TIMEOUT + Duration::from_secs(1)).await?;
    let response: IssuerResponse = response.map_err(|_| GuardError::Failed(Fault::ProviderUnavailable))?;
    match response.status {
        200 => Tokens::parse(&response.body).map_err(|_| GuardError::Denied(Denial::LoginFailed)),
        _ => Err(GuardError::Denied(Denial::LoginFailed)),
    }
}

fn request_tokens<N: Network, D>(
    exchange: &Exchange<'_, '_, N, D>,
    check: &LoginCheck,
    provider: &Provider,
    form: TokenRequest,
    then: impl FnOnce(IssuerResponse) + 'static,
) -> Result<(), Fault> {
    let (rule, host) = endpoint_rule(check, &provider.token_endpoint)?;
    let target = &provider.token_endpoint.target();
    let accept = "application/json";
    let request =
        IssuerRequest { rule, host, target, accept, form: Some(form), max_response: MAX_TOKENS_BYTES };
    issuer::send_request(exchange, request, then);
    Ok(())
}

/// Verifies an ID token; `nonce` is the one of the login, if this is a login.
async fn verify_id_token<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    check: &LoginCheck,
    provider: &Provider,
    text: &str,
    nonce: Option<&str>,
) -> Result<(), GuardError> {
    let auth = &check.auth;
    let refused = |refusal| GuardError::Denied(Denial::LoginToken(refusal));
    let token = Token::parse(text.as_bytes()).map_err(refused)?;
    let expected =
        Expected { issuer: &auth.issuer, audiences: &[&*auth.client_id], skew: auth.skew, now: unix_time() };
    token.check(&expected).map_err(refused)?;
    token.check_login(&auth.client_id, nonce).map_err(refused)?;
    verify_signature(exchange, check, provider, &token).await
}

/// The session of the request, if it is valid, refreshed first if that was due.
async fn open_session<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    check: &LoginCheck,
) -> Result<Option<Arc<OpenSession>>, GuardError> {
    let Exchange { env, buffers, .. } = exchange;
    let logins = &env.worker.guards.logins;
    let shown = shown_session(check, buffers).and_then(|parts| parts.value());
    let opened = shown.and_then(|text| logins.open(Purpose::Session, check, &buffers.host, &text));
    let Some(opened) = opened else { return Ok(None) };
    let Some(session) = Session::from_bytes(&opened.value) else { return Ok(None) };
    let now = unix_time();
    // The rule may have changed, or the session was started by another rule whose endpoints get no access token.
    let is_too_old = now >= session.begun() + check.auth.session_lifetime;
    if is_too_old || check.auth.forwards_access_token && session.access_token().is_none() {
        return Ok(None);
    }
    if has_ended(exchange, &check.auth, &session)? {
        return Ok(None);
    }
    if session.needs_refresh(now) {
        match refresh(exchange, check, &session).await {
            Ok(Some(refreshed)) => {
                // The provider may have ended the session during the refresh.
                if has_ended(exchange, &check.auth, &refreshed)? {
                    return Ok(None);
                }
                let opened = authorized_session(&check.auth, &refreshed)?;
                renew_cookies(exchange, check, &refreshed)?;
                return Ok(Some(opened));
            }
            Ok(None) => {}
            // The new ID token is not valid for this user.
            Err(GuardError::Denied(_)) => return Ok(None),
            Err(GuardError::Failed(fault)) if fault == Fault::ClientGone || exchange.env.is_overdue() => {
                return Err(fault.into());
            }
            Err(GuardError::Failed(_)) => {}
        }
    }
    if session.is_over(unix_time()) || has_ended(exchange, &check.auth, &session)? {
        return Ok(None);
    }
    let open = authorized_session(&check.auth, &session)?;
    // A session that is due is replaced by its refresh, which may be under way.
    if opened.is_old && !session.needs_refresh(now) {
        renew_cookies(exchange, check, &session)?;
        return Ok(Some(open));
    }
    let Exchange { env, buffers, .. } = exchange;
    if let Some(parts) = shown_session(check, buffers) {
        let time = session.time_until_refresh(now);
        env.worker.guards.logins.remember(check, &buffers.host, &parts, Arc::clone(&open), time);
    }
    Ok(Some(open))
}

/// Whether the provider has ended a session.
fn has_ended<N: Network, D>(
    exchange: &Exchange<'_, '_, N, D>,
    auth: &OidcAuth,
    session: &Session,
) -> Result<bool, GuardError> {
    let logouts = &exchange.env.worker.guards.logins.logouts;
    if logouts.are_none() {
        return Ok(false);
    }
    let claims = session.claims().map_err(|refusal| GuardError::Denied(Denial::LoginToken(refusal)))?;
    Ok(logouts.have_ended(session.ids(&claims, &auth.sessions), session.logged_in_at()))
}

/// The claims of a session, if the rule admits its user.
fn authorized_session(auth: &OidcAuth, session: &Session) -> Result<Arc<OpenSession>, GuardError> {
    let claims = session.claims().map_err(|refusal| GuardError::Denied(Denial::LoginToken(refusal)))?;
    if !auth
        .claims
        .iter()
        .all(|required| claims.has_any(&required.claim, required.values.iter().map(|value| &**value)))
    {
        return Err(GuardError::Denied(Denial::TokenClaim));
    }
    let token = VerifiedToken::new(0, claims, &auth.headers);
    let authorization = session.access_token().filter(|_| auth.forwards_access_token);
    let authorization = authorization.map(|token| ["Bearer ", token].concat().into());
    Ok(Arc::new(OpenSession { token, authorization }))
}

/// The session with new tokens; `None` if there are none.
async fn refresh<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    check: &LoginCheck,
    session: &Session,
) -> Result<Option<Session>, GuardError> {
    let Some(refresh_token) = session.refresh_token() else { return Ok(None) };
    let is_over = session.is_over(unix_time());
    let provider = match ready_provider(exchange, check) {
        Some(provider) => provider,
        None if is_over => await_provider(exchange, check).await?,
        None => return Ok(None),
    };
    let refreshes = &exchange.env.worker.guards.logins.refreshes;
    // A provider may return the same refresh token again; a later session with it must be refreshed too.
    let refreshed = session.refreshed_at().as_secs().to_be_bytes();
    let id = digest(&[&check.sessions, &refreshed[..], refresh_token.as_bytes()].concat());
    let mut joined = refreshes.join(id, Instant::now());
    if let Some(outcome) = joined.to_begin.take() {
        let request = TokenRequest::for_refresh(credentials(&check.auth, &provider), refresh_token);
        request_tokens(exchange, check, &provider, request, move |response| {
            let tokens = match response.status {
                200 => Tokens::parse(&response.body)
                    .map(|tokens| Arc::new(Refreshed { tokens, at: unix_time() }))
                    .map_err(|_| RefreshFailure::Unavailable),
                _ if is_refused_grant(&response.body) => Err(RefreshFailure::Refused),
                _ => Err(RefreshFailure::Unavailable),
            };
            outcome.send_replace(Some(tokens));
        })?;
    }
    let max_wait = match is_over {
        true => RESPONSE_TIMEOUT + Duration::from_secs(1),
        false => REFRESH_TIMEOUT,
    };
    let Refreshed { tokens, at } = &*match wait(exchange, joined.outcome(), max_wait).await {
        Ok(Ok(refreshed)) => refreshed,
        Ok(Err(_)) => return Ok(None),
        Err(fault) if fault == Fault::ClientGone || exchange.env.is_overdue() => return Err(fault.into()),
        // The refresh continues, and a later request finds its outcome.
        Err(_) => return Ok(None),
    };
    if let Some(id_token) = &tokens.id_token {
        verify_id_token(exchange, check, &provider, id_token, None).await?;
        let claims = Token::parse(id_token.as_bytes()).map(Token::into_claims);
        let before = session.claims().map_err(|refusal| GuardError::Denied(Denial::LoginToken(refusal)))?;
        // "its sub Claim Value MUST be the same as in the ID Token issued when the original authentication occurred" (§12.2).
        if claims.is_ok_and(|claims| claims.subject() != before.subject()) {
            return Err(GuardError::Denied(Denial::LoginToken(Refusal::Nonce)));
        }
    }
    let refreshed = session.refresh(tokens.clone(), *at);
    refreshed.map(Some).map_err(|refusal| GuardError::Denied(Denial::LoginToken(refusal)))
}

fn credentials<'c>(auth: &'c OidcAuth, provider: &Provider) -> ClientCredentials<'c> {
    ClientCredentials {
        id: &auth.client_id,
        secret: auth.client_secret.text().map(|secret| &**secret),
        secret_in_body: provider.wants_secret_in_body,
    }
}

/// The URL on the requested host to which the provider redirects browsers.
fn redirect_uri<N: Network, D>(
    exchange: &Exchange<'_, '_, N, D>,
    auth: &OidcAuth,
) -> Result<String, GuardError> {
    let mut uri = own_origin(&exchange.env.client, exchange.buffers);
    uri.extend_from_slice(auth.paths.callback.as_bytes());
    String::from_utf8(uri).map_err(|_| GuardError::Denied(Denial::LoginMalformed))
}

/// The `Set-Cookie` values that replace all cookies of a session in the browser.
fn session_cookies<N: Network, D>(
    exchange: &Exchange<'_, '_, N, D>,
    check: &LoginCheck,
    session: &Session,
) -> Result<Vec<String>, GuardError> {
    let Exchange { env, buffers, .. } = exchange;
    let too_large = GuardError::Denied(Denial::LoginTooLarge);
    let Ok(bytes) = session.to_bytes() else { return Err(too_large) };
    let sealed = env.worker.guards.logins.seal(Purpose::Session, check, &buffers.host, &bytes);
    let sealed = sealed.ok_or(GuardError::Failed(Fault::ProtectionUnavailable))?;
    let Some(mut lines) = cookie_lines(&check.session_cookie, &sealed, None) else { return Err(too_large) };
    let count = lines.len();
    lines.extend(removal_lines(buffers.request.all_named(b"Cookie"), &check.session_cookie, count));
    Ok(lines)
}

/// Makes the response to this request replace the session in the browser.
fn renew_cookies<N: Network, D>(
    exchange: &mut Exchange<'_, '_, N, D>,
    check: &LoginCheck,
    session: &Session,
) -> Result<(), GuardError> {
    for line in session_cookies(exchange, check, session)? {
        keep_login_cookie(&line, exchange.buffers);
    }
    Ok(())
}

/// The `Set-Cookie` values that remove started logins, if there are too many.
fn surplus_attempt_removals(check: &LoginCheck, buffers: &Buffers) -> Vec<String> {
    let names: Vec<_> = cookie_names(buffers.request.all_named(b"Cookie"), &check.attempt_cookie).collect();
    let surplus = if names.len() < MAX_ATTEMPTS { &[] } else { &names[..] };
    surplus.iter().map(|name| removal_line(name)).collect()
}

impl From<CallbackRefusal> for GuardError {
    fn from(refusal: CallbackRefusal) -> Self {
        Self::Denied(match refusal {
            CallbackRefusal::Malformed => Denial::LoginMalformed,
            CallbackRefusal::UnknownState => Denial::LoginUnknown,
            CallbackRefusal::OtherIssuer => Denial::LoginIssuer,
            CallbackRefusal::Denied => Denial::LoginDenied,
            CallbackRefusal::Failed => Denial::LoginFailed,
        })
    }
}
