//! A TCP connection, plain or inside TLS, as client and scripted backend both use it. Owns no protocol.

use std::io;
use std::time::Duration;

use socket2::{SockFilter, SockRef, Socket};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

/// One end of a connection.
pub(crate) enum Stream {
    /// Bytes as they are.
    Plain(TcpStream),
    /// Bytes inside TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Appends what comes next to `buffer`; 0 is the end of the stream.
    pub(crate) async fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read_buf(buffer).await,
            Self::Tls(stream) => stream.read_buf(buffer).await,
        }
    }

    /// Writes everything and flushes it.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.write_all(bytes).await,
            Self::Tls(stream) => {
                stream.write_all(bytes).await?;
                stream.flush().await
            }
        }
    }

    /// Ends the sending direction: FIN, after a close_notify when inside TLS.
    pub(crate) async fn half_close(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.shutdown().await,
            Self::Tls(stream) => stream.shutdown().await,
        }
    }

    /// Makes the coming close a RST instead of a FIN.
    pub(crate) fn reset_when_dropped(&self) -> io::Result<()> {
        self.socket().set_zero_linger()
    }

    /// From now on nothing that comes is seen, not even by the kernel's TCP: nothing is acknowledged.
    pub(crate) fn vanish(&self) -> io::Result<()> {
        vanish(&SockRef::from(self.socket()))
    }

    /// The socket below.
    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }
}

/// Drops every segment before TCP sees it, also for connections that a listening socket would take.
pub(crate) fn vanish(socket: &Socket) -> io::Result<()> {
    // Classic BPF (packet(7)): "return 0 bytes of the packet".
    const DROP_ALL: [SockFilter; 1] = [SockFilter::new(6, 0, 0, 0)];
    socket.attach_filter(&DROP_ALL)
}

/// `work`, or a `TimedOut` error that names `what` after `limit`.
pub(crate) async fn within<T>(
    limit: Duration,
    what: &str,
    work: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("{what}: nothing for {limit:?}")))
    })
}
