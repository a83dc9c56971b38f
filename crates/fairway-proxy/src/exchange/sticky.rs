//! Sessions: where a request belongs, before its first attempt, and the cookie of its answer. Backends without sessions cost a
//! comparison.

use fairway_model::SessionKey;
use fairway_routing::session::{Asked, Session, set_cookie};

use super::environment::{Environment, Exchange};
use crate::buffers::Buffers;
use crate::network::Network;
use crate::peer::Scheme;
use crate::upstream::Group;
use crate::worker::ToEndpoint;

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
    };
    let session = Session::of(key, &asked, || env.worker.random(|random| random.u64(..)));
    buffers.forms.write().session = session;
}

/// Writes the cookie by which the client finds its session again, where that is new, for the answer that the client gets: the endpoint's
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
    let Some(key) = session.told(cookie, group.keys(), index as usize, random) else { return };
    let Buffers { request, forms, .. } = &mut **buffers;
    let user_agent = request.named(b"user-agent");
    let path = &*env.rule().rule().labels.path;
    let is_tls = env.client.scheme == Scheme::Https;
    let value = &mut forms.write().session_cookie;
    value.clear();
    set_cookie(value, cookie, key, path, is_tls, user_agent);
}
