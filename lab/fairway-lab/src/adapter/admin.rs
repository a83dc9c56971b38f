//! Talks to the admin interface of a proxy: sends one text, reads one text. Knows no proxy and never polls.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Sends a text and reads the reply until the end of the stream.
pub(crate) async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    text: &str,
) -> io::Result<String> {
    stream.write_all(text.as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    Ok(response)
}
