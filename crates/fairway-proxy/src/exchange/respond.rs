//! Answers that Fairway makes, and what becomes of the connection after any answer.

use std::future::poll_fn;
use std::task::Poll;

use fairway_message::{BodySize, Malformed, Method, Version};

use super::intake::{Expectation, Intake};
use super::record::Record;
use super::sides::{AnswerPlan, BodyStep, Downstream, Persistence};
use super::{Caller, Ending, Turn, Unroutable};
use crate::clock::Instant;
use crate::fault::Fault;
use crate::filter;
use crate::transport::Network;
use crate::worker::{Desk, Phase, Worker};

/// An unread request body of at most this size is read and dropped to keep the connection.
const WORTH_DRAINING: u64 = 64 * 1024;

/// Answers a request that has no rule, or is none.
pub(crate) async fn unroutable<N: Network, D: Downstream>(
    worker: &Worker<N>,
    caller: &mut Caller<'_, D>,
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
        Unroutable::NoRoute(intake) => finish(worker, caller, desk, intake, record).await,
        // Where the next request would begin, nobody knows; or nothing more is wanted of this client for now.
        Unroutable::Broken(_) => {
            let how = (desk.request.version(), Method::Get, Persistence::Close);
            send(caller, desk, how, record).await;
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
pub(crate) async fn refuse_by_rule<N: Network, D: Downstream>(
    turn: &mut Turn<'_, '_, N, D>,
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
pub(crate) async fn own<N: Network, D: Downstream>(turn: &mut Turn<'_, '_, N, D>) -> Ending {
    let Turn { scene, caller, desk, record, .. } = turn;
    filter::on_answer(scene.rule, scene.client.scheme, desk);
    // Boxed: its own room in every connection's task would be larger than its share of requests.
    Box::pin(finish(scene.worker, caller, desk, &scene.intake, record)).await
}

async fn finish<N: Network, D: Downstream>(
    worker: &Worker<N>,
    caller: &mut Caller<'_, D>,
    desk: &mut Desk,
    intake: &Intake,
    record: &mut Record<'_>,
) -> Ending {
    // The rest of a body that did not come in time may come yet: no request may begin behind it (RFC 9110 §15.5.9).
    let persistence = match record.fault {
        Some(Fault::ClientTimeout) => Persistence::Close,
        // Its own descriptor is one that is missing.
        Some(Fault::LocalShortage) => Persistence::Close,
        _ => persistence(worker, caller, intake),
    };
    if !send(caller, desk, (intake.version, intake.method, persistence), record).await {
        return Ending::Abort;
    }
    settle(caller, persistence).await
}

/// Whether the connection can stay: the client wishes it, Fairway is not leaving, and what is unread of the body is
/// little and sure to come.
pub(crate) fn persistence<N: Network, D: Downstream>(
    worker: &Worker<N>,
    caller: &Caller<'_, D>,
    intake: &Intake,
) -> Persistence {
    let most = worker.adopted().settings().downstream.requests_per_connection;
    let drainable = match caller.down.unread() {
        Some(0) => true,
        Some(rest) => rest <= WORTH_DRAINING && intake.expectation == Expectation::Nothing,
        None => false,
    };
    if intake.persistence == Persistence::KeepAlive
        && worker.phase() == Phase::Running
        && caller.served + 1 < most
        && drainable
    {
        Persistence::KeepAlive
    } else {
        Persistence::Close
    }
}

/// Sends head and body from the desk; `false` when the client is gone.
async fn send<D: Downstream>(
    caller: &mut Caller<'_, D>,
    desk: &mut Desk,
    (version, method, persistence): (Version, Method, Persistence),
    record: &mut Record<'_>,
) -> bool {
    record.status = desk.answer.status();
    let body = match desk.answer.status() {
        204 | 304 => BodySize::None,
        _ => {
            let length = itoa::Buffer::new().format(desk.text.len()).to_owned();
            desk.answer.set(b"Content-Length", length.as_bytes());
            BodySize::Exact(desk.text.len() as u64)
        }
    };
    let body = if method == Method::Head { BodySize::None } else { body };
    caller.down.send_head(&mut desk.answer, &AnswerPlan { version, persistence, body });
    let body: &[u8] = if body == BodySize::None { &[] } else { &desk.text };
    record.body_bytes = body.len() as u64;
    let Caller { down, deadline, .. } = caller;
    deadline.set(Instant::now(), crate::downstream::OWN_ANSWER);
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
pub(crate) async fn settle<D: Downstream>(caller: &mut Caller<'_, D>, persistence: Persistence) -> Ending {
    if persistence != Persistence::KeepAlive {
        return Ending::Linger;
    }
    let Caller { down, deadline, .. } = caller;
    if down.unread() == Some(0) {
        return Ending::Again;
    }
    deadline.set(Instant::now(), crate::downstream::OWN_ANSWER);
    poll_fn(|cx| {
        loop {
            match down.poll_body(cx, |_, _| Ok(())) {
                Poll::Ready(Ok(BodyStep::End)) => return Poll::Ready(Ending::Again),
                Poll::Ready(Ok(BodyStep::More)) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(Ending::Abort),
                Poll::Pending => return deadline.poll_passed(cx).map(|()| Ending::Linger),
            }
        }
    })
    .await
}
