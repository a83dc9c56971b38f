//! A connection to a backend that speaks HTTP/2 and answers every request alike. Never looks at what was asked for.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;

use super::h2c::{Answer, Http2};

/// What is read at a time.
const PIECE: usize = 64 * 1024;

/// Serves until the client ends it, breaks the protocol, or the server is gone. Requests wait while answers are `held`.
pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    answer: &Answer,
    mut held: watch::Receiver<bool>,
) {
    let mut connection = Http2::new();
    let mut input = vec![0; PIECE];
    loop {
        if stream.write_all(&connection.out).await.is_err() {
            return;
        }
        connection.out.clear();
        let read = tokio::select! {
            biased;
            changed = held.changed() => match changed {
                Ok(()) => 0,
                Err(_) => return,
            },
            read = stream.read(&mut input) => match read {
                Ok(0) | Err(_) => return,
                Ok(read) => read,
            },
        };
        let is_held = *held.borrow_and_update();
        if connection.take(&input[..read], answer, is_held).is_none() {
            return;
        }
    }
}
