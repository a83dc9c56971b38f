//! Closing so that the last answer is received.
//!
//! A socket that is closed with unread input answers with a reset, which can destroy the answer before the client reads
//! it. So nothing more is sent, what still comes is read and dropped up to a bound, and then the socket is closed
//! (RFC 9112 §9.6).

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, ready};
use std::time::Duration;

use fairway_runtime::transport::Transport;
use fairway_runtime::wire::Input;
use tokio::time::timeout;

use super::hop::H1;

/// How long a client may take to notice.
const PATIENCE: Duration = Duration::from_secs(2);

/// How much of an unwanted body is read for it.
const BOUND: usize = 1024 * 1024;

/// Ends the connection after its last answer.
pub async fn linger<S: Transport>(connection: &mut H1<S>) {
    let _ = timeout(PATIENCE, drop_input(connection)).await;
}

async fn drop_input<S: Transport>(connection: &mut H1<S>) {
    let flushed = poll_fn(|cx| connection.wire.poll_flush(cx)).await;
    if flushed.is_err() || poll_fn(|cx| connection.wire.poll_shutdown(cx)).await.is_err() {
        return;
    }
    let mut dropped = 0;
    poll_fn(|cx| {
        while dropped < BOUND {
            let workspace = Rc::clone(&connection.workspace);
            let input = connection
                .wire
                .poll_input(cx, &workspace, usize::MAX, |_, bytes| (bytes.len(), Ok::<_, ()>(bytes.len())));
            match ready!(input) {
                Ok(Input::Taken(Ok(count))) => dropped += count,
                _ => break,
            }
        }
        Poll::Ready(())
    })
    .await;
}
