//! What a rule makes of a request before anything is forwarded.

use fairway_http::BodySize;
use fairway_model::{Action, Answer, AnswerReason};
use fairway_routing::{CompiledRule, GuardStep, Targets};

use super::environment::Environment;
use crate::buffers::Buffers;
use crate::fault::Fault;
use crate::filter::{self, FilterContext, Made, Verdict};
use crate::network::Network;
use crate::peer::{Peer, Scheme};
use crate::worker::Guards;

/// What the rule itself makes of the request, from its guard number `first` on.
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
        let server_name = &mut buffers.forms.write().server_name;
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
        BodySize::Exact(length) => env.max_body(peer).is_some_and(|most| length > most),
        _ => false,
    };
    if too_large && env.rule().is_location() {
        // nginx finds it out while it looks for the location, before anything that the location asks for.
        return match filter::before_location(env.rule(), &context, buffers) {
            Verdict::Pass => Verdict::Refused(Fault::BodyTooLarge),
            decided => decided,
        };
    }
    let mut next = first;
    loop {
        match filter::on_request(env.rule(), next, &context, buffers) {
            Verdict::Pass => break,
            Verdict::Wait(GuardStep::Endpoint, then) => match without_endpoint(env, peer.scheme) {
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
        // In HTTP/2 no answer says that the rest of the request was served without its upgrade.
        Action::Forward(_) if env.intake.is_misled_by(200) && !rule.policy.websocket => {
            Verdict::Refused(Fault::Unsupported)
        }
        Action::Forward(_) => Verdict::Pass,
        Action::Answer(answer) => match answer.reason {
            AnswerReason::ProtectionUnavailable => Verdict::Refused(Fault::ProtectionUnavailable),
            AnswerReason::ExtensionUnavailable => Verdict::Refused(Fault::ExtensionUnavailable),
            AnswerReason::Refused => Verdict::Refused(Fault::NoRoute),
            AnswerReason::MissingReference => Verdict::Refused(Fault::MissingReference),
            AnswerReason::NoRoute if answer.status == 404 => Verdict::Refused(Fault::NoRoute),
            AnswerReason::NoRoute => {
                filter::own_answer(buffers, answer.status, None);
                if answer.status == 200 {
                    nothing_to_say(buffers);
                }
                Verdict::Answered(Made::ByRule)
            }
        },
    }
}

/// `return 200` of nginx has no body.
fn nothing_to_say(buffers: &mut Buffers) {
    buffers.text.clear();
    buffers.answer.set(b"Content-Type", b"text/html");
    buffers.answer.append(b"Content-Length", b"0");
}

/// Why no request of the rule has an endpoint, if that is so.
fn without_endpoint<N: Network>(env: &Environment<'_, N>, scheme: Scheme) -> Option<Fault> {
    match &env.rule().rule().action {
        Action::Answer(Answer { reason: AnswerReason::MissingReference, .. }) => {
            Some(Fault::MissingReference)
        }
        Action::Answer(_) => None,
        Action::Forward(_) => {
            let mut rules = env.rule().steps().forwarding.fallbacks.iter().map(|fallback| &fallback.rule);
            let has =
                has_endpoint(env, env.rule(), scheme) || rules.any(|rule| has_endpoint(env, rule, scheme));
            (!has).then_some(Fault::NoEndpoint)
        }
    }
}

/// Whether some request of the rule has an endpoint.
pub(super) fn has_endpoint<N: Network>(
    env: &Environment<'_, N>,
    rule: &CompiledRule,
    scheme: Scheme,
) -> bool {
    let has = |slot| env.adopted.group(slot, &env.worker.groups).is_some_and(|group| !group.is_empty());
    match (rule.secured().filter(|_| scheme == Scheme::Https), rule.targets()) {
        (Some(secured), _) => has(secured),
        // Each share decides for itself.
        (None, Targets::Shares(_)) => true,
        (None, targets) => targets.slots().any(has),
    }
}
