//! Responses that Fairway makes itself, and what happens to the connection after any response.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use fairway_connection::sides::{BodyStep, Downstream, Persistence, ResponsePlan};
use fairway_http::grpc::Code;
use fairway_http::{BodySize, Malformed, Method, Version};
use fairway_net::clock::Instant;
use fairway_routing::ErrorPagesStep;

use super::alternative::advertise_http3;
use super::environment::{ClientSide, Ending, Environment, Exchange, Unroutable};
use crate::buffers::Buffers;
use crate::fault::Fault;
use crate::filter::{self, ResponseScope};
use crate::grpc::{self, dialect_of, response_dialect, status_code};
use crate::metrics::record::ExchangeRecord;
use crate::network::Network;
use crate::request::validation::Intake;
use crate::worker::{StopPhase, Worker};

/// How long the client may take to receive a response that Fairway made.
const OWN_RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection whose client always sends the next request before it has the response is closed after this many of Fairway's
/// own responses. Such requests cost their sender almost nothing, as they reach no endpoint.
const MAX_PIPELINED_OWN_RESPONSES: u16 = 100;

/// To keep a connection, an unread request body of at most this size is read and dropped.
const MAX_DRAINED_BODY_BYTES: u64 = 64 * 1024;

/// Responds to a request without a rule, or to a malformed one.
pub(crate) async fn respond_unroutable<N: Network, D: Downstream>(
    worker: &Worker<N>,
    client_side: &mut ClientSide<D>,
    buffers: &mut Buffers,
    why: &Unroutable,
    record: &mut ExchangeRecord<'_>,
) -> Ending {
    let fault = match why {
        Unroutable::Rejected(fault) | Unroutable::Unserved(_, fault) => *fault,
    };
    record.fault = Some(fault);
    record.grpc_call.dialect = response_dialect(&buffers.request, dialect_of(&buffers.request));
    start_fault_response(buffers, fault);
    match why {
        Unroutable::Unserved(intake, _) => {
            send_and_settle(worker, client_side, buffers, intake, record).await
        }
        // The beginning of the next request is unknown, or the client should send no more for now.
        Unroutable::Rejected(_) => {
            let version = buffers.request.version();
            send(client_side, buffers, version, Method::Get, Persistence::Close, record).await;
            Ending::Linger
        }
    }
}

/// Headers that tell the client what to do instead.
fn advice_headers(fault: Fault) -> &'static [(&'static [u8], &'static [u8])] {
    match fault {
        fault if fault.is_transient() => &[(b"Retry-After", b"1")],
        // "The origin server MUST generate an Allow header field in a 405 response" (RFC 9110 §15.5.6).
        Fault::MethodNotAllowed => &[(b"Allow", b"GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH")],
        // RFC 6455 §4.4; "the server MUST send an Upgrade header field in a 426 response" (RFC 9110 §15.5.22).
        Fault::Malformed(Malformed::WebsocketVersion) => {
            &[(b"Connection", b"upgrade"), (b"Upgrade", b"websocket"), (b"Sec-WebSocket-Version", b"13")]
        }
        _ => &[],
    }
}

/// Ends an exchange whose client has gone.
pub(crate) fn client_gone<N: Network, D: Downstream>(exchange: &mut Exchange<'_, '_, N, D>) -> Ending {
    exchange.record.fault = Some(Fault::ClientGone);
    exchange.record.status = Fault::ClientGone.status();
    record_cancelled(exchange.record);
    Ending::Abort
}

/// Records a gRPC call whose client has gone as cancelled.
pub(crate) fn record_cancelled(record: &mut ExchangeRecord<'_>) {
    if record.grpc_call.dialect.is_grpc() {
        record.grpc_call.status = Some(Code::Cancelled.number());
    }
}

/// The page that replaces a response with this status. Pages are for browsers: a gRPC client gets the status.
pub(crate) fn replacement<'a, N: Network>(
    env: &Environment<'a, N>,
    status: u16,
) -> Option<&'a ErrorPagesStep> {
    if env.intake.dialect.is_grpc() { None } else { filter::replacement(env.rule(), status) }
}

/// Responds with a fault, unless the rule has a page of another backend for its status.
pub(crate) async fn refuse<'a, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, 'a, N, D>,
    fault: Fault,
    made: ResponseScope,
) -> ForwardOutcome<'a> {
    let has_pages = made == ResponseScope::Rule && !exchange.env.is_for_fairway;
    match replacement(&exchange.env, fault.status()).filter(|_| has_pages) {
        Some(replacing) => ForwardOutcome::Replaced(replacing, fault.status(), Some(fault)),
        None => ForwardOutcome::Ended(refuse_without_page(exchange, fault, made).await),
    }
}

/// The result of forwarding or refusing a request.
pub(crate) enum ForwardOutcome<'a> {
    /// The client has its response, or gets none.
    Ended(Ending),
    /// The page of another backend replaces the response with this status, which came from the endpoint or from a fault.
    Replaced(&'a ErrorPagesStep, u16, Option<Fault>),
}

/// Responds with a fault, without the rule's pages.
pub(crate) async fn refuse_without_page<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    fault: Fault,
    made: ResponseScope,
) -> Ending {
    exchange.record.fault = Some(fault);
    start_fault_response(exchange.buffers, fault);
    if fault == Fault::AccessDenied && made == ResponseScope::Host {
        write_certificate_unauthorized(exchange.buffers);
    }
    send_own(exchange, made).await
}

/// Writes the body that ingress-nginx sends if the subject does not match (`auth-tls-match-cn`).
fn write_certificate_unauthorized(buffers: &mut Buffers) {
    buffers.response.set(b"Content-Type", b"text/html");
    buffers.text.clear();
    buffers.text.extend_from_slice(b"client certificate unauthorized");
}

/// Responds 404 where the page of another backend is not available.
pub(super) async fn respond_without_page<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
) -> Ending {
    filter::start_own_response(exchange.buffers, 404, None);
    send_own(exchange, ResponseScope::Host).await
}

/// Starts the response for a fault.
fn start_fault_response(buffers: &mut Buffers, fault: Fault) {
    filter::start_own_response(buffers, fault.status(), Some(fault.label()));
    for (name, value) in advice_headers(fault) {
        buffers.response.append(name, value);
    }
}

/// Sends the response in the buffers, after the response steps for its scope.
pub(crate) async fn send_own<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    made: ResponseScope,
) -> Ending {
    let Exchange { env, client_side, buffers, record, .. } = exchange;
    filter::on_response(env.rule(), made, env.sources(), || env.new_request_id(), buffers);
    advertise_http3(env, &mut buffers.response);
    // Boxed: few requests need it, and every connection's task would reserve room for it.
    Box::pin(send_and_settle(env.worker, client_side, buffers, &env.intake, record)).await
}

/// Flushes a truncated response to a gRPC call that ends with a status.
pub(crate) async fn end_early<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    fault: Fault,
) -> Ending {
    exchange.record.fault = Some(fault);
    exchange.record.grpc_call.status = Some(status_code(fault).number());
    let ClientSide { down, deadline, .. } = &mut *exchange.client_side;
    deadline.set(Instant::now(), OWN_RESPONSE_TIMEOUT);
    let flushed = poll_fn(|cx| match down.poll_flush(cx) {
        Poll::Ready(flushed) => Poll::Ready(flushed.is_ok()),
        Poll::Pending => deadline.poll_passed(cx).map(|()| false),
    });
    if flushed.await {
        return Ending::Linger;
    }
    down.abort();
    Ending::Abort
}

async fn send_and_settle<N: Network, D: Downstream>(
    worker: &Worker<N>,
    client_side: &mut ClientSide<D>,
    buffers: &mut Buffers,
    intake: &Intake,
    record: &mut ExchangeRecord<'_>,
) -> Ending {
    client_side.own_responses = client_side.own_responses.saturating_add(1);
    // The rest of a late body may still arrive, so no request may follow it (RFC 9110 §15.5.9).
    let persistence = match record.fault {
        Some(Fault::ClientTimeout) => Persistence::Close,
        // Closing the connection frees a descriptor.
        Some(Fault::LocalShortage) => Persistence::Close,
        _ if client_side.own_responses >= MAX_PIPELINED_OWN_RESPONSES => Persistence::Close,
        _ => persistence(worker, client_side, intake),
    };
    if !send(client_side, buffers, intake.version, intake.method, persistence, record).await {
        return Ending::Abort;
    }
    settle_connection(client_side, persistence).await
}

/// Whether the connection can be kept: the client wants it, Fairway is not draining, and the unread rest of the body is small
/// and certain to arrive.
pub(crate) fn persistence<N: Network, D: Downstream>(
    worker: &Worker<N>,
    client_side: &ClientSide<D>,
    intake: &Intake,
) -> Persistence {
    let max_requests =
        worker.client_limit(client_side.peer.listener, |clients| clients.requests_per_connection);
    let drainable = match client_side.down.unread_body() {
        Some(0) => true,
        Some(rest) => rest <= MAX_DRAINED_BODY_BYTES && !intake.expects_continue,
        None => false,
    };
    if intake.persistence == Persistence::KeepAlive
        && worker.phase_of(client_side.peer.listener) == StopPhase::Running
        && u64::from(client_side.served_requests) + 1 < max_requests
        && drainable
    {
        Persistence::KeepAlive
    } else {
        Persistence::Close
    }
}

/// Sends head and body from the buffers; `false` if the client has gone.
async fn send<D: Downstream>(
    client_side: &mut ClientSide<D>,
    buffers: &mut Buffers,
    version: Version,
    method: Method,
    persistence: Persistence,
    record: &mut ExchangeRecord<'_>,
) -> bool {
    grpc::convert_response(&mut buffers.response, &mut buffers.text, &mut record.grpc_call, record.fault);
    record.status = buffers.response.status();
    let body = match buffers.response.status() {
        204 | 304 => BodySize::None,
        _ if buffers.text.is_empty() && !grpc::needs_length(&record.grpc_call, version) => BodySize::None,
        _ => {
            let length = itoa::Buffer::new().format(buffers.text.len()).to_owned();
            buffers.response.set(b"Content-Length", length.as_bytes());
            BodySize::Exact(buffers.text.len() as u64)
        }
    };
    let body = if method == Method::Head { BodySize::None } else { body };
    client_side.down.send_head(&mut buffers.response, &ResponsePlan { version, persistence, body });
    let body: &[u8] = if body == BodySize::None { &[] } else { &buffers.text };
    record.body_bytes = body.len() as u64;
    let ClientSide { down, deadline, .. } = client_side;
    deadline.set(Instant::now(), OWN_RESPONSE_TIMEOUT);
    let mut queued = false;
    poll_fn(|cx| {
        if !queued && (down.send_data(cx, body).is_err() || down.finish(std::iter::empty()).is_err()) {
            return Poll::Ready(false);
        }
        queued = true;
        match down.poll_flush(cx) {
            Poll::Ready(flushed) => Poll::Ready(flushed.is_ok()),
            Poll::Pending => deadline.poll_passed(cx).map(|()| false),
        }
    })
    .await
}

/// Reads the rest of the request body so that the next request can be read, or ends the connection.
pub(crate) async fn settle_connection<D: Downstream>(
    client_side: &mut ClientSide<D>,
    persistence: Persistence,
) -> Ending {
    if persistence != Persistence::KeepAlive {
        return Ending::Linger;
    }
    let ClientSide { down, deadline, .. } = client_side;
    if down.unread_body() == Some(0) {
        return Ending::KeepAlive;
    }
    deadline.set(Instant::now(), OWN_RESPONSE_TIMEOUT);
    poll_fn(|cx| {
        loop {
            match down.poll_body(cx, usize::MAX, |_, _| Ok(())) {
                Poll::Ready(Ok(BodyStep::End)) => return Poll::Ready(Ending::KeepAlive),
                Poll::Ready(Ok(BodyStep::More)) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(Ending::Abort),
                Poll::Pending => return deadline.poll_passed(cx).map(|()| Ending::Linger),
            }
        }
    })
    .await
}
