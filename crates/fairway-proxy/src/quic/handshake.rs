//! A connection of QUIC until its handshake is complete: within the time that its listener gives, and with what is known of the client
//! then.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use fairway_net::clock::{Deadline, Instant};
use quinn_proto::{Connection, ConnectionError, Dir, Event, VarInt};
use rustls::pki_types::CertificateDer;

use super::choice::Choice;
use super::early::Unfinished;
use super::endpoint::Connecting;
use super::session::{Choose, Shaken, choosing_by};
use super::settings::max_streams;
use super::under_way::UnderWay;
use crate::downstream;
use crate::fault::Fault;
use crate::listener::PortId;
use crate::listening::Chosen;
use crate::metrics::count;
use crate::network::Network;
use crate::peer::{ChosenBy, Facts, Noted, Peer, Scheme, Sender};
use crate::worker::Open;

/// A client that has begun a connection.
pub(super) struct Client<N: Network> {
    pub(super) port: PortId,
    pub(super) address: SocketAddr,
    pub(super) choice: Rc<Choice<N>>,
    /// When its first packet came.
    pub(super) began: Instant,
    pub(super) _under_way: UnderWay,
}

/// Serves a client from its first packet on.
pub(super) async fn serve<N: Network>(open: Open<N>, client: Client<N>, connecting: Connecting) {
    let shaken = Box::pin(shake_hands(&open, client, connecting)).await;
    let Some((peer, connecting, unfinished)) = shaken else { return };
    downstream::serve_http3(open, peer, connecting, unfinished).await;
}

/// Completes the handshake, or gives it back unfinished where early data came before its end; `None` where it failed, which the client
/// was told and is counted.
async fn shake_hands<N: Network>(
    open: &Open<N>,
    client: Client<N>,
    mut connecting: Connecting,
) -> Option<(Peer, Connecting, Option<Unfinished>)> {
    let limit = open.adopted().listening().handshake_timeout(client.port);
    let mut handshake = Handshake { limit, timer: Deadline::unset() };
    let finished = poll_fn(|cx| handshake.poll(cx, open, &client, &mut connecting)).await;
    let peer = match finished {
        Ok(()) => peer_of(open, &client, &mut connecting.quic),
        Err(fault) => Err(client.choice.take().and_then(Result::err).unwrap_or(fault)),
    };
    match peer {
        Ok(peer) => {
            let (began, until) = (client.began, client.began + handshake.limit);
            let unfinished = Unfinished { began, until, _under_way: client._under_way };
            let is_handshaking = connecting.quic.is_handshaking();
            Some((peer, connecting, is_handshaking.then_some(unfinished)))
        }
        Err(fault) => {
            open.counters.handshake_failed(fault);
            None
        }
    }
}

/// The times of a handshake.
struct Handshake {
    /// From the first packet on.
    limit: Duration,
    timer: Deadline,
}

impl Handshake {
    /// Ready when the handshake is complete, or the client's early data was accepted, or it has failed and the client was told as far as
    /// the socket took it.
    fn poll<N: Network>(
        &mut self,
        cx: &mut Context<'_>,
        open: &Open<N>,
        client: &Client<N>,
        Connecting { link, quic, .. }: &mut Connecting,
    ) -> Poll<Result<(), Fault>> {
        let now = Instant::now();
        let choice = Rc::clone(&client.choice) as Rc<dyn Choose>;
        choosing_by(choice, || link.poll_input(cx, quic, now.into_std()));
        if let Some(listener) = client.choice.listener() {
            self.limit = open.adopted().clients(listener).handshake_timeout;
        }
        if quic.poll_timeout().is_some_and(|at| at <= now.into_std()) {
            quic.handle_timeout(now.into_std());
        }
        if quic.has_0rtt() && !quic.is_closed() {
            // What QUIC says of streams is left for whoever serves them.
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
        let left = (client.began + self.limit).saturating_duration_since(now);
        if left.is_zero() && !quic.is_closed() {
            quic.close(now.into_std(), VarInt::from_u32(0), Bytes::new());
        }
        link.poll_output(cx, quic, now.into_std());
        if quic.is_closed() {
            return Poll::Ready(Err(Fault::ClientTimeout));
        }
        let quic_timeout = quic.poll_timeout().map(|at| at.saturating_duration_since(now.into_std()));
        self.timer.set(now, quic_timeout.map_or(left, |quic| quic.min(left)));
        if self.timer.poll_passed(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

/// Who has shaken hands, and what is known of the connection.
fn peer_of<N: Network>(open: &Open<N>, client: &Client<N>, quic: &mut Connection) -> Result<Peer, Fault> {
    let mut chosen = client.choice.take().ok_or(Fault::ClientGone)??;
    let shaken = quic.crypto_session().handshake_data().and_then(|data| data.downcast::<Shaken>().ok());
    let Shaken { agreed, resumed } = *shaken.ok_or(Fault::ClientGone)?;
    if quic.has_0rtt() {
        count(&open.counters.http3.early_connections);
    }
    if !quic.is_handshaking() {
        open.counters.shook_hands(client.began.elapsed(), resumed);
    }
    let identity = quic.crypto_session().peer_identity();
    let chain = identity.and_then(|chain| chain.downcast::<Vec<CertificateDer<'static>>>().ok());
    let proof = chosen.proof(chain.as_deref().map_or(&[][..], |chain| &chain[..]));
    let adopted = open.adopted();
    let streams = max_streams(adopted.clients(chosen.listener).streams);
    quic.set_max_concurrent_streams(Dir::Bi, VarInt::from_u32(streams));
    let is_chosen = adopted.listening().port(client.port).is_none_or(|port| port.chosen != Chosen::Alone);
    let keeps_name = is_chosen || adopted.snapshot().reads_server_names();
    let name = chosen.name.take().unwrap_or_default();
    let chosen_by = keeps_name.then_some(ChosenBy { port: client.port, name });
    let number = open.log.next_connection();
    let noted = number.map(|number| Noted { number, port: client.address.port(), tls: Some(agreed) });
    let facts = Facts::of(proof, noted, chosen_by, chosen.place, chosen.trust);
    let address = client.address.ip().to_canonical();
    Ok(Peer {
        listener: chosen.listener,
        scheme: Scheme::Https,
        client: address,
        sender: Sender::Client,
        facts,
    })
}
