//! Mirrors requests to other backends and discards their responses. A copy never affects its request: one that is too large or
//! too slow is aborted, and the number of copies is limited.

use std::rc::Rc;

use fairway_connection::sides::Upgrade;
use fairway_http::{BodySize, Known};
use fairway_model::{Mirror, MirrorTarget};
use fairway_routing::MirrorStep;

use super::environment::Environment;
use super::subrequest::{self, Subrequest};
use crate::buffers::Buffers;
use crate::network::Network;
use crate::peer::Peer;
use crate::request::copy::copy_channel;

/// Concurrent copies of a worker.
const MAX_COPIES_PER_WORKER: usize = 256;

/// Starts the copies that the rule asks for. The request in the buffers has not been rewritten for its endpoint yet.
pub(super) fn start_copies<N: Network>(env: &Environment<'_, N>, peer: &Peer, buffers: &mut Buffers) {
    for copying in &env.rule().steps().forwarding.mirrors {
        let Mirror { numerator, denominator, .. } = copying.mirror;
        let is_selected = env.worker.random(|random| random.u32(..denominator.max(1))) < numerator;
        if is_selected && env.intake.upgrade == Upgrade::None {
            // The copy may outlive the connection, and must not count towards the listener's connections.
            start_mirror(env, Peer { details: None, ..*peer }, buffers, copying);
        }
    }
}

fn start_mirror<N: Network>(
    env: &Environment<'_, N>,
    peer: Peer,
    buffers: &mut Buffers,
    copying: &MirrorStep,
) {
    let Some(ticket) = env.worker.start_copy(MAX_COPIES_PER_WORKER) else { return };
    let mut mine = env.worker.lend_buffers();
    mine.request.clone_from(&buffers.request);
    mine.extras.copy_target(&buffers.extras);
    let mut intake = env.intake.clone();
    intake.expects_continue = false;
    set_copy_target(&copying.mirror, env, buffers, &mut mine);
    if copying.mirror.max_body == 0 {
        intake.body = BodySize::None;
        mine.request.remove_known(Known::ContentLength);
    }
    let (writer, mut reader) = copy_channel(copying.mirror.max_body);
    match intake.body {
        BodySize::None => writer.finish(),
        _ => {
            // Bytes that a guard has read already.
            writer.write(&buffers.replay);
            buffers.body.copy_to(writer);
        }
    }
    let (worker, adopted, client) = (Rc::clone(env.worker), Rc::clone(env.adopted), env.client);
    let limit = env.limit();
    let rule = copying.rule.clone();
    tokio::task::spawn_local(async move {
        let mut outer = Environment::for_rule(&worker, &adopted, &rule, intake, client);
        outer.set_deadline(limit);
        let intake = outer.intake.clone();
        // The result does not matter.
        let copy = Subrequest { rule: &rule, intake, client, buffers: &mut mine };
        let _ = subrequest::run(&outer, peer, copy, &mut reader).await;
        drop(ticket);
    });
}

/// Sets the target and the host of the copy.
fn set_copy_target<N: Network>(
    mirror: &Mirror,
    env: &Environment<'_, N>,
    own_buffers: &Buffers,
    copy: &mut Buffers,
) {
    match &mirror.target {
        MirrorTarget::Forwarded => {}
        MirrorTarget::Received(before) => {
            let target = &mut copy.extras.write().target;
            target.clear();
            target.extend_from_slice(before.as_bytes());
            target.extend_from_slice(env.intake.received(own_buffers));
        }
        MirrorTarget::Fixed(path) => {
            let target = &mut copy.extras.write().target;
            target.clear();
            target.extend_from_slice(path.as_bytes());
        }
    }
    if let Some(host) = &mirror.host {
        let extra_host = &mut copy.extras.write().host;
        if extra_host.is_empty() {
            extra_host.extend_from_slice(copy.request.first(Known::Host).unwrap_or_default());
        }
        copy.request.set(b"Host", host.as_bytes());
    }
}
