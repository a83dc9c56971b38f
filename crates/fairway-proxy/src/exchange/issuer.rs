//! Requests that Fairway makes to issuers, for keys, metadata and tokens. They use the same pools as client requests, and may
//! outlive the client for which they are made.

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
use super::refused::{GuardError, wait};
use super::subrequest::{self, Sink, Subrequest, SubrequestHandler};
use crate::fault::Fault;
use crate::guards::{DocumentLookup, Fetch, read_key_set};
use crate::network::Network;
use crate::peer::Peer;
use crate::request::client::Client;

/// How long an issuer may take to respond, in total.
pub(super) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// A request to an issuer.
pub(super) struct IssuerRequest<'c> {
    /// The rule that forwards it.
    pub(super) rule: &'c CompiledRule,
    /// Its `Host`.
    pub(super) host: &'c str,
    /// Its path and query.
    pub(super) target: &'c str,
    /// Its `Accept` header.
    pub(super) accept: &'static str,
    /// The form to POST; without one this is a GET.
    pub(super) form: Option<TokenRequest>,
    /// The longest accepted response body, in bytes.
    pub(super) max_response: usize,
}

/// The response of an issuer.
pub(super) struct IssuerResponse {
    pub(super) status: u16,
    /// How long it may be used.
    pub(super) max_age: Option<Duration>,
    pub(super) body: Vec<u8>,
}

/// Sends a request to an issuer and passes its response to `then`, even if the client's request ends first. `then` is dropped
/// if there is no response.
pub(super) fn send_request<N: Network, D>(
    exchange: &Exchange<'_, '_, N, D>,
    request: IssuerRequest<'_>,
    then: impl FnOnce(IssuerResponse) + 'static,
) {
    let Exchange { env, client_side, .. } = exchange;
    let mut subrequest = env.worker.lend_buffers();
    let head: &mut Head = &mut subrequest.request;
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
        IssuerHandler { body, is_sent: false, response: Vec::new(), max_response: request.max_response };
    // It may outlive the connection, and must not count towards the listener's connections.
    let peer = Peer { details: None, ..client_side.peer.clone() };
    let (worker, adopted) = (Rc::clone(env.worker), Rc::clone(env.adopted));
    // The issuer does not need to know who has a token.
    let client = Client { address: None, peer: Ipv4Addr::UNSPECIFIED.into(), ..env.client };
    let rule = request.rule.clone();
    tokio::task::spawn_local(async move {
        let Ok(intake) = subrequest::check_with_body(&mut subrequest, size) else { return };
        let mut outer = Environment::for_rule(&worker, &adopted, &rule, intake.clone(), client);
        outer.set_deadline(Instant::now().checked_add(RESPONSE_TIMEOUT));
        let issuer_request = Subrequest { rule: &rule, intake, client, buffers: &mut subrequest };
        if subrequest::run(&outer, peer, issuer_request, &mut conversation).await.is_ok() {
            // Redirects are not followed: their target may be a host that the configuration does not allow.
            let (status, max_age) = (subrequest.response.status(), max_age(&subrequest.response));
            then(IssuerResponse { status, max_age, body: conversation.response });
        }
    });
}

/// How long a response may be used (RFC 9111 §5.2.2.1).
fn max_age(response: &Head) -> Option<Duration> {
    let mut seconds = None;
    for control in response.all_named(b"Cache-Control") {
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

/// Sends the body of a request to an issuer, and collects the response body up to a limit.
struct IssuerHandler {
    body: Vec<u8>,
    is_sent: bool,
    response: Vec<u8>,
    max_response: usize,
}

impl SubrequestHandler for IssuerHandler {
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

    /// Fails once the response is too large.
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
    /// Its cache key.
    pub(super) id: &'c Digest,
    /// The rule that forwards the request for it.
    pub(super) rule: &'c CompiledRule,
    /// The `Host` of that request.
    pub(super) host: &'c str,
    /// Its path and query.
    pub(super) target: &'c str,
}

/// Verifies the signature of a token with the keys that its issuer publishes. If the token names an unknown key, the keys are
/// fetched again.
pub(super) async fn verify_published<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    token: &Token<'_>,
    source: PublishedKeys<'_>,
) -> Result<(), GuardError> {
    let keys = await_keys(exchange, source).await?;
    let mut outcome = token.verify(&keys);
    if outcome == Err(Refusal::UnknownKey) {
        let keys = refreshed_keys(exchange, source).await?;
        outcome = token.verify(&keys);
    }
    Ok(outcome?)
}

/// The keys of an issuer, fetched first if there are none.
async fn await_keys<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    source: PublishedKeys<'_>,
) -> Result<Arc<KeySet>, GuardError> {
    match exchange.env.worker.guards.tokens.key_sets.find(source.id, Instant::now()) {
        DocumentLookup::Ready(keys, fetch) => {
            begin_fetch(exchange, source, fetch);
            Ok(keys)
        }
        DocumentLookup::Awaited(mut updates, fetch) => {
            begin_fetch(exchange, source, fetch);
            wait_for_fetch(exchange, updates.next(), Fault::KeysUnavailable).await?;
            ready_keys(exchange, source)
        }
        DocumentLookup::Unavailable => Err(GuardError::Failed(Fault::KeysUnavailable)),
    }
}

/// The keys of an issuer after a new fetch, or the cached ones if the last fetch was only just made.
async fn refreshed_keys<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    source: PublishedKeys<'_>,
) -> Result<Arc<KeySet>, GuardError> {
    let sets = &exchange.env.worker.guards.tokens.key_sets;
    if let Some((mut updates, fetch)) = sets.refresh(source.id, Instant::now()) {
        begin_fetch(exchange, source, fetch);
        wait_for_fetch(exchange, updates.next(), Fault::KeysUnavailable).await?;
    }
    ready_keys(exchange, source)
}

fn ready_keys<N: Network, D>(
    exchange: &Exchange<'_, '_, N, D>,
    source: PublishedKeys<'_>,
) -> Result<Arc<KeySet>, GuardError> {
    match exchange.env.worker.guards.tokens.key_sets.find(source.id, Instant::now()) {
        DocumentLookup::Ready(keys, fetch) => {
            begin_fetch(exchange, source, fetch);
            Ok(keys)
        }
        DocumentLookup::Awaited(..) | DocumentLookup::Unavailable => {
            Err(GuardError::Failed(Fault::KeysUnavailable))
        }
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
    send_request(exchange, request, |response| {
        if response.status == 200
            && let Some(keys) = read_key_set(&response.body)
        {
            fetch.succeed(keys, &response.body, response.max_age);
        }
    });
}

/// Waits for the outcome of a fetch, at most for the time that a fetch may take.
pub(super) async fn wait_for_fetch<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    awaited: impl Future<Output = ()>,
    unavailable: Fault,
) -> Result<(), Fault> {
    // A little longer than the timeout of the fetch.
    match wait(exchange, awaited, RESPONSE_TIMEOUT + Duration::from_secs(1)).await {
        Err(fault) if fault != Fault::ClientGone && !exchange.env.is_overdue() => Err(unavailable),
        outcome => outcome,
    }
}

pub(super) fn unix_time() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
