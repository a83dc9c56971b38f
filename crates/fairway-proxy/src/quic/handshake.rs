//! A QUIC connection during its handshake: enforces the listener's timeout and collects details of the client.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use fairway_net::clock::{Deadline, Instant};
use quinn_proto::{Connection, ConnectionError, Dir, Event, VarInt};
use rustls::pki_types::CertificateDer;

use super::choice::TlsSelection;
use super::early::PendingHandshake;
use super::endpoint::QuicConnection;
use super::handshake_limit::HandshakePermit;
use super::session::{HandshakeData, SelectTls, with_selector};
use super::settings::max_streams;
use crate::downstream;
use crate::fault::Fault;
use crate::listener::PortId;
use crate::listening::ListenerSelection;
use crate::metrics::increment;
use crate::network::Network;
use crate::peer::{ConnectionDetails, ConnectionLogDetails, Peer, Scheme, SelectedBy, Sender};
use crate::worker::OpenConnection;

/// A client whose handshake is in progress.
pub(super) struct HandshakingClient<N: Network> {
    pub(super) port: PortId,
    pub(super) address: SocketAddr,
    pub(super) tls_selection: Rc<TlsSelection<N>>,
    /// When its first packet arrived.
    pub(super) started_at: Instant,
    pub(super) permit: HandshakePermit,
}

/// Serves a client from its first packet on.
pub(super) async fn serve<N: Network>(
    open: OpenConnection<N>,
    client: HandshakingClient<N>,
    connecting: QuicConnection,
) {
    let handshake_data = Box::pin(complete_handshake(&open, client, connecting)).await;
    let Some((peer, connecting, unfinished)) = handshake_data else { return };
    downstream::serve_http3(open, peer, connecting, unfinished).await;
}

/// Completes the handshake, or returns it unfinished if early data was accepted; `None` if it failed, which was
/// counted and the client told.
async fn complete_handshake<N: Network>(
    open: &OpenConnection<N>,
    client: HandshakingClient<N>,
    mut connecting: QuicConnection,
) -> Option<(Peer, QuicConnection, Option<PendingHandshake>)> {
    let timeout = open.adopted().listening().handshake_timeout(client.port);
    let mut handshake = HandshakeDriver { timeout, deadline: Deadline::unset() };
    let finished = poll_fn(|cx| handshake.poll(cx, open, &client, &mut connecting)).await;
    let peer = match finished {
        Ok(()) => build_peer(open, &client, &mut connecting.quic),
        Err(fault) => Err(client.tls_selection.take().and_then(Result::err).unwrap_or(fault)),
    };
    match peer {
        Ok(peer) => {
            let (started_at, deadline) = (client.started_at, client.started_at + handshake.timeout);
            let unfinished = PendingHandshake { started_at, deadline, _permit: client.permit };
            let is_handshaking = connecting.quic.is_handshaking();
            Some((peer, connecting, is_handshaking.then_some(unfinished)))
        }
        Err(fault) => {
            open.counters.count_failed_handshake(fault);
            None
        }
    }
}

/// Deadlines of a handshake.
struct HandshakeDriver {
    /// Counted from the first packet.
    timeout: Duration,
    deadline: Deadline,
}

impl HandshakeDriver {
    /// Ready when the handshake is complete, early data was accepted, or it failed and the client was told if
    /// the socket had room.
    fn poll<N: Network>(
        &mut self,
        cx: &mut Context<'_>,
        open: &OpenConnection<N>,
        client: &HandshakingClient<N>,
        QuicConnection { link, quic, .. }: &mut QuicConnection,
    ) -> Poll<Result<(), Fault>> {
        let now = Instant::now();
        let selector = Rc::clone(&client.tls_selection) as Rc<dyn SelectTls>;
        with_selector(selector, || link.poll_input(cx, quic, now.into_std()));
        if let Some(listener) = client.tls_selection.listener() {
            self.timeout = open.adopted().client_limits(listener).handshake_timeout;
        }
        if quic.poll_timeout().is_some_and(|at| at <= now.into_std()) {
            quic.handle_timeout(now.into_std());
        }
        if quic.has_0rtt() && !quic.is_closed() {
            // Stream events are left to whoever serves the streams.
            return Poll::Ready(Ok(()));
        }
        while let Some(event) = quic.poll() {
            match event {
                Event::Connected => return Poll::Ready(Ok(())),
                Event::ConnectionLost { reason } => {
                    link.poll_output(cx, quic, now.into_std());
                    return Poll::Ready(Err(match reason {
                        ConnectionError::TimedOut => Fault::ClientTimeout,
                        _ => Fault::ClientGone,
                    }));
                }
                _ => {}
            }
        }
        let time_left = (client.started_at + self.timeout).saturating_duration_since(now);
        if time_left.is_zero() && !quic.is_closed() {
            quic.close(now.into_std(), VarInt::from_u32(0), Bytes::new());
        }
        link.poll_output(cx, quic, now.into_std());
        if quic.is_closed() {
            return Poll::Ready(Err(Fault::ClientTimeout));
        }
        let quic_timeout = quic.poll_timeout().map(|at| at.saturating_duration_since(now.into_std()));
        self.deadline.set(now, quic_timeout.map_or(time_left, |quic| quic.min(time_left)));
        if self.deadline.poll_passed(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

/// The peer of an accepted connection.
fn build_peer<N: Network>(
    open: &OpenConnection<N>,
    client: &HandshakingClient<N>,
    quic: &mut Connection,
) -> Result<Peer, Fault> {
    let mut selected = client.tls_selection.take().ok_or(Fault::ClientGone)??;
    let handshake_data =
        quic.crypto_session().handshake_data().and_then(|data| data.downcast::<HandshakeData>().ok());
    let HandshakeData { agreed, resumed } = *handshake_data.ok_or(Fault::ClientGone)?;
    if quic.has_0rtt() {
        increment(&open.counters.http3.early_connections);
    }
    if !quic.is_handshaking() {
        open.counters.count_handshake(client.started_at.elapsed(), resumed);
    }
    let identity = quic.crypto_session().peer_identity();
    let chain = identity.and_then(|chain| chain.downcast::<Vec<CertificateDer<'static>>>().ok());
    let proof = selected.proof(chain.as_deref().map_or(&[][..], |chain| &chain[..]));
    let adopted = open.adopted();
    let streams = max_streams(adopted.client_limits(selected.listener).streams);
    quic.set_max_concurrent_streams(Dir::Bi, VarInt::from_u32(streams));
    let is_chosen =
        adopted.listening().port(client.port).is_none_or(|port| port.selection != ListenerSelection::Single);
    let keeps_name = is_chosen || adopted.snapshot().reads_server_names();
    let name = selected.name.take().unwrap_or_default();
    let selected_by = keeps_name.then_some(SelectedBy { port: client.port, name });
    let number = open.log.next_connection();
    let logged =
        number.map(|number| ConnectionLogDetails { number, port: client.address.port(), tls: Some(agreed) });
    let details = ConnectionDetails::from_parts(proof, logged, selected_by, selected.slot, selected.trust);
    let address = client.address.ip().to_canonical();
    Ok(Peer {
        listener: selected.listener,
        scheme: Scheme::Https,
        client: address,
        sender: Sender::Client,
        details,
    })
}
