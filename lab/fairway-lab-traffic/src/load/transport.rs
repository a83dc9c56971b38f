//! A non-blocking connection, in the clear or inside TLS, or a socket for datagrams: bytes of the application in and out.
//! Knows nothing of HTTP and never waits.

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
use super::quic::{Opener, Quic};
use super::tls::{self, Witness};

/// Bytes read from a socket at a time.
const PIECE: usize = 64 * 1024;

/// Opens the connections of one thread, to the addresses of a plan in turn.
pub(super) struct Dialer {
    addresses: Vec<SocketAddr>,
    turn: usize,
    kind: Type,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    /// Opens those of QUIC.
    pub(super) quic: Option<Opener>,
    /// What the handshakes of its connections showed, if there are some.
    pub(super) witness: Option<Arc<Witness>>,
}

impl Dialer {
    /// That of thread `index`, which begins with another address than its neighbours.
    ///
    /// # Errors
    /// TLS as planned cannot be had.
    pub(super) fn new(plan: &Plan, index: usize) -> anyhow::Result<Self> {
        let (mut tls, mut quic, mut witness) = (None, None, None);
        if let Some(wanted) = &plan.wire.tls {
            let (config, seen) = tls::configuration(wanted, plan.wire.protocol)?;
            if plan.wire.protocol == Protocol::Http3 {
                quic = Some(Opener::new(config.clone(), &plan.target.name)?);
            }
            tls = Some((config, tls::server_name(&plan.target.name)?));
            witness = Some(seen);
        }
        let kind = if plan.wire.protocol == Protocol::Datagrams { Type::DGRAM } else { Type::STREAM };
        Ok(Self { addresses: plan.target.addresses.clone(), turn: index, kind, tls, quic, witness })
    }

    /// Begins to open a connection. The socket becomes writable when that has ended; [`Transport::connected`] says how.
    pub(super) fn dial(&mut self) -> io::Result<Transport> {
        Transport::open(self.next_address(), self.kind, self.tls.as_ref())
    }

    /// Begins to open a connection of QUIC.
    pub(super) fn dial_quic(&mut self) -> io::Result<Quic> {
        let address = self.next_address();
        let opener = self.quic.as_ref().ok_or_else(|| io::Error::other("QUIC needs TLS"))?;
        opener.open(address)
    }

    fn next_address(&mut self) -> SocketAddr {
        let address = self.addresses[self.turn % self.addresses.len()];
        self.turn = self.turn.wrapping_add(1);
        address
    }
}

/// A connection.
pub(super) struct Transport {
    socket: Socket,
    session: Option<Box<ClientConnection>>,
    /// What the socket did not take yet.
    rest: Vec<u8>,
}

/// Room that all connections of a thread share.
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

/// What a read found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// The bytes in [`Scratch::bytes`]; none when only TLS had something to say.
    Bytes,
    /// Those bytes and then the end of the stream.
    End,
    /// Nothing now.
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

    /// One whose last read found `bytes`.
    pub(super) fn holding(bytes: &[u8]) -> Self {
        let mut scratch = Self::new();
        scratch.plain.extend_from_slice(bytes);
        scratch
    }

    /// What the last read found.
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
        Ok(Self { socket, session, rest: Vec::new() })
    }

    /// How connecting ended.
    pub(super) fn connected(&self) -> io::Result<()> {
        self.socket.take_error()?.map_or(Ok(()), Err)
    }

    /// Whether TLS is still being agreed upon.
    pub(super) fn is_handshaking(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.is_handshaking())
    }

    /// What TLS agreed upon, if there is TLS.
    pub(super) fn settled(&self) -> Option<(HandshakeKind, Tls)> {
        let session = self.session.as_ref()?;
        Some((session.handshake_kind().unwrap_or(HandshakeKind::Full), tls::facts(session)))
    }

    /// Whether the socket must become writable before anything else.
    pub(super) fn wants_write(&self) -> bool {
        !self.rest.is_empty() || self.session.as_ref().is_some_and(|session| session.wants_write())
    }

    /// Bytes that wait for the socket.
    pub(super) fn waiting(&self) -> usize {
        self.rest.len()
    }

    /// Sends bytes; what the socket does not take now goes with [`Transport::flush`].
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(session) = &mut self.session {
            session.writer().write_all(bytes)?;
            return self.flush();
        }
        if !self.rest.is_empty() {
            self.rest.extend_from_slice(bytes);
            return self.flush();
        }
        let sent = self.write_some(bytes)?;
        self.rest.extend_from_slice(&bytes[sent..]);
        Ok(())
    }

    /// Sends what is left over, as far as the socket takes it.
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
        let rest = std::mem::take(&mut self.rest);
        let sent = self.write_some(&rest)?;
        self.rest = rest;
        self.rest.drain(..sent);
        Ok(())
    }

    /// Reads once. Bytes of the application are in `scratch` afterwards.
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
        // Also when it failed: the alert tells the other side why.
        let flushed = self.flush();
        let ended = decrypted?;
        flushed?;
        Ok(if length == 0 || ended { Received::End } else { Received::Bytes })
    }

    /// Ends the connection in order.
    pub(super) fn close(mut self) {
        if let Some(session) = &mut self.session {
            session.send_close_notify();
            // The other side may be gone already; there is nobody to tell.
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

/// Takes records apart; true when the peer has said that no more come.
fn decrypt(session: &mut ClientConnection, mut wire: &[u8], plain: &mut Vec<u8>) -> io::Result<bool> {
    let mut ended = false;
    while !wire.is_empty() {
        if session.read_tls(&mut wire)? == 0 {
            // Nothing counts after the peer's close_notify (RFC 8446 §6.1).
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
