//! What a running process serves, from its admin server.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fairway_model::{Config, Origin};
use fairway_routing::compile;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Served;

const PATIENCE: Duration = Duration::from_secs(30);

/// The page `/config`.
#[derive(Deserialize)]
struct Page {
    config: Config,
    diagnostics: Vec<Told>,
}

#[derive(Deserialize)]
struct Told {
    severity: String,
    origin: Origin,
    code: String,
    problem: String,
    consequence: String,
}

/// Asks the process with the admin address `admin`; compiles what it serves here.
pub(super) fn fetch(admin: SocketAddr) -> Result<Served> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let body = runtime
        .block_on(async { timeout(PATIENCE, ask(admin)).await.context("no answer for 30 s")? })
        .with_context(|| format!("--admin {admin}"))?;
    let page: Page = serde_json::from_slice(&body).with_context(|| format!("--admin {admin}: /config"))?;
    let compiled = compile(&page.config, None);
    let diagnostics = page.diagnostics.into_iter().map(|told| (told.origin.clone(), told.line())).collect();
    Ok(Served { snapshot: compiled.snapshot, diagnostics })
}

async fn ask(admin: SocketAddr) -> Result<Bytes> {
    let stream = TcpStream::connect(admin).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::get("/config").header("host", admin.to_string()).body(Empty::<Bytes>::new())?;
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    if status != StatusCode::OK {
        bail!("/config answered {status}: {}", String::from_utf8_lossy(&body).trim());
    }
    Ok(body)
}

impl Told {
    fn line(&self) -> String {
        let Self { severity, origin, code, problem, consequence } = self;
        format!("{severity}[{code}]: {origin}: {problem}; {consequence}")
    }
}
