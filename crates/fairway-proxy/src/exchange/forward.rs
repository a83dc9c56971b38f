//! Forwarding: chooses the backend, writes the request head for it, runs the attempts, and passes the response on.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use fairway_connection::sides::{
    Downstream, Hop, Persistence, ResponseMeta, ResponsePlan, Upgrade, Upstream,
};
use fairway_http::grpc::Dialect;
use fairway_http::{BodySize, Known, Method};
use fairway_model::{Action, Backend, ForwardedPath};
use fairway_net::clock::Instant;
use fairway_routing::{BackendSlot, CompiledRule, ErrorPagesStep, Targets};

use super::alternative::advertise_http3;
use super::attempt::{Attempts, EndpointResponse};
use super::environment::{ClientSide, Ending, Environment, Exchange};
use super::read_ahead::ReadAhead;
use super::relay::{BrokenResponse, ClientEnd, Relayed, ResponsePipeline, relay, relay_rest};
use super::respond::{self, ForwardOutcome};
use super::tunnel::tunnel;
use super::{backend_permit, early, forwarded, race, sticky, web};
use crate::body_steps::{self, BodySteps};
use crate::buffers::Buffers;
use crate::compression;
use crate::fault::Fault;
use crate::filter::{self, ResponseScope};
use crate::metrics::record::{AttemptOutcome, FailedAttempt, UpstreamRecord};
use crate::network::Network;
use crate::peer::Scheme;
use crate::trace::sampled::ReplacedAttempt;
use crate::upstream::Group;
use crate::worker::EndpointHop;

/// Forwards the request in the buffers and sends its response to the client.
///
/// Not an `async fn`: its future would hold the argument twice for the whole exchange.
pub(crate) fn forward<'a, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, 'a, N, D>,
) -> impl Future<Output = ForwardOutcome<'a>> {
    let group = choose_group(&exchange.env, exchange.client_side.peer.scheme, exchange.buffers);
    if let Some(group) = &group {
        exchange.record.served_by.canary = canary_backend(exchange.env.rule(), group);
        prepare(&exchange.env, exchange.buffers);
        early::mark_early_data(&exchange.client_side.down, &mut exchange.buffers.request);
    }
    forward_to_group(exchange, group)
}

/// Forwards a request whose head is already the one for the endpoint.
pub(super) fn forward_unchanged<'a, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, 'a, N, D>,
) -> impl Future<Output = ForwardOutcome<'a>> {
    let group = choose_group(&exchange.env, exchange.client_side.peer.scheme, exchange.buffers);
    forward_to_group(exchange, group)
}

fn forward_to_group<'a, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, 'a, N, D>,
    group: Option<Rc<Group<EndpointHop<N>>>>,
) -> impl Future<Output = ForwardOutcome<'a>> {
    #[cfg(test)]
    exchange.buffers.pick_from_test_headers();
    if let Some(group) = &group {
        sticky::find_session(&exchange.env, group, exchange.buffers);
    }
    async move {
        // Each step consumes the value of the one before: a partly moved value would keep its room for the whole response.
        let response = match &group {
            Some(group) => try_endpoints(exchange, group).await,
            None => Err(missing_group_fault(&exchange.env)),
        };
        let response = match accept_response(exchange, group.as_deref(), response) {
            Ok(response) => response,
            Err(instead) => return send_substitute(exchange, instead).await,
        };
        ForwardOutcome::Ended(deliver_response(exchange, response).await)
    }
}

/// The worker's group for the backend that the rule's weights choose. All attempts use it, even if the worker adopts another
/// configuration meanwhile.
fn choose_group<N: Network>(
    env: &Environment<'_, N>,
    scheme: Scheme,
    buffers: &mut Buffers,
) -> Option<Rc<Group<EndpointHop<N>>>> {
    let group_of = |rule: &CompiledRule| {
        let secured = rule.secured().filter(|_| scheme == Scheme::Https);
        let picked = || pick_backend(rule, env.worker.random(|random| random.u32(..)));
        env.adopted.group(secured.or_else(picked)?, &env.worker.groups)
    };
    let group = group_of(env.rule());
    let fallbacks = &env.rule().steps().forwarding.fallbacks;
    let is_ready =
        |group: &Option<Rc<Group<EndpointHop<N>>>>| group.as_ref().is_some_and(|group| !group.is_empty());
    if fallbacks.is_empty() || is_ready(&group) {
        return group;
    }
    for fallback in fallbacks {
        let other = group_of(&fallback.rule);
        if is_ready(&other) {
            for (name, value) in &fallback.fallback.fields {
                buffers.request.set(name.as_bytes(), value.as_bytes());
            }
            return other;
        }
    }
    group
}

/// The backend that a random number chooses. Shares are normally chosen earlier (`share`); only Fairway's own requests get here
/// with shares.
fn pick_backend(rule: &CompiledRule, random: u32) -> Option<BackendSlot> {
    match rule.targets() {
        Targets::Shares(shares) => shares.pick(random)?.targets().pick(random),
        targets => targets.pick(random),
    }
}

/// The backend that gets the request, if it is the rule's canary: a backend of the rule other than its Service.
fn canary_backend<H: Hop>(rule: &CompiledRule, group: &Group<H>) -> Option<Arc<Backend>> {
    // An empty canary falls back to the main backend, so a rule with a canary has a fallback.
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

/// The fault if no group was found.
fn missing_group_fault<N: Network>(env: &Environment<'_, N>) -> Fault {
    match env.rule().targets() {
        Targets::None | Targets::Shares(_) => Fault::NoBackend,
        Targets::One(_) | Targets::Weighted(_) => Fault::NoEndpoint,
    }
}

/// Rewrites the request head for the endpoint.
fn prepare<N: Network>(env: &Environment<'_, N>, buffers: &mut Buffers) {
    buffers.request.remove_known(Known::Expect);
    if env.intake.dialect.is_grpc() {
        web::prepare(env, buffers);
    }
    if env.intake.body != BodySize::None
        && let Some(steps) = body_steps::for_request(env.rule(), &mut buffers.request)
    {
        buffers.body.add_steps(steps);
    }
    if buffers.request.first(Known::Host).is_none() {
        // HTTP/1.0 may omit it; the forwarded request is HTTP/1.1 (RFC 9112 §3.2: "with an empty field value").
        buffers.request.append(b"Host", b"");
    }
    forwarded::rewrite(buffers, &env.client, || env.new_request_id());
    for edits in &env.rule().steps().forwarding.edits {
        edits.apply(&mut buffers.request);
    }
    let normalised = env.rule().rule().policy.forwarded_path == ForwardedPath::Normalised;
    if normalised && buffers.extras.read().target.is_empty() && !env.intake.is_plain() {
        let mut target = std::mem::take(&mut buffers.extras.write().target);
        env.intake.write_matched(env.rule().path_form(), buffers, &mut target);
        if env.intake.has_query(buffers) {
            target.push(b'?');
            target.extend_from_slice(env.intake.query(buffers));
        }
        buffers.extras.write().target = target;
    }
    if let Some(fields) = &env.rule().steps().forwarding.fields {
        filter::set_on_request(fields, env.sources(), buffers);
    }
    let conditional = &env.rule().steps().forwarding.conditional_headers;
    if !conditional.is_empty() {
        filter::set_chosen_on_request(conditional, env.sources(), buffers);
    }
}

/// Tries endpoints until one responds.
///
/// Not an `async fn`: its future would hold the arguments twice.
fn try_endpoints<'e, N: Network, D: Downstream>(
    exchange: &'e mut Exchange<'_, '_, N, D>,
    group: &'e Rc<Group<EndpointHop<N>>>,
) -> impl Future<Output = Result<EndpointResponse<EndpointHop<N>>, Fault>> {
    let mut attempts = Attempts::start(exchange, group);
    async move {
        if let Err(full) = attempts.begin_request() {
            attempts.request =
                Box::pin(backend_permit::wait_for_request(exchange, &mut attempts, full)).await?;
        }
        loop {
            if let Some(backoff) = attempts.backoff(&exchange.env) {
                // Boxed, like all that is rare.
                Box::pin(wait_for_backoff(exchange, backoff)).await?;
                attempts.now = Instant::now();
                let began = exchange.record.forwarding_started_at();
                let after = attempts.now.saturating_duration_since(began).into();
                exchange.buffers.extras.record_attempt_start(after);
            }
            let picked = attempts.pick(exchange)?;
            let connection = match race::connect(exchange, &mut attempts, picked).await {
                Ok(connection) => connection,
                Err(failure) => {
                    attempts.prepare_retry(exchange, &failure)?;
                    continue;
                }
            };
            match attempts.send(exchange, connection).await {
                Err(failure) => {
                    attempts.blame(&exchange.env, &failure);
                    attempts.prepare_retry(exchange, &failure)?;
                }
                Ok(mut response) => {
                    attempts.record_endpoint_response(
                        &exchange.env,
                        &response,
                        exchange.buffers.response.status(),
                    );
                    if !attempts.should_retry_response(exchange, &response) {
                        response.lease.attach_permit(attempts.request.take());
                        return Ok(response);
                    }
                    exchange.env.end_attempt();
                    response.discard(exchange);
                }
            }
        }
    }
}

/// Waits between two attempts, while the client is there.
async fn wait_for_backoff<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    backoff: Duration,
) -> Result<(), Fault> {
    let ClientSide { down, deadline, .. } = &mut *exchange.client_side;
    exchange.env.arm(deadline, Instant::now(), backoff);
    poll_fn(|cx| match down.poll_client_gone(cx) {
        Poll::Ready(()) => Poll::Ready(Err(Fault::ClientGone)),
        Poll::Pending => deadline.poll_passed(cx).map(Ok),
    })
    .await
}

/// What the client gets instead of the endpoint's response.
enum Substitute<'a> {
    Fault(Fault),
    /// Another backend's page for this status.
    Page(&'a ErrorPagesStep, u16),
}

/// Decides whether the client gets this response, and adds the session cookie or header.
fn accept_response<'a, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, 'a, N, D>,
    group: Option<&Group<EndpointHop<N>>>,
    response: Result<EndpointResponse<EndpointHop<N>>, Fault>,
) -> Result<EndpointResponse<EndpointHop<N>>, Substitute<'a>> {
    let response = response.map_err(Substitute::Fault)?;
    exchange.env.worker.log.keep_received(exchange.buffers);
    filter::remove_hidden_headers(exchange.env.rule(), &mut exchange.buffers.response);
    if let Some(group) = group {
        sticky::issue_session(exchange, group, response.lease.index());
    }
    exchange.buffers.body.end_attempts(&mut exchange.buffers.replay);
    let status = exchange.buffers.response.status();
    if response.reply.upgrade != Upgrade::None {
        return Ok(response);
    }
    let instead = if exchange.env.intake.would_open_websocket(status) {
        Substitute::Fault(Fault::UpstreamNoWebsocket)
    } else if let Some(replacing) = respond::replacement(&exchange.env, status) {
        Substitute::Page(replacing, status)
    } else {
        return Ok(response);
    };
    record_replaced_attempt(exchange, &response, status);
    response.discard(exchange);
    Err(instead)
}

/// Records an attempt whose response is replaced, for its span in the trace.
#[cold]
fn record_replaced_attempt<N: Network, D>(
    exchange: &mut Exchange<'_, '_, N, D>,
    response: &EndpointResponse<EndpointHop<N>>,
    status: u16,
) {
    let Exchange { buffers, record, .. } = exchange;
    let began = buffers.extras.read().attempt_began;
    let Some(sampled) = buffers.extras.sampled_mut() else { return };
    let after = response.head_received_at.saturating_duration_since(record.forwarding_started_at()).into();
    let (endpoint, outcome) = (response.lease.endpoint().identity.address, AttemptOutcome::Status(status));
    let attempt = FailedAttempt { endpoint, outcome, started_after: began, ended_after: after };
    sampled.replaced_attempt = Some(ReplacedAttempt { attempt, number: response.attempts });
}

async fn send_substitute<'a, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, 'a, N, D>,
    instead: Substitute<'a>,
) -> ForwardOutcome<'a> {
    match instead {
        Substitute::Fault(Fault::ClientGone) => ForwardOutcome::Ended(respond::client_gone(exchange)),
        Substitute::Fault(fault) => respond::refuse(exchange, fault, ResponseScope::Rule).await,
        Substitute::Page(replacing, status) => ForwardOutcome::Replaced(replacing, status, None),
    }
}

/// Relays the response, or the tunnel after an upgrade.
///
/// Not an `async fn`: its future would hold the arguments twice for the whole response.
fn deliver_response<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    response: EndpointResponse<EndpointHop<N>>,
) -> impl Future<Output = Ending> {
    let EndpointResponse { mut lease, reply, connect, hedged, sent, head_received_at, attempts } = response;
    let status = exchange.buffers.response.status();
    exchange.record.status = status;
    let header = (head_received_at - sent).into();
    let address = lease.endpoint().identity.address;
    let response = header;
    exchange.record.upstream = Some(UpstreamRecord {
        endpoint: address,
        status,
        sent: sent.saturating_duration_since(exchange.record.forwarding_started_at()).into(),
        connect,
        header,
        response,
        attempts,
        hedged,
    });
    exchange.client_side.down.set_served_by(address);
    async move {
        if reply.upgrade == Upgrade::WebSocket {
            // Boxed: tunnels are rare, and every connection's task would reserve room for one.
            Box::pin(switch_protocols(exchange, lease.upstream())).await
        } else {
            let relayed = relay_response(exchange, lease.upstream(), reply, head_received_at).await;
            let ended = Instant::now();
            exchange.record.set_response_time(ended - head_received_at);
            match relayed {
                Ok(Relayed::Complete(persistence, reusable)) => {
                    exchange.record.finish(ended);
                    match reusable {
                        true => lease.give_back(ended, &exchange.env.worker.pool_limits()),
                        false => drop(lease),
                    }
                    respond::settle_connection(exchange.client_side, persistence).await
                }
                Ok(Relayed::Buffered(reusable, rest)) => {
                    match reusable {
                        true => lease.give_back(ended, &exchange.env.worker.pool_limits()),
                        false => drop(lease),
                    }
                    match Box::pin(relay_rest(exchange, rest)).await {
                        Ok(persistence) => {
                            respond::settle_connection(exchange.client_side, persistence).await
                        }
                        Err(BrokenResponse { fault, .. }) => fail_mid_response(exchange, fault),
                    }
                }
                Err(BrokenResponse { fault, end: ClientEnd::Sent }) => {
                    drop(lease);
                    Box::pin(respond::end_early(exchange, fault)).await
                }
                Err(BrokenResponse { fault, end: ClientEnd::Missing }) => {
                    lease.upstream().abandon();
                    fail_mid_response(exchange, fault)
                }
            }
        }
    }
}

/// Aborts a response that cannot be completed, so that the client notices.
pub(super) fn fail_mid_response<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    fault: Fault,
) -> Ending {
    exchange.record.fault = Some(fault);
    if fault == Fault::ClientGone {
        respond::record_cancelled(exchange.record);
    }
    exchange.client_side.down.abort();
    Ending::Abort
}

/// Sends the head of the final response and relays its body, as [`relay`] does.
///
/// Not an `async fn`: its future would hold the arguments twice for the whole response.
fn relay_response<'e, N: Network, D: Downstream, U: Upstream>(
    exchange: &'e mut Exchange<'_, '_, N, D>,
    up: &'e mut U,
    mut reply: ResponseMeta,
    began: Instant,
) -> impl Future<Output = Result<Relayed, BrokenResponse>> {
    let ahead = ReadAhead::for_response(&exchange.env, exchange.buffers, &reply);
    clean_response_head(&exchange.env, exchange.buffers);
    let steps = response_body_steps(&exchange.env, exchange.buffers, &mut reply.body);
    let encoder = match exchange.env.intake.dialect {
        Dialect::None => None,
        _ => web::begin_response(exchange, &mut reply),
    };
    let intake = &exchange.env.intake;
    let persistence = respond::persistence(exchange.env.worker, exchange.client_side, intake);
    let plan = ResponsePlan { version: intake.version, persistence, body: reply.body };
    let persistence = exchange.client_side.down.send_head(&mut exchange.buffers.response, &plan);
    relay(exchange, up, began, ResponsePipeline { ahead, steps, encoder }, persistence)
}

/// The steps for the response body: those of the rule, or compression.
pub(super) fn response_body_steps<N: Network>(
    env: &Environment<'_, N>,
    buffers: &mut Buffers,
    body: &mut BodySize,
) -> Option<Box<BodySteps>> {
    let steps = body_steps::for_response(env.rule(), &mut buffers.response, body);
    let Some(compression) = &env.rule().steps().responses.compression else { return steps };
    // Responses that Fairway or a service reads are not compressed. gRPC messages have their own compression.
    if steps.is_some() || env.is_for_fairway || env.is_extended || env.intake.dialect != Dialect::None {
        return steps;
    }
    if buffers.response.status() == 304 {
        compression::repeat_weak_etag(&buffers.request, &mut buffers.response);
        return None;
    }
    let accepted = buffers.extras.read().accepted;
    if env.intake.method == Method::Head {
        compression::describe_for_head_request(compression, accepted, &mut buffers.response);
        return None;
    }
    let counted = &env.worker.counters.compressed;
    let memory = (&env.worker.compressor_memory, env.worker.max_shared_memory());
    compression::start(compression, accepted, &mut buffers.response, body, counted, memory)
}

/// Rewrites the response head for the client.
fn clean_response_head<N: Network>(env: &Environment<'_, N>, buffers: &mut Buffers) {
    if matches!(buffers.response.status(), 101 | 204) {
        // "A server MUST NOT send a Content-Length header field in any response with a status code of 1xx or 204"
        // (RFC 9110 §8.6), and a client may be strict about it.
        buffers.response.remove_known(Known::ContentLength);
    }
    buffers.response.remove_known(Known::Server);
    // Responses to Fairway's own requests keep these headers: they are read later.
    if buffers.response.may_have(Known::TO_NGINX) && env.rule().is_location() && !env.is_for_fairway {
        // Headers to nginx, which ingress-nginx does not pass on.
        buffers.response.remove_set(Known::TO_NGINX);
    }
    filter::on_received(env.rule(), &env.client, buffers);
    filter::on_response(env.rule(), ResponseScope::Rule, env.sources(), || env.new_request_id(), buffers);
    advertise_http3(env, &mut buffers.response);
}

/// Switches both sides to the tunnelled protocol.
async fn switch_protocols<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    up: &mut impl Upstream,
) -> Ending {
    clean_response_head(&exchange.env, exchange.buffers);
    let intake = &exchange.env.intake;
    let plan =
        ResponsePlan { version: intake.version, persistence: Persistence::Upgraded, body: BodySize::None };
    exchange.client_side.down.send_head(&mut exchange.buffers.response, &plan);
    let idle = exchange.env.rule().rule().policy.timeouts.read;
    exchange.record.body_bytes = tunnel(exchange.client_side, up, idle, exchange.env.worker).await;
    Ending::Finished
}
