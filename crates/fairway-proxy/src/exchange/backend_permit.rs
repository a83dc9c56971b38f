//! Waits for a place if the backend limits the requests or connections of all workers: at most for the time left for
//! connecting, and while the client is there.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use fairway_connection::sides::{Downstream, Hop};
use fairway_net::clock::Instant;

use super::attempt::{AttemptFailure, Attempts, Connection};
use super::environment::{ClientSide, Environment, Exchange};
use super::idle::take_idle;
use crate::fault::Fault;
use crate::network::Network;
use crate::upstream::{ConnectionPermit, LimitReached, PendingRequest, PickedEndpoint, RequestPermit};
use crate::worker::EndpointHop;

/// Waits for a place for the request.
///
/// # Errors
/// The queue is full, no place became free in time, or the client has gone.
#[cold]
pub(super) async fn wait_for_request<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    attempts: &mut Attempts<'_, N>,
    full: LimitReached,
) -> Result<Option<RequestPermit>, Fault> {
    let mut pending = attempts.group.wait(full).map_err(Fault::BackendFull)?;
    let began = exchange.record.forwarding_started_at();
    loop {
        wait_for_call(&exchange.env, began, attempts, exchange.client_side, &mut pending).await?;
        match attempts.group.begin_request() {
            Ok(place) => return Ok(place),
            Err(full) => pending.wait_for(full),
        }
    }
}

/// The result of waiting for a place for a connection.
pub(super) enum ConnectionFound<H: Hop> {
    /// A connection became idle.
    Idle(Connection<H>),
    /// A new one may be made.
    Place(PickedEndpoint<H>, Option<Rc<ConnectionPermit>>),
}

/// Waits for a place for a connection to the endpoint, or for an idle connection to it or, if the request is not bound to
/// endpoints, to another one.
///
/// # Errors
/// As [`wait_for_request`].
#[cold]
pub(super) async fn wait_for_connection<N: Network, D: Downstream>(
    env: &Environment<'_, N>,
    began: Instant,
    attempts: &mut Attempts<'_, N>,
    mut chosen: PickedEndpoint<EndpointHop<N>>,
    client_side: &mut ClientSide<D>,
    full: LimitReached,
) -> Result<ConnectionFound<EndpointHop<N>>, AttemptFailure> {
    let failure =
        |fault, picked: &PickedEndpoint<_>| AttemptFailure::before_sending(fault, false, picked.index);
    let pending = attempts.group.wait(full);
    let mut pending = pending.map_err(|full| failure(Fault::BackendFull(full), &chosen))?;
    loop {
        let called = wait_for_call(env, began, attempts, client_side, &mut pending).await;
        called.map_err(|fault| failure(fault, &chosen))?;
        chosen = match take_idle(chosen, attempts) {
            Ok(idle) => return Ok(ConnectionFound::Idle(idle)),
            Err(chosen) => chosen,
        };
        if let Some(Ok(idle)) = attempts.pick_with_idle_connection().map(|other| take_idle(other, attempts)) {
            return Ok(ConnectionFound::Idle(idle));
        }
        if let Ok(place) = attempts.group.begin_connection() {
            return Ok(ConnectionFound::Place(chosen, place));
        }
    }
}

/// Waits until a place may be free.
async fn wait_for_call<N: Network, D: Downstream>(
    env: &Environment<'_, N>,
    began: Instant,
    attempts: &mut Attempts<'_, N>,
    client_side: &mut ClientSide<D>,
    pending: &mut PendingRequest,
) -> Result<(), Fault> {
    let ClientSide { down, deadline, .. } = client_side;
    let now = Instant::now();
    env.arm(deadline, now, attempts.connect_time_left(env, now.saturating_duration_since(began)));
    let called = poll_fn(|cx| match pending.poll_woken(cx) {
        Poll::Ready(()) => Poll::Ready(Ok(())),
        Poll::Pending if down.poll_client_gone(cx).is_ready() => Poll::Ready(Err(Fault::ClientGone)),
        Poll::Pending => deadline.poll_passed(cx).map(|()| {
            Err(if env.is_overdue() { env.overdue_fault() } else { Fault::BackendFull(pending.full()) })
        }),
    });
    called.await?;
    attempts.now = Instant::now();
    Ok(())
}
