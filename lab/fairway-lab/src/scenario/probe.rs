//! A client that repeats a request until the response changes, to measure propagation and to check that a route exists.
//! Uses HTTP/1.1 over one kept connection.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Timeout of a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Delay between two requests.
const PROBE_INTERVAL: Duration = Duration::from_millis(1);
/// Largest response head; the laboratory's backends send shorter ones.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// The response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProbeResponse {
    pub(super) status: u16,
    /// `X-Lab-Backend`: which backend it was.
    pub(super) backend: Option<String>,
    /// Status line and headers as received.
    head: String,
}

impl ProbeResponse {
    /// The value of a header, if the response has it.
    pub(super) fn field(&self, name: &str) -> Option<String> {
        field(&self.head, name)
    }
}

pub(super) struct Probe {
    address: SocketAddr,
    connection: Option<TcpStream>,
}

impl Probe {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self { address, connection: None }
    }

    /// Sends one request. A proxy may close an idle connection: the request is then repeated on a new one, as every
    /// client does with GET (RFC 9110 §9.2.2).
    pub(super) async fn request_root(&mut self, host: &str) -> anyhow::Result<ProbeResponse> {
        self.request_path(host, "/").await
    }

    /// Sends one request for a path.
    pub(super) async fn request_path(&mut self, host: &str, path: &str) -> anyhow::Result<ProbeResponse> {
        let was_kept = self.connection.is_some();
        match self.ask_once(host, path).await {
            Err(_) if was_kept => self.ask_once(host, path).await,
            outcome => outcome,
        }
    }

    async fn ask_once(&mut self, host: &str, path: &str) -> anyhow::Result<ProbeResponse> {
        let probed = tokio::time::timeout(RESPONSE_TIMEOUT, self.exchange(host, path)).await;
        let outcome = probed
            .unwrap_or_else(|_| Err(anyhow::anyhow!("no response within {} s", RESPONSE_TIMEOUT.as_secs())));
        if outcome.is_err() {
            self.connection = None;
        }
        outcome
    }

    /// Repeats the request until the response is as expected; counts responses that `wrong` accepts.
    pub(super) async fn wait_until(
        &mut self,
        host: &str,
        patience: Duration,
        mut judge: impl FnMut(&anyhow::Result<ProbeResponse>) -> Verdict,
    ) -> Found {
        let started = Instant::now();
        let mut wrong = 0;
        loop {
            let response = self.request_root(host).await;
            match judge(&response) {
                Verdict::Wanted => return Found { at: Some(Instant::now()), wrong },
                Verdict::Early => {}
                Verdict::Wrong => wrong += 1,
            }
            if started.elapsed() > patience {
                return Found { at: None, wrong };
            }
            tokio::time::sleep(PROBE_INTERVAL).await;
        }
    }

    async fn exchange(&mut self, host: &str, path: &str) -> anyhow::Result<ProbeResponse> {
        if self.connection.is_none() {
            let connection = TcpStream::connect(self.address).await.context("connect")?;
            connection.set_nodelay(true)?;
            self.connection = Some(connection);
        }
        let connection = self.connection.as_mut().context("there is a connection")?;
        // Some only add CORS headers for an origin.
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: https://{host}\r\nUser-Agent: fairway-lab\r\n\r\n"
        );
        connection.write_all(request.as_bytes()).await.context("write")?;
        let mut bytes = Vec::with_capacity(2048);
        let head = loop {
            if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            anyhow::ensure!(bytes.len() < MAX_HEAD_BYTES, "a head of more than {MAX_HEAD_BYTES} bytes");
            anyhow::ensure!(
                connection.read_buf(&mut bytes).await.context("read")? > 0,
                "the connection ended"
            );
        };
        let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
        let length: Option<usize> = field(&text, "content-length").and_then(|length| length.parse().ok());
        let closes = field(&text, "connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        let response =
            ProbeResponse { status: status(&text)?, backend: field(&text, "x-lab-backend"), head: text };
        match length {
            Some(length) if !closes && length < 64 * MAX_HEAD_BYTES => {
                while bytes.len() < head + length {
                    anyhow::ensure!(
                        connection.read_buf(&mut bytes).await.context("read")? > 0,
                        "the connection ended"
                    );
                }
            }
            // The body's framing is not parsed: the next request uses a new connection.
            _ => self.connection = None,
        }
        Ok(response)
    }
}

/// The verdict on a response.
pub(super) enum Verdict {
    /// The change is visible.
    Wanted,
    /// The response is still that of the previous state.
    Early,
    /// Neither the old response nor the new one.
    Wrong,
}

/// The result of waiting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// The time of the expected response.
    pub(super) at: Option<Instant>,
    /// Responses that were neither old nor new.
    pub(super) wrong: u64,
}

fn status(head: &str) -> anyhow::Result<u16> {
    let line = head.lines().next().unwrap_or_default();
    line.split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .with_context(|| format!("{line:?} is no status line"))
}

fn field(head: &str, name: &str) -> Option<String> {
    head.lines()
        .skip(1)
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim().to_owned())
}
