//! One question to an admin server: a page for its path, over any connection.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use fairway_model::on_one_line;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The largest page. A configuration with 100,000 routes is far below it.
const MAX_PAGE: usize = 1 << 30;
/// How many characters of the answer of another program are shown.
const MAX_SHOWN: usize = 200;

/// How much of a page is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of it.
    Whole,
    /// What comes before this text, or all where the page does not have it.
    Before(&'static str),
}

/// The page `path` of the admin server at `admin`.
///
/// # Errors
/// It does not answer, or with another status than 200.
pub(crate) async fn page(admin: SocketAddr, path: &str) -> Result<Vec<u8>> {
    part(admin, path, Extent::Whole).await.with_context(|| format!("--admin {admin}"))
}

/// The page `path` of the admin server at `admin`, as far as `extent` says.
///
/// # Errors
/// It does not answer, or with another status than 200.
pub(crate) async fn part(admin: SocketAddr, path: &str, extent: Extent) -> Result<Vec<u8>> {
    let stream = timeout(ANSWER_TIMEOUT, TcpStream::connect(admin)).await.context("no answer for 30 s")??;
    read(stream, &admin.to_string(), path, extent).await
}

/// The page `path` of the admin server at the other end of `stream`, where it is called `host`.
///
/// # Errors
/// It does not answer, or with another status than 200.
pub(crate) async fn read<S>(stream: S, host: &str, path: &str, extent: Extent) -> Result<Vec<u8>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    timeout(ANSWER_TIMEOUT, ask(stream, host, path, extent)).await.context("no answer for 30 s")?
}

async fn ask<S>(stream: S, host: &str, path: &str, extent: Extent) -> Result<Vec<u8>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::get(path).header("host", host).body(Empty::<Bytes>::new())?;
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    if status != StatusCode::OK {
        // Whatever is there may answer with a page of its own.
        let body = body(answer.into_body(), path, Extent::Whole).await?;
        let text = String::from_utf8_lossy(&body);
        let line = text.trim().lines().next().unwrap_or_default();
        let line: String = line.chars().take(MAX_SHOWN).collect();
        bail!("{path} answered {status}: {}", on_one_line(&line));
    }
    body(answer.into_body(), path, extent).await
}

async fn body(mut body: Incoming, path: &str, extent: Extent) -> Result<Vec<u8>> {
    let mut page = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| anyhow!("{path}: {error}"))?;
        let Some(data) = frame.data_ref() else { continue };
        if page.len() + data.len() > MAX_PAGE {
            bail!("{path}: the page is larger than {} MiB", MAX_PAGE >> 20);
        }
        let known = page.len();
        page.extend_from_slice(data);
        if let Extent::Before(end) = extent
            && let Some(at) = position(&page, known.saturating_sub(end.len()), end)
        {
            page.truncate(at);
            break;
        }
    }
    Ok(page)
}

/// Where `text` is in `page`, at `from` or later.
fn position(page: &[u8], from: usize, text: &str) -> Option<usize> {
    page[from..].windows(text.len()).position(|window| window == text.as_bytes()).map(|at| from + at)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// What is read of an answer that comes in these pieces.
    async fn answered(pieces: &'static [&'static str], extent: Extent) -> Result<String> {
        let (near, mut far) = tokio::io::duplex(64);
        tokio::spawn(async move {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(far.read_u8().await.unwrap());
            }
            for piece in pieces {
                far.write_all(piece.as_bytes()).await.unwrap();
                tokio::task::yield_now().await;
            }
        });
        Ok(String::from_utf8(read(near, "localhost", "/metrics", extent).await?)?)
    }

    #[tokio::test]
    async fn a_page_is_read_up_to_a_text_wherever_its_bytes_are_split() {
        let split: &[&str] = &["HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n", "one\n# ", "end\ntwo"];
        assert_eq!(answered(split, Extent::Whole).await.unwrap(), "one\n# end\ntwo");
        assert_eq!(answered(split, Extent::Before("# end")).await.unwrap(), "one\n");
        assert_eq!(answered(split, Extent::Before("three")).await.unwrap(), "one\n# end\ntwo");
    }

    #[tokio::test]
    async fn another_status_is_told_with_the_first_line_of_its_page() {
        let busy: &[&str] = &["HTTP/1.1 503 -\r\ncontent-length: 9\r\n\r\nloa\u{7}ding\n"];
        let error = answered(busy, Extent::Whole).await.unwrap_err().to_string();
        assert_eq!(error, "/metrics answered 503 Service Unavailable: loa?ding");
    }
}
