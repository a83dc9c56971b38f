//! The bytes below HTTP: what a connection needs of a stream, so that scripted peers can stand in for sockets.

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

/// A stream of bytes in both directions: a socket, TLS over one, or a script.
pub trait Transport: AsyncRead + AsyncWrite + Unpin + 'static {
    /// How much of a body one read may bring.
    const READ: usize = READ;

    /// The address at its other end, while the system knows it.
    fn peer(&self) -> Option<IpAddr>;

    /// The address at this end, while the system knows it.
    fn local(&self) -> Option<SocketAddr> {
        None
    }

    /// Whether TLS is between it and the peer.
    fn is_secure(&self) -> bool {
        false
    }

    /// Whether it has taken bytes that the socket has not.
    fn holds_back(&self) -> bool {
        false
    }

    /// Bytes that the socket has taken, where those are others than the ones that were written here.
    fn passed_on(&self) -> Option<u64> {
        None
    }

    /// When it is dropped the peer shall see a failure, not an end: a reset in the clear, no `close_notify` under TLS.
    fn abort(&mut self);

    /// Where the peer has not acknowledged all that was sent: how long nothing at all came from it.
    fn owes_acknowledgement(&self) -> Option<Duration> {
        None
    }

    /// From now on this thread's runtime waits for it, whichever has made it.
    ///
    /// # Errors
    /// When the system lets it not be waited for.
    fn settle(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// It will stay: from now on the peer is asked, when it has been silent for long, whether it is still there, and a peer that
    /// answers none of that for `patience` ends the connection.
    fn ask_when_silent(&self, patience: Duration) {
        _ = patience;
    }

    /// An answer takes long: from now on the peer is asked often whether it is still there.
    fn watch_closely(&self) {}
}

/// How much of a request's body one read may bring. Large enough that 1 MiB takes few system calls.
const READ: usize = 128 * 1024;

/// How much of an answer's body one read may bring, and how much of it TLS may have encrypted and not sent. It is one write
/// to the client, whose kernel wakes it for each. With the records that are made of it, it fits into an L2 cache of 1 MiB
/// (docs/design/0024-large-answers-and-handshakes.md).
pub const ANSWER_READ: usize = 256 * 1024;

/// A peer that has been silent for so long is asked whether it is still there (TCP keep-alive). Nothing else shows that it
/// vanished while a request waits for its answer: then no byte is unacknowledged.
const ASKED_AFTER: Duration = Duration::from_secs(10);

/// The question is repeated after this, as often as fits into the patience there is. A connection on which an answer takes long
/// begins to ask after this.
const ASKED_AGAIN: Duration = Duration::from_secs(1);

/// What `TCP_KEEPCNT` can be.
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
        // A socket that cannot be told to reset is gone already.
        let _ = SockRef::from(&*self).set_linger(Some(Duration::ZERO));
    }

    fn owes_acknowledgement(&self) -> Option<Duration> {
        crate::sys::owes_acknowledgement(self.as_fd())
    }

    fn settle(&mut self) -> io::Result<()> {
        // A runtime lets go of a socket only by closing it, so it is another descriptor that stays open.
        let other = self.as_fd().try_clone_to_owned()?;
        *self = Self::from_std(other.into())?;
        Ok(())
    }

    fn ask_when_silent(&self, patience: Duration) {
        // The first question takes an interval, too.
        let questions = u32::try_from(patience.as_secs()).unwrap_or(u32::MAX).clamp(2, MOST_QUESTIONS) - 1;
        let asked =
            TcpKeepalive::new().with_time(ASKED_AFTER).with_interval(ASKED_AGAIN).with_retries(questions);
        // A socket that cannot be told is broken already.
        let _ = SockRef::from(self).set_tcp_keepalive(&asked);
    }

    fn watch_closely(&self) {
        let often = TcpKeepalive::new().with_time(ASKED_AGAIN).with_interval(ASKED_AGAIN);
        // A socket that cannot be told is asked as before.
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

    fn settle(&mut self) -> io::Result<()> {
        self.get_mut().0.settle()
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

impl<S: Transport> Transport for Prefixed<S> {
    fn peer(&self) -> Option<IpAddr> {
        self.stream.peer()
    }

    fn local(&self) -> Option<SocketAddr> {
        self.stream.local()
    }

    fn passed_on(&self) -> Option<u64> {
        Some(self.written)
    }

    fn settle(&mut self) -> io::Result<()> {
        self.stream.settle()
    }

    fn abort(&mut self) {
        self.stream.abort();
    }
}

impl<P: Transport, T: Transport> Transport for Secured<P, T> {
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

/// What stands in for a socket in tests.
impl Transport for tokio::io::DuplexStream {
    fn peer(&self) -> Option<IpAddr> {
        None
    }

    fn abort(&mut self) {}
}

/// A stream some of whose first bytes were already read (behind a PROXY protocol header). It counts what is written: TLS
/// does not say when what it has encrypted leaves.
pub struct Prefixed<S> {
    prefix: Vec<u8>,
    taken: usize,
    /// Bytes that the stream has taken.
    written: u64,
    stream: S,
}

impl<S> Prefixed<S> {
    /// `prefix` is read first, then the stream.
    pub fn new(prefix: Vec<u8>, stream: S) -> Self {
        Self { prefix, taken: 0, written: 0, stream }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Prefixed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.taken < self.prefix.len() {
            let rest = &self.prefix[self.taken..];
            let some = rest.len().min(into.remaining());
            into.put_slice(&rest[..some]);
            self.taken += some;
            if self.taken == self.prefix.len() {
                self.prefix = Vec::new();
                self.taken = 0;
            }
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prefixed<S> {
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
pub type UpstreamStream<S> = Secured<S, client::TlsStream<S>>;

/// A stream in the clear or under TLS. The enum costs one predictable branch; a trait object would cost a box.
pub enum Secured<P, T> {
    /// In the clear.
    Plain(P),
    /// Under TLS. Boxed: the session is large, and most connections of a worker may be plain.
    Tls(Box<T>),
}

impl<P: AsyncRead + Unpin, T: AsyncRead + Unpin> AsyncRead for Secured<P, T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, into),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_read(cx, into),
        }
    }
}

impl<P: AsyncWrite + Unpin, T: AsyncWrite + Unpin> AsyncWrite for Secured<P, T> {
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
