//! What a guard makes of a request of which only some is known.

use fairway_model::{AccessList, Content, Deny, Guard};

use super::answer::OwnAnswer;
use super::arrival::Place;
use super::candidates::Found;
use super::known::{KnownClient, NoFields, Prepared};
use super::location;
use super::verdict::Unknown;
use crate::chosen::CompiledRespond;
use crate::rule::GuardStep;
use crate::steps::CompiledDeny;

/// What a guard does.
pub(super) enum Ruling {
    Pass,
    Answered(OwnAnswer),
    /// It passes or not, by something that is not known.
    Unknown(Unknown),
}

/// What a guard is asked about.
pub(super) struct Asked<'a, 's> {
    pub(super) place: &'a Place<'s>,
    pub(super) request: &'a Prepared<'a>,
    pub(super) client: KnownClient,
    pub(super) found: Found<'s>,
}

/// What the guard does, of which `step` is the compiled form.
pub(super) fn ruling(guard: &Guard, step: &GuardStep, asked: &Asked<'_, '_>) -> Ruling {
    let Asked { place, request, client, found } = asked;
    let over_tls = request.known.over_tls;
    match (guard, step) {
        (Guard::HttpsRedirect(to), _) => match came_in_the_clear(place, request) {
            Some(true) => {
                let location = location::to_https(to, place, request);
                Ruling::Answered(OwnAnswer::redirect(to.status, location))
            }
            Some(false) => Ruling::Pass,
            None => Ruling::Unknown(Unknown::Headers),
        },
        (Guard::Redirect(_), GuardStep::Redirect(to)) => {
            let location = location::elsewhere(to, place, request, found.prefix);
            Ruling::Answered(OwnAnswer::redirect(to.status, location))
        }
        (Guard::Access(list), _) => access(list, *client),
        (Guard::ClientCertificate(_), _) if over_tls => Ruling::Unknown(Unknown::ClientCertificate),
        (Guard::OverTls, _) if !over_tls => Ruling::Answered(OwnAnswer::plain(403)),
        (Guard::ClientCertificate(_) | Guard::OverTls, _) => Ruling::Pass,
        (Guard::Deny(of), GuardStep::Deny(compiled)) => deny(of, compiled, request),
        (Guard::Respond(_), GuardStep::Respond(to)) => respond(to, request),
        (Guard::Preflight(_), _) if request.known.method == "OPTIONS" => Ruling::Unknown(Unknown::Headers),
        // Endpoints, and what is under way, are not looked at.
        (
            Guard::Preflight(_) | Guard::NeedsEndpoint | Guard::RateLimit(_) | Guard::ConcurrencyLimit(_),
            _,
        ) => Ruling::Pass,
        (Guard::Any(any), _) if any.access.as_ref().is_some_and(|list| vouches(list, *client)) => {
            Ruling::Pass
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
        ) => Ruling::Unknown(Unknown::Authentication),
        // A guard and its compiled form are of one kind.
        (Guard::Redirect(_) | Guard::Deny(_) | Guard::Respond(_), _) => Ruling::Unknown(Unknown::Hidden),
    }
}

/// `None` where a peer may say something else in a header.
fn came_in_the_clear(place: &Place<'_>, request: &Prepared<'_>) -> Option<bool> {
    let trust = &place.limits.forwarded;
    (trust.ranges.is_empty() || trust.address_only).then_some(!request.known.over_tls)
}

fn access(list: &AccessList, client: KnownClient) -> Ruling {
    match lets_pass(list, client) {
        Some(true) => Ruling::Pass,
        Some(false) => Ruling::Answered(OwnAnswer::plain(403)),
        None => Ruling::Unknown(Unknown::ClientAddress),
    }
}

/// Nobody passes whose address is unknown to Fairway.
fn lets_pass(list: &AccessList, client: KnownClient) -> Option<bool> {
    let address = match client {
        KnownClient::Address(address) => address,
        KnownClient::Nameless => return Some(false),
        KnownClient::NotKept => return None,
    };
    let is_denied = list.deny.iter().any(|range| range.contains(&address));
    let is_allowed = list.allow.is_empty() || list.allow.iter().any(|range| range.contains(&address));
    Some(is_allowed && !is_denied)
}

/// Whether the address alone is enough.
fn vouches(list: &AccessList, client: KnownClient) -> bool {
    !list.allow.is_empty() && lets_pass(list, client) == Some(true)
}

fn deny(of: &Deny, compiled: &CompiledDeny, request: &Prepared<'_>) -> Ruling {
    let fields = NoFields::default();
    if compiled.covers(&request.request(&fields)) {
        return Ruling::Answered(OwnAnswer::plain(of.status));
    }
    let asks_for_query = request.known.has_query && of.when.iter().any(|it| !it.query.is_empty());
    match (fields.were_asked_for(), asks_for_query) {
        (true, _) => Ruling::Unknown(Unknown::Headers),
        (false, true) => Ruling::Unknown(Unknown::Query),
        (false, false) => Ruling::Pass,
    }
}

fn respond(to: &CompiledRespond, request: &Prepared<'_>) -> Ruling {
    if !to.when.is_empty() {
        return Ruling::Unknown(Unknown::Headers);
    }
    let status = to.of.status;
    match &to.of.content {
        Content::Location(url) | Content::UnescapedLocation(url) => {
            Ruling::Answered(OwnAnswer::redirect(status, url.to_string()))
        }
        Content::Rewritten { .. } => {
            let escaped = request.known.path.contains(['%', '+']);
            let mut url = Vec::new();
            let found =
                to.rewritten.as_ref().is_some_and(|it| it.write(&request.decoded, escaped, b"", &mut url));
            match found {
                true => {
                    let location = String::from_utf8_lossy(&url).into_owned();
                    Ruling::Answered(OwnAnswer::redirect(status, location))
                }
                false => Ruling::Pass,
            }
        }
        Content::Status | Content::Empty | Content::Text(..) | Content::Fixed { .. } => {
            Ruling::Answered(OwnAnswer::plain(status))
        }
    }
}
