//! Copies of requests for other backends, whose answers nobody sees. What becomes of a copy changes nothing for its
//! request: a copy that is too large or too slow is broken off, and there is a bound on how many are under way.

use std::rc::Rc;

use fairway_connection::sides::Upgrade;
use fairway_http::{BodySize, Known};
use fairway_model::{Mirror, MirrorTarget};
use fairway_routing::Copying;

use super::environment::Environment;
use super::subrequest::{self, Question};
use crate::buffers::Buffers;
use crate::network::Network;
use crate::peer::Peer;
use crate::request::copy::copy;

/// The most copies of a worker that are under way.
const MOST: usize = 256;

/// Begins the copies that the rule asks for of the request in the buffers, which was not made ready for its endpoint yet.
pub(super) fn begin<N: Network>(env: &Environment<'_, N>, peer: &Peer, buffers: &mut Buffers) {
    for copying in &env.rule().steps().forwarding.mirrors {
        let Mirror { numerator, denominator, .. } = copying.mirror;
        let chosen = env.worker.random(|random| random.u32(..denominator.max(1))) < numerator;
        if chosen && env.intake.upgrade == Upgrade::None {
            // The copy may outlive the connection, and must not keep its place among those of its listener.
            begin_one(env, Peer { facts: None, ..*peer }, buffers, copying);
        }
    }
}

fn begin_one<N: Network>(env: &Environment<'_, N>, peer: Peer, buffers: &mut Buffers, copying: &Copying) {
    let Some(ticket) = env.worker.begin_copy(MOST) else { return };
    let mut mine = env.worker.lend_buffers();
    mine.request.clone_from(&buffers.request);
    mine.forms.copy(&buffers.forms);
    let mut intake = env.intake.clone();
    intake.expects_continue = false;
    address(&copying.mirror, env, buffers, &mut mine);
    if copying.mirror.most_body == 0 {
        intake.body = BodySize::None;
        mine.request.remove_known(Known::ContentLength);
    }
    let (writer, mut reader) = copy(copying.mirror.most_body);
    match intake.body {
        BodySize::None => writer.finish(),
        _ => {
            // What a guard has read already.
            writer.write(&buffers.replay);
            buffers.body.copy_to(writer);
        }
    }
    let (worker, adopted, client) = (Rc::clone(env.worker), Rc::clone(env.adopted), env.client);
    let limit = env.limit();
    let rule = copying.rule.clone();
    tokio::task::spawn_local(async move {
        let mut outer = Environment::under(&worker, &adopted, &rule, intake, client);
        outer.set_limit(limit);
        let intake = outer.intake.clone();
        // Nobody waits for it.
        let copy = Question { rule: &rule, intake, client, buffers: &mut mine };
        let _ = subrequest::run(&outer, peer, copy, &mut reader).await;
        drop(ticket);
    });
}

/// Writes what the copy asks for, and of whom.
fn address<N: Network>(mirror: &Mirror, env: &Environment<'_, N>, own: &Buffers, copy: &mut Buffers) {
    match &mirror.target {
        MirrorTarget::Forwarded => {}
        MirrorTarget::Received(before) => {
            let target = &mut copy.forms.write().target;
            target.clear();
            target.extend_from_slice(before.as_bytes());
            target.extend_from_slice(env.intake.received(own));
        }
        MirrorTarget::Fixed(path) => {
            let target = &mut copy.forms.write().target;
            target.clear();
            target.extend_from_slice(path.as_bytes());
        }
    }
    if let Some(host) = &mirror.host {
        let kept = &mut copy.forms.write().host;
        if kept.is_empty() {
            kept.extend_from_slice(copy.request.first(Known::Host).unwrap_or_default());
        }
        copy.request.set(b"Host", host.as_bytes());
    }
}
