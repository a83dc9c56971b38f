//! A non-blocking connection, in the clear or inside TLS: bytes of the application in and out. Knows nothing of HTTP and
//! never waits.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use fairway_lab_measure::results::Tls;
use rustls::client::ClientConnection;
use rustls::{ClientConfig, HandshakeKind};
use rustls_pki_types::ServerName;
use socket2::{Domain, Protocol, Socket, Type};

use super::tls;

/// Bytes read from a socket at a time.
const PIECE: usize = 64 * 1024;

/// A connection.
pub(super) struct Transport {
    socket: TcpStream,
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
    /// Begins to connect. The socket becomes writable when that has ended; [`Transport::connected`] says how.
    pub(super) fn open(
        address: SocketAddr,
        tls: Option<(&Arc<ClientConfig>, &ServerName<'static>)>,
    ) -> io::Result<Self> {
        let socket =
            Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
        socket.set_tcp_nodelay(true)?;
        match socket.connect(&address.into()) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
        let session = match tls {
            Some((config, name)) => {
                Some(Box::new(ClientConnection::new(config.clone(), name.clone()).map_err(io::Error::other)?))
            }
            None => None,
        };
        Ok(Self { socket: socket.into(), session, rest: Vec::new() })
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
