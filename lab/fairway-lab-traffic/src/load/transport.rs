//! A non-blocking connection, cleartext or TLS, or a datagram socket: application bytes in and out. Knows nothing of HTTP
//! and never waits.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use fairway_lab_measure::results::Tls;
use rustls::client::ClientConnection;
use rustls::{ClientConfig, HandshakeKind};
use rustls_pki_types::ServerName;
use socket2::{Domain, Socket, Type};

use super::plan::{Plan, Protocol};
use super::quic::{Quic, QuicConnector};
use super::tls::{self, Witness};

/// Bytes per read.
const PIECE: usize = 64 * 1024;

/// Opens the connections of one thread, using the plan's addresses in turn.
pub(super) struct Dialer {
    addresses: Vec<SocketAddr>,
    next_address: usize,
    kind: Type,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    /// Opens QUIC connections.
    pub(super) quic: Option<QuicConnector>,
    /// Facts about the TLS handshakes, if there is TLS.
    pub(super) witness: Option<Arc<Witness>>,
}

impl Dialer {
    /// The dialer of thread `index`, which starts with a different address than its neighbours.
    ///
    /// # Errors
    /// The planned TLS configuration is not possible.
    pub(super) fn new(plan: &Plan, index: usize) -> anyhow::Result<Self> {
        let (mut tls, mut quic, mut witness) = (None, None, None);
        if let Some(wanted) = &plan.wire.tls {
            let (config, seen) = tls::configuration(wanted, plan.wire.protocol)?;
            if plan.wire.protocol == Protocol::Http3 {
                quic = Some(QuicConnector::new(config.clone(), &plan.target.name)?);
            }
            tls = Some((config, tls::server_name(&plan.target.name)?));
            witness = Some(seen);
        }
        let kind = if plan.wire.protocol == Protocol::Datagrams { Type::DGRAM } else { Type::STREAM };
        Ok(Self { addresses: plan.target.addresses.clone(), next_address: index, kind, tls, quic, witness })
    }

    /// Starts a connection. The socket becomes writable when connecting has ended; [`Transport::connected`] returns the
    /// result.
    pub(super) fn dial(&mut self) -> io::Result<Transport> {
        Transport::open(self.next_address(), self.kind, self.tls.as_ref())
    }

    /// Starts a QUIC connection.
    pub(super) fn dial_quic(&mut self) -> io::Result<Quic> {
        let address = self.next_address();
        let opener = self.quic.as_ref().ok_or_else(|| io::Error::other("QUIC needs TLS"))?;
        opener.open(address)
    }

    fn next_address(&mut self) -> SocketAddr {
        let address = self.addresses[self.next_address % self.addresses.len()];
        self.next_address = self.next_address.wrapping_add(1);
        address
    }
}

/// A connection.
pub(super) struct Transport {
    socket: Socket,
    session: Option<Box<ClientConnection>>,
    /// Output not yet accepted by the socket.
    unread: Vec<u8>,
}

/// Buffers shared by all connections of a thread.
pub(super) struct Scratch {
    wire: Box<[u8]>,
    plain: Vec<u8>,
    filled: Filled,
}

#[derive(Clone, Copy)]
enum Filled {
    Wire(usize),
    Plain,
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// Bytes in [`Scratch::bytes`]; empty if only TLS messages arrived.
    Bytes,
    /// Bytes, then the end of the stream.
    End,
    /// Nothing available.
    Nothing,
}

impl Scratch {
    pub(super) fn new() -> Self {
        Self {
            wire: vec![0; PIECE].into_boxed_slice(),
            plain: Vec::with_capacity(PIECE),
            filled: Filled::Plain,
        }
    }

    /// A buffer as if the last read returned `bytes`.
    pub(super) fn holding(bytes: &[u8]) -> Self {
        let mut scratch = Self::new();
        scratch.plain.extend_from_slice(bytes);
        scratch
    }

    /// The bytes of the last read.
    pub(super) fn bytes(&self) -> &[u8] {
        match self.filled {
            Filled::Wire(length) => &self.wire[..length],
            Filled::Plain => &self.plain,
        }
    }
}

impl Transport {
    pub(super) fn open(
        address: SocketAddr,
        kind: Type,
        tls: Option<&(Arc<ClientConfig>, ServerName<'static>)>,
    ) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), kind.nonblocking(), None)?;
        if kind == Type::STREAM {
            socket.set_tcp_nodelay(true)?;
        }
        match socket.connect(&address.into()) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
        let session = tls.map(|(config, name)| ClientConnection::new(config.clone(), name.clone()));
        let session = session.transpose().map_err(io::Error::other)?.map(Box::new);
        Ok(Self { socket, session, unread: Vec::new() })
    }

    /// The result of connecting.
    pub(super) fn connected(&self) -> io::Result<()> {
        self.socket.take_error()?.map_or(Ok(()), Err)
    }

    /// Whether the TLS handshake is in progress.
    pub(super) fn is_handshaking(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.is_handshaking())
    }

    /// The result of the TLS handshake, if there is TLS.
    pub(super) fn settled(&self) -> Option<(HandshakeKind, Tls)> {
        let session = self.session.as_ref()?;
        Some((session.handshake_kind().unwrap_or(HandshakeKind::Full), tls::facts(session)))
    }

    /// Whether the connection waits for the socket to become writable.
    pub(super) fn wants_write(&self) -> bool {
        !self.unread.is_empty() || self.session.as_ref().is_some_and(|session| session.wants_write())
    }

    /// Bytes buffered for the socket.
    pub(super) fn waiting(&self) -> usize {
        self.unread.len()
    }

    /// Sends bytes; the rest is buffered for [`Transport::flush`].
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(session) = &mut self.session {
            session.writer().write_all(bytes)?;
            return self.flush();
        }
        if !self.unread.is_empty() {
            self.unread.extend_from_slice(bytes);
            return self.flush();
        }
        let sent = self.write_some(bytes)?;
        self.unread.extend_from_slice(&bytes[sent..]);
        Ok(())
    }

    /// Sends buffered bytes until the socket would block.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if let Some(session) = &mut self.session {
            while session.wants_write() {
                match session.write_tls(&mut self.socket) {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            return Ok(());
        }
        let rest = std::mem::take(&mut self.unread);
        let sent = self.write_some(&rest)?;
        self.unread = rest;
        self.unread.drain(..sent);
        Ok(())
    }

    /// Reads once; application bytes are in `scratch` afterwards.
    pub(super) fn receive(&mut self, scratch: &mut Scratch) -> io::Result<Received> {
        scratch.plain.clear();
        scratch.filled = Filled::Plain;
        let length = loop {
            match self.socket.read(&mut scratch.wire) {
                Ok(length) => break length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Received::Nothing),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        };
        let Some(session) = &mut self.session else {
            scratch.filled = Filled::Wire(length);
            return Ok(if length == 0 { Received::End } else { Received::Bytes });
        };
        let decrypted = decrypt(session, &scratch.wire[..length], &mut scratch.plain);
        // Flush even after an error, so that the peer gets the alert.
        let flushed = self.flush();
        let ended = decrypted?;
        flushed?;
        Ok(if length == 0 || ended { Received::End } else { Received::Bytes })
    }

    /// Closes the connection gracefully.
    pub(super) fn close(mut self) {
        if let Some(session) = &mut self.session {
            session.send_close_notify();
            // The peer may already be gone.
            _ = session.write_tls(&mut self.socket);
        }
        _ = self.socket.shutdown(Shutdown::Write);
    }

    fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut sent = 0;
        while sent < bytes.len() {
            match self.socket.write(&bytes[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Decrypts records; returns true once the peer has sent close_notify.
fn decrypt(session: &mut ClientConnection, mut wire: &[u8], plain: &mut Vec<u8>) -> io::Result<bool> {
    let mut ended = false;
    while !wire.is_empty() {
        if session.read_tls(&mut wire)? == 0 {
            // Ignore data after the peer's close_notify (RFC 8446 §6.1).
            return Ok(true);
        }
        let state =
            session.process_new_packets().map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        if state.plaintext_bytes_to_read() > 0 {
            let start = plain.len();
            plain.resize(start + state.plaintext_bytes_to_read(), 0);
            session.reader().read_exact(&mut plain[start..])?;
        }
        ended |= state.peer_has_closed();
    }
    Ok(ended)
}
