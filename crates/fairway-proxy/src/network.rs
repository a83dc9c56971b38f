//! How endpoints are reached: sockets, and the protocol over them. The only things that the rest of the proxy knows of
//! either, so scripted peers can stand in for both.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use fairway_runtime::transport::{ASKED_AGAIN, Transport, UpstreamStream};
use fairway_runtime::wire::Workspace;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpSocket, TcpStream};

use fairway_sides::hop::AnyHop;
use fairway_sides::sides::{Hop, Spoken};

/// Makes streams to endpoints.
pub(crate) trait Network: 'static {
    /// What it makes.
    type Stream: Transport;
    /// What carries exchanges over one.
    type Hop: Hop;

    /// Connects; the caller limits the time.
    fn connect(&self, to: SocketAddr) -> impl Future<Output = io::Result<Self::Stream>>;

    /// Speaks HTTP over a new stream.
    fn hop(
        &self,
        stream: UpstreamStream<Self::Stream>,
        spoken: Spoken,
        workspace: &Rc<Workspace>,
    ) -> Self::Hop;
}

/// An endpoint that has been silent for so long is asked whether it is still there (TCP keep-alive). Nothing else shows
/// that it vanished while a request waits for its answer: then no byte is unacknowledged. A connection on which an answer
/// takes long asks after [`ASKED_AGAIN`].
const ASKED_AFTER: Duration = Duration::from_secs(10);

/// What `TCP_KEEPCNT` can be.
const MOST_QUESTIONS: u32 = 127;

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
        let unused = if to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // A connect that is given up may be established by then: ended with a reset, it leaves no port waiting (TIME-WAIT).
        SockRef::from(&unused).set_linger(Some(Duration::ZERO))?;
        let stream = unused.connect(to).await?;
        stream.set_nodelay(true)?;
        let socket = SockRef::from(&stream);
        socket.set_linger(None)?;
        // The first question takes an interval, too.
        let questions =
            u32::try_from(self.patience.as_secs()).unwrap_or(u32::MAX).clamp(2, MOST_QUESTIONS) - 1;
        let asked =
            TcpKeepalive::new().with_time(ASKED_AFTER).with_interval(ASKED_AGAIN).with_retries(questions);
        socket.set_tcp_keepalive(&asked)?;
        Ok(stream)
    }

    fn hop(&self, stream: UpstreamStream<TcpStream>, spoken: Spoken, workspace: &Rc<Workspace>) -> Self::Hop {
        AnyHop::new(stream, spoken, workspace)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

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
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), ASKED_AFTER);
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), ASKED_AGAIN);
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), 2);
    }
}
