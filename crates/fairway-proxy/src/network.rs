//! How endpoints are reached: sockets, and the protocol over them. The only things that the rest of the proxy knows of
//! either, so scripted peers can stand in for both.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use fairway_connection::hop::AnyHop;
use fairway_connection::sides::{Hop, Spoken};
use fairway_http::HeadLimits;
use fairway_net::transport::{Transport, UpstreamStream};
use fairway_net::wire::Workspace;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpStream;

/// Makes streams to endpoints.
pub(crate) trait Network: 'static {
    /// What it makes.
    type Stream: Transport;
    /// What carries exchanges over one.
    type Hop: Hop;

    /// Connects; the caller limits the time.
    fn connect(&self, to: SocketAddr) -> impl Future<Output = io::Result<Self::Stream>>;

    /// A new stream will be kept for many requests, and must notice when its endpoint vanishes.
    fn keep(&self, stream: &Self::Stream) {
        _ = stream;
    }

    /// Speaks HTTP over a new stream, on which heads may be so large.
    fn hop(
        &self,
        stream: UpstreamStream<Self::Stream>,
        spoken: Spoken,
        workspace: &Rc<Workspace>,
        heads: HeadLimits,
    ) -> Self::Hop;
}

/// Real sockets.
pub(crate) struct TcpNetwork {
    /// How long an endpoint may leave questions unanswered before the kernel gives the connection up. It does not give up
    /// what is not acknowledged: `exchange::peer_watch` does, which can tell an endpoint that is gone from one that pauses.
    pub(crate) patience: Duration,
}

impl Network for TcpNetwork {
    type Stream = TcpStream;
    type Hop = AnyHop<UpstreamStream<TcpStream>>;

    async fn connect(&self, to: SocketAddr) -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
        match socket.connect(&to.into()) {
            Err(error) if error.raw_os_error() != Some(IN_PROGRESS) => return Err(error),
            _ => {}
        }
        let begun = Begun(Some(TcpStream::from_std(socket.into())?));
        let stream = begun.established().await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    fn keep(&self, stream: &TcpStream) {
        stream.ask_when_silent(self.patience);
    }

    fn hop(
        &self,
        stream: UpstreamStream<TcpStream>,
        spoken: Spoken,
        workspace: &Rc<Workspace>,
        heads: HeadLimits,
    ) -> Self::Hop {
        AnyHop::new(stream, spoken, workspace, heads)
    }
}

/// `EINPROGRESS` of Linux: a connect is on its way (connect(2)).
const IN_PROGRESS: i32 = 115;

/// A connect on its way. One that is given up may be established by then: ended with a reset, it leaves no port waiting
/// (TIME-WAIT). Whoever gives it up drops the future that it is in, so that the reset has no other place than `Drop`.
struct Begun(Option<TcpStream>);

impl Begun {
    /// The stream, when the other end has accepted it.
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

impl Drop for Begun {
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
    async fn a_connect_that_is_given_up_leaves_no_port_waiting() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let network = TcpNetwork { patience: Duration::from_secs(3) };
        let address = listener.local_addr().unwrap();
        let mut connect = Box::pin(network.connect(address));
        // Begun, and never looked at again, though the listener has it.
        let begun = poll_fn(|cx| Poll::Ready(connect.as_mut().poll(cx).is_pending())).await;
        let (mut accepted, _) = listener.accept().await.unwrap();
        assert!(begun);
        drop(connect);
        let end = accepted.read(&mut [0]).await;
        assert_eq!(end.unwrap_err().kind(), io::ErrorKind::ConnectionReset);

        let (connected, accepted) = tokio::join!(network.connect(address), listener.accept());
        drop(connected.unwrap());
        assert_eq!(accepted.unwrap().0.read(&mut [0]).await.unwrap(), 0, "what was connected ends as usual");
    }

    #[tokio::test]
    async fn a_vanished_endpoint_shows_while_an_answer_is_awaited() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let network = TcpNetwork { patience: Duration::from_secs(3) };
        let stream = network.connect(listener.local_addr().unwrap()).await.unwrap();
        let socket = SockRef::from(&stream);
        assert!(!socket.keepalive().unwrap(), "what is forwarded may end at once");
        network.keep(&stream);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(10));
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(1));
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), 2);
    }
}
