//! Lingering close, so that the client receives the last response.
//!
//! The kernel answers close with unread input with a reset, which can destroy the response before the client reads it.
//! So the sending direction is shut down, remaining input is read and dropped, and then the socket is closed (RFC 9112
//! §9.6). Clients that are still sending a body get more time, as in nginx (`lingering_time`, `lingering_timeout`):
//! most send the whole body before they read the response.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use fairway_net::transport::Transport;
use fairway_net::wire::ReadResult;
use tokio::time::{Instant, timeout, timeout_at};

use super::hop::H1;

/// How long a client may take to close once its request is complete.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Bytes that are read from a client whose request is complete.
const MAX_EXTRA_INPUT_BYTES: u64 = 1024 * 1024;

/// How long a client may pause within its body.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the rest of a body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// How often to check whether connections are scarce.
const SCARCITY_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Bytes that are dropped before other connections get their turn.
const MAX_BYTES_PER_POLL: u64 = 256 * 1024;

/// Closes the connection after its last response. While `are_connections_scarce` returns true, a client that is still
/// sending a body gets no extra time.
pub async fn linger<S: Transport>(connection: &mut H1<S>, are_connections_scarce: impl Fn() -> bool) {
    // The unread bytes of the body. Unknown for chunks and for input that is no request.
    let mut owed = connection.unread_body();
    if !matches!(timeout(CLOSE_TIMEOUT, shut_down(connection)).await, Ok(true)) {
        return;
    }
    let (mut since, mut heard, mut dropped) = (Instant::now(), Instant::now(), 0);
    loop {
        let has_time = owed != Some(0) && !are_connections_scarce();
        let end = match has_time {
            true => (heard + SILENCE_TIMEOUT).min(since + BODY_TIMEOUT),
            false => since + CLOSE_TIMEOUT,
        };
        let now = Instant::now();
        if now >= end || (!has_time && dropped >= MAX_EXTRA_INPUT_BYTES) {
            return;
        }
        match timeout_at(end.min(now + SCARCITY_POLL_INTERVAL), drop_input(connection)).await {
            Ok(0) => return,
            Ok(count) => {
                (heard, dropped) = (Instant::now(), dropped + count);
                let before = owed;
                owed = before.map(|rest| rest.saturating_sub(count));
                if owed == Some(0) && before != owed {
                    (since, dropped) = (heard, 0);
                }
                tokio::task::yield_now().await;
            }
            Err(_) => {}
        }
    }
}

async fn shut_down<S: Transport>(connection: &mut H1<S>) -> bool {
    poll_fn(|cx| connection.wire.poll_flush(cx)).await.is_ok()
        && poll_fn(|cx| connection.wire.poll_shutdown(cx)).await.is_ok()
}

/// Waits for input and drops at most one turn's worth. Returns the number of bytes, 0 at the end of the input.
async fn drop_input<S: Transport>(connection: &mut H1<S>) -> u64 {
    let mut dropped = 0;
    poll_fn(|cx| {
        while dropped < MAX_BYTES_PER_POLL {
            match poll_drop(cx, connection) {
                Poll::Ready(0) => return Poll::Ready(dropped),
                Poll::Ready(count) => dropped += count,
                Poll::Pending if dropped > 0 => return Poll::Ready(dropped),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(dropped)
    })
    .await
}

fn poll_drop<S: Transport>(cx: &mut Context<'_>, connection: &mut H1<S>) -> Poll<u64> {
    let workspace = Rc::clone(&connection.workspace);
    let take = |_: &mut Context<'_>, bytes: &[u8]| (bytes.len(), Ok::<_, ()>(bytes.len() as u64));
    connection.wire.poll_input(cx, &workspace, usize::MAX, take).map(|input| match input {
        Ok(ReadResult::Taken(Ok(count))) => count,
        Ok(ReadResult::Taken(Err(())) | ReadResult::Eof) | Err(_) => 0,
    })
}
