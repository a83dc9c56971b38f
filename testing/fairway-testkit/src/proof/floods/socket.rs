//! Sockets of attackers: never blocking, and reset when they are closed, so that none lingers in TIME-WAIT.

use std::io::{self, ErrorKind, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};

/// `MSG_TRUNC` and `MSG_DONTWAIT` of Linux.
const TRUNC_AND_DONTWAIT: i32 = 0x20 | 0x40;
/// `EINPROGRESS` of Linux.
const IN_PROGRESS: i32 = 115;

/// What became of a look at a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Bytes came and are gone.
    Bytes,
    /// Nothing came.
    Silence,
    /// The other side has ended the connection.
    End,
}

/// Room for bytes that nobody looks at.
pub(super) type Waste = Vec<MaybeUninit<u8>>;

/// Room for `size` bytes that nobody looks at.
pub(super) fn waste(size: usize) -> Waste {
    vec![MaybeUninit::uninit(); size]
}

/// Begins to connect. A small receive buffer keeps the answers in the proxy.
pub(super) fn dial(address: SocketAddr, receive_buffer: Option<usize>) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), None)?;
    socket.set_linger(Some(Duration::ZERO))?;
    if let Some(size) = receive_buffer {
        socket.set_recv_buffer_size(size)?;
    }
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(IN_PROGRESS) => Err(error),
        _ => Ok(socket.into()),
    }
}

/// Throws away what came, as much as `room` is for, without copying it (tcp(7), `MSG_TRUNC`).
pub(super) fn discard(stream: &TcpStream, room: &mut [MaybeUninit<u8>]) -> Heard {
    match SockRef::from(stream).recv_with_flags(room, TRUNC_AND_DONTWAIT) {
        Ok(0) => Heard::End,
        Ok(_) => Heard::Bytes,
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => {
            Heard::Silence
        }
        Err(_) => Heard::End,
    }
}

/// A connection on which pieces are sent one after the other, as far as it takes them.
pub(super) struct Sender {
    pub(super) stream: TcpStream,
    /// How many pieces were sent.
    pub(super) piece: usize,
    /// Bytes sent of the next one.
    sent: usize,
}

impl Sender {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, piece: 0, sent: 0 }
    }

    /// Sends what is left of `piece`, which is the next one; says whether bytes were taken.
    pub(super) fn send(&mut self, piece: &[u8]) -> io::Result<bool> {
        match (&self.stream).write(&piece[self.sent..]) {
            Ok(length) => {
                self.sent += length;
                if self.sent == piece.len() {
                    self.piece += 1;
                    self.sent = 0;
                }
                Ok(true)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}
