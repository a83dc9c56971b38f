//! TLS of a QUIC connection (RFC 9001), configured by the client's SNI.
//!
//! ```text
//! CRYPTO bytes ──► AwaitingHello: buffered until the ClientHello is complete ──► selector ──► Handshake: run by rustls
//! ```
//!
//! quinn-proto requires sessions that any thread may use, but the selector belongs to a worker: the session
//! finds it in a thread-local while [`with_selector`] runs. The configuration also decides whether 0-RTT is
//! accepted (`early`).

use std::any::Any;
use std::cell::RefCell;
use std::io::Cursor;
use std::rc::Rc;
use std::sync::Arc;

use quinn_proto::crypto::rustls::{NoInitialCipherSuite, QuicServerConfig};
use quinn_proto::crypto::{
    ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, ServerConfig, Session, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionId, Side, TransportError, TransportErrorCode};
use rustls::crypto::CryptoProvider;
use rustls::quic::{KeyChange, Secrets, ServerConnection, Version};
use rustls::server::ResolvesServerCertUsingSni;
use rustls::version::TLS13;
use rustls::{AlertDescription, HandshakeKind};

use crate::l4::hello::{ClientHello, MessageError};
use crate::tls::NegotiatedTls;

/// The supported version of QUIC (RFC 9000) on the wire.
pub(super) const QUIC_VERSION: u32 = 1;

/// ALPN protocol (RFC 9114 §3.1).
pub(super) const H3_PROTOCOL: &[u8] = b"h3";

/// Why a session is refused.
pub(super) type TlsRefusal = TransportError;

/// Selects the TLS configuration of a client by its SNI.
pub(super) trait SelectTls {
    /// The configuration for this ClientHello.
    ///
    /// # Errors
    /// The client is not served and gets this error.
    fn select_tls(&self, hello: ClientHello) -> Result<Arc<rustls::ServerConfig>, TlsRefusal>;
}

thread_local! {
    static CURRENT_SELECTOR: RefCell<Option<Rc<dyn SelectTls>>> = const { RefCell::new(None) };
}

/// Runs `act`, in which a session of one connection starts or continues, with `choose` as selector.
pub(super) fn with_selector<T>(choose: Rc<dyn SelectTls>, act: impl FnOnce() -> T) -> T {
    struct ClearSelector;

    impl Drop for ClearSelector {
        fn drop(&mut self) {
            CURRENT_SELECTOR.take();
        }
    }

    CURRENT_SELECTOR.set(Some(choose));
    let _ended = ClearSelector;
    act()
}

fn select_with_current(hello: ClientHello) -> Result<Arc<rustls::ServerConfig>, TlsRefusal> {
    let chooser = CURRENT_SELECTOR.with_borrow(Clone::clone);
    let Some(chooser) = chooser else { return Err(TransportErrorCode::INTERNAL_ERROR.into()) };
    chooser.select_tls(hello)
}

/// A refusal with a TLS alert (RFC 9001 §4.8).
pub(super) fn tls_alert(description: AlertDescription) -> TlsRefusal {
    TransportErrorCode::crypto(description.into()).into()
}

/// Parameters of a handshake that is complete, or whose early data was accepted.
#[derive(Debug)]
pub(super) struct HandshakeData {
    pub(super) agreed: NegotiatedTls,
    pub(super) resumed: bool,
}

/// Starts the TLS sessions of all clients.
pub(super) struct QuicTls {
    /// Has no certificate and serves no client: it only holds the keys of Initial packets and Retry.
    initial: Arc<QuicServerConfig>,
}

impl QuicTls {
    /// With the Initial keys of `provider`.
    ///
    /// # Errors
    /// The provider lacks TLS 1.3 or the suite of Initial packets (RFC 9001 §5.2).
    pub(super) fn new(provider: Arc<CryptoProvider>) -> Result<Self, SetupError> {
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(ResolvesServerCertUsingSni::new()));
        Ok(Self { initial: Arc::new(QuicServerConfig::try_from(config)?) })
    }
}

/// Why QUIC cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(super) enum SetupError {
    /// TLS 1.3 is missing.
    #[error("QUIC cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    /// The suite of Initial packets is missing.
    #[error("QUIC cannot be set up: {0}")]
    Suite(#[from] NoInitialCipherSuite),
}

impl ServerConfig for QuicTls {
    fn initial_keys(&self, version: u32, id: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        self.initial.initial_keys(version, id)
    }

    fn retry_tag(&self, version: u32, id: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.initial.retry_tag(version, id, packet)
    }

    fn start_session(self: Arc<Self>, _: u32, parameters: &TransportParameters) -> Box<dyn Session> {
        let mut encoded = Vec::new();
        parameters.write(&mut encoded);
        let state = SessionState::AwaitingHello { received: Vec::new(), parameters: encoded };
        Box::new(QuicSession { initial: Arc::clone(&self.initial), state })
    }
}

/// The TLS session of one connection.
struct QuicSession {
    initial: Arc<QuicServerConfig>,
    state: SessionState,
}

/// State of the session.
enum SessionState {
    /// The ClientHello is incomplete.
    AwaitingHello {
        /// Bytes received of it.
        received: Vec<u8>,
        /// Our transport parameters, encoded.
        parameters: Vec<u8>,
    },
    /// rustls runs the handshake.
    Handshake(Box<Tls>),
}

struct Tls {
    connection: ServerConnection,
    /// For the next key update (RFC 9001 §6).
    next_secrets: Option<Secrets>,
}

impl QuicSession {
    fn tls(&self) -> Option<&Tls> {
        match &self.state {
            SessionState::AwaitingHello { .. } => None,
            SessionState::Handshake(tls) => Some(tls),
        }
    }
}

impl Tls {
    /// Starts with a complete ClientHello.
    fn start(hello: ClientHello, received: &[u8], parameters: Vec<u8>) -> Result<Self, TlsRefusal> {
        let config = select_with_current(hello)?;
        // The configured TLS versions leave out 1.3, the only one over QUIC.
        let connection = ServerConnection::new(config, Version::V1, parameters)
            .map_err(|_| tls_alert(AlertDescription::ProtocolVersion))?;
        let mut tls = Self { connection, next_secrets: None };
        tls.read(received)?;
        Ok(tls)
    }

    fn read(&mut self, bytes: &[u8]) -> Result<(), TlsRefusal> {
        self.connection.read_hs(bytes).map_err(|error| {
            let code = match self.connection.alert() {
                Some(alert) => TransportErrorCode::crypto(alert.into()),
                None => TransportErrorCode::PROTOCOL_VIOLATION,
            };
            TransportError { code, frame: None, reason: error.to_string() }
        })
    }

    fn write(&mut self, into: &mut Vec<u8>) -> Option<Keys> {
        let keys = match self.connection.write_hs(into)? {
            KeyChange::Handshake { keys } => keys,
            KeyChange::OneRtt { keys, next } => {
                self.next_secrets = Some(next);
                keys
            }
        };
        Some(Keys {
            header: KeyPair {
                local: Box::new(keys.local.header) as Box<dyn HeaderKey>,
                remote: Box::new(keys.remote.header),
            },
            packet: KeyPair {
                local: Box::new(keys.local.packet) as Box<dyn PacketKey>,
                remote: Box::new(keys.remote.packet),
            },
        })
    }
}

impl Session for QuicSession {
    fn initial_keys(&self, id: &ConnectionId, _: Side) -> Keys {
        let keys = self.initial.initial_keys(QUIC_VERSION, id);
        keys.expect("packets of other versions begin no connection")
    }

    /// A [`HandshakeData`], once the handshake is complete or early data was accepted.
    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        let connection = &self.tls()?.connection;
        (!connection.is_handshaking() || connection.zero_rtt_keys().is_some()).then(|| {
            let resumed = connection.handshake_kind() == Some(HandshakeKind::Resumed);
            Box::new(HandshakeData { agreed: NegotiatedTls::over_quic(connection), resumed }) as Box<dyn Any>
        })
    }

    /// The client's certificates as a `Vec<CertificateDer<'static>>`, if it presented any.
    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        let chain = self.tls()?.connection.peer_certificates()?;
        Some(Box::new(chain.to_vec()))
    }

    /// Keys of early data, if accepted.
    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let keys = self.tls()?.connection.zero_rtt_keys()?;
        Some((Box::new(keys.header), Box::new(keys.packet)))
    }

    /// Only used by clients.
    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        self.tls().is_none_or(|tls| tls.connection.is_handshaking())
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        match &mut self.state {
            SessionState::Handshake(tls) => tls.read(bytes)?,
            SessionState::AwaitingHello { received, parameters } => {
                received.extend_from_slice(bytes);
                let hello = ClientHello::from_message(received).map_err(|error| match error {
                    MessageError::Unexpected => tls_alert(AlertDescription::UnexpectedMessage),
                    MessageError::Malformed => tls_alert(AlertDescription::DecodeError),
                    MessageError::CompatibilityMode => TransportErrorCode::PROTOCOL_VIOLATION.into(),
                })?;
                if let Some(hello) = hello {
                    let tls = Tls::start(hello, received, std::mem::take(parameters))?;
                    self.state = SessionState::Handshake(Box::new(tls));
                }
            }
        }
        // Handshake data is ready when the handshake completes, which QUIC reports itself.
        Ok(false)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let Some(tls) = self.tls() else { return Ok(None) };
        let Some(bytes) = tls.connection.quic_transport_parameters() else { return Ok(None) };
        Ok(Some(TransportParameters::read(Side::Server, &mut Cursor::new(bytes))?))
    }

    fn write_handshake(&mut self, into: &mut Vec<u8>) -> Option<Keys> {
        match &mut self.state {
            SessionState::AwaitingHello { .. } => None,
            SessionState::Handshake(tls) => tls.write(into),
        }
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let SessionState::Handshake(tls) = &mut self.state else { return None };
        let keys = tls.next_secrets.as_mut()?.next_packet_keys();
        Some(KeyPair { local: Box::new(keys.local), remote: Box::new(keys.remote) })
    }

    /// Only used by clients.
    fn is_valid_retry(&self, _: &ConnectionId, _: &[u8], _: &[u8]) -> bool {
        false
    }

    /// Unused here.
    fn export_keying_material(
        &self,
        _: &mut [u8],
        _: &[u8],
        _: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
