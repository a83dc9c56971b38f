//! Answers that Fairway makes, and what becomes of the connection after any answer.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use fairway_connection::sides::{AnswerPlan, BodyStep, Downstream, Persistence};
use fairway_http::grpc::Code;
use fairway_http::{BodySize, Malformed, Method, Version};
use fairway_net::clock::Instant;
use fairway_routing::Replacing;

use super::alternative::advertise_http3;
use super::environment::{ClientSide, Ending, Environment, Exchange, Unroutable};
use crate::buffers::Buffers;
use crate::fault::Fault;
use crate::filter::{self, Made};
use crate::grpc::{self, code_of, dialect_of, dialect_of_answers};
use crate::metrics::record::Record;
use crate::network::Network;
use crate::request::intake::Intake;
use crate::worker::{Phase, Worker};

/// How long the client may take to receive an answer that Fairway made.
const OWN_ANSWER: Duration = Duration::from_secs(10);

/// Answers that Fairway makes on a connection whose client always has the next request there before the answer. Most of
/// such requests cost their sender almost nothing: they have no endpoint to reach.
const OWN_ANSWERS_AHEAD: u16 = 100;

/// An unread request body of at most this size is read and dropped to keep the connection.
const WORTH_DRAINING: u64 = 64 * 1024;

/// Answers a request that has no rule, or is none.
pub(crate) async fn unroutable<N: Network, D: Downstream>(
    worker: &Worker<N>,
    client_side: &mut ClientSide<D>,
    buffers: &mut Buffers,
    why: &Unroutable,
    record: &mut Record<'_>,
) -> Ending {
    let fault = match why {
        Unroutable::Broken(fault) | Unroutable::Unserved(_, fault) => *fault,
    };
    record.fault = Some(fault);
    record.call.dialect = dialect_of_answers(&buffers.request, dialect_of(&buffers.request));
    own_fault(buffers, fault);
    match why {
        Unroutable::Unserved(intake, _) => finish(worker, client_side, buffers, intake, record).await,
        // Where the next request would begin, nobody knows; or nothing more is wanted of this client for now.
        Unroutable::Broken(_) => {
            let version = buffers.request.version();
            send(client_side, buffers, version, Method::Get, Persistence::Close, record).await;
            Ending::Linger
        }
    }
}

/// Fields that tell the client what it may do instead.
fn advice(fault: Fault) -> &'static [(&'static [u8], &'static [u8])] {
    match fault {
        passing if passing.is_passing() => &[(b"Retry-After", b"1")],
        // "The origin server MUST generate an Allow header field in a 405 response" (RFC 9110 §15.5.6).
        Fault::MethodNotAllowed => &[(b"Allow", b"GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH")],
        // RFC 6455 §4.4; "the server MUST send an Upgrade header field in a 426 response" (RFC 9110 §15.5.22).
        Fault::Malformed(Malformed::WebsocketVersion) => {
            &[(b"Connection", b"upgrade"), (b"Upgrade", b"websocket"), (b"Sec-WebSocket-Version", b"13")]
        }
        _ => &[],
    }
}

/// The client has gone: there is nobody to answer.
pub(crate) fn gone<N: Network, D: Downstream>(exchange: &mut Exchange<'_, '_, N, D>) -> Ending {
    exchange.record.fault = Some(Fault::ClientGone);
    exchange.record.status = Fault::ClientGone.status();
    note_cancelled(exchange.record);
    Ending::Abort
}

/// A call whose client has gone was cancelled, though nobody is left to be told.
pub(crate) fn note_cancelled(record: &mut Record<'_>) {
    if record.call.dialect.is_grpc() {
        record.call.status = Some(Code::Cancelled.number());
    }
}

/// Who makes the answer instead, if it has this status. Pages are for people: a gRPC client gets the status.
pub(crate) fn replacing<'a, N: Network>(env: &Environment<'a, N>, status: u16) -> Option<&'a Replacing> {
    if env.intake.dialect.is_grpc() { None } else { filter::replacing(env.rule(), status) }
}

/// Answers a fault, unless the rule that makes the answer lets another backend make it.
pub(crate) async fn refuse<'a, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, 'a, N, D>,
    fault: Fault,
    made: Made,
) -> Outcome<'a> {
    let has_pages = made == Made::ByRule && !exchange.env.is_for_fairway;
    match replacing(&exchange.env, fault.status()).filter(|_| has_pages) {
        Some(replacing) => Outcome::Replaced(replacing, fault.status(), Some(fault)),
        None => Outcome::Ended(refuse_without_page(exchange, fault, made).await),
    }
}

/// How an exchange goes on when its request was forwarded or refused.
pub(crate) enum Outcome<'a> {
    /// The client has its answer, or will have none.
    Ended(Ending),
    /// Another backend answers instead of this status, which is an endpoint's, or comes of a fault.
    Replaced(&'a Replacing, u16, Option<Fault>),
}

/// Answers a fault, whatever pages the rule has.
pub(crate) async fn refuse_without_page<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    fault: Fault,
    made: Made,
) -> Ending {
    exchange.record.fault = Some(fault);
    own_fault(exchange.buffers, fault);
    if fault == Fault::AccessDenied && made == Made::ByHost {
        unauthorized(exchange.buffers);
    }
    own(exchange, made).await
}

/// What ingress-nginx says to certificates of others (`auth-tls-match-cn`).
fn unauthorized(buffers: &mut Buffers) {
    buffers.answer.set(b"Content-Type", b"text/html");
    buffers.text.clear();
    buffers.text.extend_from_slice(b"client certificate unauthorized");
}

/// Answers 404 in the place of an answer that nobody has a page for.
pub(super) async fn without_page<N: Network, D: Downstream>(exchange: &mut Exchange<'_, '_, N, D>) -> Ending {
    filter::own_answer(exchange.buffers, 404, None);
    own(exchange, Made::ByHost).await
}

/// Starts the answer that says what went wrong.
fn own_fault(buffers: &mut Buffers, fault: Fault) {
    filter::own_answer(buffers, fault.status(), Some(fault.label()));
    for (name, value) in advice(fault) {
        buffers.answer.append(name, value);
    }
}

/// Sends the answer that stands in the buffers, and was `made` there.
pub(crate) async fn own<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    made: Made,
) -> Ending {
    let Exchange { env, client_side, buffers, record, .. } = exchange;
    filter::on_answer(env.rule(), made, env.sources(), || env.number(), buffers);
    advertise_http3(env, &mut buffers.answer);
    // Boxed: its own room in every connection's task would be larger than its share of requests.
    Box::pin(finish(env.worker, client_side, buffers, &env.intake, record)).await
}

/// An answer to a call broke off, and has an end that says so: it is sent, and nothing more.
pub(crate) async fn end_early<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    fault: Fault,
) -> Ending {
    exchange.record.fault = Some(fault);
    exchange.record.call.status = Some(code_of(fault).number());
    let ClientSide { down, deadline, .. } = &mut *exchange.client_side;
    deadline.set(Instant::now(), OWN_ANSWER);
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

async fn finish<N: Network, D: Downstream>(
    worker: &Worker<N>,
    client_side: &mut ClientSide<D>,
    buffers: &mut Buffers,
    intake: &Intake,
    record: &mut Record<'_>,
) -> Ending {
    client_side.own_answers = client_side.own_answers.saturating_add(1);
    // The rest of a body that did not come in time may come yet: no request may begin behind it (RFC 9110 §15.5.9).
    let persistence = match record.fault {
        Some(Fault::ClientTimeout) => Persistence::Close,
        // Its own descriptor is one that is missing.
        Some(Fault::LocalShortage) => Persistence::Close,
        _ if client_side.own_answers >= OWN_ANSWERS_AHEAD => Persistence::Close,
        _ => persistence(worker, client_side, intake),
    };
    if !send(client_side, buffers, intake.version, intake.method, persistence, record).await {
        return Ending::Abort;
    }
    settle(client_side, persistence).await
}

/// Whether the connection can stay: the client wishes it, Fairway is not leaving, and what is unread of the body is
/// little and sure to come.
pub(crate) fn persistence<N: Network, D: Downstream>(
    worker: &Worker<N>,
    client_side: &ClientSide<D>,
    intake: &Intake,
) -> Persistence {
    let most = worker.clients(client_side.peer.listener, |clients| clients.requests_per_connection);
    let drainable = match client_side.down.unread() {
        Some(0) => true,
        Some(rest) => rest <= WORTH_DRAINING && !intake.expects_continue,
        None => false,
    };
    if intake.persistence == Persistence::KeepAlive
        && worker.phase_of(client_side.peer.listener) == Phase::Running
        && u64::from(client_side.served) + 1 < most
        && drainable
    {
        Persistence::KeepAlive
    } else {
        Persistence::Close
    }
}

/// Sends head and body from the buffers; `false` when the client is gone.
async fn send<D: Downstream>(
    client_side: &mut ClientSide<D>,
    buffers: &mut Buffers,
    version: Version,
    method: Method,
    persistence: Persistence,
    record: &mut Record<'_>,
) -> bool {
    grpc::tell(&mut buffers.answer, &mut buffers.text, &mut record.call, record.fault);
    record.status = buffers.answer.status();
    let body = match buffers.answer.status() {
        204 | 304 => BodySize::None,
        _ if buffers.text.is_empty() && !grpc::needs_length(&record.call, version) => BodySize::None,
        _ => {
            let length = itoa::Buffer::new().format(buffers.text.len()).to_owned();
            buffers.answer.set(b"Content-Length", length.as_bytes());
            BodySize::Exact(buffers.text.len() as u64)
        }
    };
    let body = if method == Method::Head { BodySize::None } else { body };
    client_side.down.send_head(&mut buffers.answer, &AnswerPlan { version, persistence, body });
    let body: &[u8] = if body == BodySize::None { &[] } else { &buffers.text };
    record.body_bytes = body.len() as u64;
    let ClientSide { down, deadline, .. } = client_side;
    deadline.set(Instant::now(), OWN_ANSWER);
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

/// Brings the connection to where the next request can be read, or to its end.
pub(crate) async fn settle<D: Downstream>(
    client_side: &mut ClientSide<D>,
    persistence: Persistence,
) -> Ending {
    if persistence != Persistence::KeepAlive {
        return Ending::Linger;
    }
    let ClientSide { down, deadline, .. } = client_side;
    if down.unread() == Some(0) {
        return Ending::Again;
    }
    deadline.set(Instant::now(), OWN_ANSWER);
    poll_fn(|cx| {
        loop {
            match down.poll_body(cx, usize::MAX, |_, _| Ok(())) {
                Poll::Ready(Ok(BodyStep::End)) => return Poll::Ready(Ending::Again),
                Poll::Ready(Ok(BodyStep::More)) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(Ending::Abort),
                Poll::Pending => return deadline.poll_passed(cx).map(|()| Ending::Linger),
            }
        }
    })
    .await
}
