//! TLS handshakes with clients. The SNI selects the listener and the certificate, using the snapshot that is
//! current when the ClientHello arrives.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use fairway_connection::sides::Hop;
use fairway_model::ListenerProtocol;
use fairway_net::clock::Instant;
use fairway_net::permits::Permit;
use fairway_net::transport::{ANSWER_READ, Transport};
use rustls::ServerConfig;
use rustls::pki_types::UnixTime;
use rustls::server::Acceptor;
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use crate::fault::Fault;
use crate::l4::hello::host_name;
use crate::listener::{ListenerId, PortId};
use crate::peer::Proof;
use crate::tls::ClientTrust;
use crate::worker::{Adopted, ClientTrustCache, TlsTermination};

/// A completed handshake.
pub(crate) struct AcceptedTls<S> {
    pub(crate) listener: ListenerId,
    pub(crate) protocol: ListenerProtocol,
    pub(crate) stream: TlsStream<S>,
    /// The client certificate, where the host asks for one.
    pub(crate) proof: Option<Box<Proof>>,
    /// Counts the connection against the listener's connection limit, if there is one.
    pub(crate) connection_slot: Option<Permit>,
    /// The CAs with which the listener verifies clients, if it does. Hosts with rules of their own evaluate
    /// those.
    pub(crate) trust: Option<Arc<ClientTrust>>,
}

/// Completes the handshake within the listener's timeout, or within `timeout_until_known` while the listener is
/// not yet known. Calls `adopted` once the SNI is known.
pub(crate) async fn accept<S: Transport, H: Hop>(
    stream: S,
    timeout_until_known: Duration,
    adopted: impl FnOnce() -> Rc<Adopted<H>>,
    trusts: &ClientTrustCache,
    port: PortId,
) -> Result<AcceptedTls<S>, Fault> {
    let started_at = Instant::now();
    let start = LazyConfigAcceptor::new(Acceptor::default(), stream);
    let start = timeout(timeout_until_known, start).await.map_err(|_| Fault::ClientTimeout)?;
    let mut start = start.map_err(|_| Fault::ClientGone)?;
    let name = start.client_hello().server_name().map(host_name);
    let (termination, offers_http2, limit, slot, trust) = {
        let adopted = adopted();
        let termination = adopted.server_tls(port, name.as_deref(), trusts).inspect_err(|fault| {
            if *fault == Fault::NoListener {
                refuse_name(&mut start.io);
            }
        })?;
        let limit = adopted.client_limits(termination.listener).handshake_timeout;
        let slot = adopted.listening().acquire_connection_slot(termination.listener)?;
        let trust = adopted.listening().verification(termination.listener).trust().cloned();
        (termination, adopted.settings().downstream.http2.offered, limit, slot, trust)
    };
    let TlsTermination { listener, protocol, config, host_trust } = termination;
    let config = match protocol {
        ListenerProtocol::Https if offers_http2 => config,
        ListenerProtocol::Https => with_protocols(&config, |protocol| protocol != b"h2"),
        // The endpoint defines the inner protocol, so no ALPN is negotiated.
        _ => with_protocols(&config, |_| false),
    };
    // rustls already holds the bytes behind the ClientHello: process them now, because no more may ever arrive.
    let mut followed = Ok(());
    let mut rest =
        start.into_stream_with(config, |session| followed = session.process_new_packets().map(|_| ()));
    if followed.is_err() {
        // Sends the alert if the socket has room for it.
        let _ = Pin::new(&mut rest).poll(&mut Context::from_waker(Waker::noop()));
        return Err(Fault::ClientGone);
    }
    let finished = timeout(limit.saturating_sub(started_at.elapsed()), rest).await;
    let mut stream = finished.map_err(|_| Fault::ClientTimeout)?.map_err(|_| Fault::ClientGone)?;
    stream.get_mut().1.set_buffer_limit(Some(ANSWER_READ));
    let proof = host_trust.map(|(rules, trust)| {
        let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let certificate = trust.and_then(|trust| trust.evaluate(chain, UnixTime::now()));
        Box::new(Proof { rules, host: name.unwrap_or_default().into(), certificate })
    });
    Ok(AcceptedTls { listener, protocol, stream, proof, connection_slot: slot, trust })
}

/// Rejects an unknown SNI with a fatal `unrecognized_name` alert (RFC 6066 §3), in cleartext because no keys
/// exist yet. Sent only if the socket has room for it.
fn refuse_name<S: Transport>(io: &mut S) {
    const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];
    let _ = Pin::new(io).poll_write(&mut Context::from_waker(Waker::noop()), &UNRECOGNIZED_NAME);
}

/// A copy of the configuration that offers fewer ALPN protocols. Copying costs nothing compared with a
/// handshake.
fn with_protocols(config: &ServerConfig, offered: impl Fn(&[u8]) -> bool) -> Arc<ServerConfig> {
    let mut config = config.clone();
    config.alpn_protocols.retain(|protocol| offered(protocol));
    Arc::new(config)
}
