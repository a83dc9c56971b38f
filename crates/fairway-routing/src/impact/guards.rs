//! Evaluates guards for a partly known request.

use fairway_model::{AccessList, Deny, Guard, ResponseContent};

use super::candidates::ServingRule;
use super::configuration::HttpListener;
use super::location;
use super::own_response::LocalResponse;
use super::recorded_request::{KnownClient, NoHeaders, RequestPaths};
use super::verdict::Unknown;
use crate::conditional::CompiledDirectResponse;
use crate::rule::GuardStep;
use crate::steps::CompiledDeny;

/// The result of a guard.
pub(super) enum GuardResult {
    Pass,
    Answered(LocalResponse),
    /// The result depends on something unknown.
    Unknown(Unknown),
}

/// The input of a guard.
pub(super) struct GuardInput<'a, 's> {
    pub(super) listener: &'a HttpListener<'s>,
    pub(super) request: &'a RequestPaths<'a>,
    pub(super) client: KnownClient,
    pub(super) found: ServingRule<'s>,
}

/// Evaluates a guard; `step` is its compiled form.
pub(super) fn ruling(guard: &Guard, step: &GuardStep, input: &GuardInput<'_, '_>) -> GuardResult {
    let GuardInput { listener: place, request, client, found } = input;
    let over_tls = request.known_request.over_tls;
    match (guard, step) {
        (Guard::HttpsRedirect(to), _) => match came_in_the_clear(place, request) {
            Some(true) => {
                let location = location::to_https(to, place, request);
                GuardResult::Answered(LocalResponse::redirect(to.status, location))
            }
            Some(false) => GuardResult::Pass,
            None => GuardResult::Unknown(Unknown::Headers),
        },
        (Guard::Redirect(_), GuardStep::Redirect(to)) => {
            let location = location::elsewhere(to, place, request, found.prefix);
            GuardResult::Answered(LocalResponse::redirect(to.status, location))
        }
        (Guard::Access(list), _) => access(list, *client),
        (Guard::ClientCertificate(_), _) if over_tls => GuardResult::Unknown(Unknown::ClientCertificate),
        (Guard::OverTls, _) if !over_tls => GuardResult::Answered(LocalResponse::plain(403)),
        (Guard::ClientCertificate(_) | Guard::OverTls, _) => GuardResult::Pass,
        (Guard::Deny(source_rules), GuardStep::Deny(compiled)) => deny(source_rules, compiled, request),
        (Guard::Respond(_), GuardStep::Respond(to)) => respond(to, request),
        (Guard::Preflight(_), _) if request.known_request.method == "OPTIONS" => {
            GuardResult::Unknown(Unknown::Headers)
        }
        // Endpoints and concurrency are ignored.
        (
            Guard::Preflight(_) | Guard::NeedsEndpoint | Guard::RateLimit(_) | Guard::ConcurrencyLimit(_),
            _,
        ) => GuardResult::Pass,
        (Guard::Any(any), _) if any.access.as_ref().is_some_and(|list| vouches(list, *client)) => {
            GuardResult::Pass
        }
        (
            Guard::Any(_)
            | Guard::ExternalAuth(_)
            | Guard::GrpcAuth(_)
            | Guard::BasicAuth(_)
            | Guard::Jwt(_)
            | Guard::ApiKey(_)
            | Guard::Oidc(_)
            | Guard::Authorize(_),
            _,
        ) => GuardResult::Unknown(Unknown::Authentication),
        // A guard and its compiled form have the same kind.
        (Guard::Redirect(_) | Guard::Deny(_) | Guard::Respond(_), _) => GuardResult::Unknown(Unknown::Hidden),
    }
}

/// `None` if a trusted peer may say otherwise in a header.
fn came_in_the_clear(listener: &HttpListener<'_>, request: &RequestPaths<'_>) -> Option<bool> {
    let trust = &listener.limits.forwarded;
    (trust.ranges.is_empty() || trust.address_only).then_some(!request.known_request.over_tls)
}

fn access(list: &AccessList, client: KnownClient) -> GuardResult {
    match lets_pass(list, client) {
        Some(true) => GuardResult::Pass,
        Some(false) => GuardResult::Answered(LocalResponse::plain(403)),
        None => GuardResult::Unknown(Unknown::ClientAddress),
    }
}

/// A client with an unknown address never passes.
fn lets_pass(list: &AccessList, client: KnownClient) -> Option<bool> {
    let address = match client {
        KnownClient::Address(address) => address,
        KnownClient::UnknownAddress => return Some(false),
        KnownClient::UnrecordedAddress => return None,
    };
    let is_denied = list.deny.iter().any(|range| range.contains(&address));
    let is_allowed = list.allow.is_empty() || list.allow.iter().any(|range| range.contains(&address));
    Some(is_allowed && !is_denied)
}

/// Whether the address alone suffices.
fn vouches(list: &AccessList, client: KnownClient) -> bool {
    !list.allow.is_empty() && lets_pass(list, client) == Some(true)
}

fn deny(deny: &Deny, compiled: &CompiledDeny, request: &RequestPaths<'_>) -> GuardResult {
    let fields = NoHeaders::default();
    if compiled.covers(&request.request(&fields)) {
        return GuardResult::Answered(LocalResponse::plain(deny.status));
    }
    let asks_for_query = request.known_request.has_query && deny.when.iter().any(|it| !it.query.is_empty());
    match (fields.were_read(), asks_for_query) {
        (true, _) => GuardResult::Unknown(Unknown::Headers),
        (false, true) => GuardResult::Unknown(Unknown::Query),
        (false, false) => GuardResult::Pass,
    }
}

fn respond(to: &CompiledDirectResponse, request: &RequestPaths<'_>) -> GuardResult {
    if !to.when.is_empty() {
        return GuardResult::Unknown(Unknown::Headers);
    }
    let status = to.source.status;
    match &to.source.content {
        ResponseContent::Location(url) | ResponseContent::UnescapedLocation(url) => {
            GuardResult::Answered(LocalResponse::redirect(status, url.to_string()))
        }
        ResponseContent::Rewritten { .. } => {
            let escaped = request.known_request.path.contains(['%', '+']);
            let mut url = Vec::new();
            let found =
                to.rewritten.as_ref().is_some_and(|it| it.write(&request.decoded, escaped, b"", &mut url));
            match found {
                true => {
                    let location = String::from_utf8_lossy(&url).into_owned();
                    GuardResult::Answered(LocalResponse::redirect(status, location))
                }
                false => GuardResult::Pass,
            }
        }
        ResponseContent::Status
        | ResponseContent::Empty
        | ResponseContent::Text(..)
        | ResponseContent::Fixed { .. } => GuardResult::Answered(LocalResponse::plain(status)),
    }
}
