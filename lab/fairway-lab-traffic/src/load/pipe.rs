//! A connection for the `h2` crate: `AsyncRead` and `AsyncWrite` that never wait. Wakers are not used; the caller polls
//! again when epoll reports the socket.
//!
//! After a read would block, the socket is read again only when epoll reports it ([`Pipe::record_progress`]). Otherwise
//! polling the connection to write requests would also read the few responses that have arrived, each followed by its own
//! small write, and the proxy would wake for every one. h2load also reads until nothing is left and writes once per epoll
//! event.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::transport::{Received, Scratch, Transport};

/// Bytes buffered for the socket before writers must wait.
const MAX_BACKLOG_BYTES: usize = 256 * 1024;

/// The connection and the bytes read but not yet consumed.
pub(super) struct Pipe {
    pub(super) transport: Transport,
    scratch: Scratch,
    bytes_taken: usize,
    has_ended: bool,
    /// Whether the socket may have more to read.
    may_have_more: bool,
    received: u64,
}

/// The handle owned by the `h2` crate.
pub(super) struct Handle(pub(super) Rc<RefCell<Pipe>>);

impl Pipe {
    /// `said` contains bytes that were already read.
    pub(super) fn new(transport: Transport, opening: &[u8]) -> Self {
        let scratch = Scratch::holding(opening);
        let received = opening.len() as u64;
        Self { transport, scratch, bytes_taken: 0, has_ended: false, may_have_more: true, received }
    }

    /// Records that epoll has reported the socket.
    pub(super) fn record_progress(&mut self) {
        self.may_have_more = true;
    }

    /// Bytes received since the last call.
    pub(super) fn take_received(&mut self) -> u64 {
        std::mem::take(&mut self.received)
    }

    fn read(&mut self, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let unread = &self.scratch.bytes()[self.bytes_taken..];
            if !unread.is_empty() {
                let count = unread.len().min(buffer.remaining());
                buffer.put_slice(&unread[..count]);
                self.bytes_taken += count;
                return Poll::Ready(Ok(()));
            }
            if self.has_ended {
                return Poll::Ready(Ok(()));
            }
            if !self.may_have_more {
                return Poll::Pending;
            }
            self.bytes_taken = 0;
            match self.transport.receive(&mut self.scratch)? {
                Received::Nothing => {
                    self.may_have_more = false;
                    return Poll::Pending;
                }
                Received::Bytes => {}
                Received::End => self.has_ended = true,
            }
            self.received += self.scratch.bytes().len() as u64;
        }
    }
}

impl AsyncRead for Handle {
    fn poll_read(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.borrow_mut().read(buffer)
    }
}

impl AsyncWrite for Handle {
    fn poll_write(self: Pin<&mut Self>, _context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let transport = &mut self.0.borrow_mut().transport;
        if transport.waiting() > MAX_BACKLOG_BYTES {
            transport.flush()?;
            if transport.waiting() > MAX_BACKLOG_BYTES {
                return Poll::Pending;
            }
        }
        transport.send(bytes)?;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Anything the socket does not accept now is sent when it becomes writable.
        Poll::Ready(self.0.borrow_mut().transport.flush())
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use socket2::Type;

    use super::*;

    /// Reads what is available.
    fn read(pipe: &mut Pipe) -> Option<Vec<u8>> {
        let mut room = [0; 64];
        let mut buffer = ReadBuf::new(&mut room);
        match pipe.read(&mut buffer) {
            Poll::Ready(read) => read.map(|()| Some(buffer.filled().to_vec())).unwrap(),
            Poll::Pending => None,
        }
    }

    #[test]
    fn an_empty_read_is_repeated_when_the_socket_has_progressed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let transport = Transport::open(listener.local_addr().unwrap(), Type::STREAM, None).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let mut pipe = Pipe::new(transport, b"said");
        assert_eq!(read(&mut pipe).as_deref(), Some(&b"said"[..]));
        assert_eq!(read(&mut pipe), None);
        peer.write_all(b"more").unwrap();
        assert_eq!(read(&mut pipe), None);
        pipe.record_progress();
        while read(&mut pipe).is_none_or(|came| came != b"more") {
            pipe.record_progress();
        }
        assert_eq!(read(&mut pipe), None);
        drop(peer);
        assert_eq!(read(&mut pipe), None);
        pipe.record_progress();
        while read(&mut pipe).is_none_or(|came| !came.is_empty()) {
            pipe.record_progress();
        }
        assert_eq!(read(&mut pipe).as_deref(), Some(&[][..]), "an end stays one");
    }
}
