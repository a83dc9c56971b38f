//! A TCP connection, plain or inside TLS, as client and scripted backend both use it. Owns no protocol.

use std::io;
use std::time::Duration;

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

    /// The socket below.
    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }
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
