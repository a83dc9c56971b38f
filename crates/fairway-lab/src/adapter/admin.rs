//! How adapters speak with the admin interface of a proxy: one text there, one back, and again until it says what is
//! awaited. Knows no proxy.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::error::Elapsed;

/// Sends a text and reads what comes until the end of the stream.
pub(super) async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    text: &str,
) -> io::Result<String> {
    stream.write_all(text.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// Looks every `pause` until the condition holds, for at most `limit`.
pub(super) async fn until(
    limit: Duration,
    pause: Duration,
    condition: impl AsyncFn() -> bool,
) -> Result<(), Elapsed> {
    tokio::time::timeout(limit, async {
        while !condition().await {
            tokio::time::sleep(pause).await;
        }
    })
    .await
}
