//! Fetches and caches the metadata of OpenID providers, and verifies token signatures with their keys.

use std::sync::Arc;

use fairway_connection::sides::Downstream;
use fairway_model::OidcAuth;
use fairway_net::clock::Instant;
use fairway_routing::{CompiledRule, LoginCheck};
use fairway_token::login::{Endpoint, MAX_METADATA_BYTES, Provider};
use fairway_token::{Token, digest};

use super::environment::Exchange;
use super::issuer::{self, IssuerRequest, PublishedKeys, wait_for_fetch};
use super::refused::GuardError;
use crate::buffers::Buffers;
use crate::fault::{Denial, Fault};
use crate::filter::start_own_response;
use crate::guards::{DocumentLookup, Fetch};
use crate::network::Network;

/// The metadata of the provider, fetched first if necessary.
pub(super) async fn await_provider<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    check: &LoginCheck,
) -> Result<Arc<Provider>, GuardError> {
    let providers = &exchange.env.worker.guards.logins.providers;
    let awaited = match providers.find(&check.metadata_id, Instant::now()) {
        DocumentLookup::Awaited(updates, fetch) => Some((updates, fetch)),
        DocumentLookup::Ready(provider, fetch) => {
            begin_fetch(exchange, check, fetch);
            return Ok(provider);
        }
        DocumentLookup::Unavailable => None,
    };
    if let Some((mut updates, fetch)) = awaited {
        begin_fetch(exchange, check, fetch);
        wait_for_fetch(exchange, updates.next(), Fault::ProviderUnavailable).await?;
    }
    ready_provider(exchange, check).ok_or(GuardError::Failed(Fault::ProviderUnavailable))
}

/// The metadata of the provider, if it is available without waiting.
pub(super) fn ready_provider<N: Network, D>(
    exchange: &Exchange<'_, '_, N, D>,
    check: &LoginCheck,
) -> Option<Arc<Provider>> {
    match exchange.env.worker.guards.logins.providers.find(&check.metadata_id, Instant::now()) {
        DocumentLookup::Ready(provider, fetch) => {
            begin_fetch(exchange, check, fetch);
            Some(provider)
        }
        DocumentLookup::Awaited(_, fetch) => {
            begin_fetch(exchange, check, fetch);
            None
        }
        DocumentLookup::Unavailable => None,
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
    issuer::send_request(exchange, request, move |response| {
        let provider = match response.status {
            200 => Provider::parse(&response.body, &auth.issuer).map_err(|why| why.to_string()),
            status => Err(format!("the request for its metadata returned {status}")),
        };
        let misplaced = |provider: Provider| match unlisted_endpoint(&auth, &provider) {
            Some(endpoint) => Err(format!("{endpoint} is on a host that oidc.additionalHosts does not list")),
            None => Ok(provider),
        };
        match provider.and_then(misplaced) {
            Ok(provider) => fetch.succeed(provider, &response.body, response.max_age),
            Err(why) => tracing::warn!(
                issuer = %auth.issuer, client = %auth.client_id,
                "the OpenID provider cannot be used: {why}; logins return 503"
            ),
        }
    });
}

/// An endpoint of the provider on a host that the configuration does not list.
fn unlisted_endpoint<'p>(auth: &OidcAuth, provider: &'p Provider) -> Option<&'p Endpoint> {
    let is_misplaced = |endpoint: &&Endpoint| host_index(auth, endpoint).is_none();
    [&provider.token_endpoint, &provider.jwks_uri].into_iter().find(is_misplaced)
}

fn host_index(auth: &OidcAuth, endpoint: &Endpoint) -> Option<usize> {
    let origin = endpoint.origin();
    let origin = match origin.split_once("://") {
        Some(("https", _)) => origin.strip_suffix(":443").unwrap_or(origin),
        _ => origin.strip_suffix(":80").unwrap_or(origin),
    };
    auth.hosts.iter().position(|host| *host.origin == *origin)
}

/// The rule that forwards requests to an endpoint, and its `Host`.
pub(super) fn endpoint_rule<'c>(
    check: &'c LoginCheck,
    endpoint: &Endpoint,
) -> Result<(&'c CompiledRule, &'c str), Fault> {
    let number = host_index(&check.auth, endpoint).ok_or(Fault::ProviderUnavailable)?;
    let rule = check.rules.get(number).ok_or(Fault::ProviderUnavailable)?;
    let (_, host) = check.auth.hosts[number].origin.split_once("://").ok_or(Fault::ProviderUnavailable)?;
    Ok((rule, host))
}

/// Verifies a token with the keys of the provider.
pub(super) async fn verify_signature<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    check: &LoginCheck,
    provider: &Provider,
    token: &Token<'_>,
) -> Result<(), GuardError> {
    let auth = &check.auth;
    let (rule, host) = endpoint_rule(check, &provider.jwks_uri)?;
    let number = host_index(auth, &provider.jwks_uri).ok_or(Fault::ProviderUnavailable)?;
    let id = &digest(format!("{:?}", (&auth.hosts[number], &provider.jwks_uri)).as_bytes());
    let source = PublishedKeys { id, rule, host, target: &provider.jwks_uri.target() };
    match issuer::verify_published(exchange, token, source).await {
        Err(GuardError::Denied(Denial::Token(refusal))) => {
            Err(GuardError::Denied(Denial::LoginToken(refusal)))
        }
        outcome => outcome,
    }
}

/// Redirects a browser.
pub(super) fn redirect(buffers: &mut Buffers, location: &str, cookies: impl IntoIterator<Item = String>) {
    start_own_response(buffers, 302, None);
    buffers.response.append(b"Location", location.as_bytes());
    buffers.response.append(b"Cache-Control", b"no-store");
    for cookie in cookies {
        buffers.response.append(b"Set-Cookie", cookie.as_bytes());
    }
}
