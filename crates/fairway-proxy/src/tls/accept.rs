//! The TLS handshake with a client: the name it asks for chooses the listener and the certificate, by the snapshot that
//! is current then.

use std::time::Duration;

use fairway_runtime::transport::{ANSWER_READ, Transport};
use rustls::server::Acceptor;
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use crate::fault::Fault;
use crate::listener::{ListenerId, PortId};
use crate::worker::Adopted;
use fairway_sides::sides::Hop;

/// Shakes hands on a port within `limit`. `adopted` is asked once the client's name is known.
pub(crate) async fn accept<S: Transport, H: Hop>(
    stream: S,
    limit: Duration,
    adopted: impl FnOnce() -> std::rc::Rc<Adopted<H>>,
    port: PortId,
) -> Result<(ListenerId, TlsStream<S>), Fault> {
    let handshake = async {
        let start =
            LazyConfigAcceptor::new(Acceptor::default(), stream).await.map_err(|_| Fault::ClientGone)?;
        let chosen = {
            let adopted = adopted();
            let name = start.client_hello().server_name().map(str::to_ascii_lowercase);
            adopted.server_tls(port, name.as_deref())
        };
        let (listener, config) = chosen.ok_or(Fault::NoListener)?;
        let mut stream = start.into_stream(config).await.map_err(|_| Fault::ClientGone)?;
        stream.get_mut().1.set_buffer_limit(Some(ANSWER_READ));
        Ok((listener, stream))
    };
    timeout(limit, handshake).await.unwrap_or(Err(Fault::ClientTimeout))
}
