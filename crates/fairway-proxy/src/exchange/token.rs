//! A token that was not verified before: with the keys of its issuer, which may have to be asked for first. Also asks for credentials
//! that a request does not have.

use std::future::{Future, poll_fn};
use std::net::Ipv4Addr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use fairway_connection::sides::{BodyStep, Downstream, Failure};
use fairway_http::Head;
use fairway_model::{JwtAuth, JwtIssuer, JwtKeys, PublishedKeys};
use fairway_net::clock::Instant;
use fairway_routing::{CompiledRule, KeySource, TokenCheck};
use fairway_token::{Expected, KeySet, MAX_KEY_SET_BYTES, Refusal, Token};

use super::environment::{ClientSide, Environment, Exchange};
use super::subrequest::{self, Behind, Question, Sink};
use crate::fault::{Denial, Fault};
use crate::filter::{own_answer, shown_token};
use crate::guards::{Fetch, Keys, VerifiedToken};
use crate::network::Network;
use crate::peer::Peer;
use crate::request::client::Client;

/// How long an issuer may take to answer, in all.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a token lets nobody in.
pub(super) enum Refused {
    /// Something is wrong with it, or there is none. The scopes are those that it should have.
    Denied(Denial),
    /// It cannot be verified.
    Failed(Fault),
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self::Denied(Denial::Token(refusal))
    }
}

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
    let issuer = &check.auth.issuers[number];
    let (now, skew) = (since_1970(), check.auth.skew);
    token.check(&Expected { issuer: &issuer.issuer, audiences: &issuer.audiences, skew, now })?;
    match (&check.keys[number], &issuer.keys) {
        (KeySource::Inline(keys), _) => token.verify(keys)?,
        (KeySource::Published { id, rule }, JwtKeys::Published(published)) => {
            let source = Published { id, rule, published };
            let keys = keys(exchange, source).await?;
            let mut outcome = token.verify(&keys);
            if outcome == Err(Refusal::UnknownKey) {
                let keys = refreshed_keys(exchange, source).await?;
                outcome = token.verify(&keys);
            }
            outcome?;
        }
        (KeySource::Published { .. }, JwtKeys::Inline(_)) => {
            return Err(Refused::Failed(Fault::ProtectionUnavailable));
        }
    }
    let lifetime = token.lifetime(now, skew);
    let claims = token.into_claims();
    if !issuer.claims.iter().all(|of| claims.has_any(&of.claim, of.values.iter().map(|value| &**value))) {
        return Err(Refused::Denied(Denial::TokenClaim));
    }
    if !issuer.scopes.iter().all(|scope| claims.has_scope(scope)) {
        return Err(Refused::Denied(Denial::TokenScope));
    }
    let verified = VerifiedToken::new(number, claims, &issuer.headers);
    exchange.env.worker.guards.tokens.remember(check, text, Arc::clone(&verified), lifetime);
    Ok(verified)
}

/// A key set that an issuer publishes.
#[derive(Clone, Copy)]
struct Published<'c> {
    id: &'c fairway_token::Digest,
    rule: &'c CompiledRule,
    published: &'c PublishedKeys,
}

/// The keys of an issuer, waited for where there are none.
async fn keys<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    source: Published<'_>,
) -> Result<Arc<KeySet>, Refused> {
    let sets = &exchange.env.worker.guards.tokens.key_sets;
    match sets.find(source.id, Instant::now()) {
        Keys::Ready(keys, fetch) => {
            begin_fetch(exchange, source, fetch);
            Ok(keys)
        }
        Keys::Awaited(mut updates, fetch) => {
            begin_fetch(exchange, source, fetch);
            wait_for_keys(exchange, updates.next()).await?;
            ready(exchange, source)
        }
        Keys::Unavailable => Err(Refused::Failed(Fault::KeysUnavailable)),
    }
}

/// The keys of an issuer after it was asked again, or those that there are where it was asked only just now.
async fn refreshed_keys<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    source: Published<'_>,
) -> Result<Arc<KeySet>, Refused> {
    let sets = &exchange.env.worker.guards.tokens.key_sets;
    if let Some((mut updates, fetch)) = sets.refresh(source.id, Instant::now()) {
        begin_fetch(exchange, source, fetch);
        wait_for_keys(exchange, updates.next()).await?;
    }
    ready(exchange, source)
}

fn ready<N: Network, D>(
    exchange: &Exchange<'_, '_, N, D>,
    source: Published<'_>,
) -> Result<Arc<KeySet>, Refused> {
    match exchange.env.worker.guards.tokens.key_sets.find(source.id, Instant::now()) {
        Keys::Ready(keys, _) => Ok(keys),
        Keys::Awaited(..) | Keys::Unavailable => Err(Refused::Failed(Fault::KeysUnavailable)),
    }
}

/// Asks an issuer for its keys, whatever becomes of the request that found out that they are needed.
fn begin_fetch<N: Network, D>(
    exchange: &Exchange<'_, '_, N, D>,
    source: Published<'_>,
    fetch: Option<Fetch>,
) {
    let Some(fetch) = fetch else { return };
    let Exchange { env, client_side, .. } = exchange;
    let Published { rule, published, .. } = source;
    let mut question = env.worker.lend_buffers();
    let head: &mut Head = &mut question.request;
    head.start_request(b"GET", published.target.as_bytes());
    head.append(b"Host", published.host.as_bytes());
    head.append(b"Accept", b"application/jwk-set+json, application/json");
    head.append(b"User-Agent", b"fairway");
    // It may outlive the connection, and must not keep its place among those of its listener.
    let peer = Peer { facts: None, ..client_side.peer.clone() };
    let (worker, adopted) = (Rc::clone(env.worker), Rc::clone(env.adopted));
    // Who has a token is no matter of the issuer's.
    let client = Client { address: None, peer: Ipv4Addr::UNSPECIFIED.into(), ..env.client };
    let rule = rule.clone();
    tokio::task::spawn_local(async move {
        let Ok(intake) = subrequest::intake(&mut question) else { return };
        let mut outer = Environment::under(&worker, &adopted, &rule, intake.clone(), client);
        outer.set_limit(Instant::now().checked_add(FETCH_TIMEOUT));
        let mut text = KeySetText::default();
        let asked = Question { rule: &rule, intake, client, buffers: &mut question };
        let outcome = subrequest::run(&outer, peer, asked, &mut text).await;
        // Redirects are not followed: they would lead where nobody has allowed to connect to.
        if outcome.is_ok() && question.answer.status() == 200 {
            fetch.succeed(&text.0, max_age(&question.answer));
        }
    });
}

/// For how long an answer may be used (RFC 9111 §5.2.2.1).
fn max_age(answer: &Head) -> Option<Duration> {
    let mut seconds = None;
    for control in answer.all_named(b"Cache-Control") {
        for directive in std::str::from_utf8(control).ok()?.split(',') {
            let directive = directive.trim().to_ascii_lowercase();
            match directive.split_once('=') {
                Some(("max-age", age)) => {
                    seconds = age.trim_matches('"').parse().ok().map(Duration::from_secs);
                }
                None if directive == "no-store" || directive == "no-cache" => return Some(Duration::ZERO),
                _ => {}
            }
        }
    }
    seconds
}

/// Behind the request for a key set: takes the body of the answer, up to a bound.
#[derive(Default)]
struct KeySetText(Vec<u8>);

impl Behind for KeySetText {
    fn poll_body(&mut self, _: &mut Context<'_>, _: &mut Sink<'_>) -> Poll<Result<BodyStep, Failure>> {
        Poll::Ready(Ok(BodyStep::End))
    }

    fn is_read(&self) -> bool {
        true
    }

    /// What is too large is read no further.
    fn receive(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if self.0.len() + bytes.len() > MAX_KEY_SET_BYTES {
            return Err(Failure::Refused);
        }
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn poll_gone(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

/// Waits for the outcome of a fetch, and not longer than one may take.
async fn wait_for_keys<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    awaited: impl Future<Output = ()>,
) -> Result<(), Fault> {
    // A moment more than the fetch has.
    match wait(exchange, awaited, FETCH_TIMEOUT + Duration::from_secs(1)).await {
        Err(fault) if fault != Fault::ClientGone && !exchange.env.is_overdue() => Err(Fault::KeysUnavailable),
        outcome => outcome,
    }
}

/// Waits for something for as long as the client, its request's time and `patience` last.
pub(super) async fn wait<N: Network, D: Downstream, T>(
    exchange: &mut Exchange<'_, '_, N, D>,
    awaited: impl Future<Output = T>,
    patience: Duration,
) -> Result<T, Fault> {
    let Exchange { env, client_side, .. } = exchange;
    let mut awaited = pin!(awaited);
    let ClientSide { down, deadline, .. } = &mut **client_side;
    env.arm(deadline, Instant::now(), patience);
    poll_fn(|cx| match awaited.as_mut().poll(cx) {
        Poll::Ready(outcome) => Poll::Ready(Ok(outcome)),
        Poll::Pending if down.poll_gone(cx).is_ready() => Poll::Ready(Err(Fault::ClientGone)),
        Poll::Pending => deadline.poll_passed(cx).map(|()| Err(env.overdue())),
    })
    .await
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault)
    }
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

fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
