//! Buffers request bodies until they are complete (docs/buffering.md), so that a slow client does not occupy an endpoint.

use std::future::poll_fn;
use std::task::{Poll, ready};

use fairway_connection::sides::{Downstream, Upgrade};
use fairway_http::BodySize;
use fairway_http::grpc::Dialect;
use fairway_model::BodyBuffer;
use fairway_net::clock::Instant;

use super::environment::{ClientSide, Environment, Exchange};
use super::transact::send_continue;
use crate::buffering::{BodyKind, Disk, Store};
use crate::fault::Fault;
use crate::filter::Verdict;
use crate::metrics::increment;
use crate::network::Network;

/// The buffer settings for the request body, if it is buffered. Tunnels and gRPC calls are not: they stream in both directions.
#[inline]
pub(super) fn request_buffer<N: Network>(env: &Environment<'_, N>) -> Option<BodyBuffer> {
    let buffer = env.rule().steps().forwarding.buffering.as_ref()?.requests?;
    let intake = &env.intake;
    let is_stream = intake.upgrade != Upgrade::None || intake.dialect != Dialect::None;
    (intake.body != BodySize::None && !is_stream && !env.is_for_fairway).then_some(buffer)
}

/// Waits until the request body is complete.
pub(super) async fn buffer_request<'a, N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, 'a, N, D>,
    buffer: BodyBuffer,
) -> Verdict<'a> {
    let buffered_body = fill_store(exchange, buffer).await;
    // The time that the client takes does not count as the endpoint's.
    exchange.record.finish_waiting(Instant::now());
    match buffered_body {
        Ok(length) => {
            if let (Some(length), BodySize::Unknown) = (length, exchange.env.intake.body) {
                // Bytes that a guard has read are sent before the buffered ones.
                let length = length + exchange.buffers.replay.len() as u64;
                exchange.env.intake.body = BodySize::Exact(length);
                let text = itoa::Buffer::new().format(length).to_owned();
                exchange.buffers.request.set(b"Content-Length", text.as_bytes());
            }
            Verdict::Pass
        }
        Err(fault) => {
            exchange.buffers.body.discard_store();
            Verdict::Refused(fault)
        }
    }
}

/// How much was received, and whether the disk is awaited.
#[derive(Clone, Copy, PartialEq, Eq)]
struct HoldProgress {
    received: u64,
    waits_for_disk: bool,
}

/// Receives the body into the buffer.
async fn fill_store<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    buffer: BodyBuffer,
) -> Result<Option<u64>, Fault> {
    let worker = exchange.env.worker;
    if let BodySize::Exact(length) = exchange.env.intake.body {
        if length > buffer.capacity() {
            return Err(Fault::BodyTooLarge);
        }
        if length > u64::from(buffer.memory) && !worker.disk.is_available() {
            Disk::log_missing();
            return Err(Fault::BufferFull);
        }
    }
    let share = worker.body_memory.empty();
    increment(&worker.counters.buffered.requests);
    exchange.buffers.body.set_store(Store::new(BodyKind::Request, buffer, worker.disk.clone(), share));
    send_continue(exchange);
    let Exchange { env, client_side, buffers, .. } = exchange;
    let ClientSide { down, deadline, .. } = &mut **client_side;
    let idle_timeout = env.worker.options.limits.body_idle;
    let mut since = Instant::now();
    let mut progress: Option<HoldProgress> = None;
    poll_fn(|cx| {
        if down.queued() > 0 && matches!(down.poll_flush(cx), Poll::Ready(Err(_))) {
            return Poll::Ready(Err(Fault::ClientGone));
        }
        if let Poll::Ready(held) = buffers.body.poll_store(cx, down, env.worker.max_shared_memory()) {
            return Poll::Ready(held);
        }
        let waits_for_disk = buffers.body.waits_for_disk();
        let now_seen = HoldProgress { received: buffers.body.received(), waits_for_disk };
        if progress != Some(now_seen) {
            let now = Instant::now();
            let was_waited_for = progress.is_some_and(|seen| !seen.waits_for_disk);
            if was_waited_for && buffers.body.record_wait(now.saturating_duration_since(since)) {
                return Poll::Ready(Err(Fault::ClientTimeout));
            }
            (since, progress) = (now, Some(now_seen));
            env.arm(deadline, since, idle_timeout);
        }
        ready!(deadline.poll_passed(cx));
        Poll::Ready(Err(match waits_for_disk {
            _ if env.is_overdue() => env.overdue_fault(),
            true => Fault::BufferFull,
            false => Fault::ClientTimeout,
        }))
    })
    .await
}
