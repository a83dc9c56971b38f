//! Requests of Fairway's own to issuers: for their keys, for what they say of themselves, and for tokens. They go through the pools that
//! requests use, and outlive the client for whom they are made.

use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use fairway_connection::sides::{BodyStep, Downstream, Failure};
use fairway_http::{BodySize, Head};
use fairway_net::clock::Instant;
use fairway_routing::CompiledRule;
use fairway_token::login::TokenRequest;
use fairway_token::{Digest, KeySet, MAX_KEY_SET_BYTES, Refusal, Token};

use super::environment::{Environment, Exchange};
use super::refused::{Refused, wait};
use super::subrequest::{self, Behind, Question, Sink};
use crate::fault::Fault;
use crate::guards::{Fetch, Found, read_key_set};
use crate::network::Network;
use crate::peer::Peer;
use crate::request::client::Client;

/// How long an issuer may take to answer, in all.
pub(super) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// What an issuer is asked.
pub(super) struct IssuerRequest<'c> {
    /// The rule that it is forwarded by.
    pub(super) rule: &'c CompiledRule,
    /// Its `Host`.
    pub(super) host: &'c str,
    /// Its path and query.
    pub(super) target: &'c str,
    /// What it accepts.
    pub(super) accept: &'static str,
    /// The form that it posts; without one it is a GET request.
    pub(super) form: Option<TokenRequest>,
    /// The longest body of a response that is read, in bytes.
    pub(super) max_response: usize,
}

/// What an issuer answers.
pub(super) struct IssuerResponse {
    pub(super) status: u16,
    /// For how long it may be used.
    pub(super) max_age: Option<Duration>,
    pub(super) body: Vec<u8>,
}

/// Asks an issuer, and gives its response to `then`, whatever becomes of the request that asked for it. `then` is dropped where there is
/// no response.
pub(super) fn ask<N: Network, D>(
    exchange: &Exchange<'_, '_, N, D>,
    request: IssuerRequest<'_>,
    then: impl FnOnce(IssuerResponse) + 'static,
) {
    let Exchange { env, client_side, .. } = exchange;
    let mut question = env.worker.lend_buffers();
    let head: &mut Head = &mut question.request;
    let method = if request.form.is_some() { "POST" } else { "GET" };
    head.start_request(method.as_bytes(), request.target.as_bytes());
    head.append(b"Host", request.host.as_bytes());
    head.append(b"Accept", request.accept.as_bytes());
    head.append(b"User-Agent", b"fairway");
    let (body, size) = match request.form {
        None => (Vec::new(), BodySize::None),
        Some(form) => {
            head.append(b"Content-Type", b"application/x-www-form-urlencoded");
            head.append(b"Content-Length", itoa::Buffer::new().format(form.body.len()).as_bytes());
            if let Some(authorization) = &form.authorization {
                head.append(b"Authorization", authorization.as_bytes());
            }
            let length = form.body.len() as u64;
            (form.body.into_bytes(), BodySize::Exact(length))
        }
    };
    let mut conversation =
        Conversation { body, is_sent: false, response: Vec::new(), max_response: request.max_response };
    // It may outlive the connection, and must not keep its place among those of its listener.
    let peer = Peer { facts: None, ..client_side.peer.clone() };
    let (worker, adopted) = (Rc::clone(env.worker), Rc::clone(env.adopted));
    // Who has a token is no matter of the issuer's.
    let client = Client { address: None, peer: Ipv4Addr::UNSPECIFIED.into(), ..env.client };
    let rule = request.rule.clone();
    tokio::task::spawn_local(async move {
        let Ok(intake) = subrequest::intake_with(&mut question, size) else { return };
        let mut outer = Environment::under(&worker, &adopted, &rule, intake.clone(), client);
        outer.set_limit(Instant::now().checked_add(RESPONSE_TIMEOUT));
        let asked = Question { rule: &rule, intake, client, buffers: &mut question };
        if subrequest::run(&outer, peer, asked, &mut conversation).await.is_ok() {
            // Redirects are not followed: they would lead where nobody has allowed to connect to.
            let (status, max_age) = (question.answer.status(), max_age(&question.answer));
            then(IssuerResponse { status, max_age, body: conversation.response });
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

/// Behind a request to an issuer: sends its body, and takes that of the response up to a bound.
struct Conversation {
    body: Vec<u8>,
    is_sent: bool,
    response: Vec<u8>,
    max_response: usize,
}

impl Behind for Conversation {
    fn poll_body(&mut self, cx: &mut Context<'_>, sink: &mut Sink<'_>) -> Poll<Result<BodyStep, Failure>> {
        if self.is_sent || self.body.is_empty() {
            return Poll::Ready(Ok(BodyStep::End));
        }
        self.is_sent = true;
        Poll::Ready(sink(cx, &self.body).map(|()| BodyStep::More))
    }

    fn is_read(&self) -> bool {
        self.is_sent || self.body.is_empty()
    }

    /// What is too large is read no further.
    fn receive(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if self.response.len() + bytes.len() > self.max_response {
            return Err(Failure::Refused);
        }
        self.response.extend_from_slice(bytes);
        Ok(())
    }

    fn poll_gone(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

/// A key set that an issuer publishes.
#[derive(Clone, Copy)]
pub(super) struct PublishedKeys<'c> {
    /// What tells it apart from all others.
    pub(super) id: &'c Digest,
    /// The rule by which it is asked for.
    pub(super) rule: &'c CompiledRule,
    /// The `Host` of that request.
    pub(super) host: &'c str,
    /// Its path and query.
    pub(super) target: &'c str,
}

/// Verifies the signature of a token with the keys that its issuer publishes, which are asked for again where the token has an unknown
/// one.
pub(super) async fn verify<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    token: &Token<'_>,
    source: PublishedKeys<'_>,
) -> Result<(), Refused> {
    let keys = keys(exchange, source).await?;
    let mut outcome = token.verify(&keys);
    if outcome == Err(Refusal::UnknownKey) {
        let keys = refreshed_keys(exchange, source).await?;
        outcome = token.verify(&keys);
    }
    Ok(outcome?)
}

/// The keys of an issuer, waited for where there are none.
async fn keys<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    source: PublishedKeys<'_>,
) -> Result<Arc<KeySet>, Refused> {
    match exchange.env.worker.guards.tokens.key_sets.find(source.id, Instant::now()) {
        Found::Ready(keys, fetch) => {
            begin_fetch(exchange, source, fetch);
            Ok(keys)
        }
        Found::Awaited(mut updates, fetch) => {
            begin_fetch(exchange, source, fetch);
            wait_for_fetch(exchange, updates.next(), Fault::KeysUnavailable).await?;
            ready(exchange, source)
        }
        Found::Unavailable => Err(Refused::Failed(Fault::KeysUnavailable)),
    }
}

/// The keys of an issuer after it was asked again, or those that there are where it was asked only just now.
async fn refreshed_keys<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    source: PublishedKeys<'_>,
) -> Result<Arc<KeySet>, Refused> {
    let sets = &exchange.env.worker.guards.tokens.key_sets;
    if let Some((mut updates, fetch)) = sets.refresh(source.id, Instant::now()) {
        begin_fetch(exchange, source, fetch);
        wait_for_fetch(exchange, updates.next(), Fault::KeysUnavailable).await?;
    }
    ready(exchange, source)
}

fn ready<N: Network, D>(
    exchange: &Exchange<'_, '_, N, D>,
    source: PublishedKeys<'_>,
) -> Result<Arc<KeySet>, Refused> {
    match exchange.env.worker.guards.tokens.key_sets.find(source.id, Instant::now()) {
        Found::Ready(keys, fetch) => {
            begin_fetch(exchange, source, fetch);
            Ok(keys)
        }
        Found::Awaited(..) | Found::Unavailable => Err(Refused::Failed(Fault::KeysUnavailable)),
    }
}

fn begin_fetch<N: Network, D>(
    exchange: &Exchange<'_, '_, N, D>,
    source: PublishedKeys<'_>,
    fetch: Option<Fetch<KeySet>>,
) {
    let Some(fetch) = fetch else { return };
    let PublishedKeys { rule, host, target, .. } = source;
    let accept = "application/jwk-set+json, application/json";
    let request = IssuerRequest { rule, host, target, accept, form: None, max_response: MAX_KEY_SET_BYTES };
    ask(exchange, request, |response| {
        if response.status == 200
            && let Some(keys) = read_key_set(&response.body)
        {
            fetch.succeed(keys, &response.body, response.max_age);
        }
    });
}

/// Waits for the outcome of a fetch, and not longer than one may take.
pub(super) async fn wait_for_fetch<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    awaited: impl Future<Output = ()>,
    unavailable: Fault,
) -> Result<(), Fault> {
    // A moment more than the fetch has.
    match wait(exchange, awaited, RESPONSE_TIMEOUT + Duration::from_secs(1)).await {
        Err(fault) if fault != Fault::ClientGone && !exchange.env.is_overdue() => Err(unavailable),
        outcome => outcome,
    }
}

pub(super) fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
