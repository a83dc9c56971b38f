//! Asks a replica on its `--probe` port what it serves. Has no timeout: the caller sets one.

use std::net::SocketAddr;

use fairway_control::admin::ServedConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Why a replica did not report what it serves.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServedError {
    /// The replica is unreachable.
    #[error(transparent)]
    Unreachable(#[from] std::io::Error),
    /// The replica has no configuration yet.
    #[error("it has no configuration yet")]
    Loading,
    /// The response is not valid.
    #[error("its response is invalid")]
    InvalidResponse,
}

/// What the replica at `address` serves, with the details that `query` asks for; reads at most `max_bytes`. HTTP/1.0: the
/// response ends with the connection.
pub(crate) async fn fetch_served(
    address: SocketAddr,
    query: &str,
    largest: u64,
) -> Result<ServedConfig, ServedError> {
    let mut stream = TcpStream::connect(address).await?;
    let question = format!("GET /served{query} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(question.as_bytes()).await?;
    let mut response = Vec::new();
    stream.take(largest).read_to_end(&mut response).await?;
    parse_response(&response)
}

/// Parses a response.
pub(crate) fn parse_response(response: &[u8]) -> Result<ServedConfig, ServedError> {
    let head =
        response.windows(4).position(|window| window == b"\r\n\r\n").ok_or(ServedError::InvalidResponse)?;
    match response.split(|byte| *byte == b' ').nth(1) {
        Some(b"200") => {
            serde_json::from_slice(&response[head + 4..]).map_err(|_| ServedError::InvalidResponse)
        }
        Some(b"503") => Err(ServedError::Loading),
        _ => Err(ServedError::InvalidResponse),
    }
}
