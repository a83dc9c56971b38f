//! Session affinity: finds the session of a request before its first attempt, and writes the cookie or header of a new one.
//! Backends without sessions cost one comparison.

use std::sync::Arc;

use fairway_model::{SessionCarrier, SessionCookie, SessionKey, SessionLifetime};
use fairway_routing::session::{Session, SessionRequest, Token, set_cookie};
use fairway_routing::{CompiledRule, Shares};
use jiff::Timestamp;

use super::decide::has_endpoint;
use super::environment::{Environment, Exchange};
use crate::buffers::Buffers;
use crate::network::Network;
use crate::peer::Scheme;
use crate::upstream::Group;
use crate::worker::EndpointHop;

/// The rule of the share in which the request's session started, if that share has an endpoint.
pub(super) fn share_of_session<'a, N: Network, D>(
    exchange: &Exchange<'_, 'a, N, D>,
    shares: &'a Shares<CompiledRule>,
) -> Option<&'a CompiledRule> {
    let session = &shares.sticky()?.session;
    let token = Token::from_request(session, &exchange.buffers.request, now(session))?;
    let rule = shares.named(token.backend)?;
    has_endpoint(&exchange.env, rule, exchange.client_side.peer.scheme).then_some(rule)
}

/// The time in seconds since 1970, for sessions that expire.
fn now(session: &SessionCookie) -> i64 {
    match session.lifetime == SessionLifetime::default() {
        true => 0,
        false => Timestamp::now().as_second(),
    }
}

/// Finds the session or hash of the request.
pub(super) fn find_session<N: Network>(
    env: &Environment<'_, N>,
    group: &Group<EndpointHop<N>>,
    buffers: &mut Buffers,
) {
    let Some(key) = &group.backend().session else { return };
    let session_request = SessionRequest {
        request: &buffers.request,
        host: &buffers.host,
        target: env.intake.received(buffers),
        query: env.intake.query(buffers),
        path: env.intake.normalised(buffers),
        client: env.client.counted_address(),
        now: match key {
            SessionKey::Cookie(cookie) => now(cookie),
            SessionKey::Hash(_) => 0,
        },
    };
    let session = Session::for_request(key, &session_request, || env.worker.random(|random| random.u64(..)));
    buffers.extras.write().session = session;
}

/// Writes the cookie or header of a new session, for the response that the client gets: the endpoint's or, as in nginx, the
/// page that replaces it. `index` is the endpoint that responded.
pub(super) fn issue_session<N: Network, D>(
    exchange: &mut Exchange<'_, '_, N, D>,
    group: &Group<EndpointHop<N>>,
    index: u32,
) {
    let Some(SessionKey::Cookie(cookie)) = &group.backend().session else { return };
    let Exchange { env, buffers, .. } = exchange;
    let session = buffers.extras.read().session;
    let random = || env.worker.random(|random| random.u64(..));
    let now = now(cookie);
    let Some(issued) = session.issue_token(cookie, group.affinity_keys(), index as usize, now, random) else {
        return;
    };
    let Buffers { request, extras, .. } = &mut **buffers;
    let written = extras.write();
    written.session_token.clear();
    if cookie.carrier == SessionCarrier::Header {
        issued.write(&mut written.session_token, cookie, now);
        written.session_header = Some(Arc::clone(&cookie.name));
        return;
    }
    let user_agent = request.named(b"user-agent");
    let path = &*env.rule().rule().labels.path;
    let is_tls = env.client.scheme == Scheme::Https;
    set_cookie(&mut written.session_token, cookie, issued, now, path, is_tls, user_agent);
}
