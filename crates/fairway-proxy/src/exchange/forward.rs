//! Forwarding: who gets the request, its head as the endpoint shall see it, and what becomes of the answer that an attempt brought.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use fairway_connection::sides::{AnswerPlan, Downstream, Hop, Persistence, Reply, Upgrade, Upstream};
use fairway_http::grpc::Dialect;
use fairway_http::{BodySize, Known, Method};
use fairway_model::{Action, Backend, ForwardedPath};
use fairway_net::clock::Instant;
use fairway_routing::{BackendSlot, CompiledRule, Replacing, Targets};

use super::ahead::Ahead;
use super::alternative::advertise_http3;
use super::attempt::{Answer, Attempts};
use super::environment::{ClientSide, Ending, Environment, Exchange};
use super::relay::{Broken, End, Relayed, Through, relay, relay_rest};
use super::respond::{self, Outcome};
use super::tunnel::tunnel;
use super::{early, forwarded, places, race, sticky, web};
use crate::body_steps::{self, BodySteps};
use crate::buffers::Buffers;
use crate::compression;
use crate::fault::Fault;
use crate::filter::{self, Made};
use crate::metrics::record::{AttemptOutcome, FailedAttempt, UpstreamRecord};
use crate::network::Network;
use crate::peer::Scheme;
use crate::trace::sampled::UnusedAttempt;
use crate::upstream::Group;
use crate::worker::ToEndpoint;

/// Forwards the request in the buffers and brings the answer back.
///
/// Not an `async fn`: that would keep its argument twice for as long as the exchange takes.
pub(crate) fn forward<'a, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, 'a, N, D>,
) -> impl Future<Output = Outcome<'a>> {
    let group = group(&exchange.env, exchange.client_side.peer.scheme, exchange.buffers);
    if let Some(group) = &group {
        exchange.record.served_by.canary = canary(exchange.env.rule(), group);
        prepare(&exchange.env, exchange.buffers);
        early::mark(&exchange.client_side.down, &mut exchange.buffers.request);
    }
    forward_to(exchange, group)
}

/// The same for a request whose head is what the endpoint gets.
pub(super) fn forward_as_it_is<'a, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, 'a, N, D>,
) -> impl Future<Output = Outcome<'a>> {
    let group = group(&exchange.env, exchange.client_side.peer.scheme, exchange.buffers);
    forward_to(exchange, group)
}

fn forward_to<'a, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, 'a, N, D>,
    group: Option<Rc<Group<ToEndpoint<N>>>>,
) -> impl Future<Output = Outcome<'a>> {
    #[cfg(test)]
    exchange.buffers.pick_as_asked();
    if let Some(group) = &group {
        sticky::begin(&exchange.env, group, exchange.buffers);
    }
    async move {
        // Each step takes all of what the one before gave: what is moved in pieces keeps its room for as long as the answer takes.
        let answer = match &group {
            Some(group) => try_endpoints(exchange, group).await,
            None => Err(without_group(&exchange.env)),
        };
        let answer = match judge(exchange, group.as_deref(), answer) {
            Ok(answer) => answer,
            Err(instead) => return give_instead(exchange, instead).await,
        };
        Outcome::Ended(hand_on(exchange, answer).await)
    }
}

/// The worker's group for the backend that the rule's weights choose: the same for all attempts, whatever the worker adopts
/// meanwhile.
fn group<N: Network>(
    env: &Environment<'_, N>,
    scheme: Scheme,
    buffers: &mut Buffers,
) -> Option<Rc<Group<ToEndpoint<N>>>> {
    let of = |rule: &CompiledRule| {
        let secured = rule.secured().filter(|_| scheme == Scheme::Https);
        let picked = || pick(rule, env.worker.random(|random| random.u32(..)));
        env.adopted.group(secured.or_else(picked)?, &env.worker.groups)
    };
    let group = of(env.rule());
    let fallbacks = &env.rule().steps().forwarding.fallbacks;
    let is_ready =
        |group: &Option<Rc<Group<ToEndpoint<N>>>>| group.as_ref().is_some_and(|group| !group.is_empty());
    if fallbacks.is_empty() || is_ready(&group) {
        return group;
    }
    for fallback in fallbacks {
        let other = of(&fallback.rule);
        if is_ready(&other) {
            for (name, value) in &fallback.to.fields {
                buffers.request.set(name.as_bytes(), value.as_bytes());
            }
            return other;
        }
    }
    group
}

/// The backend that a random number chooses. A share that was not chosen before has no say (`share`): the request is a question
/// of the proxy's own.
fn pick(rule: &CompiledRule, random: u32) -> Option<BackendSlot> {
    match rule.targets() {
        Targets::Shares(shares) => shares.pick(random)?.targets().pick(random),
        targets => targets.pick(random),
    }
}

/// The backend that gets the request, where it is that of the rule's canary: one of the rule's own and not its Service.
fn canary<H: Hop>(rule: &CompiledRule, group: &Group<H>) -> Option<Arc<Backend>> {
    // While a canary is empty the main backend stands in: a rule without a fallback has none.
    if rule.steps().forwarding.fallbacks.is_empty() {
        return None;
    }
    let (backend, labels) = (group.backend(), &rule.rule().labels);
    if backend.service.name == labels.service && backend.service.port == labels.service_port {
        return None;
    }
    let Action::Forward(own) = &rule.rule().action else { return None };
    own.iter().any(|it| it.backend == backend.key).then(|| Arc::clone(backend))
}

/// Why there is none.
fn without_group<N: Network>(env: &Environment<'_, N>) -> Fault {
    match env.rule().targets() {
        Targets::None | Targets::Shares(_) => Fault::NoBackend,
        Targets::One(_) | Targets::Weighted(_) => Fault::NoEndpoint,
    }
}

/// Makes the request's head what the endpoint shall see.
fn prepare<N: Network>(env: &Environment<'_, N>, buffers: &mut Buffers) {
    buffers.request.remove_known(Known::Expect);
    if env.intake.dialect.is_grpc() {
        web::prepare(env, buffers);
    }
    if env.intake.body != BodySize::None
        && let Some(steps) = body_steps::of_request(env.rule(), &mut buffers.request)
    {
        buffers.body.meet(steps);
    }
    if buffers.request.first(Known::Host).is_none() {
        // HTTP/1.0 may leave it out, what is forwarded is HTTP/1.1 (RFC 9112 §3.2: "with an empty field value").
        buffers.request.append(b"Host", b"");
    }
    forwarded::rewrite(buffers, &env.client, || env.number());
    for edits in &env.rule().steps().forwarding.edits {
        edits.apply(&mut buffers.request);
    }
    let normalised = env.rule().rule().policy.forwarded_path == ForwardedPath::Normalised;
    if normalised && buffers.forms.read().target.is_empty() && !env.intake.is_plain() {
        let mut target = std::mem::take(&mut buffers.forms.write().target);
        env.intake.write_matched(env.rule().path_form(), buffers, &mut target);
        if env.intake.has_query(buffers) {
            target.push(b'?');
            target.extend_from_slice(env.intake.query(buffers));
        }
        buffers.forms.write().target = target;
    }
    if let Some(fields) = &env.rule().steps().forwarding.fields {
        filter::set_on_request(fields, env.sources(), buffers);
    }
    let chosen = &env.rule().steps().forwarding.chosen;
    if !chosen.is_empty() {
        filter::choose_for_request(chosen, env.sources(), buffers);
    }
}

/// Tries endpoints until one answers.
///
/// Not an `async fn`: that would keep its arguments twice.
fn try_endpoints<'e, N: Network, D: Downstream>(
    exchange: &'e mut Exchange<'_, '_, N, D>,
    group: &'e Rc<Group<ToEndpoint<N>>>,
) -> impl Future<Output = Result<Answer<ToEndpoint<N>>, Fault>> {
    let mut attempts = Attempts::begin(exchange, group);
    async move {
        if let Err(full) = attempts.begin_request() {
            attempts.request = Box::pin(places::wait_for_request(exchange, &mut attempts, full)).await?;
        }
        loop {
            if let Some(backoff) = attempts.backoff(&exchange.env) {
                // Boxed, like all that is rare.
                Box::pin(pause(exchange, backoff)).await?;
                attempts.now = Instant::now();
                let began = exchange.record.forwarding_began();
                let after = attempts.now.saturating_duration_since(began).into();
                exchange.buffers.forms.note_attempt_began(after);
            }
            let chosen = attempts.pick(exchange)?;
            let connection = match race::connect(exchange, &mut attempts, chosen).await {
                Ok(connection) => connection,
                Err(failure) => {
                    attempts.go_on_after(exchange, &failure)?;
                    continue;
                }
            };
            match attempts.send(exchange, connection).await {
                Err(failure) => {
                    attempts.blame(&exchange.env, &failure);
                    attempts.go_on_after(exchange, &failure)?;
                }
                Ok(mut answer) => {
                    attempts.confirm(&exchange.env, &answer, exchange.buffers.answer.status());
                    if !attempts.go_elsewhere(exchange, &answer) {
                        answer.lease.keep(attempts.request.take());
                        return Ok(answer);
                    }
                    exchange.env.end_attempt();
                    answer.put_aside(exchange);
                }
            }
        }
    }
}

/// Waits between two attempts, for as long as somebody waits for the answer.
async fn pause<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    backoff: Duration,
) -> Result<(), Fault> {
    let ClientSide { down, deadline, .. } = &mut *exchange.client_side;
    exchange.env.arm(deadline, Instant::now(), backoff);
    poll_fn(|cx| match down.poll_gone(cx) {
        Poll::Ready(()) => Poll::Ready(Err(Fault::ClientGone)),
        Poll::Pending => deadline.poll_passed(cx).map(Ok),
    })
    .await
}

/// What the client gets in place of the endpoint's answer.
enum Instead<'a> {
    Fault(Fault),
    /// Another backend's page for this status.
    Page(&'a Replacing, u16),
}

/// Whether the client gets the answer that was delivered, which says where its session is.
fn judge<'a, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, 'a, N, D>,
    group: Option<&Group<ToEndpoint<N>>>,
    answer: Result<Answer<ToEndpoint<N>>, Fault>,
) -> Result<Answer<ToEndpoint<N>>, Instead<'a>> {
    let answer = answer.map_err(Instead::Fault)?;
    exchange.env.worker.log.keep_received(exchange.buffers);
    filter::hide(exchange.env.rule(), &mut exchange.buffers.answer);
    if let Some(group) = group {
        sticky::tell(exchange, group, answer.lease.index());
    }
    exchange.buffers.body.release(&mut exchange.buffers.replay);
    let status = exchange.buffers.answer.status();
    if answer.reply.upgrade != Upgrade::None {
        return Ok(answer);
    }
    let instead = if exchange.env.intake.is_misled_by(status) {
        Instead::Fault(Fault::UpstreamNoWebsocket)
    } else if let Some(replacing) = respond::replacing(&exchange.env, status) {
        Instead::Page(replacing, status)
    } else {
        return Ok(answer);
    };
    note_unused(exchange, &answer, status);
    answer.put_aside(exchange);
    Err(instead)
}

/// Notes an attempt whose answer is replaced: it has a span of its own in the trace.
#[cold]
fn note_unused<N: Network, D>(
    exchange: &mut Exchange<'_, '_, N, D>,
    answer: &Answer<ToEndpoint<N>>,
    status: u16,
) {
    let Exchange { buffers, record, .. } = exchange;
    let began = buffers.forms.read().attempt_began;
    let Some(sampled) = buffers.forms.sampled_mut() else { return };
    let after = answer.headed.saturating_duration_since(record.forwarding_began()).into();
    let (endpoint, outcome) = (answer.lease.endpoint().identity.address, AttemptOutcome::Status(status));
    let attempt = FailedAttempt { endpoint, outcome, began, after };
    sampled.unused = Some(UnusedAttempt { attempt, number: answer.attempts });
}

async fn give_instead<'a, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, 'a, N, D>,
    instead: Instead<'a>,
) -> Outcome<'a> {
    match instead {
        Instead::Fault(Fault::ClientGone) => Outcome::Ended(respond::gone(exchange)),
        Instead::Fault(fault) => respond::refuse(exchange, fault, Made::ByRule).await,
        Instead::Page(replacing, status) => Outcome::Replaced(replacing, status, None),
    }
}

/// Relays the answer.
///
/// Not an `async fn`: that would keep its arguments twice for as long as the answer takes.
fn hand_on<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    answer: Answer<ToEndpoint<N>>,
) -> impl Future<Output = Ending> {
    let Answer { mut lease, reply, connect, hedged, sent, headed, attempts } = answer;
    let status = exchange.buffers.answer.status();
    exchange.record.status = status;
    let header = (headed - sent).into();
    let address = lease.endpoint().identity.address;
    let response = header;
    exchange.record.upstream = Some(UpstreamRecord {
        endpoint: address,
        status,
        sent: sent.saturating_duration_since(exchange.record.forwarding_began()).into(),
        connect,
        header,
        response,
        attempts,
        hedged,
    });
    exchange.client_side.down.set_served_by(address);
    async move {
        if reply.upgrade == Upgrade::WebSocket {
            // Boxed: a tunnel is rare, and every connection's task would carry room for it.
            Box::pin(switch(exchange, lease.up())).await
        } else {
            let relayed = relay_answer(exchange, lease.up(), reply, headed).await;
            let ended = Instant::now();
            exchange.record.answered(ended - headed);
            match relayed {
                Ok(Relayed::Whole(persistence, reusable)) => {
                    exchange.record.end(ended);
                    match reusable {
                        true => lease.give_back(ended, &exchange.env.worker.pool_limits()),
                        false => drop(lease),
                    }
                    respond::settle(exchange.client_side, persistence).await
                }
                Ok(Relayed::Held(reusable, rest)) => {
                    match reusable {
                        true => lease.give_back(ended, &exchange.env.worker.pool_limits()),
                        false => drop(lease),
                    }
                    match Box::pin(relay_rest(exchange, rest)).await {
                        Ok(persistence) => respond::settle(exchange.client_side, persistence).await,
                        Err(Broken { fault, .. }) => fail_mid_answer(exchange, fault),
                    }
                }
                Err(Broken { fault, end: End::Sent }) => {
                    drop(lease);
                    Box::pin(respond::end_early(exchange, fault)).await
                }
                Err(Broken { fault, end: End::Missing }) => {
                    lease.up().abandon();
                    fail_mid_answer(exchange, fault)
                }
            }
        }
    }
}

/// An answer that broke: the client must see that it did.
pub(super) fn fail_mid_answer<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    fault: Fault,
) -> Ending {
    exchange.record.fault = Some(fault);
    if fault == Fault::ClientGone {
        respond::note_cancelled(exchange.record);
    }
    exchange.client_side.down.abort();
    Ending::Abort
}

/// Relays the final answer, as [`relay`] does.
///
/// Not an `async fn`: that would keep its arguments twice for as long as the answer takes.
fn relay_answer<'e, N: Network, D: Downstream, U: Upstream>(
    exchange: &'e mut Exchange<'_, '_, N, D>,
    up: &'e mut U,
    mut reply: Reply,
    began: Instant,
) -> impl Future<Output = Result<Relayed, Broken>> {
    let ahead = Ahead::of(&exchange.env, exchange.buffers, &reply);
    clean(&exchange.env, exchange.buffers);
    let steps = answer_steps(&exchange.env, exchange.buffers, &mut reply.body);
    let encoder = match exchange.env.intake.dialect {
        Dialect::None => None,
        _ => web::begin_answer(exchange, &mut reply),
    };
    let intake = &exchange.env.intake;
    let persistence = respond::persistence(exchange.env.worker, exchange.client_side, intake);
    let plan = AnswerPlan { version: intake.version, persistence, body: reply.body };
    let persistence = exchange.client_side.down.send_head(&mut exchange.buffers.answer, &plan);
    relay(exchange, up, began, Through { ahead, steps, encoder }, persistence)
}

/// What the answer's body meets on its way to the client.
pub(super) fn answer_steps<N: Network>(
    env: &Environment<'_, N>,
    buffers: &mut Buffers,
    body: &mut BodySize,
) -> Option<Box<BodySteps>> {
    let steps = body_steps::of_answer(env.rule(), &mut buffers.answer, body);
    let Some(compression) = &env.rule().steps().answers.compression else { return steps };
    // Nobody compresses what Fairway itself or a service reads. The messages of a call have their own compression.
    if steps.is_some() || env.is_for_fairway || env.is_extended || env.intake.dialect != Dialect::None {
        return steps;
    }
    if buffers.answer.status() == 304 {
        compression::repeat_weak_etag(&buffers.request, &mut buffers.answer);
        return None;
    }
    let accepted = buffers.forms.read().accepted;
    if env.intake.method == Method::Head {
        compression::describe(compression, accepted, &mut buffers.answer);
        return None;
    }
    let counted = &env.worker.counters.compressed;
    let memory = (&env.worker.compressors, env.worker.shared_memory());
    compression::begin(compression, accepted, &mut buffers.answer, body, counted, memory)
}

/// Makes the answer's head what the client shall see.
fn clean<N: Network>(env: &Environment<'_, N>, buffers: &mut Buffers) {
    if matches!(buffers.answer.status(), 101 | 204) {
        // "A server MUST NOT send a Content-Length header field in any response with a status code of 1xx or 204"
        // (RFC 9110 §8.6), and a client may be strict about it.
        buffers.answer.remove_known(Known::ContentLength);
    }
    buffers.answer.remove_known(Known::Server);
    // Of an answer to a question of the proxy's own, that is still to be read.
    if buffers.answer.may_have(Known::TO_NGINX) && env.rule().is_location() && !env.is_for_fairway {
        // What ingress-nginx keeps to itself.
        buffers.answer.remove_set(Known::TO_NGINX);
    }
    filter::on_received(env.rule(), &env.client, buffers);
    filter::on_answer(env.rule(), Made::ByRule, env.sources(), || env.number(), buffers);
    advertise_http3(env, &mut buffers.answer);
}

/// The endpoint speaks another protocol now; so does the client.
async fn switch<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    up: &mut impl Upstream,
) -> Ending {
    clean(&exchange.env, exchange.buffers);
    let intake = &exchange.env.intake;
    let plan =
        AnswerPlan { version: intake.version, persistence: Persistence::Upgraded, body: BodySize::None };
    exchange.client_side.down.send_head(&mut exchange.buffers.answer, &plan);
    let idle = exchange.env.rule().rule().policy.timeouts.read;
    exchange.record.body_bytes = tunnel(exchange.client_side, up, idle, exchange.env.worker).await;
    Ending::Finished
}
