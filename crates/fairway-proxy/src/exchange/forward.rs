//! Forwarding: attempts until one endpoint answers, then the answer.
//!
//! A failed attempt is followed by another only when that is safe: no byte of an answer came, and either the endpoint
//! saw nothing of the request, or repeating it does no harm (RFC 9110 §9.2.2) and its body is still held.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fairway_connection::sides::{
    AnswerPlan, BodyStep, Channel, Downstream, Hop, Persistence, Reply, Upgrade, Upstream,
};
use fairway_http::grpc::Dialect;
use fairway_http::{BodySize, Known};
use fairway_model::{Action, Backend, ForwardedPath};
use fairway_net::clock::Instant;
use fairway_routing::{BackendSlot, CompiledRule, Replacing, Targets};

use super::acquire::acquire;
use super::attempt::{Answered, attempt, note_failure};
use super::environment::{ClientSide, Ending, Environment, Exchange};
use super::relay::{Broken, End, relay};
use super::respond::{self, Outcome};
use super::retry::{Failed, Progress, RetryState, may_repeat, may_retry};
use super::tunnel::tunnel;
use super::{forwarded, sticky, web};
use crate::buffers::Buffers;
use crate::fault::Fault;
use crate::filter::{self, Made};
use crate::metrics::count;
use crate::metrics::record::UpstreamRecord;
use crate::network::Network;
use crate::peer::Scheme;
use crate::upstream::Group;
use crate::worker::ToEndpoint;

/// Bytes of an answer that nobody gets which are read to keep its connection.
const WORTH_DRAINING: usize = 64 * 1024;

/// An endpoint that answered, with what it answered on.
struct Delivered<H: Hop> {
    answered: Answered<H>,
    /// When the request began to be sent.
    sent: Instant,
    attempts: u8,
}

/// Forwards the request in the buffers and brings the answer back.
///
/// Not an `async fn`: that would keep its argument twice for as long as the exchange takes.
pub(crate) fn forward<'a, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, 'a, N, D>,
) -> impl Future<Output = Outcome<'a>> {
    let group = group(&exchange.env, exchange.client_side.peer.scheme, exchange.buffers);
    if let Some(group) = &group {
        exchange.record.served_by.canary = canary(exchange.env.rule(), group);
        prepare(&mut exchange.env, exchange.buffers);
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
    if let Some(group) = &group {
        sticky::begin(&exchange.env, group, exchange.buffers);
    }
    async move {
        // Each step takes all of what the one before gave: what is moved in pieces keeps its room for as long as the answer takes.
        let answer = match &group {
            Some(group) => deliver(exchange, group).await,
            None => Err(without_group(&exchange.env)),
        };
        let delivered = match judge(exchange, group.as_deref(), answer) {
            Ok(delivered) => delivered,
            Err(instead) => return give_instead(exchange, instead).await,
        };
        Outcome::Ended(hand_on(exchange, delivered).await)
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
        Targets::Shares(shares) => shares.pick(random)?.as_ref()?.targets().pick(random),
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
fn prepare<N: Network>(env: &mut Environment<'_, N>, buffers: &mut Buffers) {
    buffers.request.remove_known(Known::Expect);
    if env.intake.dialect.is_grpc() {
        web::prepare(env, buffers);
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
}

/// Tries endpoints until one answers.
///
/// Not an `async fn`: that would keep its arguments twice.
fn deliver<'e, N: Network, D: Downstream>(
    exchange: &'e mut Exchange<'_, '_, N, D>,
    group: &'e Rc<Group<ToEndpoint<N>>>,
) -> impl Future<Output = Result<Delivered<ToEndpoint<N>>, Fault>> {
    let mut retry_state =
        RetryState::begin(exchange.record.forwarding_began(), exchange.env.intake.method.is_idempotent());
    async move {
        loop {
            if let Some(backoff) = retry_state.backoff(&exchange.env, group) {
                // Boxed, like all that is rare.
                Box::pin(pause(exchange, backoff)).await?;
                retry_state.now = Instant::now();
            }
            if exchange.env.is_overdue() {
                return Err(exchange.env.overdue());
            }
            let belongs = exchange.buffers.forms.read().session.belongs;
            let chosen = match retry_state.next(&exchange.env, (group, belongs)) {
                Ok(chosen) => chosen,
                Err(fault) => {
                    retry_state.give_up(exchange.env.worker, group);
                    return Err(fault);
                }
            };
            let acquired = match acquire(exchange, group, &mut retry_state, chosen).await {
                Ok(acquired) => acquired,
                Err(failed) => {
                    conclude_attempt(exchange, group, &mut retry_state, &failed)?;
                    continue;
                }
            };
            match attempt(exchange, acquired, &retry_state).await {
                Err(failed) => {
                    note_failure(&exchange.env, group, &failed);
                    conclude_attempt(exchange, group, &mut retry_state, &failed)?;
                }
                Ok(answered) => {
                    let sent = retry_state.now;
                    answered.lease.endpoint().succeeded(answered.headed - sent);
                    retry_state.confirm(exchange.env.worker, group, &answered.lease);
                    if !is_tried_elsewhere(exchange, group, &mut retry_state, &answered) {
                        return Ok(Delivered { answered, sent, attempts: retry_state.attempts });
                    }
                    exchange.env.end_attempt();
                    put_aside(exchange, answered);
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

/// Whether there is another attempt after this one.
fn conclude_attempt<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    group: &Group<ToEndpoint<N>>,
    retry_state: &mut RetryState,
    failed: &Failed,
) -> Result<(), Fault> {
    retry_state.now = Instant::now();
    retry_state.note(failed);
    let took = retry_state.now.saturating_duration_since(exchange.record.forwarding_began());
    let address = group.member(failed.endpoint).identity.address;
    exchange.record.upstream = Some(UpstreamRecord::failed(address, retry_state.attempts, took));
    if may_retry(&exchange.env, group, failed, (&*retry_state, &exchange.buffers.body))
        && !RetryState::is_late(&exchange.env, group, took)
    {
        count(&exchange.env.worker.counters.attempts.retried);
        return Ok(());
    }
    let idempotent = exchange.env.intake.method.is_idempotent();
    if failed.progress != Progress::Nothing && !idempotent && failed.fault.blames_endpoint() {
        count(&exchange.env.worker.counters.attempts.lost);
    }
    retry_state.give_up(exchange.env.worker, group);
    Err(failed.fault)
}

/// Whether the answer's status asks for another endpoint, one is left, and the request may be repeated.
fn is_tried_elsewhere<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    group: &Group<ToEndpoint<N>>,
    retry_state: &mut RetryState,
    answered: &Answered<ToEndpoint<N>>,
) -> bool {
    let Exchange { env, buffers, record, .. } = exchange;
    let status = buffers.answer.status();
    if env.rule().steps().forwarding.retried.binary_search(&status).is_err() {
        return false;
    }
    retry_state.now = answered.headed;
    let took = answered.headed.saturating_duration_since(record.forwarding_began());
    let may = may_repeat(env, group, retry_state, (answered.lease.index(), &buffers.body));
    if may && !RetryState::is_late(env, group, took) {
        let address = answered.lease.endpoint().identity.address;
        let upstream = UpstreamRecord::failed(address, retry_state.attempts, took);
        record.upstream = Some(UpstreamRecord { status, ..upstream });
        count(&env.worker.counters.attempts.retried);
        return true;
    }
    false
}

/// An answer that nobody gets. What of its body is there already is dropped; when that is all of it, the connection can
/// carry another exchange.
fn put_aside<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    answered: Answered<ToEndpoint<N>>,
) {
    let Answered { mut lease, headed, .. } = answered;
    let mut cx = Context::from_waker(Waker::noop());
    let mut left = WORTH_DRAINING;
    while left > 0 {
        let step = lease.up().poll_body(&mut cx, left, |_, data| {
            left = left.saturating_sub(data.len());
            Ok(())
        });
        match step {
            Poll::Ready(Ok(BodyStep::More)) => {}
            Poll::Ready(Ok(BodyStep::End)) => {
                if exchange.buffers.body.is_sent() && lease.up().is_reusable() {
                    lease.give_back(headed, &exchange.env.worker.pool_limits());
                }
                return;
            }
            Poll::Ready(Err(_)) | Poll::Pending => return,
        }
    }
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
    answer: Result<Delivered<ToEndpoint<N>>, Fault>,
) -> Result<Delivered<ToEndpoint<N>>, Instead<'a>> {
    let delivered = answer.map_err(Instead::Fault)?;
    exchange.env.worker.log.keep_received(exchange.buffers);
    filter::hide(exchange.env.rule(), &mut exchange.buffers.answer);
    if let Some(group) = group {
        sticky::tell(exchange, group, delivered.answered.lease.index());
    }
    exchange.buffers.body.release(&mut exchange.buffers.replay);
    let status = exchange.buffers.answer.status();
    if delivered.answered.reply.upgrade != Upgrade::None {
        return Ok(delivered);
    }
    let instead = if exchange.env.intake.is_misled_by(status) {
        Instead::Fault(Fault::UpstreamNoWebsocket)
    } else if let Some(replacing) = respond::replacing(&exchange.env, status) {
        Instead::Page(replacing, status)
    } else {
        return Ok(delivered);
    };
    put_aside(exchange, delivered.answered);
    Err(instead)
}

async fn give_instead<'a, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, 'a, N, D>,
    instead: Instead<'a>,
) -> Outcome<'a> {
    match instead {
        Instead::Fault(Fault::ClientGone) => Outcome::Ended(respond::gone(exchange)),
        Instead::Fault(fault) => respond::refuse(exchange, fault, Made::ByRule).await,
        Instead::Page(replacing, status) => Outcome::Replaced(replacing, status),
    }
}

/// Relays the answer.
///
/// Not an `async fn`: that would keep its arguments twice for as long as the answer takes.
fn hand_on<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    delivered: Delivered<ToEndpoint<N>>,
) -> impl Future<Output = Ending> {
    let Delivered { answered, sent, attempts } = delivered;
    let Answered { mut lease, reply, connect, detour, headed } = answered;
    let status = exchange.buffers.answer.status();
    exchange.record.status = status;
    let header = (headed - sent).into();
    let address = lease.endpoint().identity.address;
    let response = header;
    let upstream = UpstreamRecord { endpoint: address, status, connect, header, response, attempts, detour };
    exchange.record.upstream = Some(upstream);
    async move {
        if reply.upgrade == Upgrade::WebSocket {
            // Boxed: a tunnel is rare, and every connection's task would carry room for it.
            Box::pin(switch(exchange, lease.up())).await
        } else {
            let relayed = answer(exchange, lease.up(), (reply, headed)).await;
            let ended = Instant::now();
            exchange.record.answered(ended - headed);
            match relayed {
                Ok((persistence, reusable)) => {
                    exchange.record.end(ended);
                    match reusable {
                        true => lease.give_back(ended, &exchange.env.worker.pool_limits()),
                        false => drop(lease),
                    }
                    respond::settle(exchange.client_side, persistence).await
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
fn fail_mid_answer<N: Network, D: Downstream>(exchange: &mut Exchange<'_, '_, N, D>, fault: Fault) -> Ending {
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
fn answer<'e, N: Network, D: Downstream, U: Upstream>(
    exchange: &'e mut Exchange<'_, '_, N, D>,
    up: &'e mut U,
    (mut reply, began): (Reply, Instant),
) -> impl Future<Output = Result<(Persistence, bool), Broken>> {
    clean(&exchange.env, exchange.buffers);
    let encoder = match exchange.env.intake.dialect {
        Dialect::None => None,
        _ => web::begin_answer(exchange, &mut reply),
    };
    let intake = &exchange.env.intake;
    let persistence = respond::persistence(exchange.env.worker, exchange.client_side, intake);
    let plan = AnswerPlan { version: intake.version, persistence, body: reply.body };
    let persistence = exchange.client_side.down.send_head(&mut exchange.buffers.answer, &plan);
    relay(exchange, up, (began, encoder, persistence))
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
