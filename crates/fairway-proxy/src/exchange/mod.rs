//! One request and its answer: check, route, filter, forward or answer, relay, remember.
//!
//! ```text
//! intake ─► lookup ─► filters ─┬─► own answer ───────────────────────────────┐
//!                              └─► forward: attempt ─► transact ─► relay ────┴─► settle ─► next request | close
//!                                     ▲ retry  │               └─► tunnel
//!                                     └────────┘
//! ```

mod acquire;
#[cfg(test)]
mod any_split_tests;
mod attempt;
mod blame;
#[cfg(test)]
mod departure_tests;
mod environment;
mod forward;
mod forwarded;
mod peer_watch;
mod relay;
mod respond;
mod retry;
#[cfg(test)]
mod tests;
mod transact;
mod tunnel;

use std::rc::Rc;

use fairway_message::{BodySize, Malformed};
use fairway_model::{Action, AnswerReason};
use fairway_routing::{CompiledRule, Matched, Request};

use crate::buffers::{Buffers, Parties};
use crate::clock::Instant;
use crate::fault::Fault;
use crate::filter::{self, FilterContext, Verdict};
use crate::peer::Peer;
use crate::record::Record;
use crate::request::body::RequestBody;
use crate::request::client::Client;
use crate::request::fields;
use crate::request::intake::{Fields, Intake};
use crate::sides::{Arrival, Downstream};
use crate::transport::{Network, Transport};
use crate::worker::{Adopted, ToEndpoint, Worker};

pub(crate) use environment::{ClientSide, Ending};
use environment::{Environment, Exchange, Unroutable};

/// Serves the request whose head stands in the buffers. Says when it was over.
///
/// Not an `async fn`: that would keep its arguments twice for as long as the exchange takes.
pub(crate) fn exchange<'c, N: Network, D: Downstream>(
    worker: &'c Rc<Worker<N>>,
    mut client_side: ClientSide<'c, D>,
    buffers: &'c mut Buffers,
    arrival: Result<Arrival, Malformed>,
) -> impl Future<Output = (Ending, Instant)> + use<'c, N, D> {
    worker.budgets.retries.earn();
    async move {
        let adopted = worker.adopted();
        let head_bytes = arrival.as_ref().map_or(0, |arrival| arrival.head_bytes);
        let mut record = Record::new(Instant::now(), head_bytes);
        record.sent_bytes = client_side.down.sent();
        buffers.parties = parties(worker, &client_side);
        let ending = match admit(worker, &adopted, client_side.peer, (buffers, arrival), &mut record) {
            Ok(admitted) => serve(admitted, client_side.reborrow(), buffers, &mut record).await,
            // Boxed, like all that is rare: every connection's task would carry room for it.
            Err(unroutable) => {
                Box::pin(respond::unroutable(worker, &mut client_side, buffers, &unroutable, &mut record))
                    .await
            }
        };
        let ended = *record.ended.get_or_insert_with(Instant::now);
        record.sent_bytes = client_side.down.sent() - record.sent_bytes;
        worker.counters.exchange(&record);
        worker.log.write(&record, buffers, client_side.peer);
        (ending, ended)
    }
}

/// Who asks, before trust is settled. Behind a PROXY header only the socket knows who sent the bytes; it is asked where the
/// log shows it, so that no idle connection needs room for the answer.
fn parties<N: Network, D: Downstream>(worker: &Worker<N>, client_side: &ClientSide<'_, D>) -> Parties {
    let peer = client_side.peer;
    let introduced = worker.options.proxy_protocol.on.expects_header(peer.scheme);
    let sender = (introduced && worker.log.shows_sender()).then(|| client_side.down.peer()).flatten();
    Parties { client: Some(peer.client), sender: if introduced { sender } else { Some(peer.client) } }
}

/// Acts on the verdict.
fn serve<'t, 'a: 't, N: Network, D: Downstream>(
    (env, verdict): (Environment<'a, N>, Verdict),
    client_side: ClientSide<'t, D>,
    buffers: &'t mut Buffers,
    record: &'t mut Record<'a>,
) -> impl Future<Output = Ending> + use<'t, 'a, N, D> {
    buffers.body = RequestBody::new(env.body_bounds(), env.client.trust);
    let mut exchange = Exchange { env, client_side, buffers, record };
    async move {
        let ending = match verdict {
            Verdict::Pass => forward::forward(&mut exchange).await,
            Verdict::Answered => respond::own(&mut exchange).await,
            Verdict::Refused(fault) => respond::refuse_by_rule(&mut exchange, fault).await,
        };
        exchange.record.request_bytes += exchange.buffers.body.received();
        ending
    }
}

/// Checks the request and finds its rule.
fn admit<'a, N: Network>(
    worker: &'a Rc<Worker<N>>,
    adopted: &'a Adopted<ToEndpoint<N>>,
    peer: &Peer,
    (buffers, arrival): (&mut Buffers, Result<Arrival, Malformed>),
    record: &mut Record<'a>,
) -> Result<(Environment<'a, N>, Verdict), Unroutable> {
    let arrival = arrival.map_err(|malformed| Unroutable::Broken(Fault::Malformed(malformed)))?;
    if worker.is_shedding() {
        return Err(Unroutable::Broken(Fault::Overloaded));
    }
    let intake = Intake::check(buffers, &arrival).map_err(Unroutable::Broken)?;
    record.method = intake.method;
    let listener = adopted.listener(peer.listener);
    let public_port = listener.map_or(0, |facts| facts.public_port);
    let client = Client::of(peer, public_port, &adopted.settings().forwarded, &buffers.request);
    fields::admit(&mut buffers.request, client.trust);
    buffers.parties.client = Some(client.address);
    let Some((rule, prefix)) = route(adopted, peer, &intake, buffers, record) else {
        return Err(Unroutable::NoRoute(intake));
    };
    let env = Environment { worker, adopted, rule, intake, client };
    let https_port = listener.map_or(443, |facts| facts.https_port);
    let verdict = decide(&env, (prefix, https_port), buffers);
    Ok((env, verdict))
}

/// The rule of the request, and how much of the path its prefix covers.
fn route<'a, S: Transport>(
    adopted: &'a Adopted<S>,
    peer: &Peer,
    intake: &Intake,
    buffers: &Buffers,
    record: &mut Record<'a>,
) -> Option<(&'a CompiledRule, usize)> {
    let listener = adopted.listener(peer.listener)?;
    let request = Request {
        host: &buffers.host,
        method: buffers.request.method_bytes(),
        normalised: intake.normalised(buffers),
        decoded: intake.decoded(buffers),
        query: intake.query(buffers),
        fields: &Fields(&buffers.request),
    };
    match adopted.snapshot().lookup(listener.table, &request) {
        Matched::Rule { host, rule, prefix } => {
            record.rule = Some(rule);
            record.host_label = Some(&host.key().host);
            Some((rule, prefix))
        }
        Matched::NoRule(_) | Matched::NoHost => None,
    }
}

/// What the rule itself makes of the request.
fn decide<N: Network>(
    env: &Environment<'_, N>,
    (prefix, https_port): (usize, u16),
    buffers: &mut Buffers,
) -> Verdict {
    let context = FilterContext { intake: &env.intake, client: &env.client, https_port, prefix };
    buffers.target.clear();
    let verdict = filter::on_request(env.rule, &context, buffers);
    if verdict != Verdict::Pass {
        return verdict;
    }
    let rule = env.rule.rule();
    if let (BodySize::Exact(length), Some(most)) = (env.intake.body, rule.policy.max_body)
        && length > most
    {
        return Verdict::Refused(Fault::BodyTooLarge);
    }
    match &rule.action {
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
