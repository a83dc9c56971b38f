//! The TLS handshake with a client: the name it asks for chooses the listener and the certificate, by the snapshot that
//! is current then.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use fairway_connection::sides::Hop;
use fairway_model::ListenerProtocol;
use fairway_net::clock::Instant;
use fairway_net::places::Place;
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
use crate::worker::{Adopted, ServerSide, Trusts};

/// A client that has shaken hands.
pub(crate) struct Shaken<S> {
    pub(crate) listener: ListenerId,
    /// What the listener speaks.
    pub(crate) protocol: ListenerProtocol,
    pub(crate) stream: TlsStream<S>,
    /// What it showed, where it was asked.
    pub(crate) proof: Option<Box<Proof>>,
    /// Its place among the connections of the listener, where these are counted.
    pub(crate) place: Option<Place>,
    /// By which the listener verifies its clients, where it does; hosts with rules of their own judge by those.
    pub(crate) trust: Option<Arc<ClientTrust>>,
}

/// Shakes hands on a port, within the time that the listener gives; until it is known which one it is, within `limit`.
/// `adopted` is asked once the client's name is known.
pub(crate) async fn accept<S: Transport, H: Hop>(
    stream: S,
    limit: Duration,
    adopted: impl FnOnce() -> Rc<Adopted<H>>,
    trusts: &Trusts,
    port: PortId,
) -> Result<Shaken<S>, Fault> {
    let began = Instant::now();
    let start = LazyConfigAcceptor::new(Acceptor::default(), stream);
    let start = timeout(limit, start).await.map_err(|_| Fault::ClientTimeout)?;
    let mut start = start.map_err(|_| Fault::ClientGone)?;
    let name = start.client_hello().server_name().map(host_name);
    let (side, offers_http2, limit, place, trust) = {
        let adopted = adopted();
        let side = adopted.server_tls(port, name.as_deref(), trusts).inspect_err(|fault| {
            if *fault == Fault::NoListener {
                refuse_name(&mut start.io);
            }
        })?;
        let limit = adopted.clients(side.listener).handshake_timeout;
        let place = adopted.listening().place(side.listener)?;
        let trust = adopted.listening().verification(side.listener).trust().cloned();
        (side, adopted.settings().downstream.http2.offered, limit, place, trust)
    };
    let ServerSide { listener, protocol, config, clients } = side;
    let config = match protocol {
        ListenerProtocol::Https if offers_http2 => config,
        ListenerProtocol::Https => offering(&config, |protocol| protocol != b"h2"),
        // What is spoken inside is the endpoint's affair: nothing is agreed on for it.
        _ => offering(&config, |_| false),
    };
    // What came behind the ClientHello is with TLS already, and is looked at now: nothing more may ever come.
    let mut followed = Ok(());
    let mut rest =
        start.into_stream_with(config, |session| followed = session.process_new_packets().map(|_| ()));
    if followed.is_err() {
        // Sends the alert as far as the socket takes it.
        let _ = Pin::new(&mut rest).poll(&mut Context::from_waker(Waker::noop()));
        return Err(Fault::ClientGone);
    }
    let finished = timeout(limit.saturating_sub(began.elapsed()), rest).await;
    let mut stream = finished.map_err(|_| Fault::ClientTimeout)?.map_err(|_| Fault::ClientGone)?;
    stream.get_mut().1.set_buffer_limit(Some(ANSWER_READ));
    let proof = clients.map(|(rules, trust)| {
        let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let shown = trust.and_then(|trust| trust.judge(chain, UnixTime::now()));
        Box::new(Proof { rules, host: name.unwrap_or_default().into(), shown })
    });
    Ok(Shaken { listener, protocol, stream, proof, place, trust })
}

/// Tells the client that its name is not served (RFC 6066 §3), as far as the socket takes it: a fatal `unrecognized_name`, in
/// the clear because nothing has been agreed on.
fn refuse_name<S: Transport>(io: &mut S) {
    const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];
    let _ = Pin::new(io).poll_write(&mut Context::from_waker(Waker::noop()), &UNRECOGNIZED_NAME);
}

/// The same settings, but fewer protocols are offered. Next to a handshake the copy costs nothing.
fn offering(config: &ServerConfig, offered: impl Fn(&[u8]) -> bool) -> Arc<ServerConfig> {
    let mut config = config.clone();
    config.alpn_protocols.retain(|protocol| offered(protocol));
    Arc::new(config)
}
