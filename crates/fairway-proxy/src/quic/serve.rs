//! The receiving task of a socket: passes datagrams to the endpoint or hands them over to another worker, and
//! admits connections.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use fairway_model::PortProtocol;
use fairway_net::clock::Instant;
use fairway_net::yielding::go_on_later;
use fairway_routing::PortKey;
use quinn_proto::{EndpointConfig, Incoming, ServerConfig};
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_local;

use super::choice::{Http3Configs, TlsSelection};
use super::early::SessionOwner;
use super::endpoint::{Endpoint, QuicConnection};
use super::handshake::{self, HandshakingClient};
use super::handshake_limit::Handshakes;
use super::ids::{IdGenerator, IdKey, destination_id};
use super::keys::{DatagramPath, HandedOverDatagram};
use super::resets::ResetKey;
use super::session::{QUIC_VERSION, QuicTls, SelectTls, with_selector};
use super::settings::{self, PortLimits};
use super::socket::{ReceiveBuffers, Socket};
use crate::fault::Fault;
use crate::listener::PortId;
use crate::metrics::increment;
use crate::network::Network;
use crate::worker::{OpenConnection, StopPhase, Worker};

/// Datagrams per turn, a receive call counting as one more; then other tasks get their turn.
const MAX_DATAGRAMS_PER_TURN: usize = 256;

/// Minimum interval between stateless resets. Each is shorter than the packet it answers.
pub(super) const RESET_INTERVAL: Duration = Duration::from_millis(1);

/// Interval at which a draining socket checks whether its address is wanted again.
const ADDRESS_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Serves QUIC at a socket until the worker drains or the port is `closed`; open connections continue until
/// they end or a later port needs the address.
pub(crate) async fn serve_quic<N: Network>(
    worker: Rc<Worker<N>>,
    port: PortId,
    socket: UdpSocket,
    mut closed: oneshot::Receiver<Infallible>,
) {
    let mut receiver = match Receiver::new(&worker, port, socket) {
        Ok(receiver) => receiver,
        Err(error) => return tracing::error!(%error, "cannot serve HTTP/3 at an address"),
    };
    tokio::select! {
        () = receiver.receive() => {}
        () = worker.accepts_no_more() => {}
        _ = &mut closed => {}
    }
    receiver.drain().await;
    worker.quic.unregister(port, receiver.dispatcher.worker_index);
}

/// Endpoint configuration of an address: connection ids of worker `worker_index`, and stateless reset tokens.
pub(super) fn endpoint_config(
    ids: &IdKey,
    resets: &Arc<ResetKey>,
    local: SocketAddr,
    worker_index: u16,
) -> EndpointConfig {
    let (ids, of_port, resets) = (ids.clone(), resets.for_address(local), Arc::clone(resets));
    let mut config = EndpointConfig::new(of_port);
    config
        .cid_generator(move || Box::new(IdGenerator::new(ids.clone(), worker_index, Arc::clone(&resets))))
        .supported_versions(vec![QUIC_VERSION])
        .min_reset_interval(RESET_INTERVAL);
    config
}

/// The receiving task.
struct Receiver<N: Network> {
    local: SocketAddr,
    buffers: ReceiveBuffers,
    /// Datagrams received by other workers.
    handed_over: mpsc::Receiver<HandedOverDatagram>,
    dispatcher: DatagramDispatcher<N>,
    /// Whether no new connections are accepted.
    is_leaving: bool,
}

impl<N: Network> Receiver<N> {
    fn new(worker: &Rc<Worker<N>>, port: PortId, socket: UdpSocket) -> io::Result<Self> {
        let local = socket.local_addr()?;
        let dispatcher = DatagramDispatcher::new(worker, port, Socket::new(socket)?, local)?;
        let handed_over = worker.quic.register(port, dispatcher.worker_index);
        Ok(Self { local, buffers: ReceiveBuffers::new(), handed_over, dispatcher, is_leaving: false })
    }

    /// Receives while polled; once draining, completes when no connection is open.
    async fn receive(&mut self) {
        poll_fn(|cx| self.poll(cx)).await;
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Self { buffers, handed_over, dispatcher, is_leaving, .. } = self;
        let (endpoint, now) = (Rc::clone(&dispatcher.endpoint), Instant::now());
        endpoint.poll_wake_blocked(cx);
        let mut handled = 0;
        while handled < MAX_DATAGRAMS_PER_TURN
            && let Poll::Ready(Some(HandedOverDatagram { path, datagram })) = handed_over.poll_recv(cx)
        {
            dispatcher.dispatch_locally(now, path, datagram);
            handled += 1;
        }
        while handled < MAX_DATAGRAMS_PER_TURN
            && let Poll::Ready(count) =
                endpoint.poll_receive(cx, buffers, |path, datagram| dispatcher.dispatch(now, path, datagram))
        {
            handled += count + 1;
        }
        if *is_leaving && endpoint.open_connections() == 0 {
            return Poll::Ready(());
        }
        if handled >= MAX_DATAGRAMS_PER_TURN {
            go_on_later(cx);
        }
        Poll::Pending
    }

    /// Serves open connections until they end.
    async fn drain(&mut self) {
        self.is_leaving = true;
        self.dispatcher.accepts_connections = false;
        let mut address_poll = tokio::time::interval(ADDRESS_POLL_INTERVAL);
        loop {
            tokio::select! {
                () = self.receive() => return,
                _ = address_poll.tick() => {}
            }
            if self.is_address_wanted() {
                self.dispatcher.endpoint.close_all();
            }
        }
    }

    /// Whether the port is gone and a later one needs its address, which cannot be bound while this socket is
    /// open.
    fn is_address_wanted(&self) -> bool {
        let adopted = self.dispatcher.worker.adopted();
        let wants = |key: &PortKey| key.transport == PortProtocol::Udp && key.address == self.local;
        let is_gone = adopted.listening().port(self.dispatcher.port).is_none();
        is_gone && adopted.snapshot().ports().any(|(key, _)| wants(key))
    }
}

/// Dispatches the datagrams of one socket.
struct DatagramDispatcher<N: Network> {
    worker: Rc<Worker<N>>,
    /// Index of this worker.
    worker_index: u16,
    port: PortId,
    /// Reads connection ids of the port.
    ids: IdKey,
    endpoint: Rc<Endpoint>,
    /// Senders to other workers, added on first use.
    senders: HashMap<u16, mpsc::Sender<HandedOverDatagram>>,
    base_config: Arc<ServerConfig>,
    configs: Rc<Http3Configs>,
    transport_limits: Option<TransportLimits>,
    handshakes: Handshakes,
    /// Whether new connections are accepted.
    accepts_connections: bool,
}

/// Transport limits announced to clients, by snapshot.
struct TransportLimits {
    version: u64,
    limits: PortLimits,
    config: Arc<ServerConfig>,
}

impl<N: Network> DatagramDispatcher<N> {
    fn new(worker: &Rc<Worker<N>>, port: PortId, socket: Socket, local: SocketAddr) -> io::Result<Self> {
        let worker_index = u16::try_from(worker.neighbours().index()).map_err(io::Error::other)?;
        let ids = worker.quic.ids().for_port(port);
        let config = endpoint_config(&ids, worker.quic.resets(), local, worker_index);
        let provider = Arc::clone(worker.adopted().identities().server(None).crypto_provider());
        let base_config =
            settings::base_config(QuicTls::new(provider).map_err(io::Error::other)?, &worker.quic);
        let base_config = Arc::new(base_config);
        let server = Some(Arc::clone(&base_config));
        let endpoint =
            |can_probe_mtu| quinn_proto::Endpoint::new(Arc::new(config), server, can_probe_mtu, None);
        let endpoint = Rc::new(Endpoint::new(socket, endpoint, Rc::clone(&worker.counters.quic)));
        Ok(Self {
            worker: Rc::clone(worker),
            worker_index,
            port,
            ids,
            endpoint,
            senders: HashMap::new(),
            base_config,
            configs: Rc::default(),
            transport_limits: None,
            handshakes: Handshakes::new(&worker.guards.counts, port, worker_index),
            accepts_connections: true,
        })
    }

    /// Dispatches a datagram, which may belong to another worker.
    fn dispatch(&mut self, now: Instant, path: DatagramPath, datagram: BytesMut) {
        let named = destination_id(&datagram).and_then(|id| self.ids.worker_of(id));
        match named.filter(|worker| *worker != self.worker_index) {
            Some(worker) => self.hand_over(worker, now, path, datagram),
            None => self.dispatch_locally(now, path, datagram),
        }
    }

    fn hand_over(&mut self, worker: u16, now: Instant, path: DatagramPath, datagram: BytesMut) {
        if !self.senders.contains_key(&worker)
            && let Some(sender) = self.worker.quic.sender_to(self.port, worker)
        {
            self.senders.insert(worker, sender);
        }
        let counters = self.endpoint.counters();
        // Copied, because datagrams received together share one allocation.
        let copy = || HandedOverDatagram { path, datagram: BytesMut::from(&datagram[..]) };
        match self.senders.get(&worker).map(|way| way.try_send(copy())) {
            Some(Ok(())) => increment(&counters.handed_over),
            Some(Err(mpsc::error::TrySendError::Full(_))) => increment(&counters.dropped),
            // The other endpoint is gone with its connections: the client learns that here.
            Some(Err(mpsc::error::TrySendError::Closed(_))) | None => {
                self.senders.remove(&worker);
                self.dispatch_locally(now, path, datagram);
            }
        }
    }

    fn dispatch_locally(&mut self, now: Instant, path: DatagramPath, datagram: BytesMut) {
        if let Some(incoming) = self.endpoint.receive(now.into_std(), path, datagram) {
            self.start_connection(now, incoming);
        }
    }

    /// Accepts, retries or refuses a connection.
    fn start_connection(&mut self, now: Instant, incoming: Incoming) {
        if !self.accepts_connections || self.worker.phase() >= StopPhase::Draining {
            return self.endpoint.refuse(incoming);
        }
        let Some(config) = self.server_config() else {
            self.worker.record_refusal(Fault::NoListener);
            return self.endpoint.refuse(incoming);
        };
        if self.handshakes.require_validation() && !incoming.remote_address_validated() {
            return self.endpoint.retry(incoming);
        }
        let address = incoming.remote_address();
        let Some(under_way) =
            self.handshakes.try_start(address.ip()).filter(|_| self.worker.has_room_for_a_client())
        else {
            self.worker.record_refusal(Fault::Overloaded);
            return self.endpoint.refuse(incoming);
        };
        let open = OpenConnection::new(&self.worker);
        let streams = self.transport_limits.as_ref().map_or(0, |promised| promised.limits.streams);
        let owner = SessionOwner { client: address.ip(), streams };
        let tls_selection = Rc::new(TlsSelection::new(&self.worker, self.port, owner, &self.configs));
        let select_tls = Rc::clone(&tls_selection) as Rc<dyn SelectTls>;
        match with_selector(select_tls, || self.endpoint.accept(incoming, now.into_std(), config)) {
            Ok((link, quic)) => {
                let client = HandshakingClient {
                    port: self.port,
                    address,
                    tls_selection,
                    started_at: now,
                    permit: under_way,
                };
                spawn_local(handshake::serve(open, client, QuicConnection { port: self.port, link, quic }));
            }
            Err(_) => {
                let fault = tls_selection.take().and_then(Result::err).unwrap_or(Fault::ClientGone);
                open.counters.count_failed_handshake(fault);
            }
        }
    }

    /// The current server configuration; `None` if the port is gone or none of its listeners has HTTP/3.
    fn server_config(&mut self) -> Option<Arc<ServerConfig>> {
        let adopted = self.worker.adopted();
        if let Some(promised) = &self.transport_limits
            && promised.version == adopted.version()
        {
            return Some(Arc::clone(&promised.config));
        }
        let port = adopted.listening().port(self.port)?;
        let limits = PortLimits::from_listeners(adopted.listening(), &port.carries)?;
        let config = match self.transport_limits.take() {
            Some(promised) if promised.limits == limits => promised.config,
            _ => Arc::new(limits.server_config(&self.base_config)),
        };
        let version = adopted.version();
        self.transport_limits = Some(TransportLimits { version, limits, config: Arc::clone(&config) });
        Some(config)
    }
}
