//! A TCP connection, plain or TLS, and its input, used by clients and scripted backends.

use std::io::{self, ErrorKind};
use std::time::Duration;

use socket2::{SockFilter, SockRef, Socket};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

use crate::wire::{self, ChunkedBody, Framing, Head};

/// One side of a connection.
pub(crate) enum Stream {
    /// Bytes as they are.
    Plain(TcpStream),
    /// Bytes inside TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Reads into `buffer`; 0 is the end of the stream.
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

    /// Drops all further input, even in the kernel: nothing is acknowledged.
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
        Err(io::Error::new(ErrorKind::TimedOut, format!("{what}: nothing for {limit:?}")))
    })
}

/// Hears of bytes.
type Heard = dyn Fn(&[u8]) + Send + Sync;

/// The input of a connection.
pub(crate) struct Input {
    pub(crate) stream: Stream,
    /// Bytes received but not consumed.
    pub(crate) pending: Vec<u8>,
    /// The timeout of each read; `None` waits forever.
    pub(crate) read_timeout: Option<Duration>,
    /// Hears of all bytes that come.
    on_data: Box<Heard>,
}

impl Input {
    pub(crate) fn new(
        stream: Stream,
        patience: Option<Duration>,
        heard: impl Fn(&[u8]) + Send + Sync + 'static,
    ) -> Self {
        Self { stream, pending: Vec::new(), read_timeout: patience, on_data: Box::new(heard) }
    }

    /// Reads more bytes; 0 is the end.
    pub(crate) async fn fill(&mut self, expectation: &str) -> io::Result<usize> {
        let before = self.pending.len();
        self.pending.reserve(16 * 1024);
        let read = self.stream.read(&mut self.pending);
        let count = match self.read_timeout {
            Some(patience) => within(patience, expectation, read).await?,
            None => read.await?,
        };
        (self.on_data)(&self.pending[before..]);
        Ok(count)
    }

    /// Reads more bytes; the end is an error.
    async fn read_more(&mut self, expectation: &str) -> io::Result<()> {
        if self.fill(expectation).await? > 0 {
            return Ok(());
        }
        let had = String::from_utf8_lossy(&self.pending[..self.pending.len().min(200)]);
        let message = format!("the connection ended before {expectation}; had {had:?}");
        Err(io::Error::new(ErrorKind::UnexpectedEof, message))
    }

    /// The head of the next message.
    pub(crate) async fn head(&mut self) -> io::Result<Head> {
        loop {
            if let Some(head) = wire::head(&self.pending)? {
                self.pending.drain(..head.length);
                return Ok(head);
            }
            self.read_more("the head of a message").await?;
        }
    }

    /// The body after a head.
    pub(crate) async fn body(&mut self, framing: Framing) -> io::Result<ChunkedBody> {
        let content = match framing {
            Framing::None => Vec::new(),
            Framing::Length(length) => self.exactly(length).await?,
            Framing::Close => self.read_to_end().await?,
            Framing::Chunked => loop {
                if let Some(body) = wire::chunked(&self.pending)? {
                    self.pending.drain(..body.length);
                    return Ok(body);
                }
                self.read_more("a chunk").await?;
            },
        };
        Ok(ChunkedBody { length: content.len(), content, trailers: Vec::new() })
    }

    /// The next `count` bytes.
    pub(crate) async fn exactly(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.pending.len() < count {
            self.read_more("bytes").await?;
        }
        Ok(self.pending.drain(..count).collect())
    }

    /// Everything until the other side ends cleanly.
    pub(crate) async fn read_to_end(&mut self) -> io::Result<Vec<u8>> {
        while self.fill("the end of the connection").await? > 0 {}
        Ok(std::mem::take(&mut self.pending))
    }
}
