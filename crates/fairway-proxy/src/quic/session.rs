//! TLS of a QUIC connection (RFC 9001) whose settings are chosen by the name that the client asks for.
//!
//! ```text
//! CRYPTO bytes ──► Hello: kept until the ClientHello is whole ──► whoever chooses ──► Handshake: rustls has the rest
//! ```
//!
//! QUIC wants sessions that any thread may use, and what chooses belongs to a worker: it is where the session finds it as long as
//! [`choosing_by`] runs, on whose thread the worker feeds its connections. Whether 0-RTT is accepted is a matter of these settings
//! (`early`).

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
use crate::tls::Agreed;

/// The version of QUIC that is spoken (RFC 9000); its number on the wire.
pub(super) const QUIC_VERSION: u32 = 1;

/// What is spoken above it (RFC 9114 §3.1).
pub(super) const PROTOCOL: &[u8] = b"h3";

/// Why there is no session.
pub(super) type Refusal = TransportError;

/// Chooses how a client is served, by the name that it asks for.
pub(super) trait Choose {
    /// The settings for a client that asks for this.
    ///
    /// # Errors
    /// It is not served; it gets this error.
    fn choose(&self, hello: ClientHello) -> Result<Arc<rustls::ServerConfig>, Refusal>;
}

thread_local! {
    static CHOOSING: RefCell<Option<Rc<dyn Choose>>> = const { RefCell::new(None) };
}

/// Runs `act`, in which sessions of one connection begin or go on, and lets `choose` choose for them.
pub(super) fn choosing_by<T>(choose: Rc<dyn Choose>, act: impl FnOnce() -> T) -> T {
    struct Ended;

    impl Drop for Ended {
        fn drop(&mut self) {
            CHOOSING.take();
        }
    }

    CHOOSING.set(Some(choose));
    let _ended = Ended;
    act()
}

fn choose(hello: ClientHello) -> Result<Arc<rustls::ServerConfig>, Refusal> {
    let chooser = CHOOSING.with_borrow(Clone::clone);
    let Some(chooser) = chooser else { return Err(TransportErrorCode::INTERNAL_ERROR.into()) };
    chooser.choose(hello)
}

/// A refusal with a TLS alert (RFC 9001 §4.8).
pub(super) fn alert(description: AlertDescription) -> Refusal {
    TransportErrorCode::crypto(description.into()).into()
}

/// What was agreed on in a handshake that is complete, or whose early data was accepted.
#[derive(Debug)]
pub(super) struct Shaken {
    pub(super) agreed: Agreed,
    pub(super) resumed: bool,
}

/// Begins the sessions of all clients.
pub(super) struct Sessions {
    /// Has no certificate and serves nobody: it knows the keys of Initial packets and of Retry.
    initial: Arc<QuicServerConfig>,
}

impl Sessions {
    /// With the Initial keys of `provider`.
    ///
    /// # Errors
    /// The provider lacks TLS 1.3, or the one suite that Initial packets are protected with (RFC 9001 §5.2).
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

impl ServerConfig for Sessions {
    fn initial_keys(&self, version: u32, id: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        self.initial.initial_keys(version, id)
    }

    fn retry_tag(&self, version: u32, id: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.initial.retry_tag(version, id, packet)
    }

    fn start_session(self: Arc<Self>, _: u32, parameters: &TransportParameters) -> Box<dyn Session> {
        let mut encoded = Vec::new();
        parameters.write(&mut encoded);
        let stage = Stage::Hello { received: Vec::new(), parameters: encoded };
        Box::new(ChosenSession { initial: Arc::clone(&self.initial), stage })
    }
}

/// The session of one connection.
struct ChosenSession {
    initial: Arc<QuicServerConfig>,
    stage: Stage,
}

/// How far it is.
enum Stage {
    /// The ClientHello is not whole.
    Hello {
        /// What came of it.
        received: Vec<u8>,
        /// Of this side, as they are sent.
        parameters: Vec<u8>,
    },
    /// rustls has it.
    Handshake(Box<Tls>),
}

struct Tls {
    connection: ServerConnection,
    /// For the next update of keys (RFC 9001 §6).
    next: Option<Secrets>,
}

impl ChosenSession {
    fn tls(&self) -> Option<&Tls> {
        match &self.stage {
            Stage::Hello { .. } => None,
            Stage::Handshake(tls) => Some(tls),
        }
    }
}

impl Tls {
    /// Begins with a whole ClientHello.
    fn begin(hello: ClientHello, received: &[u8], parameters: Vec<u8>) -> Result<Self, Refusal> {
        let config = choose(hello)?;
        // The versions of TLS that are configured leave out 1.3, which is the only one over QUIC.
        let connection = ServerConnection::new(config, Version::V1, parameters)
            .map_err(|_| alert(AlertDescription::ProtocolVersion))?;
        let mut tls = Self { connection, next: None };
        tls.read(received)?;
        Ok(tls)
    }

    fn read(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
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
                self.next = Some(next);
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

impl Session for ChosenSession {
    fn initial_keys(&self, id: &ConnectionId, _: Side) -> Keys {
        let keys = self.initial.initial_keys(QUIC_VERSION, id);
        keys.expect("packets of other versions begin no connection")
    }

    /// A [`Shaken`], once the handshake is complete or early data was accepted.
    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        let connection = &self.tls()?.connection;
        (!connection.is_handshaking() || connection.zero_rtt_keys().is_some()).then(|| {
            let resumed = connection.handshake_kind() == Some(HandshakeKind::Resumed);
            Box::new(Shaken { agreed: Agreed::over_quic(connection), resumed }) as Box<dyn Any>
        })
    }

    /// The client's certificates, as a `Vec<CertificateDer<'static>>`, where it showed some.
    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        let chain = self.tls()?.connection.peer_certificates()?;
        Some(Box::new(chain.to_vec()))
    }

    /// The keys of early data, where it was accepted.
    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let keys = self.tls()?.connection.zero_rtt_keys()?;
        Some((Box::new(keys.header), Box::new(keys.packet)))
    }

    /// Only clients ask.
    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        self.tls().is_none_or(|tls| tls.connection.is_handshaking())
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        match &mut self.stage {
            Stage::Handshake(tls) => tls.read(bytes)?,
            Stage::Hello { received, parameters } => {
                received.extend_from_slice(bytes);
                let hello = ClientHello::in_message(received).map_err(|error| match error {
                    MessageError::Unexpected => alert(AlertDescription::UnexpectedMessage),
                    MessageError::Malformed => alert(AlertDescription::DecodeError),
                    MessageError::CompatibilityMode => TransportErrorCode::PROTOCOL_VIOLATION.into(),
                })?;
                if let Some(hello) = hello {
                    let tls = Tls::begin(hello, received, std::mem::take(parameters))?;
                    self.stage = Stage::Handshake(Box::new(tls));
                }
            }
        }
        // Nobody waits for the data of a handshake: they are there when it is complete, which QUIC says itself.
        Ok(false)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let Some(tls) = self.tls() else { return Ok(None) };
        let Some(bytes) = tls.connection.quic_transport_parameters() else { return Ok(None) };
        Ok(Some(TransportParameters::read(Side::Server, &mut Cursor::new(bytes))?))
    }

    fn write_handshake(&mut self, into: &mut Vec<u8>) -> Option<Keys> {
        match &mut self.stage {
            Stage::Hello { .. } => None,
            Stage::Handshake(tls) => tls.write(into),
        }
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let Stage::Handshake(tls) = &mut self.stage else { return None };
        let keys = tls.next.as_mut()?.next_packet_keys();
        Some(KeyPair { local: Box::new(keys.local), remote: Box::new(keys.remote) })
    }

    /// Only clients get Retry packets.
    fn is_valid_retry(&self, _: &ConnectionId, _: &[u8], _: &[u8]) -> bool {
        false
    }

    /// Nothing above TLS asks for more keys.
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
