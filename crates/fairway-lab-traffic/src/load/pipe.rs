//! A connection as the `h2` crate wants it: `AsyncRead` and `AsyncWrite` that never wait. Whoever polls must poll again
//! when epoll says that the socket moved; the wakers are not used.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::transport::{Received, Scratch, Transport};

/// Bytes that may wait for the socket before writers must wait too.
const BACKLOG: usize = 256 * 1024;

/// The connection and the bytes that were read and not yet taken.
pub(super) struct Pipe {
    pub(super) transport: Transport,
    scratch: Scratch,
    taken: usize,
    has_ended: bool,
    received: u64,
}

/// What the `h2` crate owns.
pub(super) struct Handle(pub(super) Rc<RefCell<Pipe>>);

impl Pipe {
    /// `said` was read from it already.
    pub(super) fn new(transport: Transport, said: &[u8]) -> Self {
        let scratch = Scratch::holding(said);
        Self { transport, scratch, taken: 0, has_ended: false, received: said.len() as u64 }
    }

    /// Bytes received since this was last asked.
    pub(super) fn take_received(&mut self) -> u64 {
        std::mem::take(&mut self.received)
    }

    fn read(&mut self, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let left = &self.scratch.bytes()[self.taken..];
            if !left.is_empty() {
                let count = left.len().min(buffer.remaining());
                buffer.put_slice(&left[..count]);
                self.taken += count;
                return Poll::Ready(Ok(()));
            }
            if self.has_ended {
                return Poll::Ready(Ok(()));
            }
            self.taken = 0;
            match self.transport.receive(&mut self.scratch)? {
                Received::Nothing => return Poll::Pending,
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
        if transport.waiting() > BACKLOG {
            transport.flush()?;
            if transport.waiting() > BACKLOG {
                return Poll::Pending;
            }
        }
        transport.send(bytes)?;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // What the socket does not take now is sent when it becomes writable.
        Poll::Ready(self.0.borrow_mut().transport.flush())
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
