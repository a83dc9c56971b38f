//! Closing so that the last answer is received.
//!
//! A socket that is closed with unread input answers with a reset, which can destroy the answer before the client reads
//! it. So nothing more is sent, what still comes is read and dropped, and then the socket is closed (RFC 9112 §9.6). A client
//! in the middle of a body is read as nginx reads it (`lingering_time`, `lingering_timeout`): most clients send all of a body
//! before they read the answer.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use fairway_net::transport::Transport;
use fairway_net::wire::Input;
use tokio::time::{Instant, timeout, timeout_at};

use super::hop::H1;

/// How long a client may take to notice that nothing more is wanted.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(2);

/// How much is read of a client that owes nothing.
const MAX_UNASKED_INPUT: u64 = 1024 * 1024;

/// How long a client may pause within its body.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the rest of a body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// How often it is looked whether connections are scarce.
const SCARCITY_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Bytes that are dropped before other connections have their turn.
const TURN: u64 = 256 * 1024;

/// Ends the connection after its last answer. While `are_scarce` says that connections are, a client in the middle of a body
/// gets no more than others.
pub async fn linger<S: Transport>(connection: &mut H1<S>, are_scarce: impl Fn() -> bool) {
    // Of the body; nobody knows of chunks, and of what is no request.
    let mut owed = connection.unread_body();
    if !matches!(timeout(NOTICE_TIMEOUT, shut_down(connection)).await, Ok(true)) {
        return;
    }
    let (mut since, mut heard, mut dropped) = (Instant::now(), Instant::now(), 0);
    loop {
        let has_time = owed != Some(0) && !are_scarce();
        let end = match has_time {
            true => (heard + SILENCE_TIMEOUT).min(since + BODY_TIMEOUT),
            false => since + NOTICE_TIMEOUT,
        };
        let now = Instant::now();
        if now >= end || (!has_time && dropped >= MAX_UNASKED_INPUT) {
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

/// Waits for input and drops what is there, a turn at most; gives how much that was, which is 0 at the end.
async fn drop_input<S: Transport>(connection: &mut H1<S>) -> u64 {
    let mut dropped = 0;
    poll_fn(|cx| {
        while dropped < TURN {
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
        Ok(Input::Taken(Ok(count))) => count,
        Ok(Input::Taken(Err(())) | Input::Eof) | Err(_) => 0,
    })
}
