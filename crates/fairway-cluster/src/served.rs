//! Asks a replica at the port of its `--probe` what it serves. Waits as long as the replica does: the caller limits the time.

use std::net::SocketAddr;

use fairway_control::admin::Served;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Why a replica did not say what it serves.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unanswered {
    /// It cannot be reached.
    #[error(transparent)]
    Unreachable(#[from] std::io::Error),
    /// It has nothing to serve yet.
    #[error("it has no configuration yet")]
    Loading,
    /// What it answers is nothing that a replica says.
    #[error("its answer cannot be read")]
    Unreadable,
}

/// What the replica at `address` says that it serves, with what `query` asks for, in at most so many bytes. HTTP/1.0: the answer ends
/// with the connection.
pub(crate) async fn ask(address: SocketAddr, query: &str, largest: u64) -> Result<Served, Unanswered> {
    let mut stream = TcpStream::connect(address).await?;
    let question = format!("GET /served{query} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(question.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(largest).read_to_end(&mut answer).await?;
    read(&answer)
}

/// Reads an answer.
pub(crate) fn read(answer: &[u8]) -> Result<Served, Unanswered> {
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n").ok_or(Unanswered::Unreadable)?;
    match answer.split(|byte| *byte == b' ').nth(1) {
        Some(b"200") => serde_json::from_slice(&answer[head + 4..]).map_err(|_| Unanswered::Unreadable),
        Some(b"503") => Err(Unanswered::Loading),
        _ => Err(Unanswered::Unreadable),
    }
}
