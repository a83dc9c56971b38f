//! Waiting for a place, where the backend limits what all workers together have under way with it: for as long as connecting may take, and as
//! somebody waits for the response.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use fairway_connection::sides::{Downstream, Hop};
use fairway_net::clock::Instant;

use super::attempt::{Attempts, Connection, Failure};
use super::environment::{ClientSide, Environment, Exchange};
use super::idle::at_hand;
use crate::fault::Fault;
use crate::network::Network;
use crate::upstream::{Chosen, ConnectionPlace, Full, Pending, RequestPlace};
use crate::worker::ToEndpoint;

/// A place for the request.
///
/// # Errors
/// There is none, or none in time, or nobody waits for the response.
#[cold]
pub(super) async fn wait_for_request<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    attempts: &mut Attempts<'_, N>,
    full: Full,
) -> Result<Option<RequestPlace>, Fault> {
    let mut pending = attempts.group.wait(full).map_err(Fault::BackendFull)?;
    let began = exchange.record.forwarding_began();
    loop {
        call(&exchange.env, began, attempts, exchange.client_side, &mut pending).await?;
        match attempts.group.begin_request() {
            Ok(place) => return Ok(place),
            Err(full) => pending.wait_for(full),
        }
    }
}

/// What came of waiting for a place for a connection.
pub(super) enum Found<H: Hop> {
    /// A connection became idle.
    Idle(Connection<H>),
    /// One may be made.
    Place(Chosen<H>, Option<Rc<ConnectionPlace>>),
}

/// A place for a connection to the endpoint, or an idle connection to it or, where the request belongs to none, to another one.
///
/// # Errors
/// As [`wait_for_request`].
#[cold]
pub(super) async fn wait_for_connection<N: Network, D: Downstream>(
    env: &Environment<'_, N>,
    began: Instant,
    attempts: &mut Attempts<'_, N>,
    mut chosen: Chosen<ToEndpoint<N>>,
    client_side: &mut ClientSide<D>,
    full: Full,
) -> Result<Found<ToEndpoint<N>>, Failure> {
    let failure = |fault, chosen: &Chosen<_>| Failure::before_sending(fault, false, chosen.index);
    let pending = attempts.group.wait(full);
    let mut pending = pending.map_err(|full| failure(Fault::BackendFull(full), &chosen))?;
    loop {
        let called = call(env, began, attempts, client_side, &mut pending).await;
        called.map_err(|fault| failure(fault, &chosen))?;
        chosen = match at_hand(chosen, attempts) {
            Ok(idle) => return Ok(Found::Idle(idle)),
            Err(chosen) => chosen,
        };
        if let Some(Ok(idle)) = attempts.with_idle().map(|other| at_hand(other, attempts)) {
            return Ok(Found::Idle(idle));
        }
        if let Ok(place) = attempts.group.begin_connection() {
            return Ok(Found::Place(chosen, place));
        }
    }
}

/// Waits until there may be a place.
async fn call<N: Network, D: Downstream>(
    env: &Environment<'_, N>,
    began: Instant,
    attempts: &mut Attempts<'_, N>,
    client_side: &mut ClientSide<D>,
    pending: &mut Pending,
) -> Result<(), Fault> {
    let ClientSide { down, deadline, .. } = client_side;
    let now = Instant::now();
    env.arm(deadline, now, attempts.connect_limit(env, now.saturating_duration_since(began)));
    let called = poll_fn(|cx| match pending.poll_call(cx) {
        Poll::Ready(()) => Poll::Ready(Ok(())),
        Poll::Pending if down.poll_gone(cx).is_ready() => Poll::Ready(Err(Fault::ClientGone)),
        Poll::Pending => deadline
            .poll_passed(cx)
            .map(|()| Err(if env.is_overdue() { env.overdue() } else { Fault::BackendFull(pending.full()) })),
    });
    called.await?;
    attempts.now = Instant::now();
    Ok(())
}
