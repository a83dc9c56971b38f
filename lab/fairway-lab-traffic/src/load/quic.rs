//! A connection of QUIC: quinn's protocol without I/O on a socket of its own, read and written in batches. Knows nothing of
//! HTTP and never waits.

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

/// Windows of a stream and of a connection, bytes: large enough that they never hold back an answer of 1 MB.
const STREAM_WINDOW: u32 = 4 * 1024 * 1024;
const CONNECTION_WINDOW: u32 = 4 * STREAM_WINDOW;
/// Streams that a server may open: control, the two of QPACK, and some that nobody knows.
const STREAMS_OF_SERVER: u32 = 16;
/// What a socket may hold that was not read, bytes; the system may allow less.
const RECEIVE_BUFFER: usize = 4 * 1024 * 1024;
/// Datagrams that are written at a time, all of the same length but for the last.
const SEGMENTS: usize = 10;
/// Messages that are read at a time, each with as many datagrams as the system put together.
const MESSAGES: usize = 8;
/// The longest such message, bytes.
const MESSAGE: usize = 64 * 1024;
/// Errors of TLS are its alerts after this (RFC 9001 §4.8).
const CRYPTO_ERROR: u64 = 0x100;
/// RFC 7301 §3.2.
const NO_APPLICATION_PROTOCOL: u64 = 120;

/// Room for what is read, which all connections of a thread share.
pub(super) struct Datagrams(Box<[u8]>);

impl Datagrams {
    /// As much as the connections of a plan need: none without QUIC.
    pub(super) fn of(plan: &Plan) -> Self {
        let bytes = if plan.wire.protocol == Protocol::Http3 { MESSAGES * MESSAGE } else { 0 };
        Self(vec![0; bytes].into_boxed_slice())
    }
}

/// Opens connections.
pub(super) struct Opener {
    tls: Arc<rustls::ClientConfig>,
    config: ClientConfig,
    endpoint: Arc<EndpointConfig>,
    name: String,
}

impl Opener {
    /// # Errors
    /// TLS that cannot be that of QUIC.
    pub(super) fn new(tls: Arc<rustls::ClientConfig>, name: &str) -> anyhow::Result<Self> {
        // The first packets have a suite of their own, whatever the handshake chooses (RFC 9001 §5.2).
        let initial = default_provider()
            .cipher_suites
            .iter()
            .find(|suite| suite.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256)
            .and_then(|suite| suite.tls13()?.quic_suite())
            .context("there is no cipher suite for the first packets of QUIC")?;
        let mut config = ClientConfig::new(Arc::new(QuicClientConfig::with_initial(tls.clone(), initial)?));
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_bidi_streams(VarInt::from_u32(0))
            .max_concurrent_uni_streams(VarInt::from_u32(STREAMS_OF_SERVER))
            .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
            .receive_window(VarInt::from_u32(CONNECTION_WINDOW))
            .datagram_receive_buffer_size(None)
            // The server's own limit is as good; without one a connection stays as long as the plan.
            .max_idle_timeout(None);
        config.transport_config(Arc::new(transport));
        Ok(Self { tls, config, endpoint: Arc::new(EndpointConfig::default()), name: name.to_owned() })
    }

    /// What is offered to servers.
    pub(super) fn tls(&self) -> &rustls::ClientConfig {
        &self.tls
    }

    /// Begins a connection; the handshake goes on with what is received and sent.
    pub(super) fn open(&self, address: SocketAddr) -> io::Result<Quic> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM.nonblocking(), None)?;
        socket.connect(&address.into())?;
        // As much of it as the system allows.
        _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
        let batches = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let mut endpoint = Endpoint::new(self.endpoint.clone(), None, !batches.may_fragment(), None);
        let (handle, connection) = endpoint
            .connect(Instant::now(), self.config.clone(), address, &self.name)
            .map_err(io::Error::other)?;
        Ok(Quic { socket, batches, endpoint, handle, connection, bytes: Vec::new(), unsent: None })
    }
}

/// A connection.
pub(super) struct Quic {
    socket: Socket,
    batches: UdpSocketState,
    /// Each connection has its own, as each has its socket.
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub(super) connection: Connection,
    /// Those of the datagrams that are being written.
    bytes: Vec<u8>,
    /// Datagrams that the socket did not take yet.
    unsent: Option<Transmit>,
}

impl Quic {
    /// Whether the socket must become writable before anything else.
    pub(super) fn wants_write(&self) -> bool {
        self.unsent.is_some()
    }

    /// Reads what is there, once.
    ///
    /// # Errors
    /// The system knows that nothing listens there, or cannot read.
    pub(super) fn receive(&mut self, room: &mut Datagrams, now: Instant) -> io::Result<()> {
        let mut metas = [RecvMeta::default(); MESSAGES];
        let mut rooms = room.0.chunks_mut(MESSAGE);
        let mut slices: [IoSliceMut<'_>; MESSAGES] =
            std::array::from_fn(|_| IoSliceMut::new(rooms.next().unwrap_or_default()));
        let messages = loop {
            match self.batches.recv(UdpSockRef::from(&self.socket), &mut slices, &mut metas) {
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
                // A client owes nobody a reply, and takes no connections.
                if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                    self.connection.handle_event(event);
                }
            }
        }
        Ok(())
    }

    /// What happened, one by one.
    pub(super) fn event(&mut self) -> Option<Event> {
        self.connection.poll()
    }

    /// When [`Quic::expire`] is to be called.
    pub(super) fn timeout(&mut self) -> Option<Instant> {
        self.connection.poll_timeout()
    }

    /// Does what is due by `now`.
    pub(super) fn expire(&mut self, now: Instant) {
        self.connection.handle_timeout(now);
    }

    /// Writes what is to be written, as far as the socket takes it.
    ///
    /// # Errors
    /// The system knows that nothing listens there, or cannot write.
    pub(super) fn transmit(&mut self, now: Instant) -> io::Result<()> {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        let segments = self.batches.max_gso_segments().clamp(1, SEGMENTS);
        loop {
            if self.unsent.is_none() {
                self.bytes.clear();
                self.unsent = self.connection.poll_transmit(now, segments, &mut self.bytes);
            }
            let Some(transmit) = &self.unsent else { return Ok(()) };
            let transmit = quinn_udp::Transmit {
                destination: transmit.destination,
                ecn: transmit.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
                contents: &self.bytes[..transmit.size],
                segment_size: transmit.segment_size,
                src_ip: None,
            };
            match self.batches.try_send(UdpSockRef::from(&self.socket), &transmit) {
                Ok(()) => self.unsent = None,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A probe was longer than the path allows, which is what it is for.
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

/// Why a connection could not be made.
pub(super) fn not_made(error: &ConnectionError) -> (Class, String) {
    let code = match error {
        ConnectionError::TransportError(error) => u64::from(error.code),
        ConnectionError::ConnectionClosed(close) => u64::from(close.error_code),
        _ => 0,
    };
    let class = match error {
        ConnectionError::TimedOut => Class::ConnectTimeout,
        ConnectionError::Reset => Class::ConnectReset,
        _ if (CRYPTO_ERROR..=CRYPTO_ERROR + 0xff).contains(&code) => Class::Tls,
        _ => Class::ConnectOther,
    };
    let text = match code.checked_sub(CRYPTO_ERROR) {
        Some(NO_APPLICATION_PROTOCOL) => {
            "the server speaks none of the protocols that it was offered (ALPN)".to_owned()
        }
        _ => error.to_string(),
    };
    (class, text)
}
