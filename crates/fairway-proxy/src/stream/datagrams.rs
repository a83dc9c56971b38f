//! Datagrams of a port: who may begin a session, which endpoint it gets, and what is counted of it.

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

use super::connect::slot;
use super::peer::unknown;
use crate::access_log::StreamSeen;
use crate::fault::Fault;
use crate::l4::bounds::{Counted, Full, Most};
use crate::l4::datagrams::{Beginning, Datagrams, End, Fate, Forward, Over, source_towards};
use crate::listener::{ListenerId, PortId};
use crate::listening::OpenPort;
use crate::log::{Forwarded, StreamUpstream};
use crate::network::Network;
use crate::proxy_protocol;
use crate::upstream::blame::{note_connect_failure, unpicked};
use crate::upstream::{Chosen, Errand, Group, Tried, fault_of};
use crate::worker::{Adopted, Phase, SessionTicket, ToEndpoint, Worker};

/// Forwards the datagrams of a port until the worker accepts no more or the port is `closed`, and those of sessions that are open then for
/// as long as a drain takes.
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
    // Another process that takes the place of this one waits for the address, and begins the sessions anew.
    let time = if worker.is_handed_over() { Duration::ZERO } else { worker.options.drain.timeout };
    datagrams.leave(time).await;
}

/// Decides for the datagrams of one port.
struct Forwarder<N: Network> {
    worker: Rc<Worker<N>>,
    port: PortId,
    /// Where they are received.
    local: Option<SocketAddr>,
}

/// A session: whose it is, and where its datagrams go.
struct Held<N: Network> {
    listener: ListenerId,
    /// As the transport says, or the PROXY protocol.
    client: SocketAddr,
    chosen: Chosen<ToEndpoint<N>>,
    group: Rc<Group<ToEndpoint<N>>>,
    /// The version of the last snapshot that was seen to have its endpoint.
    version: Cell<u64>,
    _counted: Counted,
    _descriptor: SessionTicket<N>,
}

/// An endpoint, and the group that it was chosen from.
type InGroup<H> = (Chosen<H>, Rc<Group<H>>);

/// Who sent a datagram.
struct Sender {
    client: SocketAddr,
    /// What it sent to, as far as the PROXY protocol says.
    server: Option<SocketAddr>,
    /// Bytes of the header that said so.
    header: usize,
}

impl<N: Network> Forwarder<N> {
    /// Who sent the first datagram of a session.
    fn sender(&self, port: &OpenPort, from: SocketAddr, datagram: &[u8]) -> Result<Sender, &'static str> {
        let canonical = |of: SocketAddr| SocketAddr::new(of.ip().to_canonical(), of.port());
        let (from, options) = (canonical(from), &self.worker.options.proxy_protocol);
        if !proxy_protocol::expects(options, port, from.ip()).map_err(Fault::label)? {
            return Ok(Sender { client: from, server: None, header: 0 });
        }
        match parse(datagram) {
            Ok(Some(said)) => Ok(Sender {
                client: said.client.map_or(from, canonical),
                server: said.server,
                header: datagram.len() - said.rest.len(),
            }),
            Ok(None) | Err(_) => Err("no_proxy_header"),
        }
    }

    /// What a client sends to whose PROXY protocol does not say it: the port that it sees.
    fn destination(&self, from: SocketAddr, port: u16) -> SocketAddr {
        let bound = self.local.filter(|local| !local.ip().is_unspecified());
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        let here = bound.or_else(|| source_towards(from));
        SocketAddr::new(here.map_or(unknown(from.ip()), |here| here.ip()), port)
    }

    /// A place for one more session.
    fn place(
        &self,
        adopted: &Adopted<ToEndpoint<N>>,
        listener: ListenerId,
        client: SocketAddr,
    ) -> Result<(Counted, SessionTicket<N>), &'static str> {
        if self.worker.is_shedding() {
            return Err(Fault::Overloaded.label());
        }
        let settings = &adopted.settings().streams.datagrams;
        let own = adopted.listening().model(listener).and_then(|model| model.clients.connections);
        let of_listener = own.map_or(settings.sessions, |own| own.get().min(settings.sessions));
        let most = Most { of_listener, of_client: settings.sessions_per_client };
        let bounds = adopted.listening().bounds(listener).ok_or(Fault::NoListener.label())?;
        let counted = bounds.begin(client.ip(), most).map_err(|full| match full {
            Full::Listener => "listener_sessions",
            Full::Client => "client_sessions",
        })?;
        let descriptor = self.worker.begin_session().ok_or(Fault::LocalShortage.label())?;
        Ok((counted, descriptor))
    }

    /// An endpoint for a client of a listener.
    fn choose(
        &self,
        adopted: &Adopted<ToEndpoint<N>>,
        listener: ListenerId,
        client: SocketAddr,
    ) -> Result<InGroup<ToEndpoint<N>>, Fault> {
        let worker = &self.worker;
        let slot = slot(worker, adopted.stream(listener, None)?)?;
        let group = adopted.datagram_group(slot, &worker.groups).ok_or(Fault::MissingReference)?;
        let belongs = Session::of_address(group.backend().session.as_ref(), client.ip());
        let (tried, now) = (Tried::default(), Instant::now());
        let chosen = worker.random(|random| group.pick(&tried, belongs, random, now));
        Ok((chosen.ok_or_else(|| unpicked(&group))?, group))
    }
}

impl<N: Network> Forward for Forwarder<N> {
    type Held = Held<N>;

    fn begin(&self, from: SocketAddr, datagram: &[u8]) -> Result<Beginning<Held<N>>, &'static str> {
        let adopted = self.worker.adopted();
        if self.worker.phase() >= Phase::Draining {
            return Err(End::Drained.label());
        }
        let port = adopted.listening().port(self.port).ok_or(Fault::NoListener.label())?;
        let listener = port.listener().ok_or(Fault::NoListener.label())?;
        let Sender { client, server, header } = self.sender(port, from, datagram)?;
        let (counted, descriptor) = self.place(&adopted, listener, client)?;
        let (chosen, group) = self.choose(&adopted, listener, client).map_err(Fault::label)?;
        let policy = adopted.stream(listener, None).map(|it| it.policy()).unwrap_or_default();
        let introduces = policy.introduce.is_some();
        let public_port = adopted.listening().model(listener).map_or(0, |model| model.public_port);
        let introduce = introduces.then(|| Addresses {
            source: client,
            destination: server.unwrap_or_else(|| self.destination(from, public_port)),
        });
        let endpoint = chosen.endpoint.identity.address;
        let held = Held {
            listener,
            client,
            chosen,
            group,
            version: Cell::new(adopted.snapshot().version()),
            _counted: counted,
            _descriptor: descriptor,
        };
        Ok(Beginning { held, endpoint, introduce, skip: header, responses: policy.responses })
    }

    fn begun(&self, held: &Held<N>) {
        if held.chosen.errand == Errand::Probe {
            held.chosen.endpoint.probe_sent();
        }
        self.worker.counters.datagrams.opened();
    }

    fn stays(&self, held: &Held<N>) -> bool {
        let adopted = self.worker.adopted();
        let version = adopted.snapshot().version();
        if held.version.get() == version {
            return true;
        }
        let stays = match adopted.stream(held.listener, None) {
            Ok(stream) => stream.slots().iter().any(|slot| {
                let group = adopted.datagram_group(*slot, &self.worker.groups);
                group.is_some_and(|group| group.has(&held.chosen.endpoint))
            }),
            // Where the whole port is gone, its sessions have the time of a drain; else another listener has it.
            Err(_) => adopted.listening().port(self.port).is_none(),
        };
        if stays {
            held.version.set(version);
        }
        stays
    }

    fn answered(&self, held: &Held<N>, took: Duration) {
        held.chosen.endpoint.succeeded(took);
    }

    fn unreachable(&self, held: &Held<N>, error: &io::Error) -> &'static str {
        let fault = fault_of(error);
        note_connect_failure(&self.worker, &held.group, &held.chosen.endpoint, fault);
        fault.label()
    }

    fn ended(&self, held: Held<N>, over: Over) {
        let Over { received, sent, took, end } = over;
        self.worker.counters.session_ended(end.label());
        let adopted = self.worker.adopted();
        let seen = StreamSeen {
            forwarded: Forwarded::Udp,
            client: held.client.ip(),
            name: None,
            upstream: Some(StreamUpstream { endpoint: held.chosen.endpoint.identity.address, attempts: 1 }),
            status: if end == End::Unreachable { 502 } else { 200 },
            received,
            sent,
            took,
            reason: Some(end.label()),
        };
        let listener = adopted.listening().model(held.listener);
        self.worker.log.write_stream(listener.map_or("", |listener| &listener.name), &seen);
    }

    fn idle(&self) -> Duration {
        let adopted = self.worker.adopted();
        let listener = adopted.listening().port(self.port).and_then(OpenPort::listener);
        let stream = listener.and_then(|listener| adopted.stream(listener, None).ok());
        let of_route = stream.and_then(|stream| stream.policy().idle_timeout);
        let model = listener.and_then(|listener| adopted.listening().model(listener));
        let own = of_route.or_else(|| model?.clients.idle_timeout).filter(|own| !own.is_zero());
        own.unwrap_or(adopted.settings().streams.datagrams.idle_timeout)
    }

    fn yields(&self) -> bool {
        let adopted = self.worker.adopted();
        let wants = |key: &PortKey| key.transport == PortProtocol::Udp && Some(key.address) == self.local;
        adopted.listening().port(self.port).is_none() && adopted.snapshot().ports().any(|(key, _)| wants(key))
    }

    fn note(&self, fate: Fate) {
        match fate {
            Fate::Received(bytes) => self.worker.counters.datagrams.received(bytes),
            Fate::Sent(bytes) => self.worker.counters.datagrams.sent(bytes),
            Fate::Dropped(reason) => self.worker.counters.datagram_dropped(reason),
        }
    }
}
