//! A raw client: one connection, plain or TLS, that sends any bytes and parses responses strictly.
//!
//! Owns the connection and any bytes read ahead. Never retries, reconnects or repairs.

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
use crate::wait::WAIT_TIMEOUT;
use crate::wire::ChunkedBody;
use response::{answer_framing, status_line};

/// A connection to whatever is under test.
pub struct Client {
    input: Input,
}

/// TLS settings of a client.
#[derive(Clone, Debug)]
pub struct TlsOffer {
    /// Whom it trusts.
    pub config: ClientConfig,
    /// The server name; not sent if it is an IP address (RFC 6066 §3).
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

/// The result of a TLS handshake.
#[derive(Clone, Debug)]
pub struct TlsOutcome {
    /// The protocol chosen by ALPN.
    pub alpn: Option<String>,
    /// `TLSv1_3` or `TLSv1_2`.
    pub version: rustls::ProtocolVersion,
    /// The server's certificate chain, end entity first.
    pub chain: Vec<CertificateDer<'static>>,
    /// Whether a session was resumed.
    pub resumed: bool,
    /// In which group keys were exchanged.
    pub group: Option<rustls::NamedGroup>,
}

impl Client {
    /// Connects without TLS.
    pub async fn connect(address: SocketAddr) -> io::Result<Self> {
        let socket = within(WAIT_TIMEOUT, "connect", TcpStream::connect(address)).await?;
        socket.set_nodelay(true)?;
        Ok(Self::over(Stream::Plain(socket)))
    }

    /// Connects and makes the TLS handshake of `offer`.
    pub async fn connect_tls(address: SocketAddr, offer: &TlsOffer) -> io::Result<Self> {
        let name = ServerName::try_from(offer.server_name.clone()).map_err(io::Error::other)?;
        let socket = within(WAIT_TIMEOUT, "connect", TcpStream::connect(address)).await?;
        socket.set_nodelay(true)?;
        let connector = TlsConnector::from(Arc::new(offer.config.clone()));
        let stream = within(WAIT_TIMEOUT, "TLS handshake", connector.connect(name, socket)).await?;
        Ok(Self::over(Stream::Tls(Box::new(stream.into()))))
    }

    fn over(stream: Stream) -> Self {
        Self { input: Input::new(stream, Some(WAIT_TIMEOUT), |_| {}) }
    }

    /// Sets the timeout of each wait.
    pub(crate) fn patient_for(mut self, patience: Duration) -> Self {
        self.input.read_timeout = Some(patience);
        self
    }

    /// The result of the TLS handshake; `None` on a plain connection.
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
        let patience = self.input.read_timeout.unwrap_or(WAIT_TIMEOUT);
        within(patience, "send", self.input.stream.write(bytes.as_ref())).await
    }

    /// Sends `request` and reads its final response; interim responses are skipped.
    pub async fn exchange(&mut self, request: &Request) -> io::Result<RawResponse> {
        self.send(request.bytes()).await?;
        loop {
            let response = self.read_response_to(request.method()).await?;
            if !response.is_interim() {
                return Ok(response);
            }
        }
    }

    /// As [`Client::exchange`] without interim responses, but accepts a response that arrives before the whole request was
    /// written. Also returns whether the connection can be reused.
    pub(crate) async fn exchange_once(&mut self, request: &Request) -> io::Result<(RawResponse, bool)> {
        let sent = self.send(request.bytes()).await;
        let response = match self.read_response_to(request.method()).await {
            Ok(answer) => answer,
            Err(error) => return Err(sent.err().unwrap_or(error)),
        };
        let closes =
            response.header_values("connection").iter().any(|value| value.eq_ignore_ascii_case("close"));
        Ok((response, sent.is_ok() && !closes))
    }

    /// Reads the next response to a request that was neither HEAD nor CONNECT; an interim response counts as one.
    pub async fn read_response(&mut self) -> io::Result<RawResponse> {
        self.read_response_to("GET").await
    }

    /// Reads the next response to a request with `method`. The error is `UnexpectedEof` if the connection ends within the
    /// response and `InvalidData` if the response is not canonical HTTP/1.
    pub(crate) async fn read_response_to(&mut self, method: &str) -> io::Result<RawResponse> {
        let head = self.input.head().await?;
        let (version, status) = status_line(&head.start)?;
        let framing = answer_framing(status, method, &head.fields)?;
        let ChunkedBody { content, trailers, .. } = self.input.body(framing).await?;
        Ok(RawResponse { version, status, headers: head.fields, body: content, trailers, framing })
    }

    /// Reads `count` bytes outside any response, e.g. after an upgrade.
    pub async fn read_bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        self.input.exactly(count).await
    }

    /// Reads everything until the other side ends cleanly.
    pub async fn read_to_end(&mut self) -> io::Result<Vec<u8>> {
        self.input.read_to_end().await
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
