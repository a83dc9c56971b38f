//! The TLS handshake with a client: the name it asks for chooses the certificate of the snapshot that is current then.

use std::time::Duration;

use rustls::server::Acceptor;
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use crate::fault::Fault;
use crate::sides::Hop;
use crate::transport::Transport;
use crate::worker::Adopted;

/// Shakes hands within `limit`. `adopted` is asked once the client's name is known.
pub(crate) async fn accept<S: Transport, H: Hop>(
    stream: S,
    limit: Duration,
    adopted: impl FnOnce() -> std::rc::Rc<Adopted<H>>,
    listener: crate::listener::ListenerName,
) -> Result<TlsStream<S>, Fault> {
    let handshake = async {
        let start =
            LazyConfigAcceptor::new(Acceptor::default(), stream).await.map_err(|_| Fault::ClientGone)?;
        let config = {
            let adopted = adopted();
            let name = start.client_hello().server_name().map(str::to_ascii_lowercase);
            adopted.server_tls(listener, name.as_deref())
        };
        start.into_stream(config).await.map_err(|_| Fault::ClientGone)
    };
    timeout(limit, handshake).await.unwrap_or(Err(Fault::ClientTimeout))
}
