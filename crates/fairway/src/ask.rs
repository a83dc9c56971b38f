//! One question to an admin server: a page for its path.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use fairway_model::on_one_line;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(30);

/// The largest page. A configuration with 100,000 routes is far below it.
const LARGEST: usize = 1 << 30;
/// So many characters of the answer of something else are shown.
const LONGEST_LINE: usize = 200;

/// The page `path` of the admin server at `admin`.
///
/// # Errors
/// It does not answer, or with another status than 200.
pub(crate) async fn page(admin: SocketAddr, path: &str) -> Result<Bytes> {
    let answer = async { timeout(PATIENCE, ask(admin, path)).await.context("no answer for 30 s")? };
    answer.await.with_context(|| format!("--admin {admin}"))
}

async fn ask(admin: SocketAddr, path: &str) -> Result<Bytes> {
    let stream = TcpStream::connect(admin).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::get(path).header("host", admin.to_string()).body(Empty::<Bytes>::new())?;
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), LARGEST).collect().await;
    let body = body.map_err(|error| anyhow!("{path}: {error}"))?.to_bytes();
    if status != StatusCode::OK {
        // Whatever is there may answer with a page of its own.
        let text = String::from_utf8_lossy(&body);
        let line = text.trim().lines().next().unwrap_or_default();
        let line: String = line.chars().take(LONGEST_LINE).collect();
        bail!("{path} answered {status}: {}", on_one_line(&line));
    }
    Ok(body)
}
