//! How adapters speak with the admin interface of a proxy: one text there, one back. Knows no proxy, and never asks again:
//! what is awaited is said by the proxy itself.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Sends a text and reads what comes until the end of the stream.
pub(crate) async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    text: &str,
) -> io::Result<String> {
    stream.write_all(text.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
