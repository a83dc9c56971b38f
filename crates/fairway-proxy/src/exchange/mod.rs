//! One request and its answer: check, route, filter, forward or answer, relay, remember.
//!
//! ```text
//! intake ─► lookup ─► filters ─┬─► own answer ───────────────────────────────┐
//!                              └─► forward: attempt ─► transact ─► relay ────┴─► settle ─► next request | close
//!                                     ▲ retry  │               └─► tunnel
//!                                     └────────┘
//! ```

mod ahead;
#[cfg(test)]
mod ahead_tests;
mod alternative;
#[cfg(test)]
mod any_split_tests;
mod ask;
mod attempt;
mod attribute;
#[cfg(test)]
mod attribution_tests;
#[cfg(test)]
mod back_pressure_tests;
#[cfg(test)]
mod black_hole_tests;
#[cfg(test)]
mod body_limit_tests;
#[cfg(test)]
mod body_steps_tests;
mod change;
mod check;
#[cfg(test)]
mod circuit_tests;
#[cfg(test)]
mod compressed_bodies_tests;
#[cfg(test)]
mod compression_tests;
#[cfg(test)]
mod concurrency_tests;
mod decide;
#[cfg(test)]
mod departure_tests;
mod early;
#[cfg(test)]
mod endpoints_tests;
mod environment;
mod extension;
#[cfg(test)]
mod extension_tests;
mod forward;
mod forwarded;
#[cfg(test)]
mod grpc_tests;
mod guard;
mod hold;
#[cfg(test)]
mod hold_tests;
#[cfg(test)]
mod hop_tests;
#[cfg(test)]
mod hostile_conduct_tests;
#[cfg(test)]
mod hostile_frames_tests;
#[cfg(test)]
mod hostile_tests;
mod idle;
#[cfg(test)]
mod interleaving_tests;
mod issuer;
#[cfg(test)]
mod location_tests;
mod login;
mod logout;
mod lookup;
mod mirror;
#[cfg(test)]
mod pairing_tests;
pub(crate) mod peer_watch;
#[cfg(test)]
mod picked_tests;
mod places;
mod provider;
mod race;
mod refused;
mod relay;
mod replace;
mod respond;
#[cfg(test)]
mod route_tests;
mod share;
#[cfg(test)]
mod slowness_tests;
#[cfg(test)]
mod steps_auth_tests;
#[cfg(test)]
mod steps_fleet_tests;
#[cfg(test)]
mod steps_limit_tests;
#[cfg(test)]
mod steps_mirror_tests;
#[cfg(test)]
mod steps_page_tests;
#[cfg(test)]
mod steps_tests;
mod sticky;
#[cfg(test)]
mod sticky_tests;
mod subrequest;
#[cfg(test)]
mod tests;
mod token;
#[cfg(test)]
mod token_tests;
mod traced;
#[cfg(test)]
mod traced_tests;
#[cfg(test)]
mod traffic_tests;
mod transact;
mod tunnel;
mod web;

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use fairway_connection::sides::{Arrival, Downstream, Hop, Persistence, Upgrade};
use fairway_http::{Head, Malformed};
use fairway_model::GeoFields;
use fairway_net::clock::Instant;
use fairway_routing::{CompiledRule, GuardStep, TableId};

use crate::access_log::Seen;
use crate::buffers::{Buffers, Parties};
use crate::compression::Accepted;
use crate::fault::Fault;
use crate::filter::{Made, Verdict};
use crate::grpc::dialect_of_answers;
use crate::metrics::count;
use crate::metrics::record::Record;
use crate::network::Network;
use crate::peer::Peer;
use crate::request::body::RequestBody;
use crate::request::client::Client;
use crate::request::fields;
use crate::request::intake::Intake;
use crate::worker::{Adopted, Loan, Phase, ToEndpoint, Worker};
use decide::decide;
pub(crate) use environment::{ClientSide, Ending};
use environment::{Environment, Exchange, Unroutable, earlier, limit_of_rule};
use respond::Outcome;

/// Serves the request whose head stands in the buffers. Gives the client's side back, and says when it was over.
///
/// Not an `async fn`: that would keep its argument twice.
pub(crate) fn exchange<N: Network, D: Downstream>(
    request: Request<N, D>,
) -> impl Future<Output = (Box<ClientSide<D>>, Ending, Instant)> {
    let Request { worker, mut client_side, mut buffers, arrival } = request;
    worker.budgets.retries.earn();
    async move {
        let adopted = worker.adopted();
        let head_bytes = arrival.as_ref().map_or(0, |arrival| arrival.head_bytes);
        let mut record = Record::new(Instant::now(), head_bytes);
        record.sent_bytes = client_side.down.sent();
        buffers.parties = parties(&worker, &client_side);
        let (peer, presence) = (&client_side.peer, Presence::of(&client_side.down));
        let ending = match admit(&worker, &adopted, peer, presence, &mut buffers, arrival, &mut record) {
            Ok((env, verdict)) => {
                let served = {
                    let mut serving = pin!(serve(env, verdict, &mut client_side, &mut buffers, &mut record));
                    let worker = &worker;
                    let until_cut = poll_fn(move |cx| match serving.as_mut().poll(cx) {
                        Poll::Pending if worker.phase() == Phase::Cutting => Poll::Ready(None),
                        polled => polled.map(Some),
                    });
                    until_cut.await
                };
                served.unwrap_or_else(|| cut(&worker, &adopted, &mut client_side, &buffers, &mut record))
            }
            // Boxed, like all that is rare: every exchange would carry room for it.
            Err(unroutable) => {
                traced::begin_unserved(&worker, &adopted, peer, &unroutable, &mut buffers, &mut record);
                let ending = Box::pin(respond::unroutable(
                    &worker,
                    &mut client_side,
                    &mut buffers,
                    &unroutable,
                    &mut record,
                ))
                .await;
                let peer = &client_side.peer;
                attribute::attribute_unroutable(&worker, &adopted, peer, &buffers, &unroutable, &mut record);
                ending
            }
        };
        adopted.count_request();
        let ended = record.ended().unwrap_or_else(Instant::now);
        record.end(ended);
        record.sent_bytes = client_side.down.sent() - record.sent_bytes;
        worker.counters.exchange(&record);
        let peer = &client_side.peer;
        let port = adopted.listener(peer.listener).map(|facts| facts.public_port);
        let (introduced, served) = (peer.is_introduced(), u64::from(client_side.served));
        if !worker.is_shedding() {
            worker.recorder.note(&record, &buffers, peer, adopted.version());
        }
        if record.is_traced {
            traced::hand_over(&worker, &record, &buffers, peer, adopted.snapshot().version());
        }
        if !worker.log.geo_fields().is_empty() {
            let client = buffers.parties.client;
            worker.locate(GeoFields::NONE, client, &mut buffers);
        }
        worker.log.write(&record, &buffers, Seen { peer, port, introduced, served });
        (client_side, ending, ended)
    }
}

/// What an exchange begins with.
pub(crate) struct Request<N: Network, D> {
    pub(crate) worker: Rc<Worker<N>>,
    pub(crate) client_side: Box<ClientSide<D>>,
    pub(crate) buffers: Loan<N>,
    pub(crate) arrival: Result<Arrival, Malformed>,
}

/// What is known of the client when its request is admitted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// It waits for the response.
    There,
    /// The same, and its handshake is not complete.
    Early,
    /// It has left.
    Gone,
}

impl Presence {
    #[inline]
    fn of(down: &impl Downstream) -> Self {
        match (down.is_gone(), down.is_early()) {
            (true, _) => Self::Gone,
            (false, true) => Self::Early,
            (false, false) => Self::There,
        }
    }
}

/// Who asks, before trust is settled. Behind a PROXY header only the socket knows who sent the bytes; it is asked where the
/// log shows it, so that no idle connection needs room for the answer.
fn parties<N: Network, D: Downstream>(worker: &Worker<N>, client_side: &ClientSide<D>) -> Parties {
    let peer = &client_side.peer;
    let introduced = peer.is_introduced();
    let sender = (introduced && worker.log.shows_sender()).then(|| client_side.down.peer()).flatten();
    Parties { client: peer.address(), sender: if introduced { sender } else { Some(peer.client) } }
}

/// Acts on the verdict.
fn serve<'t, 'a: 't, N: Network, D: Downstream>(
    env: Environment<'a, N>,
    verdict: Verdict<'a>,
    client_side: &'t mut ClientSide<D>,
    buffers: &'t mut Buffers,
    record: &'t mut Record<'a>,
) -> impl Future<Output = Ending> + use<'t, 'a, N, D> {
    buffers.body = match env.intake.upgrade {
        Upgrade::None => RequestBody::new(env.body_bounds(env.max_body(&client_side.peer)), env.client.trust),
        // What follows is the tunnel's, and waits for it.
        Upgrade::WebSocket => RequestBody::none(env.client.trust),
    };
    if env.rule().steps().forwarding.drops_trailers {
        buffers.body.drop_trailers();
    }
    let mut exchange = Exchange { env, client_side, buffers, record };
    async move {
        let verdict = match verdict {
            // Boxed, like all that is rare.
            Verdict::Wait(step, next) => Box::pin(wait_on(&mut exchange, step, next)).await,
            Verdict::TooEarly => Box::pin(wait_for_handshake(&mut exchange)).await,
            decided => decided,
        };
        let verdict = match verdict {
            Verdict::Pass => share::enter(&mut exchange),
            decided => decided,
        };
        let verdict = match (verdict, hold::buffer(&exchange.env)) {
            // Boxed, like all that is rare.
            (Verdict::Pass, Some(buffer)) => Box::pin(hold::hold(&mut exchange, buffer)).await,
            (decided, _) => decided,
        };
        let outcome = match verdict {
            Verdict::Pass => match &*exchange.env.rule().steps().extensions {
                [] => forward::forward(&mut exchange).await,
                // Boxed, like all that is rare.
                extensions => extension::forward_through(&mut exchange, extensions).await,
            },
            Verdict::Answered(made) if exchange.env.intake.is_misled_by(exchange.buffers.answer.status()) => {
                respond::refuse(&mut exchange, Fault::Unsupported, made).await
            }
            Verdict::Answered(made) => Outcome::Ended(respond::own(&mut exchange, made).await),
            Verdict::Refused(Fault::ClientGone) => Outcome::Ended(respond::gone(&mut exchange)),
            Verdict::Refused(fault) => respond::refuse(&mut exchange, fault, Made::ByRule).await,
            Verdict::RefusedByHost(fault) => respond::refuse(&mut exchange, fault, Made::ByHost).await,
            Verdict::Wait(..) | Verdict::TooEarly => unreachable!("all steps were waited for"),
        };
        let ending = match outcome {
            Outcome::Ended(ending) => ending,
            Outcome::Replaced(replacing, status, fault) => {
                if let Some(fault) = fault {
                    attribute::attribute_failed(&mut exchange, fault);
                }
                Box::pin(replace::replace(&mut exchange, replacing, status)).await
            }
        };
        exchange.record.request_bytes += exchange.buffers.body.received();
        if exchange.record.is_traced {
            traced::name(&mut exchange);
        }
        attribute::attribute(&mut exchange);
        ending
    }
}

/// The time of a drain is over: the client sees a failure, unless it has the whole answer already.
#[cold]
fn cut<N: Network, D: Downstream>(
    worker: &Worker<N>,
    adopted: &Adopted<ToEndpoint<N>>,
    client_side: &mut ClientSide<D>,
    buffers: &Buffers,
    record: &mut Record<'_>,
) -> Ending {
    record.request_bytes += buffers.body.received();
    if record.ended().is_none() {
        attribute::attribute_cut(worker, adopted, record);
        if record.status == 0 {
            record.status = Fault::Drained.status();
        }
    }
    client_side.down.abort();
    Ending::Abort
}

/// Waits until the handshake is complete, and then asks the rule.
async fn wait_for_handshake<'a, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, 'a, N, D>,
) -> Verdict<'a> {
    if let Err(fault) = early::wait(exchange).await {
        return Verdict::Refused(fault);
    }
    match decide(&exchange.env, 0, &exchange.client_side.peer, exchange.buffers) {
        Verdict::Wait(step, next) => wait_on(exchange, step, next).await,
        decided => decided,
    }
}

/// Waits, and goes on with the guards behind the one that was waited for, until nothing is left to wait for.
async fn wait_on<'a, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, 'a, N, D>,
    mut step: &'a GuardStep,
    mut next: u32,
) -> Verdict<'a> {
    loop {
        let verdict = guard::pass(exchange, step).await;
        // The endpoint is not late for what guards took.
        exchange.record.waited_until(Instant::now());
        match verdict {
            Verdict::Pass => {
                match decide(&exchange.env, next, &exchange.client_side.peer, exchange.buffers) {
                    Verdict::Wait(again, then) => (step, next) = (again, then),
                    decided => return decided,
                }
            }
            decided => return decided,
        }
    }
}

/// Checks the request and finds its rule. A client that has gone already costs no more than that: a stream of HTTP/2 can be
/// reset right behind its request, and whoever floods with those must not reach an endpoint.
fn admit<'a, N: Network>(
    worker: &'a Rc<Worker<N>>,
    adopted: &'a Rc<Adopted<ToEndpoint<N>>>,
    peer: &Peer,
    presence: Presence,
    buffers: &mut Buffers,
    arrival: Result<Arrival, Malformed>,
    record: &mut Record<'a>,
) -> Result<(Environment<'a, N>, Verdict<'a>), Unroutable> {
    let arrival = arrival.map_err(|malformed| Unroutable::Broken(Fault::Malformed(malformed)))?;
    if worker.is_shedding() {
        return Err(Unroutable::Broken(Fault::Overloaded));
    }
    let mut intake = Intake::check(buffers, &arrival).map_err(Unroutable::Broken)?;
    record.method = intake.method;
    let limit = call_limit(&intake, &buffers.request, record);
    let listener = adopted.listener(peer.listener);
    let limits = adopted.clients(peer.listener);
    let client = Client::of(peer, listener, &limits.forwarded, &mut buffers.request);
    buffers.parties.client = client.address;
    if let Err(fault) = fields::admit(&mut buffers.request, client.trust, limits) {
        return Err(Unroutable::Unserved(intake, fault));
    }
    if adopted.is_unverified(peer, listener) || adopted.evades_verification(peer, listener, &buffers.host) {
        // Only a new handshake can show what the listener asks for by now.
        intake.persistence = Persistence::Close;
        return Err(Unroutable::Unserved(intake, Fault::Misdirected));
    }
    if lookup::is_misdirected(adopted, peer, &buffers.host) {
        return Err(Unroutable::Unserved(intake, Fault::Misdirected));
    }
    let table = listener.map(|facts| facts.table);
    let Some((rule, prefix)) = route(adopted, table, &intake, buffers, record) else {
        return Err(Unroutable::Unserved(intake, Fault::NoRoute));
    };
    intake.matched(prefix);
    let client = match &rule.steps().client {
        Some(real_ip) => client.behind(real_ip, &mut buffers.request),
        None => client,
    };
    buffers.parties.client = client.address;
    let https_port = listener.map_or(443, |facts| facts.https_port);
    let http3_port = listener.and_then(|facts| facts.http3_port);
    let limit = earlier(limit, limit_of_rule(rule, record.began));
    let mut env = Environment::under(worker, adopted, rule, intake, client);
    (env.https_port, env.http3_port) = (https_port, http3_port);
    env.set_limit(limit);
    buffers.forms.forget_steps();
    if rule.compresses() {
        // As the client sent it: steps may change what endpoints get.
        let accepted = Accepted::of(&buffers.request, peer.may_have_certificate());
        buffers.forms.accept(accepted);
    }
    traced::begin(&env, limits, buffers, record);
    let verdict = match presence {
        Presence::Gone => Verdict::Refused(Fault::ClientGone),
        Presence::Early if !early::may_be_served(&env) => Verdict::TooEarly,
        Presence::Early | Presence::There => decide(&env, 0, peer, buffers),
    };
    if presence == Presence::Early && !matches!(verdict, Verdict::TooEarly) {
        count(&worker.counters.http3.early_served);
    }
    Ok((env, verdict))
}

/// Remembers that the request is a gRPC call, and says when its client's time for it is over. A `grpc-timeout` that is none is
/// the endpoint's to judge, as in Envoy.
#[inline]
fn call_limit(intake: &Intake, request: &Head, record: &mut Record<'_>) -> Option<Instant> {
    if !intake.dialect.is_grpc() {
        return None;
    }
    record.call.dialect = dialect_of_answers(request, intake.dialect);
    environment::limit_of_call(request, record.began)
}

/// The rule of the request, and how much of the path its prefix covers.
fn route<'a, H: Hop>(
    adopted: &'a Adopted<H>,
    table: Option<TableId>,
    intake: &Intake,
    buffers: &Buffers,
    record: &mut Record<'a>,
) -> Option<(&'a CompiledRule, usize)> {
    let (host, rule, prefix) = lookup::lookup(adopted, table?, intake, buffers)?;
    record.served_by.rule = Some(rule);
    record.served_by.host = Some(&host.key().host);
    Some((rule, prefix))
}
