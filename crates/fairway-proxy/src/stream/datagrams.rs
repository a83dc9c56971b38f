//! Routing and counting of a port's datagrams: admission of sessions and their endpoints.

use std::cell::Cell;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use fairway_model::PortProtocol;
use fairway_net::clock::Instant;
use fairway_net::proxy_header::{Addresses, parse};
use fairway_routing::PortKey;
use fairway_routing::session::Session;
use tokio::net::UdpSocket;
use tokio::sync::oneshot;

use super::connect::pick_backend;
use super::peer::unspecified_address;
use crate::access_log::StreamLogEntry;
use crate::fault::Fault;
use crate::l4::bounds::{MaxSessions, SessionCount, SessionLimitReached};
use crate::l4::datagrams::{
    DatagramOutcome, Datagrams, Forward, NewSession, SessionEnd, SessionSummary, source_towards,
};
use crate::listener::{ListenerId, PortId};
use crate::listening::OpenPort;
use crate::log::{Forwarded, StreamUpstream};
use crate::network::Network;
use crate::proxy_protocol;
use crate::upstream::blame::{record_connect_failure, unpicked_fault};
use crate::upstream::{Group, PickReason, PickedEndpoint, TriedMembers, fault_of};
use crate::worker::{Adopted, EndpointHop, SessionTicket, StopPhase, Worker};

/// Forwards datagrams of a port until the worker drains or the port is `closed`; open sessions continue for the
/// drain timeout.
pub(crate) async fn serve_datagrams<N: Network>(
    worker: Rc<Worker<N>>,
    port: PortId,
    socket: UdpSocket,
    mut closed: oneshot::Receiver<Infallible>,
) {
    let (workspace, local) = (Rc::clone(&worker.reuse.workspace), socket.local_addr().ok());
    let forwarder = Forwarder { worker: Rc::clone(&worker), port, local };
    let mut datagrams = Datagrams::new(socket, forwarder, &workspace);
    tokio::select! {
        () = datagrams.serve() => {}
        () = worker.accepts_no_more() => {}
        _ = &mut closed => {}
    }
    // The process that takes over waits for the address and starts the sessions anew.
    let time = if worker.is_handed_over() { Duration::ZERO } else { worker.options.drain.timeout };
    datagrams.drain(time).await;
}

/// Routes the datagrams of one port.
struct Forwarder<N: Network> {
    worker: Rc<Worker<N>>,
    port: PortId,
    /// Local address of the socket.
    local: Option<SocketAddr>,
}

/// Client, listener and endpoint of a session.
struct DatagramRoute<N: Network> {
    listener: ListenerId,
    /// According to the transport or the PROXY protocol.
    client: SocketAddr,
    picked: PickedEndpoint<EndpointHop<N>>,
    group: Rc<Group<EndpointHop<N>>>,
    /// Version of the last snapshot known to contain its endpoint.
    version: Cell<u64>,
    _session_count: SessionCount,
    _descriptor: SessionTicket<N>,
}

/// An endpoint and the group it was picked from.
type EndpointInGroup<H> = (PickedEndpoint<H>, Rc<Group<H>>);

/// The sender of a datagram.
struct Sender {
    client: SocketAddr,
    /// Destination in the PROXY protocol header.
    server: Option<SocketAddr>,
    /// Length of the PROXY protocol header.
    header: usize,
}

impl<N: Network> Forwarder<N> {
    /// Identifies the sender of the first datagram of a session.
    fn identify_sender(
        &self,
        port: &OpenPort,
        from: SocketAddr,
        datagram: &[u8],
    ) -> Result<Sender, &'static str> {
        let canonical = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        let (from, options) = (canonical(from), &self.worker.options.proxy_protocol);
        if !proxy_protocol::expects(options, port, from.ip()).map_err(Fault::label)? {
            return Ok(Sender { client: from, server: None, header: 0 });
        }
        match parse(datagram) {
            Ok(Some(said)) => Ok(Sender {
                client: said.client.map_or(from, canonical),
                server: said.server,
                header: datagram.len() - said.remaining.len(),
            }),
            Ok(None) | Err(_) => Err("no_proxy_header"),
        }
    }

    /// Destination of a datagram whose PROXY protocol header does not name it: the port that clients see.
    fn destination(&self, from: SocketAddr, port: u16) -> SocketAddr {
        let bound = self.local.filter(|local| !local.ip().is_unspecified());
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        let address = bound.or_else(|| source_towards(from));
        SocketAddr::new(address.map_or(unspecified_address(from.ip()), |here| here.ip()), port)
    }

    /// Counts one more session against the limits.
    fn reserve_session(
        &self,
        adopted: &Adopted<EndpointHop<N>>,
        listener: ListenerId,
        client: SocketAddr,
    ) -> Result<(SessionCount, SessionTicket<N>), &'static str> {
        if self.worker.is_shedding() {
            return Err(Fault::Overloaded.label());
        }
        let settings = &adopted.settings().streams.datagrams;
        let own_limit = adopted.listening().model(listener).and_then(|model| model.clients.connections);
        let per_listener = own_limit.map_or(settings.sessions, |own| own.get().min(settings.sessions));
        let limits = MaxSessions { per_listener, per_client: settings.sessions_per_client };
        let bounds = adopted.listening().session_bounds(listener).ok_or(Fault::NoListener.label())?;
        let counted = bounds.acquire(client.ip(), limits).map_err(|full| match full {
            SessionLimitReached::Listener => "listener_sessions",
            SessionLimitReached::Client => "client_sessions",
        })?;
        let descriptor = self.worker.start_session().ok_or(Fault::LocalShortage.label())?;
        Ok((counted, descriptor))
    }

    /// Picks an endpoint for a client of a listener.
    fn pick_endpoint(
        &self,
        adopted: &Adopted<EndpointHop<N>>,
        listener: ListenerId,
        client: SocketAddr,
    ) -> Result<EndpointInGroup<EndpointHop<N>>, Fault> {
        let worker = &self.worker;
        let slot = pick_backend(worker, adopted.stream_route(listener, None)?)?;
        let group = adopted.datagram_group(slot, &worker.groups).ok_or(Fault::MissingReference)?;
        let belongs = Session::of_address(group.backend().session.as_ref(), client.ip());
        let (tried, now) = (TriedMembers::default(), Instant::now());
        let picked = worker.random(|random| group.pick(&tried, belongs, random, now));
        Ok((picked.ok_or_else(|| unpicked_fault(&group))?, group))
    }
}

impl<N: Network> Forward for Forwarder<N> {
    type Route = DatagramRoute<N>;

    fn start_session(
        &self,
        from: SocketAddr,
        datagram: &[u8],
    ) -> Result<NewSession<DatagramRoute<N>>, &'static str> {
        let adopted = self.worker.adopted();
        if self.worker.phase() >= StopPhase::Draining {
            return Err(SessionEnd::Drained.label());
        }
        let port = adopted.listening().port(self.port).ok_or(Fault::NoListener.label())?;
        let listener = port.listener().ok_or(Fault::NoListener.label())?;
        let Sender { client, server, header } = self.identify_sender(port, from, datagram)?;
        let (counted, descriptor) = self.reserve_session(&adopted, listener, client)?;
        let (chosen, group) = self.pick_endpoint(&adopted, listener, client).map_err(Fault::label)?;
        let policy = adopted.stream_route(listener, None).map(|it| it.policy()).unwrap_or_default();
        let introduces = policy.proxy_header.is_some();
        let public_port = adopted.listening().model(listener).map_or(0, |model| model.public_port);
        let proxy_header = introduces.then(|| Addresses {
            source: client,
            destination: server.unwrap_or_else(|| self.destination(from, public_port)),
        });
        let endpoint = chosen.endpoint.identity.address;
        let route = DatagramRoute {
            listener,
            client,
            picked: chosen,
            group,
            version: Cell::new(adopted.snapshot().version()),
            _session_count: counted,
            _descriptor: descriptor,
        };
        Ok(NewSession { route, endpoint, proxy_header, skip: header, responses: policy.responses })
    }

    fn session_started(&self, route: &DatagramRoute<N>) {
        if route.picked.reason == PickReason::Probe {
            route.picked.endpoint.probe_sent();
        }
        self.worker.counters.datagrams.opened();
    }

    fn is_still_valid(&self, route: &DatagramRoute<N>) -> bool {
        let adopted = self.worker.adopted();
        let version = adopted.snapshot().version();
        if route.version.get() == version {
            return true;
        }
        let is_valid = match adopted.stream_route(route.listener, None) {
            Ok(stream) => stream.slots().iter().any(|slot| {
                let group = adopted.datagram_group(*slot, &self.worker.groups);
                group.is_some_and(|group| group.contains(&route.picked.endpoint))
            }),
            // If the whole port is gone, its sessions get the drain timeout; otherwise another listener has it.
            Err(_) => adopted.listening().port(self.port).is_none(),
        };
        if is_valid {
            route.version.set(version);
        }
        is_valid
    }

    fn first_response(&self, route: &DatagramRoute<N>, took: Duration) {
        route.picked.endpoint.succeeded(took);
    }

    fn endpoint_unreachable(&self, route: &DatagramRoute<N>, error: &io::Error) -> &'static str {
        let fault = fault_of(error);
        record_connect_failure(&self.worker, &route.group, &route.picked.endpoint, fault);
        fault.label()
    }

    fn session_ended(&self, route: DatagramRoute<N>, summary: SessionSummary) {
        let SessionSummary { received, sent, duration, end } = summary;
        self.worker.counters.count_session_end(end.label());
        let adopted = self.worker.adopted();
        let entry = StreamLogEntry {
            forwarded: Forwarded::Udp,
            client: route.client.ip(),
            name: None,
            upstream: Some(StreamUpstream { endpoint: route.picked.endpoint.identity.address, attempts: 1 }),
            status: if end == SessionEnd::Unreachable { 502 } else { 200 },
            received,
            sent,
            duration,
            reason: Some(end.label()),
        };
        let listener = adopted.listening().model(route.listener);
        self.worker.log.write_stream(listener.map_or("", |listener| &listener.name), &entry);
    }

    fn idle_timeout(&self) -> Duration {
        let adopted = self.worker.adopted();
        let listener = adopted.listening().port(self.port).and_then(OpenPort::listener);
        let stream = listener.and_then(|listener| adopted.stream_route(listener, None).ok());
        let of_route = stream.and_then(|stream| stream.policy().idle_timeout);
        let model = listener.and_then(|listener| adopted.listening().model(listener));
        let timeout = of_route.or_else(|| model?.clients.idle_timeout).filter(|own| !own.is_zero());
        timeout.unwrap_or(adopted.settings().streams.datagrams.idle_timeout)
    }

    fn must_release_address(&self) -> bool {
        let adopted = self.worker.adopted();
        let wants = |key: &PortKey| key.transport == PortProtocol::Udp && Some(key.address) == self.local;
        adopted.listening().port(self.port).is_none() && adopted.snapshot().ports().any(|(key, _)| wants(key))
    }

    fn record(&self, outcome: DatagramOutcome) {
        match outcome {
            DatagramOutcome::Received(bytes) => self.worker.counters.datagrams.received(bytes),
            DatagramOutcome::Sent(bytes) => self.worker.counters.datagrams.sent(bytes),
            DatagramOutcome::Dropped(reason) => self.worker.counters.count_dropped_datagram(reason),
        }
    }
}
