//! One request and its response: check, route, filter, forward or respond, relay, record.
//!
//! ```text
//! intake ─► lookup ─► filters ─┬─► own response ─────────────────────────────┐
//!                              └─► forward: attempt ─► transact ─► relay ────┴─► settle ─► next request | close
//!                                     ▲ retry  │               └─► tunnel
//!                                     └────────┘
//! ```

#[cfg(test)]
mod ahead_tests;
mod alternative;
#[cfg(test)]
mod any_split_tests;
mod attempt;
mod attribute;
#[cfg(test)]
mod attribution_tests;
mod auth_subrequest;
#[cfg(test)]
mod back_pressure_tests;
mod backend_permit;
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
mod provider;
mod race;
mod read_ahead;
mod refused;
mod relay;
mod replace;
mod request_buffering;
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

use fairway_connection::sides::{Downstream, Hop, Persistence, RequestMeta, Upgrade};
use fairway_http::{Head, Malformed};
use fairway_model::GeoFields;
use fairway_net::clock::Instant;
use fairway_routing::{CompiledRule, GuardStep, TableId};

use crate::access_log::LoggedPeer;
use crate::buffers::{Buffers, LoggedAddresses};
use crate::compression::Accepted;
use crate::fault::Fault;
use crate::filter::{ResponseScope, Verdict};
use crate::grpc::response_dialect;
use crate::metrics::increment;
use crate::metrics::record::ExchangeRecord;
use crate::network::Network;
use crate::peer::Peer;
use crate::request::body::RequestBody;
use crate::request::client::Client;
use crate::request::fields;
use crate::request::validation::Intake;
use crate::worker::{Adopted, BuffersLease, EndpointHop, StopPhase, Worker};
use decide::decide;
pub(crate) use environment::{ClientSide, Ending};
use environment::{Environment, Exchange, Unroutable, earlier, rule_deadline};
use respond::ForwardOutcome;

/// Serves the request whose head is in the buffers. Returns the client's side, what happens to the connection, and when the
/// exchange ended.
///
/// Not an `async fn`: its future would hold the argument twice.
pub(crate) fn exchange<N: Network, D: Downstream>(
    request: Request<N, D>,
) -> impl Future<Output = (Box<ClientSide<D>>, Ending, Instant)> {
    let Request { worker, mut client_side, mut buffers, arrival } = request;
    worker.budgets.retries.earn();
    async move {
        let adopted = worker.adopted();
        let head_bytes = arrival.as_ref().map_or(0, |arrival| arrival.head_bytes);
        let mut record = ExchangeRecord::new(Instant::now(), head_bytes);
        record.sent_bytes = client_side.down.sent();
        buffers.addresses = logged_addresses(&worker, &client_side);
        let (peer, presence) = (&client_side.peer, Presence::of_client(&client_side.down));
        let ending = match admit(&worker, &adopted, peer, presence, &mut buffers, arrival, &mut record) {
            Ok((env, verdict)) => {
                let served = {
                    let mut serving = pin!(serve(env, verdict, &mut client_side, &mut buffers, &mut record));
                    let worker = &worker;
                    let until_cut = poll_fn(move |cx| match serving.as_mut().poll(cx) {
                        Poll::Pending if worker.phase() == StopPhase::Cutting => Poll::Ready(None),
                        polled => polled.map(Some),
                    });
                    until_cut.await
                };
                served.unwrap_or_else(|| {
                    abort_for_drain(&worker, &adopted, &mut client_side, &buffers, &mut record)
                })
            }
            // Boxed because it is rare: otherwise every exchange would reserve room for it.
            Err(unroutable) => {
                traced::begin_unserved(&worker, &adopted, peer, &unroutable, &mut buffers, &mut record);
                let ending = Box::pin(respond::respond_unroutable(
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
        record.finish(ended);
        record.sent_bytes = client_side.down.sent() - record.sent_bytes;
        worker.counters.observe(&record);
        let peer = &client_side.peer;
        let port = adopted.listener(peer.listener).map(|facts| facts.public_port);
        let (introduced, served) = (peer.is_introduced(), u64::from(client_side.served_requests));
        if !worker.is_shedding() {
            worker.recorder.record(&record, &buffers, peer, adopted.version());
        }
        if record.is_traced {
            traced::export(&worker, &record, &buffers, peer, adopted.snapshot().version());
        }
        if !worker.log.geo_fields().is_empty() {
            let client = buffers.addresses.client;
            worker.locate(GeoFields::NONE, client, &mut buffers);
        }
        worker.log.write(
            &record,
            &buffers,
            LoggedPeer { peer, port, is_introduced: introduced, earlier_requests: served },
        );
        (client_side, ending, ended)
    }
}

/// The input of an exchange.
pub(crate) struct Request<N: Network, D> {
    pub(crate) worker: Rc<Worker<N>>,
    pub(crate) client_side: Box<ClientSide<D>>,
    pub(crate) buffers: BuffersLease<N>,
    pub(crate) arrival: Result<RequestMeta, Malformed>,
}

/// The state of the client when its request is admitted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// It is connected and waits for the response.
    Present,
    /// It is connected, and its TLS handshake is not complete yet.
    Early,
    /// It has disconnected.
    Gone,
}

impl Presence {
    #[inline]
    fn of_client(down: &impl Downstream) -> Self {
        match (down.is_client_gone(), down.is_early_data()) {
            (true, _) => Self::Gone,
            (false, true) => Self::Early,
            (false, false) => Self::Present,
        }
    }
}

/// The addresses that the access log shows, before trusted proxies are evaluated. Behind a PROXY header only the socket knows
/// who sent the bytes; it is read only where the log format needs it, so that idle connections need no room for it.
fn logged_addresses<N: Network, D: Downstream>(
    worker: &Worker<N>,
    client_side: &ClientSide<D>,
) -> LoggedAddresses {
    let peer = &client_side.peer;
    let introduced = peer.is_introduced();
    let sender = (introduced && worker.log.logs_sender()).then(|| client_side.down.peer()).flatten();
    LoggedAddresses { client: peer.address(), sender: if introduced { sender } else { Some(peer.client) } }
}

/// Acts on the verdict of the guards: waits, forwards, responds or refuses.
fn serve<'t, 'a: 't, N: Network, D: Downstream>(
    env: Environment<'a, N>,
    verdict: Verdict<'a>,
    client_side: &'t mut ClientSide<D>,
    buffers: &'t mut Buffers,
    record: &'t mut ExchangeRecord<'a>,
) -> impl Future<Output = Ending> + use<'t, 'a, N, D> {
    buffers.body = match env.intake.upgrade {
        Upgrade::None => RequestBody::new(env.body_bounds(env.max_body(&client_side.peer)), env.client.trust),
        // The bytes that follow belong to the tunnel.
        Upgrade::WebSocket => RequestBody::none(env.client.trust),
    };
    if env.rule().steps().forwarding.drops_trailers {
        buffers.body.drop_trailers();
    }
    let mut exchange = Exchange { env, client_side, buffers, record };
    async move {
        let verdict = match verdict {
            // Boxed because it is rare.
            Verdict::Wait(step, next) => Box::pin(wait_for_guards(&mut exchange, step, next)).await,
            Verdict::TooEarly => Box::pin(wait_for_handshake(&mut exchange)).await,
            decided => decided,
        };
        let verdict = match verdict {
            Verdict::Pass => share::enter_share(&mut exchange),
            decided => decided,
        };
        let verdict = match (verdict, request_buffering::request_buffer(&exchange.env)) {
            // Boxed because it is rare.
            (Verdict::Pass, Some(buffer)) => {
                Box::pin(request_buffering::buffer_request(&mut exchange, buffer)).await
            }
            (decided, _) => decided,
        };
        let outcome = match verdict {
            Verdict::Pass => match &*exchange.env.rule().steps().extensions {
                [] => forward::forward(&mut exchange).await,
                // Boxed because it is rare.
                extensions => extension::forward_through(&mut exchange, extensions).await,
            },
            Verdict::Responded(made)
                if exchange.env.intake.would_open_websocket(exchange.buffers.response.status()) =>
            {
                respond::refuse(&mut exchange, Fault::Unsupported, made).await
            }
            Verdict::Responded(made) => ForwardOutcome::Ended(respond::send_own(&mut exchange, made).await),
            Verdict::Refused(Fault::ClientGone) => ForwardOutcome::Ended(respond::client_gone(&mut exchange)),
            Verdict::Refused(fault) => respond::refuse(&mut exchange, fault, ResponseScope::Rule).await,
            Verdict::RefusedByHost(fault) => respond::refuse(&mut exchange, fault, ResponseScope::Host).await,
            Verdict::Wait(..) | Verdict::TooEarly => unreachable!("all steps were waited for"),
        };
        let ending = match outcome {
            ForwardOutcome::Ended(ending) => ending,
            ForwardOutcome::Replaced(replacing, status, fault) => {
                if let Some(fault) = fault {
                    attribute::attribute_failed(&mut exchange, fault);
                }
                Box::pin(replace::replace(&mut exchange, replacing, status)).await
            }
        };
        exchange.record.request_bytes += exchange.buffers.body.received();
        if exchange.record.is_traced {
            traced::name_span(&mut exchange);
        }
        attribute::attribute(&mut exchange);
        ending
    }
}

/// Ends an exchange when the drain timeout is over. The client sees an aborted connection, unless it already has the complete
/// response.
#[cold]
fn abort_for_drain<N: Network, D: Downstream>(
    worker: &Worker<N>,
    adopted: &Adopted<EndpointHop<N>>,
    client_side: &mut ClientSide<D>,
    buffers: &Buffers,
    record: &mut ExchangeRecord<'_>,
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

/// Waits for the end of the TLS handshake, then runs the guards of the rule.
async fn wait_for_handshake<'a, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, 'a, N, D>,
) -> Verdict<'a> {
    if let Err(fault) = early::wait(exchange).await {
        return Verdict::Refused(fault);
    }
    match decide(&exchange.env, 0, &exchange.client_side.peer, exchange.buffers) {
        Verdict::Wait(step, next) => wait_for_guards(exchange, step, next).await,
        decided => decided,
    }
}

/// Waits for a guard, then continues with the guards after it, until none is left to wait for.
async fn wait_for_guards<'a, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, 'a, N, D>,
    mut step: &'a GuardStep,
    mut next: u32,
) -> Verdict<'a> {
    loop {
        let verdict = guard::await_guard(exchange, step).await;
        // The time that guards take does not count as the endpoint's.
        exchange.record.finish_waiting(Instant::now());
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

/// Checks the request and finds its rule, unless the client has already left: an HTTP/2 stream can be reset right
/// after its request, and a flood of such requests must not reach an endpoint.
fn admit<'a, N: Network>(
    worker: &'a Rc<Worker<N>>,
    adopted: &'a Rc<Adopted<EndpointHop<N>>>,
    peer: &Peer,
    presence: Presence,
    buffers: &mut Buffers,
    arrival: Result<RequestMeta, Malformed>,
    record: &mut ExchangeRecord<'a>,
) -> Result<(Environment<'a, N>, Verdict<'a>), Unroutable> {
    let arrival = arrival.map_err(|malformed| Unroutable::Rejected(Fault::Malformed(malformed)))?;
    if worker.is_shedding() {
        return Err(Unroutable::Rejected(Fault::Overloaded));
    }
    let mut intake = Intake::check(buffers, &arrival).map_err(Unroutable::Rejected)?;
    record.method = intake.method;
    let limit = begin_grpc_call(&intake, &buffers.request, record);
    let listener = adopted.listener(peer.listener);
    let limits = adopted.client_limits(peer.listener);
    let client = Client::identify(peer, listener, &limits.forwarded, &mut buffers.request);
    buffers.addresses.client = client.address;
    if let Err(fault) = fields::filter_headers(&mut buffers.request, client.trust, limits) {
        return Err(Unroutable::Unserved(intake, fault));
    }
    if adopted.is_unverified(peer, listener) || adopted.evades_verification(peer, listener, &buffers.host) {
        // Only a new handshake can request the certificate that the listener now requires.
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
    intake.set_matched_prefix(prefix);
    let client = match &rule.steps().client {
        Some(real_ip) => client.with_real_ip(real_ip, &mut buffers.request),
        None => client,
    };
    buffers.addresses.client = client.address;
    let https_port = listener.map_or(443, |facts| facts.https_port);
    let http3_port = listener.and_then(|facts| facts.http3_port);
    let limit = earlier(limit, rule_deadline(rule, record.started_at));
    let mut env = Environment::for_rule(worker, adopted, rule, intake, client);
    (env.https_port, env.http3_port) = (https_port, http3_port);
    env.set_deadline(limit);
    buffers.extras.reset();
    if rule.compresses() {
        // Read before the steps run: they may change the header that endpoints get.
        let accepted = Accepted::from_request(&buffers.request, peer.may_have_certificate());
        buffers.extras.set_accepted(accepted);
    }
    traced::begin_trace(&env, limits, buffers, record);
    let verdict = match presence {
        Presence::Gone => Verdict::Refused(Fault::ClientGone),
        Presence::Early if !early::may_be_served(&env) => Verdict::TooEarly,
        Presence::Early | Presence::Present => decide(&env, 0, peer, buffers),
    };
    if presence == Presence::Early && !matches!(verdict, Verdict::TooEarly) {
        increment(&worker.counters.http3.early_served);
    }
    Ok((env, verdict))
}

/// Records that the request is a gRPC call, and returns the deadline that its client set. An invalid `grpc-timeout` is left to
/// the endpoint, as in Envoy.
#[inline]
fn begin_grpc_call(intake: &Intake, request: &Head, record: &mut ExchangeRecord<'_>) -> Option<Instant> {
    if !intake.dialect.is_grpc() {
        return None;
    }
    record.grpc_call.dialect = response_dialect(request, intake.dialect);
    environment::grpc_deadline(request, record.started_at)
}

/// The rule of the request, and the length of the path prefix that it matched.
fn route<'a, H: Hop>(
    adopted: &'a Adopted<H>,
    table: Option<TableId>,
    intake: &Intake,
    buffers: &Buffers,
    record: &mut ExchangeRecord<'a>,
) -> Option<(&'a CompiledRule, usize)> {
    let (host, rule, prefix) = lookup::lookup(adopted, table?, intake, buffers)?;
    record.served_by.rule = Some(rule);
    record.served_by.host = Some(&host.key().host);
    Some((rule, prefix))
}
