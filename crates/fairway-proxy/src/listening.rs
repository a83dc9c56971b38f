//! What the process listens on, from snapshot to snapshot: sockets by address, listeners by number. Binds away from the
//! workers, which take their sockets when they adopt the snapshot. Accepts nothing itself.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::num::NonZeroU16;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fairway_model::{ClientDemand, Http3Settings, Introduction, Listener, ListenerProtocol, PortProtocol};
use fairway_net::counts::Counts;
use fairway_net::inherited::Inherited;
use fairway_net::listen;
use fairway_net::places::{Place, Places};
use fairway_routing::{Carried, ClientLimits, Port, PortKey, Snapshot, TableId};
use imbl::OrdMap;
use socket2::SockRef;

use crate::fault::Fault;
use crate::l4::bounds::SessionBounds;
use crate::listener::{BindError, ListenerError, ListenerId, PortId, TrustError};
use crate::tls::ClientTrust;

/// The sockets of the process, and who has which number. Follows one snapshot after the other.
pub(crate) struct Sockets {
    workers: usize,
    /// The most addresses that may be bound.
    most: usize,
    bound: BTreeMap<PortKey, Arc<PortSockets>>,
    /// Used in place of binding an address.
    inherited: Inherited,
    /// What could not be bound when it was last tried, and why.
    failed: BTreeMap<PortKey, String>,
    last: u32,
    numbers: Numbers,
    /// What was followed last, and what came of it.
    followed: OrdMap<Arc<str>, Arc<Listener>>,
    /// What the settings said of HTTP/3 then.
    followed_http3: Http3Settings,
    current: Arc<Listening>,
    /// What all clients of listeners of UDP have together.
    clients: Arc<Counts>,
}

/// What is listened on in one snapshot.
#[derive(Default)]
pub(crate) struct Listening {
    /// In the order of their ids.
    ports: Vec<OpenPort>,
    /// By slot.
    listeners: Vec<Option<Entry>>,
    /// What holds for clients of listeners that say nothing else.
    everywhere: ClientLimits,
}

/// A bound address, and what is carried there.
pub(crate) struct OpenPort {
    pub(crate) sockets: Arc<PortSockets>,
    pub(crate) carries: Port<Choice>,
    /// How the listener of a client is found out.
    pub(crate) chosen: Chosen,
    /// How connections begin; `None` is as the flags say.
    pub(crate) introduction: Option<Introduction>,
    /// How long the longest handshake of its listeners may take: which one it is of, its first bytes tell.
    handshake_timeout: Duration,
}

/// How the listener of a client is found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chosen {
    /// There is one.
    Alone,
    /// By the name in its handshake.
    InHandshake,
    /// By the same name, which is read before anybody answers: some listeners pass TLS through.
    BeforeHandshake,
}

/// What becomes of a connection to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// This listener serves it.
    Listener(ListenerId),
    /// Its listener asks for what is not served: it is closed.
    Closed,
}

/// What requests need to know of their listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListenerFacts {
    pub(crate) table: TableId,
    pub(crate) public_port: u16,
    /// Where clients find over TLS what this listener serves.
    pub(crate) https_port: u16,
    /// Whether it verifies its clients.
    pub(crate) verifies: bool,
    /// Whether another listener that serves the same routes does.
    pub(crate) is_beside_verified: bool,
    /// Its public port, if it serves HTTP/3 as well, at each of its addresses.
    pub(crate) http3_port: Option<NonZeroU16>,
}

/// How clients are verified whose host says nothing about it.
#[derive(Clone)]
pub(crate) enum Verification {
    /// They are not.
    None,
    /// The certificates that are trusted cannot be read: nobody is served.
    Impossible,
    /// In the handshake.
    By(Arc<ClientTrust>, ClientDemand),
}

struct Entry {
    generation: u16,
    /// None where it does not speak HTTP.
    facts: Option<ListenerFacts>,
    /// Whether TLS of its clients may be passed through.
    passes_tls: bool,
    verification: Verification,
    /// Of one of UDP: what its sessions may be.
    bounds: Option<Arc<SessionBounds>>,
    /// None where it is what holds everywhere.
    clients: Option<Box<ClientLimits>>,
    /// Those of its connections, where they are counted.
    places: Arc<Places>,
    model: Arc<Listener>,
}

/// The sockets of one address: one for each worker, until it takes it.
pub(crate) struct PortSockets {
    pub(crate) id: PortId,
    /// With the port that port 0 became.
    pub(crate) address: SocketAddr,
    /// Whether datagrams at it are QUIC's.
    is_for_http3: bool,
    /// By worker.
    waiting: Mutex<Vec<Vec<PortSocket>>>,
}

/// The socket of one worker.
#[derive(Debug)]
pub(crate) enum PortSocket {
    /// Accepts connections.
    Tcp(TcpListener),
    /// Receives datagrams.
    Udp(UdpSocket),
}

impl Sockets {
    /// For so many workers, and at most `most` addresses.
    pub(crate) fn new(workers: usize, most: usize) -> Self {
        Self {
            workers,
            most,
            bound: BTreeMap::new(),
            inherited: Inherited::default(),
            failed: BTreeMap::new(),
            last: 0,
            numbers: Numbers::default(),
            followed: OrdMap::new(),
            followed_http3: Http3Settings::default(),
            current: Arc::default(),
            clients: Counts::new(),
        }
    }

    /// Uses these sockets where a snapshot has their addresses, until [`Self::complete`].
    pub(crate) fn inherit(&mut self, inherited: Inherited) {
        self.inherited = inherited;
    }

    /// Gives each worker a socket of each address that was inherited, where there were fewer than workers, and closes those of
    /// addresses that no listener has. Call it before workers take sockets.
    pub(crate) fn complete(&mut self) {
        self.bound.values().for_each(|sockets| sockets.complete());
        self.inherited = Inherited::default();
    }

    /// Binds what `snapshot` adds and lets go of what it no longer has; addresses that stay are not touched. What
    /// cannot be bound is left out, reported when it is new, and tried again each time.
    pub(crate) fn follow(&mut self, snapshot: &Snapshot) -> (Arc<Listening>, Vec<ListenerError>) {
        let listeners = &snapshot.config().listeners;
        let everywhere = ClientLimits::everywhere(&snapshot.config().settings);
        let http3 = snapshot.config().settings.downstream.http3;
        let is_known = self.followed.diff(listeners).next().is_none()
            && self.followed_http3 == http3
            && self.current.everywhere == everywhere
            && self.current.has_tables_of(snapshot)
            && self.current.passes_tls_as(snapshot)
            && self.bound.keys().eq(snapshot.ports().map(|(key, _)| key));
        if is_known && self.failed.is_empty() {
            return (Arc::clone(&self.current), Vec::new());
        }
        let ports: BTreeMap<_, _> = snapshot.ports().collect();
        self.bound.retain(|key, sockets| {
            // UDP that is read for another purpose from now on is bound anew: a worker's task knows one purpose.
            let stays = ports.get(key).is_some_and(|port| is_quic(*port) == sockets.is_for_http3);
            if !stays {
                sockets.close();
            }
            stays
        });
        self.failed.retain(|key, _| ports.contains_key(key));
        let ids = self.numbers.follow(listeners);
        let mut errors = Vec::new();
        let entries = self.entries(snapshot, &ids, &everywhere, &mut errors);
        let mut listening = Listening { ports: Vec::new(), listeners: entries, everywhere };
        for (key, port) in ports {
            let Some(sockets) = self.sockets(key, port, &mut errors) else { continue };
            let carries = port.map(|carried| match carried {
                Carried::Served(listener) => {
                    ids.get(&*listener.name).map_or(Choice::Closed, |id| Choice::Listener(*id))
                }
                Carried::Closed(_) => Choice::Closed,
            });
            let (introduction, chosen) = (port.introduction().cloned(), Chosen::on(port, snapshot));
            let handshake_timeout = listening.longest_handshake(&carries);
            listening.ports.push(OpenPort { sockets, carries, chosen, introduction, handshake_timeout });
        }
        listening.ports.sort_unstable_by_key(|port| port.sockets.id);
        listening.note_http3();
        (self.followed, self.followed_http3) = (listeners.clone(), http3);
        self.current = Arc::new(listening);
        (Arc::clone(&self.current), errors)
    }

    /// Whether nothing failed to be bound.
    pub(crate) fn is_complete(&self) -> bool {
        self.failed.is_empty()
    }

    /// The listeners of `snapshot` that have no socket at an address of theirs, with the address and the reason.
    pub(crate) fn unbound(&self, snapshot: &Snapshot) -> Vec<(Arc<str>, SocketAddr, String)> {
        let ports = snapshot.ports().filter_map(|(key, port)| Some((key, port, self.failed.get(key)?)));
        let each = ports.flat_map(|(key, port, why)| {
            let why = if is_quic(port) { format!("UDP, for HTTP/3: {why}") } else { why.clone() };
            users(port).map(move |it| (it.listener().name.clone(), key.address, why.clone()))
        });
        each.collect()
    }

    fn sockets(
        &mut self,
        key: &PortKey,
        port: &Port<Carried>,
        errors: &mut Vec<ListenerError>,
    ) -> Option<Arc<PortSockets>> {
        if let Some(bound) = self.bound.get(key) {
            return Some(Arc::clone(bound));
        }
        let room = match self.bound.len() < self.most {
            true => Ok(()),
            false => Err(io::Error::other(format!(
                "the limit of open files allows {} addresses with a socket for each of {} workers",
                self.most, self.workers
            ))),
        };
        let address = room.and_then(|()| self.address(key, port));
        let bound = address.and_then(|address| self.inherit_or_bind(key.transport, address));
        let bound = bound.map(|(address, sockets)| {
            let waiting = Mutex::new(shared_out(sockets, self.workers));
            PortSockets { id: PortId(self.last + 1), address, is_for_http3: is_quic(port), waiting }
        });
        match bound {
            Ok(sockets) => {
                self.last += 1;
                self.failed.remove(key);
                let sockets = Arc::new(sockets);
                self.bound.insert(key.clone(), Arc::clone(&sockets));
                Some(sockets)
            }
            Err(error) => {
                let why = error.to_string();
                if self.failed.insert(key.clone(), why.clone()) != Some(why) {
                    let (listener, address) = (names(port), key.address);
                    let error = BindError { listener, address, is_for_http3: is_quic(port), error };
                    errors.push(ListenerError::Bind(error));
                }
                None
            }
        }
    }

    fn inherit_or_bind(
        &mut self,
        transport: PortProtocol,
        address: SocketAddr,
    ) -> io::Result<(SocketAddr, Vec<PortSocket>)> {
        let inherited = match transport {
            PortProtocol::Tcp => self.inherited.take(address),
            PortProtocol::Udp => Vec::new(),
        };
        match inherited.is_empty() {
            true => bind(transport, address, self.workers),
            false => Ok((address, inherited.into_iter().map(PortSocket::Tcp).collect())),
        }
    }

    /// Where a port is bound: that of QUIC has the number of its port of TLS, which is bound before it, also where that is free
    /// (port 0).
    fn address(&self, key: &PortKey, port: &Port<Carried>) -> io::Result<SocketAddr> {
        if !is_quic(port) || key.address.port() != 0 {
            return Ok(key.address);
        }
        let tls = self.bound.get(&PortKey { transport: PortProtocol::Tcp, ..key.clone() });
        tls.map(|tls| tls.address).ok_or_else(|| io::Error::other("its TCP port is not bound"))
    }
}

impl Sockets {
    /// By slot. Certificates that are trusted are read again only where they changed.
    fn entries(
        &self,
        snapshot: &Snapshot,
        ids: &BTreeMap<Arc<str>, ListenerId>,
        everywhere: &ClientLimits,
        errors: &mut Vec<ListenerError>,
    ) -> Vec<Option<Entry>> {
        let mut entries = Vec::new();
        let over_tls = ports_over_tls(snapshot);
        for model in snapshot.config().listeners.values() {
            let Some(id) = ids.get(&model.name) else { continue };
            let facts = match model.protocol.is_http() {
                true => match facts(snapshot, model, &over_tls) {
                    Some(facts) => Some(facts),
                    None => continue,
                },
                false => None,
            };
            let known = self.current.entry(*id);
            let places = known.map(|known| Arc::clone(&known.places)).unwrap_or_default();
            let verification = known
                .filter(|known| known.model.tls.clients == model.tls.clients)
                .map_or_else(|| Verification::of(model, errors), |known| known.verification.clone());
            let own = ClientLimits::of(&snapshot.config().settings, &model.clients);
            let clients = (own != *everywhere).then(|| Box::new(own));
            let slot = usize::from(id.slot);
            if entries.len() <= slot {
                entries.resize_with(slot + 1, || None);
            }
            let (generation, bounds, model) = (id.generation, self.bounds(*id, model), Arc::clone(model));
            let passes_tls = passes_tls(snapshot, &model);
            entries[slot] =
                Some(Entry { generation, facts, passes_tls, verification, bounds, clients, places, model });
        }
        entries
    }

    /// What the sessions of a listener may be, where it has sessions: the same from snapshot to snapshot.
    fn bounds(&self, id: ListenerId, model: &Listener) -> Option<Arc<SessionBounds>> {
        let known = self.current.entry(id).and_then(|known| known.bounds.clone());
        let is_of_datagrams = model.protocol == ListenerProtocol::Udp;
        known.or_else(|| is_of_datagrams.then(|| SessionBounds::new(&self.clients)))
    }
}

/// A socket for each worker, and the address that all of them have.
fn bind(
    transport: PortProtocol,
    address: SocketAddr,
    workers: usize,
) -> io::Result<(SocketAddr, Vec<PortSocket>)> {
    match transport {
        PortProtocol::Tcp => {
            let sockets = listen::bind(address, workers)?;
            Ok((sockets[0].local_addr()?, sockets.into_iter().map(PortSocket::Tcp).collect()))
        }
        PortProtocol::Udp => {
            let sockets = listen::bind_datagrams(address, workers)?;
            Ok((sockets[0].local_addr()?, sockets.into_iter().map(PortSocket::Udp).collect()))
        }
    }
}

/// Sockets by worker. Every one of them belongs to a worker, so that no connection waits where nobody accepts: a worker may have several,
/// or none yet.
fn shared_out(sockets: Vec<PortSocket>, workers: usize) -> Vec<Vec<PortSocket>> {
    let mut by_worker: Vec<_> = (0..workers).map(|_| Vec::new()).collect();
    for (index, socket) in sockets.into_iter().enumerate() {
        by_worker[index % workers].push(socket);
    }
    by_worker
}

/// Whether a port is the UDP port of HTTP/3.
fn is_quic<T>(port: &Port<T>) -> bool {
    matches!(port, Port::Quic(_))
}

/// The listeners of a port. At one of QUIC, those without HTTP/3 only close what comes for their names.
fn users(port: &Port<Carried>) -> impl Iterator<Item = &Carried> {
    let is_quic = is_quic(port);
    port.carried().filter(move |it| !is_quic || matches!(it, Carried::Served(_)))
}

/// Those that serve clients at a port.
fn listeners_of(port: &OpenPort) -> impl Iterator<Item = ListenerId> {
    port.carries.carried().filter_map(|choice| match choice {
        Choice::Listener(listener) => Some(*listener),
        Choice::Closed => None,
    })
}

/// The names of all listeners of a port.
fn names(port: &Port<Carried>) -> String {
    let mut names: Vec<_> = users(port).map(|carried| &*carried.listener().name).collect();
    names.sort_unstable();
    names.join(", ")
}

/// What requests need to know of a listener of HTTP.
fn facts(snapshot: &Snapshot, listener: &Listener, over_tls: &HashMap<&str, u16>) -> Option<ListenerFacts> {
    let https_port = match listener.protocol {
        ListenerProtocol::Https => listener.public_port,
        _ => over_tls.get(&*listener.table).copied().unwrap_or(443),
    };
    Some(ListenerFacts {
        table: snapshot.table_of(listener)?,
        public_port: listener.public_port,
        https_port,
        verifies: verifies(listener),
        is_beside_verified: listener.routes.is_some() && {
            let others = snapshot.config().listeners.values().filter(|it| it.name != listener.name);
            others.filter(|it| it.routes == listener.routes).any(|it| verifies(it))
        },
        // Known when the ports are bound.
        http3_port: None,
    })
}

fn verifies(listener: &Listener) -> bool {
    listener.protocol == ListenerProtocol::Https && listener.tls.clients.is_some()
}

/// Whether TLS of the clients of a listener may be passed through, which takes reading their first message.
fn passes_tls(snapshot: &Snapshot, listener: &Listener) -> bool {
    match listener.protocol {
        ListenerProtocol::TlsPassthrough => true,
        ListenerProtocol::Https => snapshot.has_streams(&listener.table),
        _ => false,
    }
}

/// Where tables are served over TLS: the public port of the first listener of each, by name.
fn ports_over_tls(snapshot: &Snapshot) -> HashMap<&str, u16> {
    let mut ports = HashMap::new();
    for listener in snapshot.config().listeners.values() {
        if listener.protocol == ListenerProtocol::Https {
            ports.entry(&*listener.table).or_insert(listener.public_port);
        }
    }
    ports
}

impl Verification {
    /// Whom it trusts.
    pub(crate) fn trust(&self) -> Option<&Arc<ClientTrust>> {
        match self {
            Self::By(trust, _) => Some(trust),
            Self::None | Self::Impossible => None,
        }
    }

    fn of(listener: &Listener, errors: &mut Vec<ListenerError>) -> Self {
        let Some(rules) = &listener.tls.clients else { return Self::None };
        match ClientTrust::new(rules) {
            Ok(trust) => Self::By(Arc::new(trust), rules.demand),
            Err(error) => {
                let error = TrustError { listener: listener.name.to_string(), error: error.to_string() };
                errors.push(ListenerError::Trust(error));
                Self::Impossible
            }
        }
    }
}

impl Chosen {
    fn on(port: &Port<Carried>, snapshot: &Snapshot) -> Self {
        let passes_tls = |it: &Carried| passes_tls(snapshot, it.listener());
        match port.by_name() {
            Some(by_name) if by_name.values().any(passes_tls) => Self::BeforeHandshake,
            Some(by_name) if by_name.values().nth(1).is_some() => Self::InHandshake,
            _ => Self::Alone,
        }
    }
}

impl OpenPort {
    /// The only listener of a port that is not shared by name, where it is served.
    pub(crate) fn listener(&self) -> Option<ListenerId> {
        match self.carries {
            Port::Clear(Choice::Listener(id))
            | Port::Stream(Choice::Listener(id))
            | Port::Datagrams(Choice::Listener(id)) => Some(id),
            _ => None,
        }
    }
}

impl Listening {
    /// The port, while it is listened on.
    pub(crate) fn port(&self, id: PortId) -> Option<&OpenPort> {
        let at = self.ports.binary_search_by_key(&id, |port| port.sockets.id).ok()?;
        self.ports.get(at)
    }

    pub(crate) fn ports(&self) -> &[OpenPort] {
        &self.ports
    }

    /// What requests need to know of a listener; `None` when it is gone, or speaks something else.
    #[inline]
    pub(crate) fn facts(&self, id: ListenerId) -> Option<ListenerFacts> {
        self.entry(id)?.facts
    }

    /// Whether the listener is still there.
    #[inline]
    pub(crate) fn has(&self, id: ListenerId) -> bool {
        self.entry(id).is_some()
    }

    /// What holds for the clients of a listener; what holds everywhere where it is gone.
    #[inline]
    pub(crate) fn clients(&self, id: ListenerId) -> &ClientLimits {
        self.entry(id).and_then(|entry| entry.clients.as_deref()).unwrap_or(&self.everywhere)
    }

    /// A place for one more connection of a listener; nothing is counted where it has no limit, or is gone.
    ///
    /// # Errors
    /// It has as many as it may.
    pub(crate) fn place(&self, id: ListenerId) -> Result<Option<Place>, Fault> {
        let limited = self.entry(id).and_then(|entry| Some((entry, entry.model.clients.connections?)));
        let Some((entry, most)) = limited else { return Ok(None) };
        entry.places.take(most.get()).map(Some).ok_or(Fault::ListenerFull)
    }

    /// How long a handshake at a port may take while nobody knows of which listener it is.
    pub(crate) fn handshake_timeout(&self, id: PortId) -> Duration {
        self.port(id).map_or(self.everywhere.handshake_timeout, |port| port.handshake_timeout)
    }

    fn longest_handshake(&self, carries: &Port<Choice>) -> Duration {
        let of = |choice: &Choice| match choice {
            Choice::Listener(id) => Some(self.clients(*id).handshake_timeout),
            Choice::Closed => None,
        };
        carries.carried().filter_map(of).max().unwrap_or(self.everywhere.handshake_timeout)
    }

    /// How it verifies clients; nobody's is served where it is gone.
    pub(crate) fn verification(&self, id: ListenerId) -> &Verification {
        self.entry(id).map_or(&Verification::Impossible, |entry| &entry.verification)
    }

    pub(crate) fn model(&self, id: ListenerId) -> Option<&Arc<Listener>> {
        self.entry(id).map(|entry| &entry.model)
    }

    /// What the sessions of a listener of UDP may be.
    pub(crate) fn bounds(&self, id: ListenerId) -> Option<&Arc<SessionBounds>> {
        self.entry(id)?.bounds.as_ref()
    }

    /// The sessions of datagrams of each listener that has some, of all workers.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = (Arc<str>, u64)> {
        let each = self.listeners.iter().flatten();
        each.filter_map(|entry| Some((entry.model.name.clone(), entry.bounds.as_ref()?.open().into())))
    }

    /// Whether a listener is here that `newer` does not have, or has HTTP/3 no longer at an address where it had it.
    pub(crate) fn is_more_than(&self, newer: &Self) -> bool {
        let gone = |(slot, entry): (usize, &Option<Entry>)| {
            let now = newer.listeners.get(slot).and_then(Option::as_ref);
            entry.as_ref().is_some_and(|entry| now.is_none_or(|now| now.generation != entry.generation))
        };
        let loses_http3 = |port: &OpenPort| {
            let now = newer.port(port.sockets.id).into_iter().flat_map(listeners_of);
            let now: BTreeSet<ListenerId> = now.collect();
            listeners_of(port).any(|listener| !now.contains(&listener))
        };
        let mut ports = self.ports.iter().filter(|port| is_quic(&port.carries));
        !std::ptr::eq(self, newer) && (self.listeners.iter().enumerate().any(gone) || ports.any(loses_http3))
    }

    /// Where a listener is bound. Where it has HTTP/3 as well, that has the same address over UDP.
    pub(crate) fn addresses(&self, listener: &str) -> Vec<SocketAddr> {
        let is_it = |choice: &Choice| match choice {
            Choice::Listener(id) => self.model(*id).is_some_and(|model| *model.name == *listener),
            Choice::Closed => false,
        };
        let is_its = |port: &&OpenPort| !is_quic(&port.carries) && port.carries.carried().any(is_it);
        self.ports.iter().filter(is_its).map(|port| port.sockets.address).collect()
    }

    /// Notes which listeners have HTTP/3 wherever they serve HTTP/1 and HTTP/2: clients that come to an address without it would
    /// look for it in vain.
    fn note_http3(&mut self) {
        let mut balance: BTreeMap<ListenerId, (usize, usize)> = BTreeMap::new();
        for port in &self.ports {
            let Some(by_name) = port.carries.by_name() else { continue };
            for choice in by_name.values() {
                let Choice::Listener(id) = choice else { continue };
                let (tls, quic) = balance.entry(*id).or_default();
                *(if is_quic(&port.carries) { quic } else { tls }) += 1;
            }
        }
        for (id, (tls, quic)) in balance {
            let entry = self.listeners.get_mut(usize::from(id.slot)).and_then(Option::as_mut);
            if let Some(facts) = entry.and_then(|entry| entry.facts.as_mut()) {
                facts.http3_port = NonZeroU16::new(facts.public_port).filter(|_| quic > 0 && quic == tls);
            }
        }
    }

    #[inline]
    fn entry(&self, id: ListenerId) -> Option<&Entry> {
        self.listeners.get(usize::from(id.slot))?.as_ref().filter(|entry| entry.generation == id.generation)
    }

    /// Whether clients for `name` (lower case) have another listener than `id` at its addresses, which verifies them.
    pub(crate) fn is_verified_elsewhere(&self, id: ListenerId, name: &str) -> bool {
        let by_names = self.ports.iter().filter_map(|port| port.carries.by_name());
        let mut own = by_names.filter(|names| names.values().any(|it| *it == Choice::Listener(id)));
        own.any(|names| match names.choose(Some(name)) {
            Some(Choice::Listener(other)) => {
                *other != id && !matches!(self.verification(*other), Verification::None)
            }
            Some(Choice::Closed) => true,
            None => false,
        })
    }

    /// Whether the tables of all listeners have the same ids in `snapshot`.
    fn has_tables_of(&self, snapshot: &Snapshot) -> bool {
        let same = |entry: &Entry| {
            entry.facts.is_none_or(|facts| snapshot.table_of(&entry.model) == Some(facts.table))
        };
        self.listeners.iter().flatten().all(same)
    }

    /// Whether the same listeners may pass TLS through in `snapshot`.
    fn passes_tls_as(&self, snapshot: &Snapshot) -> bool {
        self.listeners.iter().flatten().all(|entry| entry.passes_tls == passes_tls(snapshot, &entry.model))
    }
}

impl PortSockets {
    /// A socket of this worker, each once.
    pub(crate) fn take(&self, worker: usize) -> Option<PortSocket> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).get_mut(worker)?.pop()
    }

    /// Makes sockets for workers that have none: more of the address, or where that is impossible the same as another worker's.
    fn complete(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let has_socket = waiting.iter().take_while(|of_worker| !of_worker.is_empty()).count();
        for worker in has_socket..waiting.len() {
            let Some(PortSocket::Tcp(other)) = worker.checked_rem(has_socket).map(|other| &waiting[other][0])
            else {
                return;
            };
            match join(other, self.address) {
                Ok(socket) => waiting[worker].push(PortSocket::Tcp(socket)),
                Err(error) => tracing::warn!(
                    %error, address = %self.address, worker, "the others accept the connections of this worker"
                ),
            }
        }
    }

    /// Closes what no worker has taken.
    fn close(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// One more socket at the address of `other`; the same socket where that cannot be shared, or this process may not bind it.
fn join(other: &TcpListener, address: SocketAddr) -> io::Result<TcpListener> {
    let can_be_joined = SockRef::from(other).reuse_port().unwrap_or(false);
    let joined = can_be_joined.then(|| listen::join(address)).and_then(Result::ok);
    joined.map_or_else(|| other.try_clone(), Ok)
}

/// Who has which slot.
#[derive(Default)]
struct Numbers {
    by_name: BTreeMap<Arc<str>, (ListenerProtocol, ListenerId)>,
    /// The last generation of each slot.
    generations: Vec<u16>,
}

impl Numbers {
    /// A number for each listener. One that speaks another protocol from now on is another listener.
    fn follow(&mut self, listeners: &OrdMap<Arc<str>, Arc<Listener>>) -> BTreeMap<Arc<str>, ListenerId> {
        self.by_name.retain(|name, (protocol, _)| {
            listeners.get(name).is_some_and(|listener| listener.protocol == *protocol)
        });
        let taken: HashSet<u16> = self.by_name.values().map(|(_, id)| id.slot).collect();
        let mut vacant = (0..=u16::MAX).filter(|slot| !taken.contains(slot));
        for listener in listeners.values() {
            if self.by_name.contains_key(&listener.name) {
                continue;
            }
            let Some(slot) = vacant.next() else { break };
            if self.generations.len() <= usize::from(slot) {
                self.generations.push(0);
            }
            let generation = &mut self.generations[usize::from(slot)];
            *generation = generation.wrapping_add(1);
            let id = ListenerId { slot, generation: *generation };
            self.by_name.insert(listener.name.clone(), (listener.protocol, id));
        }
        self.by_name.iter().map(|(name, (_, id))| (name.clone(), *id)).collect()
    }
}

#[cfg(test)]
mod tests;
