//! The network towards endpoints: sockets and the protocol over them. The only interface of the proxy to
//! either, so that tests can script peers.

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
    /// The protocol over a stream.
    type Hop: Hop;

    /// Connects. The caller applies the timeout.
    fn connect(&self, to: SocketAddr) -> impl Future<Output = io::Result<Self::Stream>>;

    /// Enables TCP keep-alive on a new stream that will carry many requests, so that a vanished endpoint is
    /// noticed.
    fn enable_keepalive(&self, stream: &Self::Stream) {
        _ = stream;
    }

    /// Speaks HTTP over a new stream, with these limits on heads.
    fn hop(
        &self,
        stream: UpstreamStream<Self::Stream>,
        spoken: HopProtocol,
        workspace: &Rc<Workspace>,
        heads: HeadLimits,
    ) -> Self::Hop;
}

/// TCP sockets.
pub(crate) struct TcpNetwork {
    /// How long an endpoint may leave keep-alive probes unanswered before the kernel closes the connection. The
    /// kernel does not give up unacknowledged data: `exchange::peer_watch` does, which can tell an endpoint
    /// that is gone from one that pauses.
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
        let stream = pending.established().await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    fn enable_keepalive(&self, stream: &TcpStream) {
        stream.ask_when_silent(self.keepalive_timeout);
    }

    fn hop(
        &self,
        stream: UpstreamStream<TcpStream>,
        spoken: HopProtocol,
        workspace: &Rc<Workspace>,
        heads: HeadLimits,
    ) -> Self::Hop {
        AnyHop::new(stream, spoken, workspace, heads)
    }
}

/// `EINPROGRESS` on Linux: the connect continues in the background (connect(2)).
const EINPROGRESS: i32 = 115;

/// A connect in progress. If abandoned, it may be established by then: a reset closes it without leaving a port
/// in TIME-WAIT. This happens in `Drop` because abandoning means dropping the future that holds it.
struct PendingConnect(Option<TcpStream>);

impl PendingConnect {
    /// The stream, once the other end has accepted it.
    async fn established(mut self) -> io::Result<TcpStream> {
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
        // The connect has started and is never polled again, though the listener has it.
        let is_pending = poll_fn(|cx| Poll::Ready(connect.as_mut().poll(cx).is_pending())).await;
        let (mut accepted, _) = listener.accept().await.unwrap();
        assert!(is_pending);
        drop(connect);
        let end = accepted.read(&mut [0]).await;
        assert_eq!(end.unwrap_err().kind(), io::ErrorKind::ConnectionReset);

        let (connected, accepted) = tokio::join!(network.connect(address), listener.accept());
        drop(connected.unwrap());
        assert_eq!(accepted.unwrap().0.read(&mut [0]).await.unwrap(), 0, "what was connected ends as usual");
    }

    #[tokio::test]
    async fn detects_a_vanished_endpoint_while_awaiting_a_response() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let network = TcpNetwork { keepalive_timeout: Duration::from_secs(3) };
        let stream = network.connect(listener.local_addr().unwrap()).await.unwrap();
        let socket = SockRef::from(&stream);
        assert!(!socket.keepalive().unwrap(), "what is forwarded may end at once");
        network.enable_keepalive(&stream);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(10));
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(1));
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), 2);
    }
}
