//! Connections to endpoints: the sockets, and HTTP over them. Behind a trait, so that tests can replace endpoints with
//! scripted ones.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use fairway_connection::hop::AnyHop;
use fairway_connection::sides::{Hop, HopProtocol};
use fairway_http::HeadLimits;
use fairway_net::transport::{Transport, UpstreamStream};
use fairway_net::wire::Workspace;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpStream;

/// Connects to endpoints.
pub(crate) trait Network: 'static {
    /// A connected stream.
    type Stream: Transport;
    /// HTTP over a stream.
    type Hop: Hop;

    /// Connects. The caller applies the timeout.
    fn connect(&self, to: SocketAddr) -> impl Future<Output = io::Result<Self::Stream>>;

    /// Enables TCP keep-alive on a new stream that will carry many requests, so that a vanished endpoint is
    /// noticed.
    fn enable_keepalive(&self, stream: &Self::Stream) {
        _ = stream;
    }

    /// Speaks HTTP over a new stream, with these limits on head_limits.
    fn hop(
        &self,
        stream: UpstreamStream<Self::Stream>,
        protocol: HopProtocol,
        workspace: &Rc<Workspace>,
        head_limits: HeadLimits,
    ) -> Self::Hop;
}

/// TCP sockets.
pub(crate) struct TcpNetwork {
    /// How long an endpoint may leave keep-alive probes unanswered before the kernel closes the connection. Keep-alive
    /// probes only find endpoints that vanish while nothing is sent; `exchange::peer_watch` finds those that do not
    /// acknowledge data.
    pub(crate) keepalive_timeout: Duration,
}

impl Network for TcpNetwork {
    type Stream = TcpStream;
    type Hop = AnyHop<UpstreamStream<TcpStream>>;

    async fn connect(&self, to: SocketAddr) -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
        match socket.connect(&to.into()) {
            Err(error) if error.raw_os_error() != Some(EINPROGRESS) => return Err(error),
            _ => {}
        }
        let pending = PendingConnect(Some(TcpStream::from_std(socket.into())?));
        let stream = pending.wait_until_established().await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    fn enable_keepalive(&self, stream: &TcpStream) {
        stream.ask_when_silent(self.keepalive_timeout);
    }

    fn hop(
        &self,
        stream: UpstreamStream<TcpStream>,
        protocol: HopProtocol,
        workspace: &Rc<Workspace>,
        head_limits: HeadLimits,
    ) -> Self::Hop {
        AnyHop::new(stream, protocol, workspace, head_limits)
    }
}

/// `EINPROGRESS` on Linux: the connect continues in the background (connect(2)).
const EINPROGRESS: i32 = 115;

/// A connect in progress. Dropping it resets the connection, which may have been established in the meantime: unlike
/// a normal close, a reset leaves no port in TIME-WAIT.
struct PendingConnect(Option<TcpStream>);

impl PendingConnect {
    /// Waits until the connection is established.
    async fn wait_until_established(mut self) -> io::Result<TcpStream> {
        if let Some(stream) = &self.0 {
            poll_fn(|cx| stream.poll_write_ready(cx)).await?;
            if let Some(error) = stream.take_error()? {
                return Err(error);
            }
        }
        self.0.take().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Drop for PendingConnect {
    fn drop(&mut self) {
        if let Some(stream) = &mut self.0 {
            stream.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use socket2::SockRef;
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn an_abandoned_connect_leaves_no_port_in_time_wait() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let network = TcpNetwork { keepalive_timeout: Duration::from_secs(3) };
        let address = listener.local_addr().unwrap();
        let mut connect = Box::pin(network.connect(address));
        // Polled only once: the kernel establishes the connection, and the future does not see it.
        let is_pending = poll_fn(|cx| Poll::Ready(connect.as_mut().poll(cx).is_pending())).await;
        let (mut accepted, _) = listener.accept().await.unwrap();
        assert!(is_pending);
        drop(connect);
        let end = accepted.read(&mut [0]).await;
        assert_eq!(end.unwrap_err().kind(), io::ErrorKind::ConnectionReset);

        let (connected, accepted) = tokio::join!(network.connect(address), listener.accept());
        drop(connected.unwrap());
        assert_eq!(
            accepted.unwrap().0.read(&mut [0]).await.unwrap(),
            0,
            "an established connection is closed without a reset"
        );
    }

    #[tokio::test]
    async fn keepalive_is_enabled_only_on_request_and_probes_for_the_timeout() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let network = TcpNetwork { keepalive_timeout: Duration::from_secs(3) };
        let stream = network.connect(listener.local_addr().unwrap()).await.unwrap();
        let socket = SockRef::from(&stream);
        assert!(!socket.keepalive().unwrap(), "a forwarded connection may be short");
        network.enable_keepalive(&stream);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(10));
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(1));
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), 2);
    }
}
