//! A raw client: one connection, plain or TLS, that sends any bytes and reads answers strictly.
//!
//! Owns the connection and what was read too far. Never retries, never reconnects, never repairs what it reads.

mod request;
mod response;

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

pub use request::Request;
pub use response::RawResponse;

use crate::stream::{Stream, within};
use crate::wait::PATIENCE;
use crate::wire::{self, Framing};
use response::{AnswerHead, answer_head};

/// A connection to whatever is under test.
pub struct Client {
    stream: Stream,
    /// What came and no answer has claimed yet.
    pending: Vec<u8>,
    patience: Duration,
}

/// How a TLS client presents itself.
#[derive(Clone, Debug)]
pub struct TlsOffer {
    /// Whom it trusts.
    pub config: ClientConfig,
    /// The server name; none is sent when this is an IP address (RFC 6066 §3).
    pub server_name: String,
}

impl TlsOffer {
    /// Offers `server_name` and HTTP/1.1 alone, with `config` for trust.
    #[must_use]
    pub fn new(config: ClientConfig, server_name: &str) -> Self {
        Self { config, server_name: server_name.to_owned() }.alpn(&["http/1.1"])
    }

    /// Offers `protocols`; nothing when it is empty.
    #[must_use]
    pub fn alpn(mut self, protocols: &[&str]) -> Self {
        self.config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        self
    }

    /// Leaves the server name out.
    #[must_use]
    pub fn without_sni(mut self) -> Self {
        self.config.enable_sni = false;
        self
    }
}

/// What a handshake agreed on.
#[derive(Clone, Debug)]
pub struct TlsOutcome {
    /// The protocol chosen by ALPN.
    pub alpn: Option<String>,
    /// `TLSv1_3` or `TLSv1_2`.
    pub version: rustls::ProtocolVersion,
    /// What the server showed, the end-entity certificate first.
    pub chain: Vec<CertificateDer<'static>>,
    /// Whether a session was resumed.
    pub resumed: bool,
}

impl Client {
    /// Connects without TLS.
    ///
    /// # Errors
    ///
    /// When the connection is not made within the patience of tests.
    pub async fn connect(address: SocketAddr) -> io::Result<Self> {
        let socket = within(PATIENCE, "connect", TcpStream::connect(address)).await?;
        socket.set_nodelay(true)?;
        Ok(Self::over(Stream::Plain(socket)))
    }

    /// Connects and makes the TLS handshake of `offer`.
    ///
    /// # Errors
    ///
    /// When the connection or the handshake fails.
    pub async fn connect_tls(address: SocketAddr, offer: &TlsOffer) -> io::Result<Self> {
        let name = ServerName::try_from(offer.server_name.clone()).map_err(io::Error::other)?;
        let socket = within(PATIENCE, "connect", TcpStream::connect(address)).await?;
        socket.set_nodelay(true)?;
        let connector = TlsConnector::from(Arc::new(offer.config.clone()));
        let stream = within(PATIENCE, "TLS handshake", connector.connect(name, socket)).await?;
        Ok(Self::over(Stream::Tls(Box::new(stream.into()))))
    }

    fn over(stream: Stream) -> Self {
        Self { stream, pending: Vec::new(), patience: PATIENCE }
    }

    /// Waits at most `patience` for each thing it waits for.
    #[must_use]
    pub(crate) fn patient_for(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// What the handshake agreed on; nothing on a plain connection.
    #[must_use]
    pub fn tls(&self) -> Option<TlsOutcome> {
        let Stream::Tls(stream) = &self.stream else { return None };
        let (_, session) = stream.get_ref();
        Some(TlsOutcome {
            alpn: session.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned()),
            version: session.protocol_version()?,
            chain: session
                .peer_certificates()
                .unwrap_or_default()
                .iter()
                .map(|c| c.clone().into_owned())
                .collect(),
            resumed: session.handshake_kind() == Some(rustls::HandshakeKind::Resumed),
        })
    }

    /// Sends any bytes.
    ///
    /// # Errors
    ///
    /// When the other side is gone or takes nothing for the time of patience.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        within(self.patience, "send", self.stream.write(bytes.as_ref())).await
    }

    /// Sends `request` and reads its final answer; interim ones are passed over.
    ///
    /// # Errors
    ///
    /// As [`Client::send`] and [`Client::read_response_to`].
    pub async fn exchange(&mut self, request: &Request) -> io::Result<RawResponse> {
        self.send(request.bytes()).await?;
        loop {
            let answer = self.read_response_to(request.method()).await?;
            if !answer.is_interim() {
                return Ok(answer);
            }
        }
    }

    /// Reads the next answer to a request that was neither HEAD nor CONNECT; an interim answer counts as one.
    ///
    /// # Errors
    ///
    /// As [`Client::read_response_to`].
    pub async fn read_response(&mut self) -> io::Result<RawResponse> {
        self.read_response_to("GET").await
    }

    /// Reads the next answer to a request with `method`.
    ///
    /// # Errors
    ///
    /// `UnexpectedEof` when the connection ends inside the answer, `ConnectionReset` as it says, `InvalidData` when the
    /// answer is not canonical HTTP/1, `TimedOut` after the time of patience without a byte.
    pub(crate) async fn read_response_to(&mut self, method: &str) -> io::Result<RawResponse> {
        let head = loop {
            if let Some(head) = answer_head(&self.pending, method)? {
                break head;
            }
            self.more("the head of an answer").await?;
        };
        match head.framing {
            Framing::None => self.take(head, 0).await,
            Framing::Length(length) => self.take(head, length).await,
            Framing::Chunked => self.take_chunked(head).await,
            Framing::Close => self.take_rest(head).await,
        }
    }

    async fn take(&mut self, head: AnswerHead, body: usize) -> io::Result<RawResponse> {
        while self.pending.len() < head.length + body {
            self.more("the body of an answer").await?;
        }
        let raw: Vec<u8> = self.pending.drain(..head.length + body).collect();
        let content = raw[head.length..].to_vec();
        Ok(response(head, content, Vec::new(), raw))
    }

    async fn take_chunked(&mut self, head: AnswerHead) -> io::Result<RawResponse> {
        let body = loop {
            if let Some(body) = wire::chunked(&self.pending[head.length..])? {
                break body;
            }
            self.more("a chunk of an answer").await?;
        };
        let raw = self.pending.drain(..head.length + body.length).collect();
        Ok(response(head, body.content, body.trailers, raw))
    }

    async fn take_rest(&mut self, head: AnswerHead) -> io::Result<RawResponse> {
        while self.fill("the end of an answer").await? > 0 {}
        let raw = std::mem::take(&mut self.pending);
        let content = raw[head.length..].to_vec();
        Ok(response(head, content, Vec::new(), raw))
    }

    /// Reads `count` bytes that belong to no answer, as after an upgrade.
    ///
    /// # Errors
    ///
    /// `UnexpectedEof` when the connection ends before, otherwise as [`Client::read_response_to`].
    pub async fn read_bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.pending.len() < count {
            self.more("bytes").await?;
        }
        Ok(self.pending.drain(..count).collect())
    }

    /// Reads everything until the other side ends cleanly.
    ///
    /// # Errors
    ///
    /// When the connection is reset, TLS ends without close_notify, or nothing comes for the time of patience.
    pub async fn read_to_end(&mut self) -> io::Result<Vec<u8>> {
        while self.fill("the end of the connection").await? > 0 {}
        Ok(std::mem::take(&mut self.pending))
    }

    /// Waits until the other side ends the connection, cleanly or by a reset.
    ///
    /// # Panics
    ///
    /// When something else comes first, or nothing for the time of patience.
    pub async fn expect_closed(&mut self) {
        let unclaimed = String::from_utf8_lossy(&self.pending).into_owned();
        assert!(
            unclaimed.is_empty(),
            "expected the connection to end, but these bytes are unread: {unclaimed:?}"
        );
        match self.fill("the end of the connection").await {
            Ok(0) => {}
            Ok(_) => {
                panic!("expected the connection to end, got {:?}", String::from_utf8_lossy(&self.pending))
            }
            Err(error) if error.kind() == ErrorKind::TimedOut => panic!("{error}"),
            Err(_reset_or_truncated) => {}
        }
    }

    /// Shows that the connection stays open and silent for `time`.
    ///
    /// # Panics
    ///
    /// When it ends or bytes come.
    pub async fn expect_silence(&mut self, time: Duration) {
        let before = self.pending.len();
        match within(time, "silence", self.stream.read(&mut self.pending)).await {
            Err(error) if error.kind() == ErrorKind::TimedOut => {}
            Ok(0) => panic!("the connection ended"),
            Ok(_) => panic!("got {:?}", String::from_utf8_lossy(&self.pending[before..])),
            Err(error) => panic!("the connection ended: {error}"),
        }
    }

    /// Ends the sending direction.
    ///
    /// # Errors
    ///
    /// When the connection is gone.
    pub async fn half_close(&mut self) -> io::Result<()> {
        self.stream.half_close().await
    }

    /// Ends the connection with a RST.
    ///
    /// # Errors
    ///
    /// When the socket refuses the option.
    pub fn reset(self) -> io::Result<()> {
        self.stream.reset_when_dropped()
    }

    async fn more(&mut self, what: &str) -> io::Result<()> {
        if self.fill(what).await? > 0 {
            return Ok(());
        }
        let had = String::from_utf8_lossy(&self.pending[..self.pending.len().min(200)]).into_owned();
        Err(io::Error::new(
            ErrorKind::UnexpectedEof,
            format!("the connection ended before {what}; had {had:?}"),
        ))
    }

    async fn fill(&mut self, what: &str) -> io::Result<usize> {
        self.pending.reserve(16 * 1024);
        within(self.patience, what, self.stream.read(&mut self.pending)).await
    }
}

fn response(head: AnswerHead, body: Vec<u8>, trailers: wire::Fields, raw: Vec<u8>) -> RawResponse {
    let AnswerHead { version, status, fields, framing, .. } = head;
    RawResponse { version, status, headers: fields, body, trailers, framing, raw }
}
