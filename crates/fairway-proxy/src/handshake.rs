//! The TLS handshake with a client: the name it asks for chooses the listener and the certificate, by the snapshot that
//! is current then.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use fairway_runtime::transport::{ANSWER_READ, Transport};
use rustls::ServerConfig;
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
            let chosen = adopted.server_tls(port, name.as_deref());
            chosen.map(|(listener, config)| (listener, config, adopted.settings().downstream.http2.offered))
        };
        let (listener, config, offers_http2) = chosen.ok_or(Fault::NoListener)?;
        let config = if offers_http2 { config } else { without_http2(&config) };
        // What came behind the ClientHello is with TLS already, and is looked at now: nothing more may ever come.
        let mut followed = Ok(());
        let rest =
            start.into_stream_with(config, |session| followed = session.process_new_packets().map(|_| ()));
        let mut rest = pin!(rest);
        if followed.is_err() {
            // Sends the alert as far as the socket takes it.
            let _ = poll_fn(|cx| Poll::Ready(rest.as_mut().poll(cx).is_ready())).await;
            return Err(Fault::ClientGone);
        }
        let mut stream = rest.await.map_err(|_| Fault::ClientGone)?;
        stream.get_mut().1.set_buffer_limit(Some(ANSWER_READ));
        Ok((listener, stream))
    };
    timeout(limit, handshake).await.unwrap_or(Err(Fault::ClientTimeout))
}

/// The same settings, but only HTTP/1.1 is offered. Next to a handshake the copy costs nothing.
fn without_http2(config: &ServerConfig) -> Arc<ServerConfig> {
    let mut config = config.clone();
    config.alpn_protocols.retain(|protocol| protocol != b"h2");
    Arc::new(config)
}
