//! What a rule makes of a request before anything is forwarded.

use fairway_message::BodySize;
use fairway_model::{Action, AnswerReason};

use super::environment::Environment;
use crate::buffers::Buffers;
use crate::filter::{self, FilterContext, Verdict};
use crate::network::Network;
use crate::peer::Peer;
use fairway_metrics::Fault;

/// What the rule itself makes of the request, from its step number `first` on.
pub(super) fn decide<'a, N: Network>(
    env: &Environment<'a, N>,
    first: u32,
    (peer, buffers): (&Peer, &mut Buffers),
) -> Verdict<'a> {
    let Environment { intake, client, https_port, prefix, .. } = env;
    let counts = &env.worker.guards.counts;
    let connection = (peer.scheme, peer.proof());
    let (https_port, prefix) = (*https_port, *prefix);
    let context = FilterContext { intake, client, connection, counts, https_port, prefix };
    match filter::on_request(env.rule, first, &context, buffers) {
        Verdict::Pass => {}
        decided => return decided,
    }
    let rule = env.rule.rule();
    if let (BodySize::Exact(length), Some(most)) = (env.intake.body, rule.policy.max_body)
        && length > most
    {
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
            AnswerReason::MissingReference => Verdict::Refused(Fault::MissingReference),
            AnswerReason::NoRoute if answer.status == 404 => Verdict::Refused(Fault::NoRoute),
            AnswerReason::NoRoute => {
                filter::own_answer(buffers, answer.status, None);
                Verdict::Answered
            }
        },
    }
}
