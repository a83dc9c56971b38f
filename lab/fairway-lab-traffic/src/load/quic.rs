//! A QUIC connection: quinn's sans-I/O protocol on a socket of its own. Each system call reads or writes a batch of
//! datagrams, and none blocks. HTTP/3 is layered on top, in `http3`.

use std::io::{self, ErrorKind, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use bytes::BytesMut;
use fairway_lab_measure::results::Class;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint,
    EndpointConfig, Event, Transmit, TransportConfig, VarInt,
};
use quinn_udp::{RecvMeta, UdpSockRef, UdpSocketState};
use rustls::CipherSuite;
use rustls::crypto::aws_lc_rs::default_provider;
use socket2::{Domain, Socket, Type};

use super::plan::{Plan, Protocol};

/// Flow-control window of a stream, in bytes: larger than the largest response (1 MB), so that it never limits one.
const STREAM_WINDOW: u32 = 4 * 1024 * 1024;
/// Flow-control window of a connection, in bytes: several streams may receive at once.
const CONNECTION_WINDOW: u32 = 4 * STREAM_WINDOW;
/// Unidirectional streams that a server may open: HTTP/3 needs three (control and two for QPACK), and servers may
/// open others of unknown types (RFC 9114 §6.2).
const MAX_SERVER_STREAMS: u32 = 16;
/// Socket receive buffer requested from the system, in bytes.
const SOCKET_BUFFER_BYTES: usize = 4 * 1024 * 1024;
/// Maximum datagrams per write. Segmentation offload needs all except the last to have one length.
const MAX_SEGMENTS: usize = 10;
/// Maximum messages per read. A message contains one or more datagrams that the kernel has coalesced.
const MAX_MESSAGES: usize = 8;
/// Maximum length of a message, in bytes: that of a UDP datagram, which the kernel also applies to coalesced ones.
const MAX_MESSAGE_BYTES: usize = 64 * 1024;
/// First of the 256 QUIC error codes for TLS alerts: the code is this value plus the alert (RFC 9001 §4.8).
const FIRST_CRYPTO_ERROR: u64 = 0x100;
/// TLS alert of a server that supports none of the offered ALPN protocols (RFC 7301 §3.2).
const NO_APPLICATION_PROTOCOL: u64 = 120;

/// The receive buffer, which all connections of a thread share.
pub(super) struct ReceiveBuffer(Box<[u8]>);

impl ReceiveBuffer {
    /// Creates the buffer for the connections of `plan`; it is empty if they do not use QUIC.
    pub(super) fn for_plan(plan: &Plan) -> Self {
        let bytes = if plan.wire.protocol == Protocol::Http3 { MAX_MESSAGES * MAX_MESSAGE_BYTES } else { 0 };
        Self(vec![0; bytes].into_boxed_slice())
    }
}

/// Opens QUIC connections to one server.
pub(super) struct QuicConnector {
    tls: Arc<rustls::ClientConfig>,
    config: ClientConfig,
    endpoint: Arc<EndpointConfig>,
    server_name: String,
}

impl QuicConnector {
    /// A connector that verifies the certificate of `server_name`.
    ///
    /// # Errors
    /// The TLS configuration does not support QUIC.
    pub(super) fn new(tls: Arc<rustls::ClientConfig>, server_name: &str) -> anyhow::Result<Self> {
        // Initial packets always use this suite, whatever the handshake negotiates (RFC 9001 §5.2).
        let initial_suite = default_provider()
            .cipher_suites
            .iter()
            .find(|suite| suite.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256)
            .and_then(|suite| suite.tls13()?.quic_suite())
            .context("there is no cipher suite for the first packets of QUIC")?;
        let mut config =
            ClientConfig::new(Arc::new(QuicClientConfig::with_initial(tls.clone(), initial_suite)?));
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_bidi_streams(VarInt::from_u32(0))
            .max_concurrent_uni_streams(VarInt::from_u32(MAX_SERVER_STREAMS))
            .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
            .receive_window(VarInt::from_u32(CONNECTION_WINDOW))
            .datagram_receive_buffer_size(None)
            // The client sets no idle timeout, so only the server's closes idle connections.
            .max_idle_timeout(None);
        config.transport_config(Arc::new(transport));
        let endpoint = Arc::new(EndpointConfig::default());
        Ok(Self { tls, config, endpoint, server_name: server_name.to_owned() })
    }

    /// The TLS configuration offered to servers.
    pub(super) fn tls(&self) -> &rustls::ClientConfig {
        &self.tls
    }

    /// Starts a connection; the handshake progresses with received and sent datagrams.
    pub(super) fn open(&self, address: SocketAddr) -> io::Result<Quic> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM.nonblocking(), None)?;
        socket.connect(&address.into())?;
        // The system may grant less or refuse. The connection works with any size, so the result does not matter.
        _ = socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES);
        let udp_state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let mut endpoint = Endpoint::new(self.endpoint.clone(), None, !udp_state.may_fragment(), None);
        let (handle, connection) = endpoint
            .connect(Instant::now(), self.config.clone(), address, &self.server_name)
            .map_err(io::Error::other)?;
        let send_buffer = Vec::new();
        Ok(Quic { socket, udp_state, endpoint, handle, connection, send_buffer, unsent: None })
    }
}

/// A QUIC connection with its socket.
pub(super) struct Quic {
    socket: Socket,
    /// What the socket supports of segmentation offload and coalescing.
    udp_state: UdpSocketState,
    /// quinn's demultiplexer, here for one connection because each connection has its own socket.
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub(super) connection: Connection,
    /// The bytes of the batch being written.
    send_buffer: Vec<u8>,
    /// The description of that batch while the socket has not accepted it.
    unsent: Option<Transmit>,
}

impl Quic {
    /// Whether the connection waits for the socket to become writable.
    pub(super) fn wants_write(&self) -> bool {
        self.unsent.is_some()
    }

    /// Reads one batch of datagrams.
    ///
    /// # Errors
    /// The system reports that no socket listens at the address, or reading fails.
    pub(super) fn receive(&mut self, buffer: &mut ReceiveBuffer, now: Instant) -> io::Result<()> {
        let mut metas = [RecvMeta::default(); MAX_MESSAGES];
        let mut chunks = buffer.0.chunks_mut(MAX_MESSAGE_BYTES);
        let mut slices: [IoSliceMut<'_>; MAX_MESSAGES] =
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        let messages = loop {
            match self.udp_state.recv(UdpSockRef::from(&self.socket), &mut slices, &mut metas) {
                Ok(messages) => break messages,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        };
        for (meta, slice) in metas.iter().zip(&slices).take(messages) {
            let mut datagrams = BytesMut::from(&slice[..meta.len]);
            while !datagrams.is_empty() {
                let datagram = datagrams.split_to(meta.stride.clamp(1, datagrams.len()));
                let ecn = meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
                let mut reply = Vec::new();
                let event = self.endpoint.handle(now, meta.addr, None, ecn, datagram, &mut reply);
                // A client ignores the other events, which concern new connections, and so `reply` stays unsent.
                if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                    self.connection.handle_event(event);
                }
            }
        }
        Ok(())
    }

    /// Returns the next event of the connection, such as a readable stream.
    pub(super) fn event(&mut self) -> Option<Event> {
        self.connection.poll()
    }

    /// The time at which the caller must call [`Quic::expire`].
    pub(super) fn timeout(&mut self) -> Option<Instant> {
        self.connection.poll_timeout()
    }

    /// Handles timers due at `now`.
    pub(super) fn expire(&mut self, now: Instant) {
        self.connection.handle_timeout(now);
    }

    /// Writes pending datagrams until the socket would block.
    ///
    /// # Errors
    /// The system reports that no socket listens at the address, or writing fails.
    pub(super) fn transmit(&mut self, now: Instant) -> io::Result<()> {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        let segments = self.udp_state.max_gso_segments().clamp(1, MAX_SEGMENTS);
        loop {
            if self.unsent.is_none() {
                self.send_buffer.clear();
                self.unsent = self.connection.poll_transmit(now, segments, &mut self.send_buffer);
            }
            let Some(transmit) = &self.unsent else { return Ok(()) };
            let transmit = quinn_udp::Transmit {
                destination: transmit.destination,
                ecn: transmit.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
                contents: &self.send_buffer[..transmit.size],
                segment_size: transmit.segment_size,
                src_ip: None,
            };
            match self.udp_state.try_send(UdpSockRef::from(&self.socket), &transmit) {
                Ok(()) => self.unsent = None,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A path MTU probe was too large; quinn learns this from the missing acknowledgement.
                Err(error) if quinn_udp::is_msg_size_err(&error) => self.unsent = None,
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsFd for Quic {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The class and message of a failure to connect.
pub(super) fn classify_connect_error(error: &ConnectionError) -> (Class, String) {
    let code = match error {
        ConnectionError::TransportError(error) => u64::from(error.code),
        ConnectionError::ConnectionClosed(close) => u64::from(close.error_code),
        _ => 0,
    };
    let class = match error {
        ConnectionError::TimedOut => Class::ConnectTimeout,
        ConnectionError::Reset => Class::ConnectReset,
        _ if (FIRST_CRYPTO_ERROR..=FIRST_CRYPTO_ERROR + 0xff).contains(&code) => Class::Tls,
        _ => Class::ConnectOther,
    };
    let message = match code.checked_sub(FIRST_CRYPTO_ERROR) {
        Some(NO_APPLICATION_PROTOCOL) => {
            "the server speaks none of the protocols that it was offered (ALPN)".to_owned()
        }
        _ => error.to_string(),
    };
    (class, message)
}
