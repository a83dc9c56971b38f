//! A TCP connection that a request can turn into a reset. Carries bytes, knows no protocol.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Orders the end of a connection.
#[derive(Clone, Default)]
pub(crate) struct ResetOrder(Arc<AtomicBool>);

impl ResetOrder {
    /// Whatever is written next becomes a RST instead.
    pub(crate) fn give(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The connection.
pub(crate) struct Transport {
    socket: TcpStream,
    order: ResetOrder,
}

impl Transport {
    pub(crate) fn new(socket: TcpStream) -> (Self, ResetOrder) {
        let order = ResetOrder::default();
        (Self { socket, order: order.clone() }, order)
    }

    /// Fails once the order is given; dropping the socket then sends the RST.
    fn obey(&self) -> io::Result<()> {
        if self.order.0.load(Ordering::Relaxed) {
            self.socket.set_zero_linger()?;
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(())
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_read(context, buffer)
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.obey()?;
        Pin::new(&mut self.get_mut().socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.obey()?;
        Pin::new(&mut self.get_mut().socket).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.obey()?;
        Pin::new(&mut self.get_mut().socket).poll_shutdown(context)
    }
}
