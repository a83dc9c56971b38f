//! Byte streams below HTTP: what a connection needs of one, so that tests can replace sockets with scripted peers.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::{client, server};

/// A bidirectional byte stream: a socket, TLS over one, or a script.
pub trait Transport: AsyncRead + AsyncWrite + Unpin + 'static {
    /// Maximum bytes of a body per read.
    const READ: usize = READ;

    /// The peer's address, while the system knows it.
    fn peer(&self) -> Option<IpAddr>;

    /// The local address, while the system knows it.
    fn local(&self) -> Option<SocketAddr> {
        None
    }

    /// Whether it uses TLS.
    fn is_secure(&self) -> bool {
        false
    }

    /// Whether it accepted bytes that the socket has not.
    fn holds_back(&self) -> bool {
        false
    }

    /// Bytes that the socket accepted, if they differ from the bytes written here.
    fn passed_on(&self) -> Option<u64> {
        None
    }

    /// Makes the peer see a failure instead of an end when it is dropped: a reset in cleartext, no `close_notify` with
    /// TLS.
    fn abort(&mut self);

    /// If the peer has not acknowledged everything sent: how long nothing was received from it.
    fn owes_acknowledgement(&self) -> Option<Duration> {
        None
    }

    /// Registers it with this thread's runtime, whichever one created it.
    ///
    /// # Errors
    /// The system does not allow it.
    fn register_with_runtime(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Enables TCP keep-alive on a long-lived connection: a silent peer that answers no probe for `patience` ends it.
    fn ask_when_silent(&self, patience: Duration) {
        _ = patience;
    }

    /// The response takes long: from now on, probe the peer frequently.
    fn watch_closely(&self) {}
}

/// Maximum bytes of a request body per read. Large enough that 1 MiB takes few system calls.
const READ: usize = 128 * 1024;

/// Maximum bytes of a response body per read, and maximum bytes that TLS may have encrypted and not sent. It is one
/// write to the client, whose kernel wakes it for each. Together with the resulting TLS records, it fits into an L2
/// cache of 1 MiB (docs/design/0024-large-answers-and-handshakes.md).
pub const ANSWER_READ: usize = 256 * 1024;

/// A peer that was silent for this long is probed (TCP keep-alive). Nothing else detects that it vanished while a
/// request waits for its response: then no byte is unacknowledged.
const ASKED_AFTER: Duration = Duration::from_secs(10);

/// The interval between probes, as many as fit into the timeout. Connections with slow responses also start probing
/// after this.
const ASKED_AGAIN: Duration = Duration::from_secs(1);

/// The maximum of `TCP_KEEPCNT`.
const MOST_QUESTIONS: u32 = 127;

impl Transport for TcpStream {
    fn peer(&self) -> Option<IpAddr> {
        self.peer_addr().ok().map(|address| address.ip().to_canonical())
    }

    fn local(&self) -> Option<SocketAddr> {
        let address = self.local_addr().ok()?;
        Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
    }

    fn abort(&mut self) {
        // A socket that cannot be reset is gone already.
        let _ = SockRef::from(&*self).set_linger(Some(Duration::ZERO));
    }

    fn owes_acknowledgement(&self) -> Option<Duration> {
        crate::sys::owes_acknowledgement(self.as_fd())
    }

    fn register_with_runtime(&mut self) -> io::Result<()> {
        // A runtime releases a socket only by closing it, so another descriptor keeps it open.
        let other = self.as_fd().try_clone_to_owned()?;
        *self = Self::from_std(other.into())?;
        Ok(())
    }

    fn ask_when_silent(&self, patience: Duration) {
        // The first probe takes an interval, too.
        let questions = u32::try_from(patience.as_secs()).unwrap_or(u32::MAX).clamp(2, MOST_QUESTIONS) - 1;
        let requested_bytes =
            TcpKeepalive::new().with_time(ASKED_AFTER).with_interval(ASKED_AGAIN).with_retries(questions);
        // A socket that rejects the option is broken already.
        let _ = SockRef::from(self).set_tcp_keepalive(&requested_bytes);
    }

    fn watch_closely(&self) {
        let often = TcpKeepalive::new().with_time(ASKED_AGAIN).with_interval(ASKED_AGAIN);
        // A socket that rejects the option is probed as before.
        let _ = SockRef::from(self).set_tcp_keepalive(&often);
    }
}

impl<S: Transport> Transport for server::TlsStream<S> {
    fn is_secure(&self) -> bool {
        true
    }

    fn peer(&self) -> Option<IpAddr> {
        self.get_ref().0.peer()
    }

    fn local(&self) -> Option<SocketAddr> {
        self.get_ref().0.local()
    }

    fn holds_back(&self) -> bool {
        self.get_ref().1.wants_write()
    }

    fn passed_on(&self) -> Option<u64> {
        self.get_ref().0.passed_on()
    }

    fn register_with_runtime(&mut self) -> io::Result<()> {
        self.get_mut().0.register_with_runtime()
    }

    fn abort(&mut self) {
        self.get_mut().0.abort();
    }
}

impl<S: Transport> Transport for client::TlsStream<S> {
    fn is_secure(&self) -> bool {
        true
    }

    fn peer(&self) -> Option<IpAddr> {
        self.get_ref().0.peer()
    }

    fn abort(&mut self) {
        self.get_mut().0.abort();
    }

    fn owes_acknowledgement(&self) -> Option<Duration> {
        self.get_ref().0.owes_acknowledgement()
    }

    fn ask_when_silent(&self, patience: Duration) {
        self.get_ref().0.ask_when_silent(patience);
    }

    fn watch_closely(&self) {
        self.get_ref().0.watch_closely();
    }
}

impl<S: Transport> Transport for PrefixedStream<S> {
    fn peer(&self) -> Option<IpAddr> {
        self.stream.peer()
    }

    fn local(&self) -> Option<SocketAddr> {
        self.stream.local()
    }

    fn passed_on(&self) -> Option<u64> {
        Some(self.written)
    }

    fn register_with_runtime(&mut self) -> io::Result<()> {
        self.stream.register_with_runtime()
    }

    fn abort(&mut self) {
        self.stream.abort();
    }
}

impl<P: Transport, T: Transport> Transport for MaybeTls<P, T> {
    const READ: usize = ANSWER_READ;

    fn is_secure(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    fn peer(&self) -> Option<IpAddr> {
        match self {
            Self::Plain(stream) => stream.peer(),
            Self::Tls(stream) => stream.peer(),
        }
    }

    fn abort(&mut self) {
        match self {
            Self::Plain(stream) => stream.abort(),
            Self::Tls(stream) => stream.abort(),
        }
    }

    fn owes_acknowledgement(&self) -> Option<Duration> {
        match self {
            Self::Plain(stream) => stream.owes_acknowledgement(),
            Self::Tls(stream) => stream.owes_acknowledgement(),
        }
    }

    fn ask_when_silent(&self, patience: Duration) {
        match self {
            Self::Plain(stream) => stream.ask_when_silent(patience),
            Self::Tls(stream) => stream.ask_when_silent(patience),
        }
    }

    fn watch_closely(&self) {
        match self {
            Self::Plain(stream) => stream.watch_closely(),
            Self::Tls(stream) => stream.watch_closely(),
        }
    }
}

/// Stands in for a socket in tests.
impl Transport for tokio::io::DuplexStream {
    fn peer(&self) -> Option<IpAddr> {
        None
    }

    fn abort(&mut self) {}
}

/// A stream whose first bytes were already read (after a PROXY protocol header). It counts written bytes, because TLS
/// does not say when encrypted data was sent.
pub struct PrefixedStream<S> {
    prefix: Vec<u8>,
    bytes_taken: usize,
    /// Bytes that the stream accepted.
    written: u64,
    stream: S,
}

impl<S> PrefixedStream<S> {
    /// `prefix` is read first, then the stream.
    pub fn new(prefix: Vec<u8>, stream: S) -> Self {
        Self { prefix, bytes_taken: 0, written: 0, stream }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PrefixedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.bytes_taken < self.prefix.len() {
            let rest = &self.prefix[self.bytes_taken..];
            let copied = rest.len().min(into.remaining());
            into.put_slice(&rest[..copied]);
            self.bytes_taken += copied;
            if self.bytes_taken == self.prefix.len() {
                self.prefix = Vec::new();
                self.bytes_taken = 0;
            }
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PrefixedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.stream).poll_write(cx, data))?;
        self.written += count as u64;
        Poll::Ready(Ok(count))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, data))?;
        self.written += count as u64;
        Poll::Ready(Ok(count))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A stream to an endpoint.
pub type UpstreamStream<S> = MaybeTls<S, client::TlsStream<S>>;

/// A cleartext or TLS stream. The enum costs one predictable branch; a trait object would cost a box.
pub enum MaybeTls<P, T> {
    /// Cleartext.
    Plain(P),
    /// TLS. Boxed: the session is large, and most connections of a worker may be plain.
    Tls(Box<T>),
}

impl<P: AsyncRead + Unpin, T: AsyncRead + Unpin> AsyncRead for MaybeTls<P, T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, into),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_read(cx, into),
        }
    }
}

impl<P: AsyncWrite + Unpin, T: AsyncWrite + Unpin> AsyncWrite for MaybeTls<P, T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, data),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_write(cx, data),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, data),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_write_vectored(cx, data),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_shutdown(cx),
        }
    }
}
