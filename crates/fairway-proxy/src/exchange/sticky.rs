//! Sessions: where a request belongs, before its first attempt, and the cookie of its answer. Backends without sessions cost a
//! comparison.

use std::sync::Arc;

use fairway_model::{SessionCarrier, SessionCookie, SessionKey, SessionLifetime};
use fairway_routing::session::{Asked, Session, Token, set_cookie};
use fairway_routing::{CompiledRule, Shares};
use jiff::Timestamp;

use super::decide::has_endpoint;
use super::environment::{Environment, Exchange};
use crate::buffers::Buffers;
use crate::network::Network;
use crate::peer::Scheme;
use crate::upstream::Group;
use crate::worker::ToEndpoint;

/// The rule of the share that the session of the request began at, where that share has an endpoint.
pub(super) fn share<'a, N: Network, D>(
    exchange: &Exchange<'_, 'a, N, D>,
    shares: &'a Shares<CompiledRule>,
) -> Option<&'a CompiledRule> {
    let session = &shares.sticky()?.session;
    let token = Token::of(session, &exchange.buffers.request, now(session))?;
    let rule = shares.named(token.backend)?;
    has_endpoint(&exchange.env, rule, exchange.client_side.peer.scheme).then_some(rule)
}

/// The time in seconds since 1970, for sessions that do not last for ever.
fn now(session: &SessionCookie) -> i64 {
    match session.lifetime == SessionLifetime::default() {
        true => 0,
        false => Timestamp::now().as_second(),
    }
}

/// Settles where the request belongs.
pub(super) fn begin<N: Network>(
    env: &Environment<'_, N>,
    group: &Group<ToEndpoint<N>>,
    buffers: &mut Buffers,
) {
    let Some(key) = &group.backend().session else { return };
    let asked = Asked {
        request: &buffers.request,
        host: &buffers.host,
        target: env.intake.received(buffers),
        query: env.intake.query(buffers),
        path: env.intake.normalised(buffers),
        client: env.client.counted(),
        now: match key {
            SessionKey::Cookie(cookie) => now(cookie),
            SessionKey::Hash(_) => 0,
        },
    };
    let session = Session::of(key, &asked, || env.worker.random(|random| random.u64(..)));
    buffers.forms.write().session = session;
}

/// Writes the cookie or header by which the client finds its session again, where that is new, for the answer that the client gets: the endpoint's
/// or, as in nginx, the page that replaces it. `index` is the endpoint that answered.
pub(super) fn tell<N: Network, D>(
    exchange: &mut Exchange<'_, '_, N, D>,
    group: &Group<ToEndpoint<N>>,
    index: u32,
) {
    let Some(SessionKey::Cookie(cookie)) = &group.backend().session else { return };
    let Exchange { env, buffers, .. } = exchange;
    let session = buffers.forms.read().session;
    let random = || env.worker.random(|random| random.u64(..));
    let now = now(cookie);
    let Some(issued) = session.told(cookie, group.keys(), index as usize, now, random) else { return };
    let Buffers { request, forms, .. } = &mut **buffers;
    let written = forms.write();
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
