//! Listening sockets by address and listener ids, carried over from snapshot to snapshot. Binds on the control
//! thread; workers take their sockets when they adopt the snapshot. Accepts nothing itself.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::num::NonZeroU16;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fairway_model::{
    ClientCertificateMode, Http3Settings, Listener, ListenerProtocol, PortProtocol, ProxyProtocolMode,
};
use fairway_net::counts::ClientCounts;
use fairway_net::inherited::InheritedSockets;
use fairway_net::listen;
use fairway_net::permits::{Permit, Permits};
use fairway_routing::{ClientLimits, Port, PortKey, PortListener, Snapshot, TableId};
use imbl::OrdMap;
use socket2::SockRef;

use crate::fault::Fault;
use crate::l4::bounds::SessionLimits;
use crate::listener::{BindError, ListenerError, ListenerId, PortId, TrustError};
use crate::tls::ClientTrust;

/// The listening sockets of the process and the ids of its listeners, updated with each snapshot.
pub(crate) struct Sockets {
    workers: usize,
    /// How many addresses may be bound.
    max_addresses: usize,
    bound: BTreeMap<PortKey, Arc<PortSockets>>,
    /// Sockets used instead of binding their addresses.
    inherited: InheritedSockets,
    /// Errors of the last attempt, for addresses that could not be bound.
    failed: BTreeMap<PortKey, String>,
    last_port_id: u32,
    ids: ListenerIds,
    /// Listeners of the last update.
    last_listeners: OrdMap<Arc<str>, Arc<Listener>>,
    /// HTTP/3 settings of the last update.
    last_http3: Http3Settings,
    current: Arc<Listening>,
    /// Datagram sessions by client, of all UDP listeners together.
    session_counts: Arc<ClientCounts>,
}

/// Ports and listeners of one snapshot.
#[derive(Default)]
pub(crate) struct Listening {
    /// Sorted by id.
    ports: Vec<OpenPort>,
    /// By slot.
    listeners: Vec<Option<ListenerEntry>>,
    /// Limits of listeners that set none of their own.
    default_client_limits: ClientLimits,
}

/// A bound address and the listeners it serves.
pub(crate) struct OpenPort {
    pub(crate) sockets: Arc<PortSockets>,
    pub(crate) carries: Port<ConnectionTarget>,
    /// How the listener of a connection is selected.
    pub(crate) selection: ListenerSelection,
    /// Whether connections start with a PROXY protocol header; `None` follows the flags.
    pub(crate) introduction: Option<ProxyProtocolMode>,
    /// Longest handshake timeout of the port's listeners, used until the SNI is known.
    handshake_timeout: Duration,
}

/// How the listener of a connection is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenerSelection {
    /// The port has one listener.
    Single,
    /// By SNI, during the handshake.
    BySni,
    /// By SNI, read before the handshake because some listeners pass TLS through.
    BySniBeforeHandshake,
}

/// Who serves a connection to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionTarget {
    Listener(ListenerId),
    /// The listener needs an unsupported feature: its connections are closed.
    Closed,
}

/// Properties of a listener that requests need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListenerFacts {
    pub(crate) table: TableId,
    pub(crate) public_port: u16,
    /// Public HTTPS port for the listener's routes, used by redirects.
    pub(crate) https_port: u16,
    /// Whether the listener verifies client certificates.
    pub(crate) verifies_clients: bool,
    /// Whether another listener with the same routes verifies client certificates.
    pub(crate) shares_routes_with_verified: bool,
    /// Public port for `Alt-Svc`, if the listener serves HTTP/3 on each of its addresses.
    pub(crate) http3_port: Option<NonZeroU16>,
}

/// How a listener verifies clients of hosts without rules of their own.
#[derive(Clone)]
pub(crate) enum Verification {
    /// Clients are not verified.
    None,
    /// The CA certificates cannot be parsed: no client is served.
    Unavailable,
    /// During the handshake.
    InHandshake(Arc<ClientTrust>, ClientCertificateMode),
}

struct ListenerEntry {
    generation: u16,
    /// `None` without HTTP.
    facts: Option<ListenerFacts>,
    /// Whether TLS may be passed through.
    passes_tls: bool,
    verification: Verification,
    /// Session limits of a UDP listener.
    session_bounds: Option<Arc<SessionLimits>>,
    /// `None` if they equal the default limits.
    client_limits: Option<Box<ClientLimits>>,
    /// Counts its connections against their limit.
    connection_slots: Arc<Permits>,
    model: Arc<Listener>,
}

/// The sockets of one address, one per worker, until the worker takes it.
pub(crate) struct PortSockets {
    pub(crate) id: PortId,
    /// With the port assigned for port 0.
    pub(crate) address: SocketAddr,
    /// Whether its datagrams are QUIC.
    is_for_http3: bool,
    /// Sockets not yet taken, by worker.
    unclaimed: Mutex<Vec<Vec<PortSocket>>>,
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
    /// For this many workers and at most `max_addresses` addresses.
    pub(crate) fn new(workers: usize, max_addresses: usize) -> Self {
        Self {
            workers,
            max_addresses,
            bound: BTreeMap::new(),
            inherited: InheritedSockets::default(),
            failed: BTreeMap::new(),
            last_port_id: 0,
            ids: ListenerIds::default(),
            last_listeners: OrdMap::new(),
            last_http3: Http3Settings::default(),
            current: Arc::default(),
            session_counts: ClientCounts::new(),
        }
    }

    /// Uses inherited sockets for addresses of snapshots until [`Self::fill_inherited`].
    pub(crate) fn inherit(&mut self, inherited: InheritedSockets) {
        self.inherited = inherited;
    }

    /// Gives every worker a socket of each inherited address and closes inherited sockets that no listener
    /// uses. Call before workers take sockets.
    pub(crate) fn fill_inherited(&mut self) {
        self.bound.values().for_each(|sockets| sockets.add_missing_sockets());
        self.inherited = InheritedSockets::default();
    }

    /// Binds addresses that `snapshot` adds and closes those it removes; addresses that stay are not touched.
    /// An address that cannot be bound is left out, reported when the error is new, and tried again on each
    /// update.
    pub(crate) fn update(&mut self, snapshot: &Snapshot) -> (Arc<Listening>, Vec<ListenerError>) {
        let listeners = &snapshot.config().listeners;
        let default_client_limits = ClientLimits::everywhere(&snapshot.config().settings);
        let http3 = snapshot.config().settings.downstream.http3;
        let is_unchanged = self.last_listeners.diff(listeners).next().is_none()
            && self.last_http3 == http3
            && self.current.default_client_limits == default_client_limits
            && self.current.has_tables_of(snapshot)
            && self.current.has_same_passthrough_as(snapshot)
            && self.bound.keys().eq(snapshot.ports().map(|(key, _)| key));
        if is_unchanged && self.failed.is_empty() {
            return (Arc::clone(&self.current), Vec::new());
        }
        let ports: BTreeMap<_, _> = snapshot.ports().collect();
        self.bound.retain(|key, sockets| {
            // A UDP socket is bound again when it changes between QUIC and forwarding: a worker's task serves
            // one of them.
            let stays = ports.get(key).is_some_and(|port| is_quic(*port) == sockets.is_for_http3);
            if !stays {
                sockets.close();
            }
            stays
        });
        self.failed.retain(|key, _| ports.contains_key(key));
        let ids = self.ids.assign(listeners);
        let mut errors = Vec::new();
        let entries = self.entries(snapshot, &ids, &default_client_limits, &mut errors);
        let mut listening = Listening { ports: Vec::new(), listeners: entries, default_client_limits };
        for (key, port) in ports {
            let Some(sockets) = self.sockets(key, port, &mut errors) else { continue };
            let carries = port.map(|carried| match carried {
                PortListener::Served(listener) => ids
                    .get(&*listener.name)
                    .map_or(ConnectionTarget::Closed, |id| ConnectionTarget::Listener(*id)),
                PortListener::Closed(_) => ConnectionTarget::Closed,
            });
            let (introduction, selection) =
                (port.introduction().cloned(), ListenerSelection::for_port(port, snapshot));
            let handshake_timeout = listening.longest_handshake(&carries);
            listening.ports.push(OpenPort { sockets, carries, selection, introduction, handshake_timeout });
        }
        listening.ports.sort_unstable_by_key(|port| port.sockets.id);
        listening.set_http3_ports();
        (self.last_listeners, self.last_http3) = (listeners.clone(), http3);
        self.current = Arc::new(listening);
        (Arc::clone(&self.current), errors)
    }

    /// Whether every address is bound.
    pub(crate) fn is_fully_bound(&self) -> bool {
        self.failed.is_empty()
    }

    /// Listeners of `snapshot` with an unbound address, the address and the reason.
    pub(crate) fn unbound(&self, snapshot: &Snapshot) -> Vec<(Arc<str>, SocketAddr, String)> {
        let ports = snapshot.ports().filter_map(|(key, port)| Some((key, port, self.failed.get(key)?)));
        let each = ports.flat_map(|(key, port, why)| {
            let why = if is_quic(port) { format!("UDP, for HTTP/3: {why}") } else { why.clone() };
            port_listeners(port).map(move |it| (it.listener().name.clone(), key.address, why.clone()))
        });
        each.collect()
    }

    fn sockets(
        &mut self,
        key: &PortKey,
        port: &Port<PortListener>,
        errors: &mut Vec<ListenerError>,
    ) -> Option<Arc<PortSockets>> {
        if let Some(bound) = self.bound.get(key) {
            return Some(Arc::clone(bound));
        }
        let room = match self.bound.len() < self.max_addresses {
            true => Ok(()),
            false => Err(io::Error::other(format!(
                "the limit of open files allows {} addresses with a socket for each of {} workers",
                self.max_addresses, self.workers
            ))),
        };
        let address = room.and_then(|()| self.address(key, port));
        let bound = address.and_then(|address| self.inherit_or_bind(key.transport, address));
        let bound = bound.map(|(address, sockets)| {
            let unclaimed = Mutex::new(distribute(sockets, self.workers));
            PortSockets { id: PortId(self.last_port_id + 1), address, is_for_http3: is_quic(port), unclaimed }
        });
        match bound {
            Ok(sockets) => {
                self.last_port_id += 1;
                self.failed.remove(key);
                let sockets = Arc::new(sockets);
                self.bound.insert(key.clone(), Arc::clone(&sockets));
                Some(sockets)
            }
            Err(error) => {
                let why = error.to_string();
                if self.failed.insert(key.clone(), why.clone()) != Some(why) {
                    let (listener, address) = (listener_names(port), key.address);
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

    /// The address to bind. A QUIC port takes the number of its TLS port, which is bound first, even where the
    /// system chose it (port 0).
    fn address(&self, key: &PortKey, port: &Port<PortListener>) -> io::Result<SocketAddr> {
        if !is_quic(port) || key.address.port() != 0 {
            return Ok(key.address);
        }
        let tls = self.bound.get(&PortKey { transport: PortProtocol::Tcp, ..key.clone() });
        tls.map(|tls| tls.address).ok_or_else(|| io::Error::other("its TCP port is not bound"))
    }
}

impl Sockets {
    /// Entries by slot. CA certificates are parsed again only if they changed.
    fn entries(
        &self,
        snapshot: &Snapshot,
        ids: &BTreeMap<Arc<str>, ListenerId>,
        default_client_limits: &ClientLimits,
        errors: &mut Vec<ListenerError>,
    ) -> Vec<Option<ListenerEntry>> {
        let mut entries = Vec::new();
        let https_ports = https_ports(snapshot);
        for model in snapshot.config().listeners.values() {
            let Some(id) = ids.get(&model.name) else { continue };
            let facts = match model.protocol.is_http() {
                true => match listener_facts(snapshot, model, &https_ports) {
                    Some(facts) => Some(facts),
                    None => continue,
                },
                false => None,
            };
            let previous = self.current.entry(*id);
            let connection_slots =
                previous.map(|previous| Arc::clone(&previous.connection_slots)).unwrap_or_default();
            let verification =
                previous.filter(|previous| previous.model.tls.clients == model.tls.clients).map_or_else(
                    || Verification::from_listener(model, errors),
                    |previous| previous.verification.clone(),
                );
            let own_limits = ClientLimits::for_listener(&snapshot.config().settings, &model.clients);
            let client_limits = (own_limits != *default_client_limits).then(|| Box::new(own_limits));
            let slot = usize::from(id.slot);
            if entries.len() <= slot {
                entries.resize_with(slot + 1, || None);
            }
            let (generation, session_bounds, model) =
                (id.generation, self.bounds(*id, model), Arc::clone(model));
            let passes_tls = may_pass_tls_through(snapshot, &model);
            entries[slot] = Some(ListenerEntry {
                generation,
                facts,
                passes_tls,
                verification,
                session_bounds,
                client_limits,
                connection_slots,
                model,
            });
        }
        entries
    }

    /// Session limits of a UDP listener, shared from snapshot to snapshot.
    fn bounds(&self, id: ListenerId, model: &Listener) -> Option<Arc<SessionLimits>> {
        let known = self.current.entry(id).and_then(|known| known.session_bounds.clone());
        let is_of_datagrams = model.protocol == ListenerProtocol::Udp;
        known.or_else(|| is_of_datagrams.then(|| SessionLimits::new(&self.session_counts)))
    }
}

/// Binds one socket per worker; returns the address they share.
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

/// Distributes sockets over workers. Each gets an owner, so that no connection waits in an unserved backlog; a
/// worker may get several, or none yet.
fn distribute(sockets: Vec<PortSocket>, workers: usize) -> Vec<Vec<PortSocket>> {
    let mut by_worker: Vec<_> = (0..workers).map(|_| Vec::new()).collect();
    for (index, socket) in sockets.into_iter().enumerate() {
        by_worker[index % workers].push(socket);
    }
    by_worker
}

/// Whether this is the UDP port of HTTP/3.
fn is_quic<T>(port: &Port<T>) -> bool {
    matches!(port, Port::Quic(_))
}

/// The listeners of a port. On a QUIC port, listeners without HTTP/3 are left out: they only close connections
/// for their names.
fn port_listeners(port: &Port<PortListener>) -> impl Iterator<Item = &PortListener> {
    let is_quic = is_quic(port);
    port.carried().filter(move |it| !is_quic || matches!(it, PortListener::Served(_)))
}

/// The listeners that serve a port.
fn served_listeners(port: &OpenPort) -> impl Iterator<Item = ListenerId> {
    port.carries.carried().filter_map(|choice| match choice {
        ConnectionTarget::Listener(listener) => Some(*listener),
        ConnectionTarget::Closed => None,
    })
}

/// Names of all listeners of a port.
fn listener_names(port: &Port<PortListener>) -> String {
    let mut names: Vec<_> = port_listeners(port).map(|carried| &*carried.listener().name).collect();
    names.sort_unstable();
    names.join(", ")
}

/// Properties of an HTTP listener for requests.
fn listener_facts(
    snapshot: &Snapshot,
    listener: &Listener,
    https_ports: &HashMap<&str, u16>,
) -> Option<ListenerFacts> {
    let https_port = match listener.protocol {
        ListenerProtocol::Https => listener.public_port,
        _ => https_ports.get(&*listener.table).copied().unwrap_or(443),
    };
    Some(ListenerFacts {
        table: snapshot.table_of(listener)?,
        public_port: listener.public_port,
        https_port,
        verifies_clients: verifies_clients(listener),
        shares_routes_with_verified: listener.routes.is_some() && {
            let others = snapshot.config().listeners.values().filter(|it| it.name != listener.name);
            others.filter(|it| it.routes == listener.routes).any(|it| verifies_clients(it))
        },
        // Set once the ports are bound.
        http3_port: None,
    })
}

fn verifies_clients(listener: &Listener) -> bool {
    listener.protocol == ListenerProtocol::Https && listener.tls.clients.is_some()
}

/// Whether TLS may be passed through, which requires reading the ClientHello first.
fn may_pass_tls_through(snapshot: &Snapshot, listener: &Listener) -> bool {
    match listener.protocol {
        ListenerProtocol::TlsPassthrough => true,
        ListenerProtocol::Https => snapshot.has_streams(&listener.table),
        _ => false,
    }
}

/// Public port of the first HTTPS listener of each table, by table name.
fn https_ports(snapshot: &Snapshot) -> HashMap<&str, u16> {
    let mut ports = HashMap::new();
    for listener in snapshot.config().listeners.values() {
        if listener.protocol == ListenerProtocol::Https {
            ports.entry(&*listener.table).or_insert(listener.public_port);
        }
    }
    ports
}

impl Verification {
    /// CAs of the listener, if it verifies clients.
    pub(crate) fn trust(&self) -> Option<&Arc<ClientTrust>> {
        match self {
            Self::InHandshake(trust, _) => Some(trust),
            Self::None | Self::Unavailable => None,
        }
    }

    fn from_listener(listener: &Listener, errors: &mut Vec<ListenerError>) -> Self {
        let Some(rules) = &listener.tls.clients else { return Self::None };
        match ClientTrust::new(rules) {
            Ok(trust) => Self::InHandshake(Arc::new(trust), rules.demand),
            Err(error) => {
                let error = TrustError { listener: listener.name.to_string(), error: error.to_string() };
                errors.push(ListenerError::Trust(error));
                Self::Unavailable
            }
        }
    }
}

impl ListenerSelection {
    fn for_port(port: &Port<PortListener>, snapshot: &Snapshot) -> Self {
        let passes_tls = |it: &PortListener| may_pass_tls_through(snapshot, it.listener());
        match port.by_name() {
            Some(by_name) if by_name.values().any(passes_tls) => Self::BySniBeforeHandshake,
            Some(by_name) if by_name.values().nth(1).is_some() => Self::BySni,
            _ => Self::Single,
        }
    }
}

impl OpenPort {
    /// The listener of a port that is not shared by SNI.
    pub(crate) fn listener(&self) -> Option<ListenerId> {
        match self.carries {
            Port::Clear(ConnectionTarget::Listener(id))
            | Port::Stream(ConnectionTarget::Listener(id))
            | Port::Datagrams(ConnectionTarget::Listener(id)) => Some(id),
            _ => None,
        }
    }
}

impl Listening {
    /// The port, if it is still bound.
    pub(crate) fn port(&self, id: PortId) -> Option<&OpenPort> {
        let at = self.ports.binary_search_by_key(&id, |port| port.sockets.id).ok()?;
        self.ports.get(at)
    }

    pub(crate) fn ports(&self) -> &[OpenPort] {
        &self.ports
    }

    /// Properties for requests; `None` if the listener is gone or not HTTP.
    #[inline]
    pub(crate) fn facts(&self, id: ListenerId) -> Option<ListenerFacts> {
        self.entry(id)?.facts
    }

    /// Whether the listener still exists.
    #[inline]
    pub(crate) fn has_listener(&self, id: ListenerId) -> bool {
        self.entry(id).is_some()
    }

    /// Client limits of a listener; the defaults if it is gone.
    #[inline]
    pub(crate) fn client_limits(&self, id: ListenerId) -> &ClientLimits {
        self.entry(id).and_then(|entry| entry.client_limits.as_deref()).unwrap_or(&self.default_client_limits)
    }

    /// Counts one more connection of a listener. `None` if the listener has no limit or is gone.
    ///
    /// # Errors
    /// The listener is at its connection limit.
    pub(crate) fn acquire_connection_slot(&self, id: ListenerId) -> Result<Option<Permit>, Fault> {
        let limited = self.entry(id).and_then(|entry| Some((entry, entry.model.clients.connections?)));
        let Some((entry, limit)) = limited else { return Ok(None) };
        entry.connection_slots.take(limit.get()).map(Some).ok_or(Fault::ListenerFull)
    }

    /// Handshake timeout while the listener is not yet known.
    pub(crate) fn handshake_timeout(&self, id: PortId) -> Duration {
        self.port(id).map_or(self.default_client_limits.handshake_timeout, |port| port.handshake_timeout)
    }

    fn longest_handshake(&self, carries: &Port<ConnectionTarget>) -> Duration {
        let text_of = |choice: &ConnectionTarget| match choice {
            ConnectionTarget::Listener(id) => Some(self.client_limits(*id).handshake_timeout),
            ConnectionTarget::Closed => None,
        };
        carries.carried().filter_map(text_of).max().unwrap_or(self.default_client_limits.handshake_timeout)
    }

    /// How the listener verifies clients; `Unavailable` if it is gone.
    pub(crate) fn verification(&self, id: ListenerId) -> &Verification {
        self.entry(id).map_or(&Verification::Unavailable, |entry| &entry.verification)
    }

    pub(crate) fn model(&self, id: ListenerId) -> Option<&Arc<Listener>> {
        self.entry(id).map(|entry| &entry.model)
    }

    /// Session limits of a UDP listener.
    pub(crate) fn session_bounds(&self, id: ListenerId) -> Option<&Arc<SessionLimits>> {
        self.entry(id)?.session_bounds.as_ref()
    }

    /// Open datagram sessions of each UDP listener, of all workers.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = (Arc<str>, u64)> {
        let each = self.listeners.iter().flatten();
        each.filter_map(|entry| {
            Some((entry.model.name.clone(), entry.session_bounds.as_ref()?.open().into()))
        })
    }

    /// Whether `newer` lacks a listener of this snapshot, or HTTP/3 at an address where the listener had it.
    pub(crate) fn has_listener_missing_in(&self, newer: &Self) -> bool {
        let gone = |(slot, entry): (usize, &Option<ListenerEntry>)| {
            let now = newer.listeners.get(slot).and_then(Option::as_ref);
            entry.as_ref().is_some_and(|entry| now.is_none_or(|now| now.generation != entry.generation))
        };
        let loses_http3 = |port: &OpenPort| {
            let now = newer.port(port.sockets.id).into_iter().flat_map(served_listeners);
            let now: BTreeSet<ListenerId> = now.collect();
            served_listeners(port).any(|listener| !now.contains(&listener))
        };
        let mut ports = self.ports.iter().filter(|port| is_quic(&port.carries));
        !std::ptr::eq(self, newer) && (self.listeners.iter().enumerate().any(gone) || ports.any(loses_http3))
    }

    /// Bound TCP addresses of a listener. HTTP/3 uses the same addresses over UDP.
    pub(crate) fn addresses(&self, listener: &str) -> Vec<SocketAddr> {
        let is_it = |choice: &ConnectionTarget| match choice {
            ConnectionTarget::Listener(id) => self.model(*id).is_some_and(|model| *model.name == *listener),
            ConnectionTarget::Closed => false,
        };
        let is_its = |port: &&OpenPort| !is_quic(&port.carries) && port.carries.carried().any(is_it);
        self.ports.iter().filter(is_its).map(|port| port.sockets.address).collect()
    }

    /// Sets the HTTP/3 port of listeners that have QUIC wherever they have TLS: clients of an address without
    /// it would try HTTP/3 in vain.
    fn set_http3_ports(&mut self) {
        let mut balance: BTreeMap<ListenerId, (usize, usize)> = BTreeMap::new();
        for port in &self.ports {
            let Some(by_name) = port.carries.by_name() else { continue };
            for choice in by_name.values() {
                let ConnectionTarget::Listener(id) = choice else { continue };
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
    fn entry(&self, id: ListenerId) -> Option<&ListenerEntry> {
        self.listeners.get(usize::from(id.slot))?.as_ref().filter(|entry| entry.generation == id.generation)
    }

    /// Whether another listener than `id` at its addresses serves `name` (lower case) and verifies clients.
    pub(crate) fn is_verified_elsewhere(&self, id: ListenerId, name: &str) -> bool {
        let by_names = self.ports.iter().filter_map(|port| port.carries.by_name());
        let mut targets =
            by_names.filter(|names| names.values().any(|it| *it == ConnectionTarget::Listener(id)));
        targets.any(|names| match names.choose(Some(name)) {
            Some(ConnectionTarget::Listener(other)) => {
                *other != id && !matches!(self.verification(*other), Verification::None)
            }
            Some(ConnectionTarget::Closed) => true,
            None => false,
        })
    }

    /// Whether the tables of all listeners keep their ids in `snapshot`.
    fn has_tables_of(&self, snapshot: &Snapshot) -> bool {
        let same = |entry: &ListenerEntry| {
            entry.facts.is_none_or(|facts| snapshot.table_of(&entry.model) == Some(facts.table))
        };
        self.listeners.iter().flatten().all(same)
    }

    /// Whether the same listeners may pass TLS through in `snapshot`.
    fn has_same_passthrough_as(&self, snapshot: &Snapshot) -> bool {
        self.listeners
            .iter()
            .flatten()
            .all(|entry| entry.passes_tls == may_pass_tls_through(snapshot, &entry.model))
    }
}

impl PortSockets {
    /// Takes an unclaimed socket of this worker.
    pub(crate) fn take(&self, worker: usize) -> Option<PortSocket> {
        self.unclaimed.lock().unwrap_or_else(PoisonError::into_inner).get_mut(worker)?.pop()
    }

    /// Opens sockets for workers that have none: further sockets of the address, or else duplicates of another
    /// worker's.
    fn add_missing_sockets(&self) {
        let mut unclaimed = self.unclaimed.lock().unwrap_or_else(PoisonError::into_inner);
        let has_socket = unclaimed.iter().take_while(|of_worker| !of_worker.is_empty()).count();
        for worker in has_socket..unclaimed.len() {
            let Some(PortSocket::Tcp(other)) =
                worker.checked_rem(has_socket).map(|other| &unclaimed[other][0])
            else {
                return;
            };
            match add_socket(other, self.address) {
                Ok(socket) => unclaimed[worker].push(PortSocket::Tcp(socket)),
                Err(error) => tracing::warn!(
                    %error, address = %self.address, worker,
                    "cannot open a socket for this worker; other workers accept its connections"
                ),
            }
        }
    }

    /// Closes sockets that no worker has taken.
    fn close(&self) {
        self.unclaimed.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// One more socket at the address of `other`; a duplicate if the address is not shared or this process may not
/// bind it.
fn add_socket(other: &TcpListener, address: SocketAddr) -> io::Result<TcpListener> {
    let can_be_joined = SockRef::from(other).reuse_port().unwrap_or(false);
    let joined = can_be_joined.then(|| listen::join(address)).and_then(Result::ok);
    joined.map_or_else(|| other.try_clone(), Ok)
}

/// Assigns slots to listeners.
#[derive(Default)]
struct ListenerIds {
    by_name: BTreeMap<Arc<str>, (ListenerProtocol, ListenerId)>,
    /// Last generation of each slot.
    generations: Vec<u16>,
}

impl ListenerIds {
    /// An id for each listener. A listener whose protocol changes gets a new id.
    fn assign(&mut self, listeners: &OrdMap<Arc<str>, Arc<Listener>>) -> BTreeMap<Arc<str>, ListenerId> {
        self.by_name.retain(|name, (protocol, _)| {
            listeners.get(name).is_some_and(|listener| listener.protocol == *protocol)
        });
        let used_slots: HashSet<u16> = self.by_name.values().map(|(_, id)| id.slot).collect();
        let mut vacant = (0..=u16::MAX).filter(|slot| !used_slots.contains(slot));
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
