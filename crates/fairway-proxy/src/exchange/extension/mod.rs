//! Exchanges that a service sees and may change over gRPC (`envoy.service.ext_proc.v3.ExternalProcessor/Process`).
//!
//! ```text
//! client ─► request body ─► Pipe ─► exchange within (Unseen) ─► endpoint
//!                            │ ▲
//!                    stream to the service
//!                            │ ▼
//! client ◄─── relay ◄────── Pipe ◄─ response of the exchange within
//! ```
//!
//! The exchange with the endpoint runs inside: it has its attempts, its timeouts and its buffers, and the [`Pipe`] for a client. Towards
//! the client the same pipe is the endpoint. What the service says is the business of [`Processor`], which knows no connection. A rule
//! without extensions meets none of this.

mod pipe;
mod service;

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use fairway_connection::sides::{AnswerPlan, Downstream, Upgrade};
use fairway_extension::change;
use fairway_extension::processing::{
    BodyLength, Counts, ExchangeFacts, Failure, HeadChange, ImmediateResponse, Processor, Side, Stop,
};
use fairway_http::{BodySize, Head, Known, Method};
use fairway_net::clock::Instant;
use fairway_routing::Extending;

use self::pipe::{EndpointSide, Pipe, Shared, Stream, is_empty};
use super::environment::{ClientSide, Ending, Environment, Exchange};
use super::forward;
use super::relay::{Broken, End, Relayed, Through, relay};
use super::respond::{self, Outcome};
use super::subrequest::Unseen;
use super::transact::announce;
use crate::fault::Fault;
use crate::filter::{self, Made, own_answer};
use crate::metrics::record::Record;
use crate::network::Network;
use crate::request::body::{BodyBounds, BodyFault, RequestBody};

/// How long a service may take to end a stream that has nothing more to say.
const STREAM_END_TIMEOUT: Duration = Duration::from_secs(5);

/// Forwards the request in the buffers through services, the first of them first, and brings the response back.
pub(super) fn forward_through<'e, 'a: 'e, N: Network, D: Downstream>(
    exchange: &'e mut Exchange<'_, 'a, N, D>,
    extensions: &'a [Extending],
) -> Pin<Box<dyn Future<Output = Outcome<'a>> + 'e>> {
    Box::pin(async move {
        match extensions {
            [] => forward::forward(exchange).await,
            [first, rest @ ..] => extend(exchange, first, rest).await,
        }
    })
}

/// Why the exchange does not go on through the service.
enum Halt<'a> {
    /// The service answers, or has failed.
    Stopped(Stop),
    /// Somebody else has.
    Failed(Fault),
    /// The exchange within ended without a response.
    Ended(Outcome<'a>),
}

async fn extend<'a, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, 'a, N, D>,
    extending: &'a Extending,
    rest: &'a [Extending],
) -> Outcome<'a> {
    let intake = &exchange.env.intake;
    let has_body = !is_empty(intake.body) && intake.upgrade == Upgrade::None;
    let processor = begin(exchange, extending, has_body);
    let shared = Rc::new(RefCell::new(Shared::new(processor, has_body)));
    let mut inner_buffers = exchange.env.worker.lend_buffers();
    let mut inner_record = Record::new(exchange.record.began, 0);
    let mut endpoint_side = EndpointSide::new(Rc::clone(&shared));
    let mut inner_client;
    let mut inner;
    let mut pipe = match service::open(exchange, extending, &shared) {
        Ok(service) => Pipe::new(Rc::clone(&shared), service),
        Err(fault) => return respond::refuse(exchange, fault, Made::ByRule).await,
    };
    let change = match request_head(exchange, &mut pipe).await {
        Ok(change) => change,
        Err(halt) => {
            drop(pipe);
            return end(exchange, extending, &shared, halt).await;
        }
    };
    if extending.prepared.extension().picks_endpoint {
        pick_endpoints(exchange, extending, &change, &shared);
    }
    // Nobody is waited for from here on but whom the exchange within waits for.
    let now = Instant::now();
    exchange.record.waited_until(now);
    inner_record.waited_until(now);
    (inner_record.method, inner_record.call) = (exchange.record.method, exchange.record.call);
    let is_out_of_the_way = shared.borrow().is_finished() && !pipe.has_body();
    if is_out_of_the_way || exchange.env.intake.upgrade != Upgrade::None {
        apply_to_request(exchange, &change);
        shared.borrow_mut().let_pass();
        count_end(exchange, extending, &shared);
        let service = pipe.into_service();
        let mut forwarding = forward_through(exchange, rest);
        return alongside(service, &mut forwarding).await;
    }
    let body = apply_to_inner(exchange, &change, &mut inner_buffers);
    inner_client = ClientSide::new(Unseen::new(&mut endpoint_side), exchange.client_side.peer.clone());
    let env = inner_environment(&exchange.env, &inner_buffers, body);
    // The client's body keeps the bounds; what the service makes of it need not.
    let bounds = BodyBounds { most: None, rate: 0, ..env.body_bounds(None) };
    inner_buffers.body = RequestBody::announced(bounds, env.client.trust);
    inner = Exchange {
        env,
        client_side: &mut inner_client,
        buffers: &mut inner_buffers,
        record: &mut inner_record,
    };
    pipe.begin(forward_through(&mut inner, rest));
    let outcome = match response_head(exchange, &mut pipe).await {
        Ok(()) => {
            let ending = hand_on(exchange, &mut pipe).await;
            Ok(Outcome::Ended(ending))
        }
        Err(halt) => Err(halt),
    };
    let service = pipe.into_service();
    shared.borrow_mut().let_pass();
    merge(exchange, &inner_record);
    std::mem::swap(&mut exchange.buffers.forms, &mut inner_buffers.forms);
    drop(inner_buffers);
    match outcome {
        Ok(outcome) => {
            count_end(exchange, extending, &shared);
            finish_later(service);
            outcome
        }
        Err(halt) => end(exchange, extending, &shared, halt).await,
    }
}

/// Tells the processor of the request.
fn begin<N: Network, D>(
    exchange: &Exchange<'_, '_, N, D>,
    extending: &Extending,
    has_body: bool,
) -> Processor {
    let Exchange { env, buffers, .. } = exchange;
    let extension = extending.prepared.extension();
    let rendered =
        |(name, template): &(Arc<str>, _)| (Arc::clone(name), filter::text(template, env.sources(), buffers));
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

/// Waits until the head of the request may go on.
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
            let before = pipe.moves();
            // The service may still leave the body to the endpoint: it is not read before the head needs it.
            let looked_at = match pipe.is_waiting_for_service() {
                true => exchange.client_side.down.poll_gone(cx).map(|()| Err(Fault::ClientGone)),
                false => watch.poll(cx, exchange, pipe),
            };
            if let Poll::Ready(Err(fault)) = looked_at {
                return Poll::Ready(Err(Halt::Failed(fault)));
            }
            if pipe.moves() == before {
                return Poll::Pending;
            }
        }
    })
    .await
}

/// Waits until the head of the response may go on, and writes it to the buffers.
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
            let before = pipe.moves();
            if let Poll::Ready(Err(fault)) = watch.poll(cx, exchange, pipe) {
                return Poll::Ready(Err(Halt::Failed(fault)));
            }
            if pipe.moves() == before {
                return Poll::Pending;
            }
        }
    })
    .await
}

/// Reads the request's body into the pipe, and looks after the client meanwhile.
#[derive(Default)]
struct ClientWatch {
    has_begun: bool,
    is_deaf: bool,
    received: Option<u64>,
    since: Option<Instant>,
}

impl ClientWatch {
    /// Ready when the client is the end of the exchange.
    fn poll<N: Network, D: Downstream>(
        &mut self,
        cx: &mut std::task::Context<'_>,
        exchange: &mut Exchange<'_, '_, N, D>,
        pipe: &mut Pipe<'_, '_>,
    ) -> Poll<Result<(), Fault>> {
        if !self.has_begun {
            self.has_begun = true;
            if pipe.wants_request_body() {
                announce(exchange);
            }
        }
        let Exchange { env, client_side, buffers, .. } = exchange;
        let ClientSide { down, deadline, .. } = &mut **client_side;
        if down.queued() > 0 && matches!(down.poll_flush(cx), Poll::Ready(Err(_))) {
            return Poll::Ready(Err(Fault::ClientGone));
        }
        if pipe.begins_body() {
            // What a guard has read already.
            if buffers.body.restart(cx, pipe, &buffers.replay).is_err() {
                self.is_deaf = true;
            }
            buffers.body.hold_nothing(&mut buffers.replay);
        }
        if !buffers.body.is_sent() && !self.is_deaf {
            match buffers.body.poll_send(cx, down, pipe, &mut buffers.replay) {
                Poll::Ready(Err(BodyFault::Downstream(fault))) => return Poll::Ready(Err(fault)),
                Poll::Ready(Err(BodyFault::Upstream)) => self.is_deaf = true,
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
        }
        if buffers.body.leaves_alone(self.is_deaf) {
            self.since = None;
            return down.poll_gone(cx).map(|()| Err(Fault::ClientGone));
        }
        let (now_received, patience) = (buffers.body.received(), env.worker.options.limits.body_idle);
        if self.received != Some(now_received) || self.since.is_none() {
            let now = Instant::now();
            if let Some(since) = self.since
                && buffers.body.note_wait(now.saturating_duration_since(since))
            {
                return Poll::Ready(Err(Fault::ClientTimeout));
            }
            (self.received, self.since) = (Some(now_received), Some(now));
            // A call may be silent for as long as its endpoint bears it.
            let patience = if env.intake.dialect.is_grpc() { Duration::MAX } else { patience };
            env.arm(deadline, now, patience);
        }
        deadline
            .poll_passed(cx)
            .map(|()| Err(if env.is_overdue() { env.overdue() } else { Fault::ClientTimeout }))
    }
}

/// The header in which an endpoint picker names endpoints (Endpoint Picker Protocol of the Gateway API Inference Extension).
const PICKED_ENDPOINTS: &str = "x-gateway-destination-endpoint";

/// Remembers which endpoints the service picked. What a client says in the same header counts for nothing.
fn pick_endpoints<N: Network, D>(
    exchange: &mut Exchange<'_, '_, N, D>,
    extending: &Extending,
    change: &HeadChange,
    shared: &Rc<RefCell<Shared>>,
) {
    let shared = shared.borrow();
    let in_header = || {
        let header = change.headers().iter().rev().find(|header| *header.name == *PICKED_ENDPOINTS)?;
        std::str::from_utf8(&header.value).ok()
    };
    let picked = shared.picked().or_else(in_header);
    // It failed, and the exchange goes on without it.
    if picked.is_none() && shared.failure().is_some() {
        return;
    }
    let is_required = !extending.prepared.extension().failure_mode_allow;
    exchange.buffers.forms.pick_endpoints(picked.unwrap_or_default(), is_required);
}

/// What the exchange within knows.
fn inner_environment<'a, N: Network>(
    env: &Environment<'a, N>,
    buffers: &crate::buffers::Buffers,
    body: BodySize,
) -> Environment<'a, N> {
    let mut intake = env.intake.clone();
    (intake.body, intake.expects_continue, intake.method) = (body, false, buffers.request.method());
    let mut inner = Environment::under(env.worker, env.adopted, env.rule(), intake, env.client);
    (inner.https_port, inner.http3_port) = (env.https_port, env.http3_port);
    inner.is_extended = true;
    inner.set_limit(env.limit());
    inner
}

/// Changes the head of the request as the service wants it; it goes to its endpoint from here.
fn apply_to_request<N: Network, D>(exchange: &mut Exchange<'_, '_, N, D>, change: &HeadChange) {
    let Exchange { env, buffers, .. } = exchange;
    let body = apply(change, &mut buffers.request, env.intake.body);
    env.intake.body = body;
    env.intake.method = buffers.request.method();
    if let Some(path) = &change.path {
        buffers.forms.write().target.clone_from(path);
    }
}

/// The same for a request whose exchange runs within. Says which body follows.
fn apply_to_inner<N: Network, D>(
    exchange: &mut Exchange<'_, '_, N, D>,
    change: &HeadChange,
    inner: &mut crate::buffers::Buffers,
) -> BodySize {
    let Exchange { env, buffers, .. } = exchange;
    inner.request.clone_from(&buffers.request);
    std::mem::swap(&mut inner.forms, &mut buffers.forms);
    let accepted = inner.forms.read().accepted;
    buffers.forms.accept(accepted);
    inner.host.clone_from(&buffers.host);
    inner.parties = buffers.parties;
    if let Some(path) = &change.path {
        inner.forms.write().target.clone_from(path);
    }
    apply(change, &mut inner.request, env.intake.body)
}

/// Changes a head, and says which body follows it.
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
    *buffers.answer = head;
    let is_head = env.intake.method == Method::Head;
    let body = match apply(change, &mut buffers.answer, body) {
        _ if is_head || matches!(buffers.answer.status(), 204 | 304) => BodySize::None,
        body => body,
    };
    pipe.set_response_body(body);
}

/// Relays the response whose head stands in the buffers.
async fn hand_on<'a, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, 'a, N, D>,
    pipe: &mut Pipe<'a, '_>,
) -> Ending {
    let began = Instant::now();
    exchange.record.status = exchange.buffers.answer.status();
    let mut body = pipe.response_body();
    let steps = forward::answer_steps(&exchange.env, exchange.buffers, &mut body);
    let intake = &exchange.env.intake;
    let persistence = respond::persistence(exchange.env.worker, exchange.client_side, intake);
    let plan = AnswerPlan { version: intake.version, persistence, body };
    let persistence = exchange.client_side.down.send_head(&mut exchange.buffers.answer, &plan);
    let through = Through { ahead: None, steps, encoder: None };
    match relay(exchange, pipe, began, through, persistence).await {
        Ok(Relayed::Whole(persistence, _)) => {
            exchange.record.end(Instant::now());
            respond::settle(exchange.client_side, persistence).await
        }
        // Nothing is read ahead of the client.
        Ok(Relayed::Held(..)) => forward::fail_mid_answer(exchange, Fault::ExtensionFailed),
        Err(Broken { fault, end }) => {
            let fault = match fault {
                Fault::UpstreamTruncated if pipe.has_failed() => Fault::ExtensionFailed,
                fault => fault,
            };
            match end {
                End::Sent => Box::pin(respond::end_early(exchange, fault)).await,
                End::Missing => forward::fail_mid_answer(exchange, fault),
            }
        }
    }
}

/// What the exchange within has found out counts for the whole.
fn merge<N: Network, D>(exchange: &mut Exchange<'_, '_, N, D>, inner: &Record<'_>) {
    let record = &mut *exchange.record;
    record.upstream = inner.upstream;
    record.served_by.canary.clone_from(&inner.served_by.canary);
    record.call.status = record.call.status.or(inner.call.status);
    match (record.fault, inner.fault) {
        // The exchange within fails where its client, which is the pipe, goes.
        (Some(Fault::UpstreamTruncated) | None, Some(fault)) if fault != Fault::ClientGone => {
            record.fault = Some(fault);
        }
        _ => {}
    }
}

/// Ends an exchange that does not go on through the service.
async fn end<'a, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, 'a, N, D>,
    extending: &Extending,
    shared: &Rc<RefCell<Shared>>,
    halt: Halt<'a>,
) -> Outcome<'a> {
    let worker = exchange.env.worker;
    match halt {
        Halt::Ended(Outcome::Ended(_)) => {
            exchange.client_side.down.abort();
            Outcome::Ended(Ending::Abort)
        }
        Halt::Ended(replaced) => replaced,
        Halt::Failed(Fault::ClientGone) => Outcome::Ended(respond::gone(exchange)),
        Halt::Failed(fault) => respond::refuse(exchange, fault, Made::ByRule).await,
        Halt::Stopped(Stop::Immediate(response)) => {
            worker.counters.extension_ended("immediate_response");
            Outcome::Ended(answer(exchange, &response).await)
        }
        Halt::Stopped(Stop::Failed(failure)) => {
            worker.counters.extension_ended(failure.label());
            tracing::debug!(extension = %extending.prepared.extension().name, %failure, "the exchange ends");
            let Counts { sent, received, refused } = shared.borrow().counts();
            tracing::trace!(sent, received, refused, "messages of the stream, and changes left out");
            let fault = match failure {
                Failure::TooLarge(Side::Request) => Fault::BodyTooLarge,
                _ => Fault::ExtensionFailed,
            };
            respond::refuse(exchange, fault, Made::ByRule).await
        }
    }
}

/// Sends the response that a service makes itself.
async fn answer<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    response: &ImmediateResponse,
) -> Ending {
    let Exchange { buffers, record, .. } = exchange;
    record.fault = (response.status >= 400).then_some(Fault::Denied(response.status));
    own_answer(buffers, response.status, None);
    buffers.text.clear();
    buffers.text.extend_from_slice(&response.body);
    change::apply(&response.headers, &mut buffers.answer);
    respond::own(exchange, Made::ByRule).await
}

/// Counts how the stream of an exchange that is over ended.
fn count_end<N: Network, D>(
    exchange: &Exchange<'_, '_, N, D>,
    extending: &Extending,
    shared: &Rc<RefCell<Shared>>,
) {
    let shared = shared.borrow();
    let result = match shared.failure() {
        None => "finished",
        Some(failure) => {
            tracing::debug!(extension = %extending.prepared.extension().name, %failure, "a service failed");
            if shared.has_stopped() { failure.label() } else { "failed_open" }
        }
    };
    exchange.env.worker.counters.extension_ended(result);
}

/// Polls the stream of a service until the exchange is over; it may end later.
async fn alongside<'a>(
    mut service: Option<Stream>,
    forwarding: &mut Pin<Box<dyn Future<Output = Outcome<'a>> + '_>>,
) -> Outcome<'a> {
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

/// Lets a service end its stream by itself: a reset would look like a failure to it.
fn finish_later(service: Option<Stream>) {
    if let Some(stream) = service {
        tokio::task::spawn_local(async move {
            // It is dropped, and with it reset, where it takes longer.
            let _ = tokio::time::timeout(STREAM_END_TIMEOUT, stream).await;
        });
    }
}
