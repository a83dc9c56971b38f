//! Exchanges that an extension service sees and may change over gRPC (`envoy.service.ext_proc.v3.ExternalProcessor/Process`).
//!
//! ```text
//! client ─► request body ─► Pipe ─► exchange within (Unseen) ─► endpoint
//!                            │ ▲
//!                    stream to the service
//!                            │ ▼
//! client ◄─── relay ◄────── Pipe ◄─ response of the exchange within
//! ```
//!
//! The exchange with the endpoint runs inside, with its own attempts, timeouts and buffers, and the [`Pipe`] as its client.
//! Towards the client the same pipe is the endpoint. [`Processor`] implements the protocol of the service and knows no
//! connection. Rules without extensions do not use this module.

mod pipe;
mod service;

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use fairway_connection::sides::{Downstream, ResponsePlan, Upgrade};
use fairway_extension::change;
use fairway_extension::processing::{
    BodyLength, ExchangeFacts, Failure, HeadChange, ImmediateResponse, Processor, Side, StopReason,
    StreamCounts,
};
use fairway_http::{BodySize, Head, Known, Method};
use fairway_net::clock::Instant;
use fairway_routing::ExtensionStep;

use self::pipe::{EndpointSide, Pipe, PipeState, Stream, is_empty};
use super::environment::{ClientSide, Ending, Environment, Exchange};
use super::forward;
use super::relay::{BrokenResponse, ClientEnd, Relayed, ResponsePipeline, relay};
use super::respond::{self, ForwardOutcome};
use super::subrequest::SubrequestClient;
use super::transact::send_continue;
use crate::fault::Fault;
use crate::filter::{self, ResponseScope, start_own_response};
use crate::metrics::record::ExchangeRecord;
use crate::network::Network;
use crate::request::body::{BodyBounds, BodyFault, RequestBody};

/// How long a service may take to end its stream after the exchange.
const STREAM_END_TIMEOUT: Duration = Duration::from_secs(5);

/// Forwards the request through the services in order, and sends the response to the client.
pub(super) fn forward_through<'e, 'a: 'e, N: Network, D: Downstream>(
    exchange: &'e mut Exchange<'_, 'a, N, D>,
    extensions: &'a [ExtensionStep],
) -> Pin<Box<dyn Future<Output = ForwardOutcome<'a>> + 'e>> {
    Box::pin(async move {
        match extensions {
            [] => forward::forward(exchange).await,
            [first, rest @ ..] => run_extension(exchange, first, rest).await,
        }
    })
}

/// Why the exchange does not continue through the service.
enum Halt<'a> {
    /// The service responds itself, or has failed.
    Stopped(StopReason),
    /// Another party failed.
    Failed(Fault),
    /// The inner exchange ended without a response.
    Ended(ForwardOutcome<'a>),
}

async fn run_extension<'a, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, 'a, N, D>,
    extending: &'a ExtensionStep,
    rest: &'a [ExtensionStep],
) -> ForwardOutcome<'a> {
    let intake = &exchange.env.intake;
    let has_body = !is_empty(intake.body) && intake.upgrade == Upgrade::None;
    let processor = start_processor(exchange, extending, has_body);
    let shared = Rc::new(RefCell::new(PipeState::new(processor, has_body)));
    let mut inner_buffers = exchange.env.worker.lend_buffers();
    let mut inner_record = ExchangeRecord::new(exchange.record.started_at, 0);
    let mut endpoint_side = EndpointSide::new(Rc::clone(&shared));
    let mut inner_client;
    let mut inner;
    let mut pipe = match service::open(exchange, extending, &shared) {
        Ok(service) => Pipe::new(Rc::clone(&shared), service),
        Err(fault) => return respond::refuse(exchange, fault, ResponseScope::Rule).await,
    };
    let change = match request_head(exchange, &mut pipe).await {
        Ok(change) => change,
        Err(halt) => {
            drop(pipe);
            return end_halted(exchange, extending, &shared, halt).await;
        }
    };
    if extending.prepared.extension().picks_endpoint {
        pick_endpoints(exchange, extending, &change, &shared);
    }
    // From here on only the inner exchange waits for others.
    let now = Instant::now();
    exchange.record.finish_waiting(now);
    inner_record.finish_waiting(now);
    (inner_record.method, inner_record.grpc_call) = (exchange.record.method, exchange.record.grpc_call);
    let is_out_of_the_way = shared.borrow().is_finished() && !pipe.has_body();
    if is_out_of_the_way || exchange.env.intake.upgrade != Upgrade::None {
        apply_to_request(exchange, &change);
        shared.borrow_mut().finish_service();
        count_end(exchange, extending, &shared);
        let service = pipe.into_service();
        let mut forwarding = forward_through(exchange, rest);
        return forward_alongside(service, &mut forwarding).await;
    }
    let body = apply_to_inner(exchange, &change, &mut inner_buffers);
    inner_client =
        ClientSide::new(SubrequestClient::new(&mut endpoint_side), exchange.client_side.peer.clone());
    let env = inner_environment(&exchange.env, &inner_buffers, body);
    // The limits apply to the client's body, not to what the service makes of it.
    let bounds = BodyBounds { max_bytes: None, rate: 0, ..env.body_bounds(None) };
    inner_buffers.body = RequestBody::without_continue(bounds, env.client.trust);
    inner = Exchange {
        env,
        client_side: &mut inner_client,
        buffers: &mut inner_buffers,
        record: &mut inner_record,
    };
    pipe.start_inner(forward_through(&mut inner, rest));
    let outcome = match response_head(exchange, &mut pipe).await {
        Ok(()) => {
            let ending = relay_response(exchange, &mut pipe).await;
            Ok(ForwardOutcome::Ended(ending))
        }
        Err(halt) => Err(halt),
    };
    let service = pipe.into_service();
    shared.borrow_mut().finish_service();
    merge_record(exchange, &inner_record);
    std::mem::swap(&mut exchange.buffers.extras, &mut inner_buffers.extras);
    drop(inner_buffers);
    match outcome {
        Ok(outcome) => {
            count_end(exchange, extending, &shared);
            finish_later(service);
            outcome
        }
        Err(halt) => end_halted(exchange, extending, &shared, halt).await,
    }
}

/// Creates the processor and gives it the request head.
fn start_processor<N: Network, D>(
    exchange: &Exchange<'_, '_, N, D>,
    extending: &ExtensionStep,
    has_body: bool,
) -> Processor {
    let Exchange { env, buffers, .. } = exchange;
    let extension = extending.prepared.extension();
    let rendered = |(name, template): &(Arc<str>, _)| {
        (Arc::clone(name), filter::render(template, env.sources(), buffers))
    };
    let attributes: Vec<_> = extension.attributes.iter().map(rendered).collect();
    let facts = ExchangeFacts {
        path: env.intake.received(buffers),
        scheme: env.client.scheme.as_str(),
        authority: buffers.request.first(Known::Host),
        attributes: &attributes,
    };
    let mut processor = Processor::from_prepared(Arc::clone(&extending.prepared));
    processor.request_head(&buffers.request, &facts, has_body);
    processor
}

/// Waits until the request head may be forwarded.
async fn request_head<'a, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, 'a, N, D>,
    pipe: &mut Pipe<'a, '_>,
) -> Result<HeadChange, Halt<'a>> {
    let mut watch = ClientWatch::default();
    poll_fn(|cx| {
        loop {
            pipe.drive(cx);
            if let Some(stop) = pipe.take_stop() {
                return Poll::Ready(Err(Halt::Stopped(stop)));
            }
            if let Some(change) = pipe.take_request_head() {
                return Poll::Ready(Ok(change));
            }
            let before = pipe.progress();
            // The service may still leave the body to the endpoint, so it is not read before the head has passed.
            let looked_at = match pipe.is_waiting_for_service() {
                true => exchange.client_side.down.poll_client_gone(cx).map(|()| Err(Fault::ClientGone)),
                false => watch.poll(cx, exchange, pipe),
            };
            if let Poll::Ready(Err(fault)) = looked_at {
                return Poll::Ready(Err(Halt::Failed(fault)));
            }
            if pipe.progress() == before {
                return Poll::Pending;
            }
        }
    })
    .await
}

/// Waits until the response head may be sent, and writes it to the buffers.
async fn response_head<'a, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, 'a, N, D>,
    pipe: &mut Pipe<'a, '_>,
) -> Result<(), Halt<'a>> {
    let mut watch = ClientWatch::default();
    poll_fn(|cx| {
        loop {
            pipe.drive(cx);
            if let Some(stop) = pipe.take_stop() {
                return Poll::Ready(Err(Halt::Stopped(stop)));
            }
            if let Some((head, change)) = pipe.take_response_head() {
                apply_to_response(exchange, head, &change, pipe);
                return Poll::Ready(Ok(()));
            }
            if let Some(outcome) = pipe.take_outcome() {
                return Poll::Ready(Err(Halt::Ended(outcome)));
            }
            for interim in pipe.take_interims() {
                if exchange.env.intake.version != fairway_http::Version::Http10 {
                    exchange.client_side.down.send_interim(&interim);
                }
            }
            let before = pipe.progress();
            if let Poll::Ready(Err(fault)) = watch.poll(cx, exchange, pipe) {
                return Poll::Ready(Err(Halt::Failed(fault)));
            }
            if pipe.progress() == before {
                return Poll::Pending;
            }
        }
    })
    .await
}

/// Reads the request body into the pipe, and watches the client.
#[derive(Default)]
struct ClientWatch {
    has_begun: bool,
    is_deaf: bool,
    received: Option<u64>,
    since: Option<Instant>,
}

impl ClientWatch {
    /// Ready when the client ends the exchange.
    fn poll<N: Network, D: Downstream>(
        &mut self,
        cx: &mut std::task::Context<'_>,
        exchange: &mut Exchange<'_, '_, N, D>,
        pipe: &mut Pipe<'_, '_>,
    ) -> Poll<Result<(), Fault>> {
        if !self.has_begun {
            self.has_begun = true;
            if pipe.wants_request_body() {
                send_continue(exchange);
            }
        }
        let Exchange { env, client_side, buffers, .. } = exchange;
        let ClientSide { down, deadline, .. } = &mut **client_side;
        if down.queued() > 0 && matches!(down.poll_flush(cx), Poll::Ready(Err(_))) {
            return Poll::Ready(Err(Fault::ClientGone));
        }
        if pipe.starts_body() {
            // Bytes that a guard has read already.
            if buffers.body.restart(cx, pipe, &buffers.replay).is_err() {
                self.is_deaf = true;
            }
            buffers.body.discard_replay(&mut buffers.replay);
        }
        if !buffers.body.is_sent() && !self.is_deaf {
            match buffers.body.poll_send(cx, down, pipe, &mut buffers.replay) {
                Poll::Ready(Err(BodyFault::Downstream(fault))) => return Poll::Ready(Err(fault)),
                Poll::Ready(Err(BodyFault::Upstream)) => self.is_deaf = true,
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
        }
        if buffers.body.is_client_paused(self.is_deaf) {
            self.since = None;
            return down.poll_client_gone(cx).map(|()| Err(Fault::ClientGone));
        }
        let (now_received, idle_timeout) = (buffers.body.received(), env.worker.options.limits.body_idle);
        if self.received != Some(now_received) || self.since.is_none() {
            let now = Instant::now();
            if let Some(since) = self.since
                && buffers.body.record_wait(now.saturating_duration_since(since))
            {
                return Poll::Ready(Err(Fault::ClientTimeout));
            }
            (self.received, self.since) = (Some(now_received), Some(now));
            // A gRPC call may be silent for as long as its endpoint allows.
            let idle_timeout = if env.intake.dialect.is_grpc() { Duration::MAX } else { idle_timeout };
            env.arm(deadline, now, idle_timeout);
        }
        deadline
            .poll_passed(cx)
            .map(|()| Err(if env.is_overdue() { env.overdue_fault() } else { Fault::ClientTimeout }))
    }
}

/// The header in which an endpoint picker names endpoints (Endpoint Picker Protocol of the Gateway API Inference Extension).
const PICKED_ENDPOINTS: &str = "x-gateway-destination-endpoint";

/// Records the endpoints that the service picked. The same header from the client is ignored.
fn pick_endpoints<N: Network, D>(
    exchange: &mut Exchange<'_, '_, N, D>,
    extending: &ExtensionStep,
    change: &HeadChange,
    shared: &Rc<RefCell<PipeState>>,
) {
    let shared = shared.borrow();
    let in_header = || {
        let header = change.headers().iter().rev().find(|header| *header.name == *PICKED_ENDPOINTS)?;
        std::str::from_utf8(&header.value).ok()
    };
    let picked = shared.picked_endpoints().or_else(in_header);
    // The service failed, and the exchange continues without it.
    if picked.is_none() && shared.failure().is_some() {
        return;
    }
    let is_required = !extending.prepared.extension().failure_mode_allow;
    exchange.buffers.extras.pick_endpoints(picked.unwrap_or_default(), is_required);
}

/// The environment of the inner exchange.
fn inner_environment<'a, N: Network>(
    env: &Environment<'a, N>,
    buffers: &crate::buffers::Buffers,
    body: BodySize,
) -> Environment<'a, N> {
    let mut intake = env.intake.clone();
    (intake.body, intake.expects_continue, intake.method) = (body, false, buffers.request.method());
    let mut inner = Environment::for_rule(env.worker, env.adopted, env.rule(), intake, env.client);
    (inner.https_port, inner.http3_port) = (env.https_port, env.http3_port);
    inner.is_extended = true;
    inner.set_deadline(env.limit());
    inner
}

/// Applies the service's changes to the request head, which is then forwarded directly.
fn apply_to_request<N: Network, D>(exchange: &mut Exchange<'_, '_, N, D>, change: &HeadChange) {
    let Exchange { env, buffers, .. } = exchange;
    let body = apply(change, &mut buffers.request, env.intake.body);
    env.intake.body = body;
    env.intake.method = buffers.request.method();
    if let Some(path) = &change.path {
        buffers.extras.write().target.clone_from(path);
    }
}

/// Writes the changed request head for the inner exchange. Returns the size of its body.
fn apply_to_inner<N: Network, D>(
    exchange: &mut Exchange<'_, '_, N, D>,
    change: &HeadChange,
    inner: &mut crate::buffers::Buffers,
) -> BodySize {
    let Exchange { env, buffers, .. } = exchange;
    inner.request.clone_from(&buffers.request);
    std::mem::swap(&mut inner.extras, &mut buffers.extras);
    let accepted = inner.extras.read().accepted;
    buffers.extras.set_accepted(accepted);
    inner.host.clone_from(&buffers.host);
    inner.addresses = buffers.addresses;
    if let Some(path) = &change.path {
        inner.extras.write().target.clone_from(path);
    }
    apply(change, &mut inner.request, env.intake.body)
}

/// Applies changes to a head. Returns the size of the body that follows.
fn apply(change: &HeadChange, head: &mut Head, body: BodySize) -> BodySize {
    change.apply(head);
    let body = match change.length {
        BodyLength::Unchanged => return body,
        BodyLength::Unknown => BodySize::Unknown,
        BodyLength::Exact(length) => BodySize::Exact(length),
        BodyLength::None => BodySize::Exact(0),
    };
    match body {
        BodySize::Exact(length) => head.set(b"Content-Length", itoa::Buffer::new().format(length).as_bytes()),
        _ => head.remove_known(Known::ContentLength),
    }
    body
}

fn apply_to_response<N: Network, D>(
    exchange: &mut Exchange<'_, '_, N, D>,
    (head, body): (Head, BodySize),
    change: &HeadChange,
    pipe: &mut Pipe<'_, '_>,
) {
    let Exchange { env, buffers, .. } = exchange;
    *buffers.response = head;
    let is_head = env.intake.method == Method::Head;
    let body = match apply(change, &mut buffers.response, body) {
        _ if is_head || matches!(buffers.response.status(), 204 | 304) => BodySize::None,
        body => body,
    };
    pipe.set_response_body(body);
}

/// Relays the response whose head is in the buffers.
async fn relay_response<'a, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, 'a, N, D>,
    pipe: &mut Pipe<'a, '_>,
) -> Ending {
    let began = Instant::now();
    exchange.record.status = exchange.buffers.response.status();
    let mut body = pipe.response_body();
    let steps = forward::response_body_steps(&exchange.env, exchange.buffers, &mut body);
    let intake = &exchange.env.intake;
    let persistence = respond::persistence(exchange.env.worker, exchange.client_side, intake);
    let plan = ResponsePlan { version: intake.version, persistence, body };
    let persistence = exchange.client_side.down.send_head(&mut exchange.buffers.response, &plan);
    let through = ResponsePipeline { ahead: None, steps, encoder: None };
    match relay(exchange, pipe, began, through, persistence).await {
        Ok(Relayed::Complete(persistence, _)) => {
            exchange.record.finish(Instant::now());
            respond::settle_connection(exchange.client_side, persistence).await
        }
        // Read-ahead is disabled here.
        Ok(Relayed::Buffered(..)) => forward::fail_mid_response(exchange, Fault::ExtensionFailed),
        Err(BrokenResponse { fault, end }) => {
            let fault = match fault {
                Fault::UpstreamTruncated if pipe.has_failed() => Fault::ExtensionFailed,
                fault => fault,
            };
            match end {
                ClientEnd::Sent => Box::pin(respond::end_early(exchange, fault)).await,
                ClientEnd::Missing => forward::fail_mid_response(exchange, fault),
            }
        }
    }
}

/// Merges the record of the inner exchange into that of the exchange.
fn merge_record<N: Network, D>(exchange: &mut Exchange<'_, '_, N, D>, inner: &ExchangeRecord<'_>) {
    let record = &mut *exchange.record;
    record.upstream = inner.upstream;
    record.served_by.canary.clone_from(&inner.served_by.canary);
    record.grpc_call.status = record.grpc_call.status.or(inner.grpc_call.status);
    match (record.fault, inner.fault) {
        // The inner exchange also fails when its client, the pipe, is dropped.
        (Some(Fault::UpstreamTruncated) | None, Some(fault)) if fault != Fault::ClientGone => {
            record.fault = Some(fault);
        }
        _ => {}
    }
}

/// Ends an exchange that does not continue through the service.
async fn end_halted<'a, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, 'a, N, D>,
    extending: &ExtensionStep,
    shared: &Rc<RefCell<PipeState>>,
    halt: Halt<'a>,
) -> ForwardOutcome<'a> {
    let worker = exchange.env.worker;
    match halt {
        Halt::Ended(ForwardOutcome::Ended(_)) => {
            exchange.client_side.down.abort();
            ForwardOutcome::Ended(Ending::Abort)
        }
        Halt::Ended(replaced) => replaced,
        Halt::Failed(Fault::ClientGone) => ForwardOutcome::Ended(respond::client_gone(exchange)),
        Halt::Failed(fault) => respond::refuse(exchange, fault, ResponseScope::Rule).await,
        Halt::Stopped(StopReason::Immediate(response)) => {
            worker.counters.count_extension_stream("immediate_response");
            ForwardOutcome::Ended(send_immediate_response(exchange, &response).await)
        }
        Halt::Stopped(StopReason::Failed(failure)) => {
            worker.counters.count_extension_stream(failure.label());
            tracing::debug!(extension = %extending.prepared.extension().name, %failure, "an extension service ended the exchange");
            let StreamCounts { sent, received, refused } = shared.borrow().counts();
            tracing::trace!(sent, received, refused, "messages of the stream, and refused changes");
            let fault = match failure {
                Failure::TooLarge(Side::Request) => Fault::BodyTooLarge,
                _ => Fault::ExtensionFailed,
            };
            respond::refuse(exchange, fault, ResponseScope::Rule).await
        }
    }
}

/// Sends the immediate response of a service.
async fn send_immediate_response<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    response: &ImmediateResponse,
) -> Ending {
    let Exchange { buffers, record, .. } = exchange;
    record.fault = (response.status >= 400).then_some(Fault::Denied(response.status));
    start_own_response(buffers, response.status, None);
    buffers.text.clear();
    buffers.text.extend_from_slice(&response.body);
    change::apply(&response.headers, &mut buffers.response);
    respond::send_own(exchange, ResponseScope::Rule).await
}

/// Counts how the stream of a finished exchange ended.
fn count_end<N: Network, D>(
    exchange: &Exchange<'_, '_, N, D>,
    extending: &ExtensionStep,
    shared: &Rc<RefCell<PipeState>>,
) {
    let shared = shared.borrow();
    let result = match shared.failure() {
        None => "finished",
        Some(failure) => {
            tracing::debug!(extension = %extending.prepared.extension().name, %failure, "a service failed");
            if shared.has_stopped() { failure.label() } else { "failed_open" }
        }
    };
    exchange.env.worker.counters.count_extension_stream(result);
}

/// Polls the stream of a service together with the exchange; it may end later.
async fn forward_alongside<'a>(
    mut service: Option<Stream>,
    forwarding: &mut Pin<Box<dyn Future<Output = ForwardOutcome<'a>> + '_>>,
) -> ForwardOutcome<'a> {
    let outcome = poll_fn(|cx| {
        if let Some(stream) = &mut service
            && stream.as_mut().poll(cx).is_ready()
        {
            service = None;
        }
        forwarding.as_mut().poll(cx)
    })
    .await;
    finish_later(service);
    outcome
}

/// Lets a service end its stream itself: a reset would look like a failure to it.
fn finish_later(service: Option<Stream>) {
    if let Some(stream) = service {
        tokio::task::spawn_local(async move {
            // Dropping it after the timeout resets it.
            let _ = tokio::time::timeout(STREAM_END_TIMEOUT, stream).await;
        });
    }
}
