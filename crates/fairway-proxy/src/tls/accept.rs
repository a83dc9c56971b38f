//! The TLS handshake with a client: the name it asks for chooses the listener and the certificate, by the snapshot that
//! is current then.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use rustls::server::Acceptor;
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use crate::fault::Fault;
use crate::listener::{ListenerId, PortId};
use crate::sides::Hop;
use crate::tls::gathering::Gathering;
use crate::transport::{ANSWER_READ, Transport};
use crate::worker::Adopted;

/// A client's connection under TLS.
pub(crate) type ToClient<S> = TlsStream<Gathering<S>>;

/// Shakes hands on a port within `limit`. `adopted` is asked once the client's name is known.
pub(crate) async fn accept<S: Transport, H: Hop>(
    stream: S,
    limit: Duration,
    adopted: impl FnOnce() -> std::rc::Rc<Adopted<H>>,
    port: PortId,
) -> Result<(ListenerId, ToClient<S>), Fault> {
    let handshake = async {
        let mut acceptor = LazyConfigAcceptor::new(Acceptor::default(), Gathering::new(stream));
        let start = match (&mut acceptor).await {
            Ok(start) => start,
            Err(_) => return Err(said_why(acceptor.take_io()).await),
        };
        let chosen = {
            let adopted = adopted();
            let name = start.client_hello().server_name().map(str::to_ascii_lowercase);
            adopted.server_tls(port, name.as_deref())
        };
        let (listener, config) = chosen.ok_or(Fault::NoListener)?;
        let mut stream = match start.into_stream(config).into_fallible().await {
            Ok(stream) => stream,
            Err((_, stream)) => return Err(said_why(Some(stream)).await),
        };
        let (below, session) = stream.get_mut();
        below.opened();
        session.set_buffer_limit(Some(ANSWER_READ));
        Ok((listener, stream))
    };
    timeout(limit, handshake).await.unwrap_or(Err(Fault::ClientTimeout))
}

/// Sends the alert of a handshake that failed. A client that does not take it at once has no use for it.
async fn said_why<S: Transport>(stream: Option<Gathering<S>>) -> Fault {
    if let Some(mut stream) = stream {
        let _ = poll_fn(|cx| Poll::Ready(stream.poll_release(cx))).await;
    }
    Fault::ClientGone
}
