//! Requests whose bodies are held until they are whole (docs/buffering.md): a client that sends slowly keeps no endpoint busy.

use std::future::poll_fn;
use std::task::{Poll, ready};

use fairway_connection::sides::{Downstream, Upgrade};
use fairway_http::BodySize;
use fairway_http::grpc::Dialect;
use fairway_model::BodyBuffer;
use fairway_net::clock::Instant;

use super::environment::{ClientSide, Environment, Exchange};
use super::transact::announce;
use crate::buffering::{Disk, Of, Store};
use crate::fault::Fault;
use crate::filter::Verdict;
use crate::metrics::count;
use crate::network::Network;

/// Where the request's body is held, if it is. What tunnels and calls carry goes both ways at once.
#[inline]
pub(super) fn buffer<N: Network>(env: &Environment<'_, N>) -> Option<BodyBuffer> {
    let buffer = env.rule().steps().forwarding.buffering.as_ref()?.requests?;
    let intake = &env.intake;
    let is_stream = intake.upgrade != Upgrade::None || intake.dialect != Dialect::None;
    (intake.body != BodySize::None && !is_stream && !env.is_for_fairway).then_some(buffer)
}

/// Waits until the request's body is whole.
pub(super) async fn hold<'a, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, 'a, N, D>,
    buffer: BodyBuffer,
) -> Verdict<'a> {
    let held = receive(exchange, buffer).await;
    // The endpoint is not late for what its client took.
    exchange.record.waited_until(Instant::now());
    match held {
        Ok(length) => {
            if let (Some(length), BodySize::Unknown) = (length, exchange.env.intake.body) {
                // What a guard has read already is sent before what is held.
                let length = length + exchange.buffers.replay.len() as u64;
                exchange.env.intake.body = BodySize::Exact(length);
                let text = itoa::Buffer::new().format(length).to_owned();
                exchange.buffers.request.set(b"Content-Length", text.as_bytes());
            }
            Verdict::Pass
        }
        Err(fault) => {
            exchange.buffers.body.forget();
            Verdict::Refused(fault)
        }
    }
}

/// How far a body is, and who is waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    received: u64,
    waits_for_disk: bool,
}

/// Moves the body to where it is held.
async fn receive<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    buffer: BodyBuffer,
) -> Result<Option<u64>, Fault> {
    let worker = exchange.env.worker;
    if let BodySize::Exact(length) = exchange.env.intake.body {
        if length > buffer.most() {
            return Err(Fault::BodyTooLarge);
        }
        if length > u64::from(buffer.memory) && !worker.disk.is_there() {
            Disk::miss();
            return Err(Fault::BufferFull);
        }
    }
    let share = worker.held.empty();
    count(&worker.counters.buffered.requests);
    exchange.buffers.body.hold(Store::new(Of::Request, buffer, worker.disk.clone(), share));
    announce(exchange);
    let Exchange { env, client_side, buffers, .. } = exchange;
    let ClientSide { down, deadline, .. } = &mut **client_side;
    let patience = env.worker.options.limits.body_idle;
    let mut since = Instant::now();
    let mut seen: Option<Seen> = None;
    poll_fn(|cx| {
        if down.queued() > 0 && matches!(down.poll_flush(cx), Poll::Ready(Err(_))) {
            return Poll::Ready(Err(Fault::ClientGone));
        }
        if let Poll::Ready(held) = buffers.body.poll_hold(cx, down, env.worker.shared_memory()) {
            return Poll::Ready(held);
        }
        let waits_for_disk = buffers.body.waits_for_disk();
        let now_seen = Seen { received: buffers.body.received(), waits_for_disk };
        if seen != Some(now_seen) {
            let now = Instant::now();
            let was_waited_for = seen.is_some_and(|seen| !seen.waits_for_disk);
            if was_waited_for && buffers.body.note_wait(now.saturating_duration_since(since)) {
                return Poll::Ready(Err(Fault::ClientTimeout));
            }
            (since, seen) = (now, Some(now_seen));
            env.arm(deadline, since, patience);
        }
        ready!(deadline.poll_passed(cx));
        Poll::Ready(Err(match waits_for_disk {
            _ if env.is_overdue() => env.overdue(),
            true => Fault::BufferFull,
            false => Fault::ClientTimeout,
        }))
    })
    .await
}
