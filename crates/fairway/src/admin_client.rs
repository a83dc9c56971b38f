//! An HTTP/1.1 GET of one page of an admin server, over any connection.

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

/// Timeout of a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum size of a page. A configuration with 100,000 routes is far smaller.
const MAX_PAGE_BYTES: usize = 1 << 30;
/// How many characters of an error page are shown.
const MAX_SHOWN_CHARS: usize = 200;

/// How much of a page to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The whole page.
    Whole,
    /// The part before this text, or the whole page if it does not contain the text.
    Before(&'static str),
}

/// Requests the page `path` of the admin server at `admin`.
///
/// # Errors
/// The server does not respond, or its status is not 200.
pub(crate) async fn page(admin: SocketAddr, path: &str) -> Result<Vec<u8>> {
    page_up_to(admin, path, Extent::Whole).await.with_context(|| format!("--admin {admin}"))
}

/// Requests the page `path` of the admin server at `admin` and reads as much of it as `extent` says.
///
/// # Errors
/// The server does not respond, or its status is not 200.
pub(crate) async fn page_up_to(admin: SocketAddr, path: &str, extent: Extent) -> Result<Vec<u8>> {
    let stream =
        timeout(RESPONSE_TIMEOUT, TcpStream::connect(admin)).await.context("no response for 30 s")??;
    request_page(stream, &admin.to_string(), path, extent).await
}

/// Requests the page `path` over `stream`, with `host` as the Host header.
///
/// # Errors
/// The server does not respond, or its status is not 200.
pub(crate) async fn request_page<S>(stream: S, host: &str, path: &str, extent: Extent) -> Result<Vec<u8>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    timeout(RESPONSE_TIMEOUT, send_request(stream, host, path, extent))
        .await
        .context("no response for 30 s")?
}

async fn send_request<S>(stream: S, host: &str, path: &str, extent: Extent) -> Result<Vec<u8>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::get(path).header("host", host).body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    if status != StatusCode::OK {
        // The peer may be another program that returns an error page of its own.
        let body = read_body(response.into_body(), path, Extent::Whole).await?;
        let text = String::from_utf8_lossy(&body);
        let line = text.trim().lines().next().unwrap_or_default();
        let line: String = line.chars().take(MAX_SHOWN_CHARS).collect();
        bail!("{path} answered {status}: {}", on_one_line(&line));
    }
    read_body(response.into_body(), path, extent).await
}

async fn read_body(mut body: Incoming, path: &str, extent: Extent) -> Result<Vec<u8>> {
    let mut page = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| anyhow!("{path}: {error}"))?;
        let Some(data) = frame.data_ref() else { continue };
        if page.len() + data.len() > MAX_PAGE_BYTES {
            bail!("{path}: the page is larger than {} MiB", MAX_PAGE_BYTES >> 20);
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

/// The position of `text` in `page`, searched from `from`.
fn position(page: &[u8], from: usize, text: &str) -> Option<usize> {
    page[from..].windows(text.len()).position(|window| window == text.as_bytes()).map(|at| from + at)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Reads a response that arrives in these pieces.
    async fn read_response(chunks: &'static [&'static str], extent: Extent) -> Result<String> {
        let (near, mut far) = tokio::io::duplex(64);
        tokio::spawn(async move {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(far.read_u8().await.unwrap());
            }
            for piece in chunks {
                far.write_all(piece.as_bytes()).await.unwrap();
                tokio::task::yield_now().await;
            }
        });
        Ok(String::from_utf8(request_page(near, "localhost", "/metrics", extent).await?)?)
    }

    #[tokio::test]
    async fn a_page_is_read_up_to_a_text_wherever_its_bytes_are_split() {
        let split: &[&str] = &["HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n", "one\n# ", "end\ntwo"];
        assert_eq!(read_response(split, Extent::Whole).await.unwrap(), "one\n# end\ntwo");
        assert_eq!(read_response(split, Extent::Before("# end")).await.unwrap(), "one\n");
        assert_eq!(read_response(split, Extent::Before("three")).await.unwrap(), "one\n# end\ntwo");
    }

    #[tokio::test]
    async fn an_error_status_is_reported_with_the_first_line_of_its_page() {
        let busy: &[&str] = &["HTTP/1.1 503 -\r\ncontent-length: 9\r\n\r\nloa\u{7}ding\n"];
        let error = read_response(busy, Extent::Whole).await.unwrap_err().to_string();
        assert_eq!(error, "/metrics answered 503 Service Unavailable: loa?ding");
    }
}
