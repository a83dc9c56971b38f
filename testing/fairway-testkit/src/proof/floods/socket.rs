//! The TCP sockets of simulated attackers. They never block, so that one thread can drive many of them. Closing one
//! resets its connection, so that no socket lingers in TIME-WAIT.

use std::io::{self, ErrorKind, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};

/// Flags of recv(2), with their values on Linux: `MSG_TRUNC` (0x20) and `MSG_DONTWAIT` (0x40).
const TRUNC_AND_DONTWAIT: i32 = 0x20 | 0x40;
/// The error number `EINPROGRESS` of Linux: a non-blocking connect(2) has started.
const EINPROGRESS: i32 = 115;

/// What [`discard`] found on a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Bytes were received and discarded.
    Bytes,
    /// The socket had no bytes to receive, or is not connected yet.
    Silence,
    /// The peer closed the connection, or the connection failed.
    End,
}

/// A buffer whose length limits how many bytes one [`discard`] receives. It stays uninitialized.
pub(super) type DiscardBuffer = Vec<MaybeUninit<u8>>;

/// Allocates a buffer that lets one [`discard`] receive up to `size` bytes.
pub(super) fn discard_buffer(size: usize) -> DiscardBuffer {
    vec![MaybeUninit::uninit(); size]
}

/// Starts connecting to `address`. A small `receive_buffer`, in bytes, fills up soon, so that the proxy has to hold
/// the rest of its responses.
pub(super) fn dial(address: SocketAddr, receive_buffer: Option<usize>) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), None)?;
    socket.set_linger(Some(Duration::ZERO))?;
    if let Some(size) = receive_buffer {
        socket.set_recv_buffer_size(size)?;
    }
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(EINPROGRESS) => Err(error),
        _ => Ok(socket.into()),
    }
}

/// Discards received bytes, at most `buffer.len()`. The kernel does not copy them into `buffer` (tcp(7),
/// `MSG_TRUNC`).
pub(super) fn discard(stream: &TcpStream, buffer: &mut [MaybeUninit<u8>]) -> Heard {
    match SockRef::from(stream).recv_with_flags(buffer, TRUNC_AND_DONTWAIT) {
        Ok(0) => Heard::End,
        Ok(_) => Heard::Bytes,
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => {
            Heard::Silence
        }
        Err(_) => Heard::End,
    }
}

/// A connection that sends its pieces of bytes one after the other and resumes a piece that was sent in part.
pub(super) struct Sender {
    pub(super) stream: TcpStream,
    /// The number of pieces sent completely, which is the index of the piece to send next.
    pub(super) pieces_sent: usize,
    /// The number of bytes of the next piece that were sent already.
    bytes_sent: usize,
}

impl Sender {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, pieces_sent: 0, bytes_sent: 0 }
    }

    /// Sends as much of `chunk` as the socket accepts and returns whether it accepted any. The caller passes the same
    /// `chunk` until `pieces_sent` increases.
    pub(super) fn send(&mut self, chunk: &[u8]) -> io::Result<bool> {
        match (&self.stream).write(&chunk[self.bytes_sent..]) {
            Ok(length) => {
                self.bytes_sent += length;
                if self.bytes_sent == chunk.len() {
                    self.pieces_sent += 1;
                    self.bytes_sent = 0;
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
