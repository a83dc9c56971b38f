//! A login with an OpenID provider: sends browsers there, takes them back, and keeps their sessions fresh. What is decided and written
//! is `fairway_token::login`'s; here is only who is asked, and waited for.

use std::sync::Arc;
use std::time::Duration;

use fairway_connection::sides::{Downstream, Upgrade};
use fairway_http::Method;
use fairway_http::grpc::Dialect;
use fairway_model::OidcAuth;
use fairway_net::clock::Instant;
use fairway_routing::{CompiledRule, LoginCheck};
use fairway_token::login::{
    AuthorizationRequest, Callback, CallbackRefusal, ClientCredentials, Endpoint, LoginAttempt,
    MAX_ATTEMPT_AGE, MAX_METADATA_BYTES, Provider, Session, TokenRequest, Tokens, cookie_lines, cookie_names,
    find_cookie, is_refused_grant, removal_line, removal_lines,
};
use fairway_token::{Expected, Refusal, Token, digest};
use tokio::sync::oneshot;

use super::environment::Exchange;
use super::issuer::{
    self, IssuerRequest, IssuerResponse, PublishedKeys, RESPONSE_TIMEOUT, since_1970, wait_for_fetch,
};
use super::refused::{Refused, keep_out, wait};
use crate::buffers::Buffers;
use crate::fault::{Denial, Fault};
use crate::filter::{Made, Verdict, admit_session, keep_login_cookie, own_answer, own_origin, shown_session};
use crate::guards::{Fetch, Found, OpenSession, Permit, Purpose, RefreshFailure, Refreshed, VerifiedToken};
use crate::network::Network;
use crate::peer::Scheme;

/// The longest path and query that a login leads back to, in bytes: it is a part of a cookie.
const MAX_TARGET_BYTES: usize = 2 << 10;
/// How many logins may have begun in a browser: each is a cookie that all of its requests carry.
const MAX_ATTEMPTS: usize = 5;
/// The longest response of a token endpoint that is read, in bytes.
const MAX_TOKENS_BYTES: usize = 64 << 10;
/// The longest ID token that is sent along when a user logs out, in bytes: it is a part of a URL.
const MAX_HINT_BYTES: usize = 6 << 10;
/// How long a request with a session that still holds waits for its refresh.
const REFRESH_PATIENCE: Duration = Duration::from_secs(2);

/// Lets a request pass that has a session. Others are sent to log in, or refused.
pub(super) async fn pass<'r, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    check: &LoginCheck,
) -> Verdict<'r> {
    match decide(exchange, check).await {
        Ok(verdict) => verdict,
        Err(Refused::Failed(fault)) => Verdict::Refused(fault),
        Err(Refused::Denied(denial)) => {
            own_answer(exchange.buffers, denial.status(), Some(denial.label()));
            exchange.buffers.answer.append(b"Cache-Control", b"no-store");
            if denial.status() == 401 {
                // There is no scheme of logins; a token is what comes nearest (RFC 9110 §11.6.1).
                exchange.buffers.answer.append(b"WWW-Authenticate", b"Bearer");
            }
            keep_out(exchange, denial)
        }
    }
}

async fn decide<'r, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    check: &LoginCheck,
) -> Result<Verdict<'r>, Refused> {
    let Exchange { env, buffers, .. } = exchange;
    // Browsers would not keep the cookies, and everybody on the way could.
    if env.client.scheme == Scheme::Http {
        return Err(Refused::Denied(Denial::LoginInsecure));
    }
    let path = env.intake.normalised(buffers);
    if path == check.auth.paths.callback.as_bytes() {
        return complete(exchange, check).await;
    }
    if path == check.auth.paths.logout.as_bytes() {
        return log_out(exchange, check).await;
    }
    match open_session(exchange, check).await? {
        Some(session) => {
            admit_session(&check.auth, &session, exchange.buffers);
            Ok(Verdict::Pass)
        }
        None => begin(exchange, check).await,
    }
}

/// Sends a browser to the provider.
async fn begin<'r, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    check: &LoginCheck,
) -> Result<Verdict<'r>, Refused> {
    if !is_navigation(exchange) {
        return Err(Refused::Denied(Denial::LoginMissing));
    }
    let provider = provider(exchange, check).await?;
    let auth = &check.auth;
    let Exchange { env, buffers, .. } = exchange;
    let target = match str::from_utf8(env.intake.received(buffers)) {
        Ok(target) if target.len() <= MAX_TARGET_BYTES => target.to_owned(),
        _ => "/".to_owned(),
    };
    let unavailable = || Refused::Failed(Fault::ProviderUnavailable);
    let attempt = LoginAttempt::begin(target, since_1970()).ok_or_else(unavailable)?;
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
    let surplus = surplus_attempts(check, exchange.buffers);
    redirect(exchange.buffers, &url, cookies.into_iter().chain(surplus));
    Ok(Verdict::Answered(Made::ByRule))
}

/// Whether the browser goes to a page, and would follow a redirect to a login. What a script fetches, or a client that is no browser
/// sends, would not.
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

/// Takes a browser back from the provider.
async fn complete<'r, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    check: &LoginCheck,
) -> Result<Verdict<'r>, Refused> {
    let Exchange { env, buffers, .. } = exchange;
    let auth = &check.auth;
    if env.intake.method != Method::Get {
        return Err(Refused::Denied(Denial::LoginMalformed));
    }
    let callback = Callback::parse(env.intake.query(buffers))?;
    let unknown = || Refused::Denied(Denial::LoginUnknown);
    let name = LoginAttempt::name_of(&callback.state).ok_or_else(unknown)?;
    let cookie = [&check.attempt_cookie, name].concat();
    let shown = find_cookie(buffers.request.all_named(b"Cookie"), &cookie).and_then(|parts| parts.value());
    let opened =
        shown.and_then(|text| env.worker.guards.logins.open(Purpose::Attempt, check, &buffers.host, &text));
    let attempt = opened.and_then(|opened| LoginAttempt::from_bytes(&opened.value)).ok_or_else(unknown)?;
    let provider = provider(exchange, check).await?;
    let code = callback.code(&attempt, &auth.issuer, provider.names_issuer, since_1970())?;
    let redirect_uri = redirect_uri(exchange, auth)?;
    let request =
        TokenRequest::for_code(credentials(auth, &provider), code, &redirect_uri, attempt.verifier());
    let tokens = exchange_code(exchange, check, &provider, request).await?;
    let id_token = tokens.id_token.clone().ok_or(Refused::Denied(Denial::LoginFailed))?;
    verify_id_token(exchange, check, &provider, &id_token, Some(attempt.nonce())).await?;
    let now = since_1970();
    let session = Session::begin(tokens, auth.forwards_access_token, auth.session_lifetime, now)
        .map_err(|refusal| Refused::Denied(Denial::LoginToken(refusal)))?;
    // Whom the rule does not let in gets no session that would say so again and again.
    opened_session(auth, &session)?;
    let cookies = session_cookies(exchange, check, &session)?;
    let Exchange { env, buffers, .. } = exchange;
    let mut location = own_origin(&env.client, buffers);
    location.extend_from_slice(attempt.target.as_bytes());
    let location = String::from_utf8(location).map_err(|_| Refused::Denied(Denial::LoginMalformed))?;
    let begun = removal_lines(buffers.request.all_named(b"Cookie"), &cookie, 0).collect::<Vec<_>>();
    redirect(buffers, &location, cookies.into_iter().chain(begun));
    Ok(Verdict::Answered(Made::ByRule))
}

/// Exchanges a code for tokens.
async fn exchange_code<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    check: &LoginCheck,
    provider: &Provider,
    request: TokenRequest,
) -> Result<Tokens, Refused> {
    let permit = exchange.env.worker.guards.logins.permit().ok_or(Fault::Overloaded)?;
    let (send, receive) = oneshot::channel();
    ask_for_tokens(exchange, check, provider, request, move |response| {
        drop::<Permit>(permit);
        // Whoever waited may have gone.
        _ = send.send(response);
    })?;
    let response = wait(exchange, receive, RESPONSE_TIMEOUT + Duration::from_secs(1)).await?;
    let response: IssuerResponse = response.map_err(|_| Refused::Failed(Fault::ProviderUnavailable))?;
    match response.status {
        200 => Tokens::parse(&response.body).map_err(|_| Refused::Denied(Denial::LoginFailed)),
        _ => Err(Refused::Denied(Denial::LoginFailed)),
    }
}

fn ask_for_tokens<N: Network, D>(
    exchange: &Exchange<'_, '_, N, D>,
    check: &LoginCheck,
    provider: &Provider,
    form: TokenRequest,
    then: impl FnOnce(IssuerResponse) + 'static,
) -> Result<(), Fault> {
    let (rule, host) = server(check, &provider.token_endpoint)?;
    let target = &provider.token_endpoint.target();
    let accept = "application/json";
    let request =
        IssuerRequest { rule, host, target, accept, form: Some(form), max_response: MAX_TOKENS_BYTES };
    issuer::ask(exchange, request, then);
    Ok(())
}

/// Verifies what the provider says about the user; `nonce` is that of the login, if this is one.
async fn verify_id_token<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    check: &LoginCheck,
    provider: &Provider,
    text: &str,
    nonce: Option<&str>,
) -> Result<(), Refused> {
    let auth = &check.auth;
    let refused = |refusal| Refused::Denied(Denial::LoginToken(refusal));
    let token = Token::parse(text.as_bytes()).map_err(refused)?;
    let expected =
        Expected { issuer: &auth.issuer, audiences: &[&*auth.client_id], skew: auth.skew, now: since_1970() };
    token.check(&expected).map_err(refused)?;
    token.check_login(&auth.client_id, nonce).map_err(refused)?;
    let (rule, host) = server(check, &provider.jwks_uri)?;
    let number = place(auth, &provider.jwks_uri).ok_or(Fault::ProviderUnavailable)?;
    let id = &digest(format!("{:?}", (&auth.hosts[number], &provider.jwks_uri)).as_bytes());
    let source = PublishedKeys { id, rule, host, target: &provider.jwks_uri.target() };
    match issuer::verify(exchange, &token, source).await {
        Err(Refused::Denied(Denial::Token(refusal))) => Err(refused(refusal)),
        outcome => outcome,
    }
}

/// The session of the request, if it holds, after it was refreshed where that was due.
async fn open_session<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    check: &LoginCheck,
) -> Result<Option<Arc<OpenSession>>, Refused> {
    let Exchange { env, buffers, .. } = exchange;
    let logins = &env.worker.guards.logins;
    let shown = shown_session(check, buffers).and_then(|parts| parts.value());
    let opened = shown.and_then(|text| logins.open(Purpose::Session, check, &buffers.host, &text));
    let Some(opened) = opened else { return Ok(None) };
    let Some(session) = Session::from_bytes(&opened.value) else { return Ok(None) };
    let now = since_1970();
    // The rule may have changed, or another rule whose endpoints get no access token began it.
    let is_too_old = now >= session.begun() + check.auth.session_lifetime;
    if is_too_old || check.auth.forwards_access_token && session.access_token().is_none() {
        return Ok(None);
    }
    if session.is_due(now) {
        match refresh(exchange, check, &session).await {
            Ok(Some(refreshed)) => {
                let opened = opened_session(&check.auth, &refreshed)?;
                renew_cookies(exchange, check, &refreshed)?;
                return Ok(Some(opened));
            }
            Ok(None) => {}
            // What the provider says now is no word for this user.
            Err(Refused::Denied(_)) => return Ok(None),
            Err(Refused::Failed(fault)) if fault == Fault::ClientGone || exchange.env.is_overdue() => {
                return Err(fault.into());
            }
            Err(Refused::Failed(_)) => {}
        }
    }
    if session.is_over(since_1970()) {
        return Ok(None);
    }
    let open = opened_session(&check.auth, &session)?;
    // One that is due is replaced by its refresh, which may be under way.
    if opened.is_old && !session.is_due(now) {
        renew_cookies(exchange, check, &session)?;
        return Ok(Some(open));
    }
    let Exchange { env, buffers, .. } = exchange;
    if let Some(parts) = shown_session(check, buffers) {
        let time = session.rests_for(now);
        env.worker.guards.logins.remember(check, &buffers.host, &parts, Arc::clone(&open), time);
    }
    Ok(Some(open))
}

/// What a session says, if the rule lets its user in.
fn opened_session(auth: &OidcAuth, session: &Session) -> Result<Arc<OpenSession>, Refused> {
    let claims = session.claims().map_err(|refusal| Refused::Denied(Denial::LoginToken(refusal)))?;
    if !auth.claims.iter().all(|of| claims.has_any(&of.claim, of.values.iter().map(|value| &**value))) {
        return Err(Refused::Denied(Denial::TokenClaim));
    }
    let token = VerifiedToken::new(0, claims, &auth.headers);
    let authorization = session.access_token().filter(|_| auth.forwards_access_token);
    let authorization = authorization.map(|token| ["Bearer ", token].concat().into());
    Ok(Arc::new(OpenSession { token, authorization }))
}

/// The session with new tokens; `None` where there are none.
async fn refresh<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    check: &LoginCheck,
    session: &Session,
) -> Result<Option<Session>, Refused> {
    let Some(refresh_token) = session.refresh_token() else { return Ok(None) };
    let is_over = session.is_over(since_1970());
    let provider = match ready_provider(exchange, check) {
        Some(provider) => provider,
        None if is_over => provider(exchange, check).await?,
        None => return Ok(None),
    };
    let refreshes = &exchange.env.worker.guards.logins.refreshes;
    let id = digest(&[&check.sessions, refresh_token.as_bytes()].concat());
    let mut joined = refreshes.join(id, Instant::now());
    if let Some(outcome) = joined.begin.take() {
        let request = TokenRequest::for_refresh(credentials(&check.auth, &provider), refresh_token);
        ask_for_tokens(exchange, check, &provider, request, move |response| {
            let tokens = match response.status {
                200 => Tokens::parse(&response.body)
                    .map(|tokens| Arc::new(Refreshed { tokens, at: since_1970() }))
                    .map_err(|_| RefreshFailure::Unavailable),
                _ if is_refused_grant(&response.body) => Err(RefreshFailure::Refused),
                _ => Err(RefreshFailure::Unavailable),
            };
            outcome.send_replace(Some(tokens));
        })?;
    }
    let patience = match is_over {
        true => RESPONSE_TIMEOUT + Duration::from_secs(1),
        false => REFRESH_PATIENCE,
    };
    let Refreshed { tokens, at } = &*match wait(exchange, joined.outcome(), patience).await {
        Ok(Ok(refreshed)) => refreshed,
        Ok(Err(_)) => return Ok(None),
        Err(fault) if fault == Fault::ClientGone || exchange.env.is_overdue() => return Err(fault.into()),
        // It goes on, and a later request finds what comes of it.
        Err(_) => return Ok(None),
    };
    if let Some(id_token) = &tokens.id_token {
        verify_id_token(exchange, check, &provider, id_token, None).await?;
        let claims = Token::parse(id_token.as_bytes()).map(Token::into_claims);
        let before = session.claims().map_err(|refusal| Refused::Denied(Denial::LoginToken(refusal)))?;
        // "its sub Claim Value MUST be the same as in the ID Token issued when the original authentication occurred" (§12.2).
        if claims.is_ok_and(|claims| claims.subject() != before.subject()) {
            return Err(Refused::Denied(Denial::LoginToken(Refusal::Nonce)));
        }
    }
    let refreshed = session.refresh(tokens.clone(), *at);
    refreshed.map(Some).map_err(|refusal| Refused::Denied(Denial::LoginToken(refusal)))
}

/// Ends the session of a browser, here and at the provider.
async fn log_out<'r, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    check: &LoginCheck,
) -> Result<Verdict<'r>, Refused> {
    if !is_own_page(exchange) {
        return Err(Refused::Denied(Denial::LogoutForeign));
    }
    let auth = &check.auth;
    let Exchange { env, buffers, .. } = exchange;
    let logins = &env.worker.guards.logins;
    let shown = shown_session(check, buffers).and_then(|parts| parts.value());
    let opened = shown.and_then(|text| logins.open(Purpose::Session, check, &buffers.host, &text));
    let session = opened.and_then(|opened| Session::from_bytes(&opened.value));
    let mut after = own_origin(&env.client, buffers);
    after.extend_from_slice(auth.paths.after_logout.as_bytes());
    let after = String::from_utf8(after).map_err(|_| Refused::Denied(Denial::LoginMalformed))?;
    let removed: Vec<_> =
        removal_lines(buffers.request.all_named(b"Cookie"), &check.session_cookie, 0).collect();
    // Whoever has no session, or a provider that does not answer, is logged out here at least.
    let provider = match session {
        Some(_) => provider(exchange, check).await.ok(),
        None => None,
    };
    let end = provider.as_ref().and_then(|provider| provider.end_session_endpoint.as_ref());
    let location = match (end, &session) {
        (Some(end), Some(session)) => logout_url(end, auth, session, &after),
        _ => after,
    };
    redirect(exchange.buffers, &location, removed);
    Ok(Verdict::Answered(Made::ByRule))
}

/// OpenID Connect RP-Initiated Logout 1.0 §2.
fn logout_url(endpoint: &Endpoint, auth: &OidcAuth, session: &Session, after: &str) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    if session.id_token().len() <= MAX_HINT_BYTES {
        query.append_pair("id_token_hint", session.id_token());
    }
    query.append_pair("client_id", &auth.client_id).append_pair("post_logout_redirect_uri", after);
    endpoint.with_query(&query.finish())
}

/// Whether the user, or a page of the same host, wants this: what another site leads to must change nothing.
fn is_own_page<N: Network, D>(exchange: &Exchange<'_, '_, N, D>) -> bool {
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

/// What the provider says of itself.
async fn provider<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    check: &LoginCheck,
) -> Result<Arc<Provider>, Refused> {
    let providers = &exchange.env.worker.guards.logins.providers;
    let awaited = match providers.find(&check.metadata_id, Instant::now()) {
        Found::Awaited(updates, fetch) => Some((updates, fetch)),
        Found::Ready(provider, fetch) => {
            begin_fetch(exchange, check, fetch);
            return Ok(provider);
        }
        Found::Unavailable => None,
    };
    if let Some((mut updates, fetch)) = awaited {
        begin_fetch(exchange, check, fetch);
        wait_for_fetch(exchange, updates.next(), Fault::ProviderUnavailable).await?;
    }
    ready_provider(exchange, check).ok_or(Refused::Failed(Fault::ProviderUnavailable))
}

/// The same, where nobody has to be waited for.
fn ready_provider<N: Network, D>(
    exchange: &Exchange<'_, '_, N, D>,
    check: &LoginCheck,
) -> Option<Arc<Provider>> {
    match exchange.env.worker.guards.logins.providers.find(&check.metadata_id, Instant::now()) {
        Found::Ready(provider, fetch) => {
            begin_fetch(exchange, check, fetch);
            Some(provider)
        }
        Found::Awaited(_, fetch) => {
            begin_fetch(exchange, check, fetch);
            None
        }
        Found::Unavailable => None,
    }
}

fn begin_fetch<N: Network, D>(
    exchange: &Exchange<'_, '_, N, D>,
    check: &LoginCheck,
    fetch: Option<Fetch<Provider>>,
) {
    let (Some(fetch), Some(rule)) = (fetch, check.rules.first()) else { return };
    let auth = Arc::clone(&check.auth);
    let (host, target) = (&*check.auth.metadata.host, &*check.auth.metadata.target);
    let accept = "application/json";
    let request = IssuerRequest { rule, host, target, accept, form: None, max_response: MAX_METADATA_BYTES };
    issuer::ask(exchange, request, move |response| {
        let provider = match response.status {
            200 => Provider::parse(&response.body, &auth.issuer).map_err(|why| why.to_string()),
            status => Err(format!("its metadata is answered {status}")),
        };
        let misplaced = |provider: Provider| match misplaced_endpoint(&auth, &provider) {
            Some(endpoint) => Err(format!("{endpoint} is on a host that oidc.additionalHosts does not list")),
            None => Ok(provider),
        };
        match provider.and_then(misplaced) {
            Ok(provider) => fetch.succeed(provider, &response.body, response.max_age),
            Err(why) => tracing::warn!(
                issuer = %auth.issuer, client = %auth.client_id,
                "the OpenID provider cannot be used: {why}; logins are answered 503"
            ),
        }
    });
}

/// An endpoint that nobody has allowed to connect to.
fn misplaced_endpoint<'p>(auth: &OidcAuth, provider: &'p Provider) -> Option<&'p Endpoint> {
    let is_misplaced = |endpoint: &&Endpoint| place(auth, endpoint).is_none();
    [&provider.token_endpoint, &provider.jwks_uri].into_iter().find(is_misplaced)
}

fn place(auth: &OidcAuth, endpoint: &Endpoint) -> Option<usize> {
    let origin = endpoint.origin();
    let origin = match origin.split_once("://") {
        Some(("https", _)) => origin.strip_suffix(":443").unwrap_or(origin),
        _ => origin.strip_suffix(":80").unwrap_or(origin),
    };
    auth.hosts.iter().position(|host| *host.origin == *origin)
}

/// The rule by which an endpoint is asked, and its `Host`.
fn server<'c>(check: &'c LoginCheck, endpoint: &Endpoint) -> Result<(&'c CompiledRule, &'c str), Fault> {
    let number = place(&check.auth, endpoint).ok_or(Fault::ProviderUnavailable)?;
    let rule = check.rules.get(number).ok_or(Fault::ProviderUnavailable)?;
    let (_, host) = check.auth.hosts[number].origin.split_once("://").ok_or(Fault::ProviderUnavailable)?;
    Ok((rule, host))
}

fn credentials<'c>(auth: &'c OidcAuth, provider: &Provider) -> ClientCredentials<'c> {
    ClientCredentials {
        id: &auth.client_id,
        secret: auth.client_secret.text().map(|secret| &**secret),
        secret_in_body: provider.wants_secret_in_body,
    }
}

/// Where the provider sends browsers back to: on the host that they asked for.
fn redirect_uri<N: Network, D>(
    exchange: &Exchange<'_, '_, N, D>,
    auth: &OidcAuth,
) -> Result<String, Refused> {
    let mut uri = own_origin(&exchange.env.client, exchange.buffers);
    uri.extend_from_slice(auth.paths.callback.as_bytes());
    String::from_utf8(uri).map_err(|_| Refused::Denied(Denial::LoginMalformed))
}

/// `Set-Cookie` for a session, in place of all that the browser has of one.
fn session_cookies<N: Network, D>(
    exchange: &Exchange<'_, '_, N, D>,
    check: &LoginCheck,
    session: &Session,
) -> Result<Vec<String>, Refused> {
    let Exchange { env, buffers, .. } = exchange;
    let too_large = Refused::Denied(Denial::LoginTooLarge);
    let Ok(bytes) = session.to_bytes() else { return Err(too_large) };
    let sealed = env.worker.guards.logins.seal(Purpose::Session, check, &buffers.host, &bytes);
    let sealed = sealed.ok_or(Refused::Failed(Fault::ProtectionUnavailable))?;
    let Some(mut lines) = cookie_lines(&check.session_cookie, &sealed, None) else { return Err(too_large) };
    let count = lines.len();
    lines.extend(removal_lines(buffers.request.all_named(b"Cookie"), &check.session_cookie, count));
    Ok(lines)
}

/// The answer to this request replaces the session in the browser.
fn renew_cookies<N: Network, D>(
    exchange: &mut Exchange<'_, '_, N, D>,
    check: &LoginCheck,
    session: &Session,
) -> Result<(), Refused> {
    for line in session_cookies(exchange, check, session)? {
        keep_login_cookie(&line, exchange.buffers);
    }
    Ok(())
}

/// `Set-Cookie` that removes the logins that have begun, where these are too many.
fn surplus_attempts(check: &LoginCheck, buffers: &Buffers) -> Vec<String> {
    let names: Vec<_> = cookie_names(buffers.request.all_named(b"Cookie"), &check.attempt_cookie).collect();
    let surplus = if names.len() < MAX_ATTEMPTS { &[] } else { &names[..] };
    surplus.iter().map(|name| removal_line(name)).collect()
}

fn redirect(buffers: &mut Buffers, location: &str, cookies: impl IntoIterator<Item = String>) {
    own_answer(buffers, 302, None);
    buffers.answer.append(b"Location", location.as_bytes());
    buffers.answer.append(b"Cache-Control", b"no-store");
    for cookie in cookies {
        buffers.answer.append(b"Set-Cookie", cookie.as_bytes());
    }
}

impl From<CallbackRefusal> for Refused {
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
