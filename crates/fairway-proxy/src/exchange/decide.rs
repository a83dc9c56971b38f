//! Runs the guards and edits of a rule, and decides whether a request is forwarded, gets a response or is refused.

use fairway_http::BodySize;
use fairway_model::{Action, FixedResponse, FixedResponseReason};
use fairway_routing::{CompiledRule, GuardStep, Targets};

use super::environment::Environment;
use crate::buffers::Buffers;
use crate::fault::Fault;
use crate::filter::{self, FilterContext, ResponseScope, Verdict};
use crate::network::Network;
use crate::peer::{Peer, Scheme};
use crate::worker::Guards;

/// Runs the guards of the rule from number `first` on, and decides what happens to the request.
pub(super) fn decide<'a, N: Network>(
    env: &Environment<'a, N>,
    first: u32,
    peer: &Peer,
    buffers: &mut Buffers,
) -> Verdict<'a> {
    let Environment { intake, client, https_port, .. } = env;
    if !env.rule().steps().geo.is_empty() {
        env.worker.locate(env.rule().steps().geo, client.address, buffers);
    }
    if env.rule().steps().reads_server_name {
        let server_name = &mut buffers.extras.write().server_name;
        server_name.clear();
        server_name.extend_from_slice(peer.server_name().as_bytes());
    }
    let Guards { counts, fleet, tokens, logins, .. } = &env.worker.guards;
    let (scheme, proof) = (peer.scheme, peer.proof());
    let context = FilterContext {
        intake,
        client,
        scheme,
        proof,
        counts,
        fleet,
        tokens: Some(tokens),
        logins: Some(logins),
        https_port: *https_port,
    };
    let rule = env.rule().rule();
    let too_large = match env.intake.body {
        BodySize::Exact(length) => env.max_body(peer).is_some_and(|max_bytes| length > max_bytes),
        _ => false,
    };
    if too_large && env.rule().is_location() {
        // nginx checks the length while it looks for the location, before the checks of the location itself.
        return match filter::before_location(env.rule(), &context, buffers) {
            Verdict::Pass => Verdict::Refused(Fault::BodyTooLarge),
            decided => decided,
        };
    }
    let mut next = first;
    loop {
        match filter::on_request(env.rule(), next, &context, buffers) {
            Verdict::Pass => break,
            Verdict::Wait(GuardStep::Endpoint, then) => match missing_endpoint_fault(env, peer.scheme) {
                None => next = then,
                Some(fault) => return Verdict::Refused(fault),
            },
            decided => return decided,
        }
    }
    if too_large {
        return Verdict::Refused(Fault::BodyTooLarge);
    }
    match &rule.action {
        // In HTTP/2 no response can say that the request was served without its upgrade.
        Action::Forward(_) if env.intake.would_open_websocket(200) && !rule.policy.websocket => {
            Verdict::Refused(Fault::Unsupported)
        }
        Action::Forward(_) => Verdict::Pass,
        Action::FixedResponse(response) => match response.reason {
            FixedResponseReason::ProtectionUnavailable => Verdict::Refused(Fault::ProtectionUnavailable),
            FixedResponseReason::ExtensionUnavailable => Verdict::Refused(Fault::ExtensionUnavailable),
            FixedResponseReason::Refused => Verdict::Refused(Fault::NoRoute),
            FixedResponseReason::MissingReference => Verdict::Refused(Fault::MissingReference),
            FixedResponseReason::NoRoute if response.status == 404 => Verdict::Refused(Fault::NoRoute),
            FixedResponseReason::NoRoute => {
                filter::start_own_response(buffers, response.status, None);
                if response.status == 200 {
                    set_empty_body(buffers);
                }
                Verdict::Responded(ResponseScope::Rule)
            }
        },
    }
}

/// Makes the response empty, like nginx's `return 200`.
fn set_empty_body(buffers: &mut Buffers) {
    buffers.text.clear();
    buffers.response.set(b"Content-Type", b"text/html");
    buffers.response.append(b"Content-Length", b"0");
}

/// Why no request of this rule can have an endpoint, if that is the case.
fn missing_endpoint_fault<N: Network>(env: &Environment<'_, N>, scheme: Scheme) -> Option<Fault> {
    match &env.rule().rule().action {
        Action::FixedResponse(FixedResponse { reason: FixedResponseReason::MissingReference, .. }) => {
            Some(Fault::MissingReference)
        }
        Action::FixedResponse(_) => None,
        Action::Forward(_) => {
            let mut rules = env.rule().steps().forwarding.fallbacks.iter().map(|fallback| &fallback.rule);
            let has =
                has_endpoint(env, env.rule(), scheme) || rules.any(|rule| has_endpoint(env, rule, scheme));
            (!has).then_some(Fault::NoEndpoint)
        }
    }
}

/// Whether any backend of the rule has an endpoint.
pub(super) fn has_endpoint<N: Network>(
    env: &Environment<'_, N>,
    rule: &CompiledRule,
    scheme: Scheme,
) -> bool {
    let has = |slot| env.adopted.group(slot, &env.worker.groups).is_some_and(|group| !group.is_empty());
    match (rule.secured().filter(|_| scheme == Scheme::Https), rule.targets()) {
        (Some(secured), _) => has(secured),
        // Each share is checked when it is chosen.
        (None, Targets::Shares(_)) => true,
        (None, targets) => targets.slots().any(has),
    }
}
