//! The task that receives at a socket: gives datagrams to the endpoint, or hands them over to another worker, and decides who may
//! begin a connection.

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
use fairway_net::turns::go_on_later;
use fairway_routing::PortKey;
use quinn_proto::{EndpointConfig, Incoming, ServerConfig};
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_local;

use super::choice::{Choice, Configs};
use super::early::Owner;
use super::endpoint::{Connecting, Endpoint};
use super::handshake::{self, Client};
use super::ids::{IdGenerator, IdKey, destination};
use super::keys::{HandedOver, Path};
use super::resets::ResetKey;
use super::session::{Choose, QUIC_VERSION, Sessions, choosing_by};
use super::settings::{self, PortLimits};
use super::socket::{Buffers, Socket};
use super::under_way::Handshakes;
use crate::fault::Fault;
use crate::listener::PortId;
use crate::metrics::count;
use crate::network::Network;
use crate::worker::{Open, Phase, Worker};

/// Datagrams that are taken, and calls that receive counted as several, before others have their turn.
const TURN: usize = 256;

/// How far two stateless resets are apart at least. Each is shorter than what it answers.
pub(super) const RESET_INTERVAL: Duration = Duration::from_millis(1);

/// How often it is looked whether the address of a port that is gone is wanted again.
const LOOK: Duration = Duration::from_secs(1);

/// Serves QUIC at a socket until the worker accepts no more or the port is `closed`, and the connections that are open then until they end, or
/// until a later port wants the address.
pub(crate) async fn serve_quic<N: Network>(
    worker: Rc<Worker<N>>,
    port: PortId,
    socket: UdpSocket,
    mut closed: oneshot::Receiver<Infallible>,
) {
    let mut receiver = match Receiver::new(&worker, port, socket) {
        Ok(receiver) => receiver,
        Err(error) => return tracing::error!(%error, "an address has no HTTP/3"),
    };
    tokio::select! {
        () = receiver.receive() => {}
        () = worker.accepts_no_more() => {}
        _ = &mut closed => {}
    }
    receiver.leave().await;
    worker.quic.leave(port, receiver.intake.here);
}

/// What holds for all connections at an address: their ids, of which `here` is the worker, and the tokens of stateless resets.
pub(super) fn endpoint_config(
    ids: &IdKey,
    resets: &Arc<ResetKey>,
    local: SocketAddr,
    here: u16,
) -> EndpointConfig {
    let (ids, of_port, resets) = (ids.clone(), resets.at(local), Arc::clone(resets));
    let mut config = EndpointConfig::new(of_port);
    config
        .cid_generator(move || Box::new(IdGenerator::new(ids.clone(), here, Arc::clone(&resets))))
        .supported_versions(vec![QUIC_VERSION])
        .min_reset_interval(RESET_INTERVAL);
    config
}

/// The task that receives.
struct Receiver<N: Network> {
    local: SocketAddr,
    buffers: Buffers,
    /// What other workers received for this one.
    handed_over: mpsc::Receiver<HandedOver>,
    intake: Intake<N>,
    /// Whether no connection begins any more.
    is_leaving: bool,
}

impl<N: Network> Receiver<N> {
    fn new(worker: &Rc<Worker<N>>, port: PortId, socket: UdpSocket) -> io::Result<Self> {
        let local = socket.local_addr()?;
        let intake = Intake::new(worker, port, Socket::new(socket)?, local)?;
        let handed_over = worker.quic.join(port, intake.here);
        Ok(Self { local, buffers: Buffers::new(), handed_over, intake, is_leaving: false })
    }

    /// Receives for as long as it is polled; once it leaves, until no connection is open.
    async fn receive(&mut self) {
        poll_fn(|cx| self.poll(cx)).await;
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Self { buffers, handed_over, intake, is_leaving, .. } = self;
        let (endpoint, now) = (Rc::clone(&intake.endpoint), Instant::now());
        endpoint.poll_unblock(cx);
        let mut taken = 0;
        while taken < TURN
            && let Poll::Ready(Some(HandedOver { path, datagram })) = handed_over.poll_recv(cx)
        {
            intake.take_here(now, path, datagram);
            taken += 1;
        }
        while taken < TURN
            && let Poll::Ready(count) =
                endpoint.poll_receive(cx, buffers, |path, datagram| intake.take(now, path, datagram))
        {
            taken += count + 1;
        }
        if *is_leaving && endpoint.open() == 0 {
            return Poll::Ready(());
        }
        if taken >= TURN {
            go_on_later(cx);
        }
        Poll::Pending
    }

    /// Serves those that are there until they end.
    async fn leave(&mut self) {
        self.is_leaving = true;
        self.intake.begins = false;
        let mut look = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                () = self.receive() => return,
                _ = look.tick() => {}
            }
            if self.is_wanted_by_another() {
                self.intake.endpoint.cut();
            }
        }
    }

    /// Whether the port is gone, and a later one has its address, which cannot be bound as long as this socket is open.
    fn is_wanted_by_another(&self) -> bool {
        let adopted = self.intake.worker.adopted();
        let wants = |key: &PortKey| key.transport == PortProtocol::Udp && key.address == self.local;
        let is_gone = adopted.listening().port(self.intake.port).is_none();
        is_gone && adopted.snapshot().ports().any(|(key, _)| wants(key))
    }
}

/// Decides what becomes of the datagrams of one socket.
struct Intake<N: Network> {
    worker: Rc<Worker<N>>,
    /// Which one it is.
    here: u16,
    port: PortId,
    /// Reads the ids of connections at the port.
    ids: IdKey,
    endpoint: Rc<Endpoint>,
    /// To other workers, as they were needed.
    ways: HashMap<u16, mpsc::Sender<HandedOver>>,
    everywhere: Arc<ServerConfig>,
    configs: Rc<Configs>,
    promised: Option<Promised>,
    handshakes: Handshakes,
    /// Whether connections begin.
    begins: bool,
}

/// What clients are promised, by a snapshot.
struct Promised {
    version: u64,
    limits: PortLimits,
    config: Arc<ServerConfig>,
}

impl<N: Network> Intake<N> {
    fn new(worker: &Rc<Worker<N>>, port: PortId, socket: Socket, local: SocketAddr) -> io::Result<Self> {
        let here = u16::try_from(worker.neighbours().here()).map_err(io::Error::other)?;
        let ids = worker.quic.ids().for_port(port);
        let config = endpoint_config(&ids, worker.quic.resets(), local, here);
        let provider = Arc::clone(worker.adopted().identities().server(None).crypto_provider());
        let everywhere =
            settings::everywhere(Sessions::new(provider).map_err(io::Error::other)?, &worker.quic);
        let everywhere = Arc::new(everywhere);
        let server = Some(Arc::clone(&everywhere));
        let endpoint =
            |can_probe_mtu| quinn_proto::Endpoint::new(Arc::new(config), server, can_probe_mtu, None);
        let endpoint = Rc::new(Endpoint::new(socket, endpoint, Rc::clone(&worker.counters.quic)));
        Ok(Self {
            worker: Rc::clone(worker),
            here,
            port,
            ids,
            endpoint,
            ways: HashMap::new(),
            everywhere,
            configs: Rc::default(),
            promised: None,
            handshakes: Handshakes::new(&worker.guards.counts, port, here),
            begins: true,
        })
    }

    /// Takes a datagram from the socket: it may be for another worker.
    fn take(&mut self, now: Instant, path: Path, datagram: BytesMut) {
        let named = destination(&datagram).and_then(|id| self.ids.worker_of(id));
        match named.filter(|worker| *worker != self.here) {
            Some(worker) => self.hand_over(worker, now, path, datagram),
            None => self.take_here(now, path, datagram),
        }
    }

    fn hand_over(&mut self, worker: u16, now: Instant, path: Path, datagram: BytesMut) {
        if !self.ways.contains_key(&worker)
            && let Some(way) = self.worker.quic.way(self.port, worker)
        {
            self.ways.insert(worker, way);
        }
        let counters = self.endpoint.counters();
        // A copy: what is received at once shares one piece of memory.
        let copy = || HandedOver { path, datagram: BytesMut::from(&datagram[..]) };
        match self.ways.get(&worker).map(|way| way.try_send(copy())) {
            Some(Ok(())) => count(&counters.handed_over),
            Some(Err(mpsc::error::TrySendError::Full(_))) => count(&counters.dropped),
            // Its endpoint is gone with all connections: the client learns that here.
            Some(Err(mpsc::error::TrySendError::Closed(_))) | None => {
                self.ways.remove(&worker);
                self.take_here(now, path, datagram);
            }
        }
    }

    fn take_here(&mut self, now: Instant, path: Path, datagram: BytesMut) {
        if let Some(incoming) = self.endpoint.take(now.into_std(), path, datagram) {
            self.begin(now, incoming);
        }
    }

    /// Decides whether a connection begins.
    fn begin(&mut self, now: Instant, incoming: Incoming) {
        if !self.begins || self.worker.phase() >= Phase::Draining {
            return self.endpoint.refuse(incoming);
        }
        let Some(config) = self.promise() else {
            self.worker.refused(Fault::NoListener);
            return self.endpoint.refuse(incoming);
        };
        if self.handshakes.need_validation() && !incoming.remote_address_validated() {
            return self.endpoint.retry(incoming);
        }
        let address = incoming.remote_address();
        let Some(under_way) =
            self.handshakes.begin(address.ip()).filter(|_| self.worker.has_room_for_a_client())
        else {
            self.worker.refused(Fault::Overloaded);
            return self.endpoint.refuse(incoming);
        };
        let open = Open::new(&self.worker);
        let streams = self.promised.as_ref().map_or(0, |promised| promised.limits.streams);
        let owner = Owner { client: address.ip(), streams };
        let choice = Rc::new(Choice::new(&self.worker, self.port, owner, &self.configs));
        let choosing = Rc::clone(&choice) as Rc<dyn Choose>;
        match choosing_by(choosing, || self.endpoint.accept(incoming, now.into_std(), config)) {
            Ok((link, quic)) => {
                let client = Client { port: self.port, address, choice, began: now, _under_way: under_way };
                spawn_local(handshake::serve(open, client, Connecting { port: self.port, link, quic }));
            }
            Err(_) => {
                let fault = choice.take().and_then(Result::err).unwrap_or(Fault::ClientGone);
                open.counters.handshake_failed(fault);
            }
        }
    }

    /// What clients are promised now; `None` where the port is gone, or no listener of it has HTTP/3.
    fn promise(&mut self) -> Option<Arc<ServerConfig>> {
        let adopted = self.worker.adopted();
        if let Some(promised) = &self.promised
            && promised.version == adopted.version()
        {
            return Some(Arc::clone(&promised.config));
        }
        let port = adopted.listening().port(self.port)?;
        let limits = PortLimits::of(adopted.listening(), &port.carries)?;
        let config = match self.promised.take() {
            Some(promised) if promised.limits == limits => promised.config,
            _ => Arc::new(limits.server_config(&self.everywhere)),
        };
        let version = adopted.version();
        self.promised = Some(Promised { version, limits, config: Arc::clone(&config) });
        Some(config)
    }
}
