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

use crate::stream::{Input, Stream, within};
use crate::wait::PATIENCE;
use crate::wire::ChunkedBody;
use response::{answer_framing, status_line};

/// A connection to whatever is under test.
pub struct Client {
    input: Input,
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
    pub fn new(config: ClientConfig, server_name: &str) -> Self {
        Self { config, server_name: server_name.to_owned() }.alpn(&["http/1.1"])
    }

    /// Offers `protocols`; nothing when it is empty.
    pub fn alpn(mut self, protocols: &[&str]) -> Self {
        self.config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        self
    }

    /// Leaves the server name out.
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
    /// In which group keys were exchanged.
    pub group: Option<rustls::NamedGroup>,
}

impl Client {
    /// Connects without TLS.
    pub async fn connect(address: SocketAddr) -> io::Result<Self> {
        let socket = within(PATIENCE, "connect", TcpStream::connect(address)).await?;
        socket.set_nodelay(true)?;
        Ok(Self::over(Stream::Plain(socket)))
    }

    /// Connects and makes the TLS handshake of `offer`.
    pub async fn connect_tls(address: SocketAddr, offer: &TlsOffer) -> io::Result<Self> {
        let name = ServerName::try_from(offer.server_name.clone()).map_err(io::Error::other)?;
        let socket = within(PATIENCE, "connect", TcpStream::connect(address)).await?;
        socket.set_nodelay(true)?;
        let connector = TlsConnector::from(Arc::new(offer.config.clone()));
        let stream = within(PATIENCE, "TLS handshake", connector.connect(name, socket)).await?;
        Ok(Self::over(Stream::Tls(Box::new(stream.into()))))
    }

    fn over(stream: Stream) -> Self {
        Self { input: Input::new(stream, Some(PATIENCE), |_| {}) }
    }

    /// Waits at most `patience` for each thing it waits for.
    pub(crate) fn patient_for(mut self, patience: Duration) -> Self {
        self.input.patience = Some(patience);
        self
    }

    /// What the handshake agreed on; nothing on a plain connection.
    pub fn tls(&self) -> Option<TlsOutcome> {
        let Stream::Tls(stream) = &self.input.stream else { return None };
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
            group: session.negotiated_key_exchange_group().map(|group| group.name()),
        })
    }

    /// Sends any bytes.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        let patience = self.input.patience.unwrap_or(PATIENCE);
        within(patience, "send", self.input.stream.write(bytes.as_ref())).await
    }

    /// Sends `request` and reads its final answer; interim ones are passed over.
    pub async fn exchange(&mut self, request: &Request) -> io::Result<RawResponse> {
        self.send(request.bytes()).await?;
        loop {
            let answer = self.read_response_to(request.method()).await?;
            if !answer.is_interim() {
                return Ok(answer);
            }
        }
    }

    /// As [`Client::exchange`] without interim answers; an answer that comes before the whole request was taken counts, too. Says
    /// whether the connection may be used again.
    pub(crate) async fn ask(&mut self, request: &Request) -> io::Result<(RawResponse, bool)> {
        let sent = self.send(request.bytes()).await;
        let answer = match self.read_response_to(request.method()).await {
            Ok(answer) => answer,
            Err(error) => return Err(sent.err().unwrap_or(error)),
        };
        let closes =
            answer.header_values("connection").iter().any(|value| value.eq_ignore_ascii_case("close"));
        Ok((answer, sent.is_ok() && !closes))
    }

    /// Reads the next answer to a request that was neither HEAD nor CONNECT; an interim answer counts as one.
    pub async fn read_response(&mut self) -> io::Result<RawResponse> {
        self.read_response_to("GET").await
    }

    /// Reads the next answer to a request with `method`. The error is `UnexpectedEof` when the connection ends inside the answer and
    /// `InvalidData` when the answer is not canonical HTTP/1.
    pub(crate) async fn read_response_to(&mut self, method: &str) -> io::Result<RawResponse> {
        let head = self.input.head().await?;
        let (version, status) = status_line(&head.start)?;
        let framing = answer_framing(status, method, &head.fields)?;
        let ChunkedBody { content, trailers, .. } = self.input.body(framing).await?;
        Ok(RawResponse { version, status, headers: head.fields, body: content, trailers, framing })
    }

    /// Reads `count` bytes that belong to no answer, as after an upgrade.
    pub async fn read_bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        self.input.exactly(count).await
    }

    /// Reads everything until the other side ends cleanly.
    pub async fn read_to_end(&mut self) -> io::Result<Vec<u8>> {
        self.input.rest().await
    }

    /// Waits until the other side ends the connection, cleanly or by a reset.
    pub async fn expect_closed(&mut self) {
        let unclaimed = String::from_utf8_lossy(&self.input.pending).into_owned();
        assert!(
            unclaimed.is_empty(),
            "expected the connection to end, but these bytes are unread: {unclaimed:?}"
        );
        match self.input.fill("the end of the connection").await {
            Ok(0) => {}
            Ok(_) => {
                panic!(
                    "expected the connection to end, got {:?}",
                    String::from_utf8_lossy(&self.input.pending)
                )
            }
            Err(error) if error.kind() == ErrorKind::TimedOut => panic!("{error}"),
            Err(_reset_or_truncated) => {}
        }
    }

    /// Ends the sending direction.
    pub async fn half_close(&mut self) -> io::Result<()> {
        self.input.stream.half_close().await
    }

    /// Ends the connection with a RST.
    pub fn reset(self) -> io::Result<()> {
        self.input.stream.reset_when_dropped()
    }
}
