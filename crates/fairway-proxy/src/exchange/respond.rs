//! Answers that Fairway makes, and what becomes of the connection after any answer.

use std::future::poll_fn;
use std::task::Poll;

use fairway_http1::{Framing, Malformed, Method};

use super::intake::{Expectation, Intake};
use super::record::Record;
use super::sides::{AnswerPlan, BodyStep, Channel, Downstream, Persistence};
use super::{Connection, Ending, Turn, Unroutable};
use crate::clock::Instant;
use crate::fault::Fault;
use crate::filter;
use crate::transport::{Network, Transport};
use crate::worker::{Desk, Phase, Worker};

/// An unread request body of at most this size is read and dropped to keep the connection.
const WORTH_DRAINING: u64 = 64 * 1024;

/// Answers a request that has no rule, or is none.
pub(crate) async fn unroutable<N: Network, S: Transport>(
    worker: &Worker<N>,
    connection: &mut Connection<S>,
    desk: &mut Desk,
    why: &Unroutable,
    record: &mut Record<'_>,
) -> Ending {
    let fault = match why {
        Unroutable::Broken(fault) => *fault,
        Unroutable::NoRoute(_) => Fault::NoRoute,
    };
    record.fault = Some(fault);
    own_fault(desk, fault);
    match why {
        Unroutable::NoRoute(intake) => finish(worker, connection, desk, intake, record).await,
        // Where the next request would begin, nobody knows; or nothing more is wanted of this client for now.
        Unroutable::Broken(_) => {
            let plan = AnswerPlan { version: desk.request.version(), persistence: Persistence::Close };
            send(connection, desk, Method::Get, &plan, record).await;
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

/// Answers a fault under a rule: its response filters apply.
pub(crate) async fn refuse_by_rule<N: Network, S: Transport>(
    turn: &mut Turn<'_, '_, N, S>,
    fault: Fault,
) -> Ending {
    turn.record.fault = Some(fault);
    own_fault(turn.desk, fault);
    own(turn).await
}

/// Starts the answer that says what went wrong.
fn own_fault(desk: &mut Desk, fault: Fault) {
    filter::own_answer(desk, fault.status(), Some(fault.label()));
    for (name, value) in advice(fault) {
        desk.answer.append(name, value);
    }
}

/// Sends the answer that stands on the desk.
pub(crate) async fn own<N: Network, S: Transport>(turn: &mut Turn<'_, '_, N, S>) -> Ending {
    let Turn { scene, connection, desk, record, .. } = turn;
    filter::on_answer(scene.rule, scene.client.scheme, desk);
    // Boxed: its own room in every connection's task would be larger than its share of requests.
    Box::pin(finish(scene.worker, connection, desk, &scene.intake, record)).await
}

async fn finish<N: Network, S: Transport>(
    worker: &Worker<N>,
    connection: &mut Connection<S>,
    desk: &mut Desk,
    intake: &Intake,
    record: &mut Record<'_>,
) -> Ending {
    // The rest of a body that did not come in time may come yet: no request may begin behind it (RFC 9110 §15.5.9).
    let persistence = match record.fault {
        Some(Fault::ClientTimeout) => Persistence::Close,
        // Its own descriptor is one that is missing.
        Some(Fault::LocalShortage) => Persistence::Close,
        _ => persistence(worker, connection, intake),
    };
    let plan = AnswerPlan { version: intake.version, persistence };
    if !send(connection, desk, intake.method, &plan, record).await {
        return Ending::Abort;
    }
    settle(connection, plan.persistence).await
}

/// Whether the connection can stay: the client wishes it, Fairway is not leaving, and what is unread of the body is
/// little and sure to come.
pub(crate) fn persistence<N: Network, S: Transport>(
    worker: &Worker<N>,
    connection: &Connection<S>,
    intake: &Intake,
) -> Persistence {
    let most = worker.adopted().settings().downstream.requests_per_connection;
    let unread = if connection.h1.is_body_read() { Some(0) } else { connection.h1.body_remaining() };
    let drainable = match unread {
        Some(0) => true,
        Some(rest) => rest <= WORTH_DRAINING && intake.expectation == Expectation::Nothing,
        None => false,
    };
    if intake.persistence == Persistence::KeepAlive
        && worker.phase() == Phase::Running
        && connection.served + 1 < most
        && drainable
    {
        Persistence::KeepAlive
    } else {
        Persistence::Close
    }
}

/// Sends head and body from the desk; `false` when the client is gone.
async fn send<S: Transport>(
    connection: &mut Connection<S>,
    desk: &mut Desk,
    method: Method,
    plan: &AnswerPlan,
    record: &mut Record<'_>,
) -> bool {
    record.status = desk.answer.status();
    let framing = match desk.answer.status() {
        204 | 304 => Framing::None,
        _ => {
            let length = itoa::Buffer::new().format(desk.text.len()).to_owned();
            desk.answer.set(b"Content-Length", length.as_bytes());
            Framing::Length(desk.text.len() as u64)
        }
    };
    let framing = if method == Method::Head { Framing::None } else { framing };
    connection.h1.send_head(&mut desk.answer, framing, plan);
    let body: &[u8] = if framing == Framing::None { &[] } else { &desk.text };
    record.body_bytes = body.len() as u64;
    let Connection { h1, deadline, .. } = connection;
    deadline.set(Instant::now(), crate::downstream::OWN_ANSWER);
    let mut queued = false;
    poll_fn(|cx| {
        if !queued && (h1.send_data(cx, body).is_err() || h1.finish(std::iter::empty()).is_err()) {
            return Poll::Ready(false);
        }
        queued = true;
        match h1.poll_flush(cx) {
            Poll::Ready(flushed) => Poll::Ready(flushed.is_ok()),
            Poll::Pending => deadline.poll_passed(cx).map(|()| false),
        }
    })
    .await
}

/// Brings the connection to where the next request can be read, or to its end.
pub(crate) async fn settle<S: Transport>(connection: &mut Connection<S>, persistence: Persistence) -> Ending {
    if persistence != Persistence::KeepAlive {
        return Ending::Linger;
    }
    let Connection { h1, deadline, .. } = connection;
    if h1.is_body_read() {
        return Ending::Again;
    }
    deadline.set(Instant::now(), crate::downstream::OWN_ANSWER);
    poll_fn(|cx| {
        loop {
            match h1.poll_body(cx, |_, _| Ok(())) {
                Poll::Ready(Ok(BodyStep::End)) => return Poll::Ready(Ending::Again),
                Poll::Ready(Ok(BodyStep::More)) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(Ending::Abort),
                Poll::Pending => return deadline.poll_passed(cx).map(|()| Ending::Linger),
            }
        }
    })
    .await
}
