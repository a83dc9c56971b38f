//! A connection to a backend that answers calls of gRPC, every one alike. Never looks at what was called.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::h2c::{Answer, Http2};

/// What is read at a time.
const PIECE: usize = 64 * 1024;

/// Serves until the client ends it, or breaks the protocol.
pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, answer: &Answer) {
    let mut connection = Http2::new();
    let mut input = vec![0; PIECE];
    loop {
        if stream.write_all(&connection.out).await.is_err() {
            return;
        }
        connection.out.clear();
        let read = match stream.read(&mut input).await {
            Ok(0) | Err(_) => return,
            Ok(read) => read,
        };
        if connection.take(&input[..read], answer, false).is_none() {
            return;
        }
    }
}
