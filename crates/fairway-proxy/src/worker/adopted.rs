//! The snapshot that a worker serves by, with the way to the worker's own groups of endpoints.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use fairway_connection::sides::Hop;
use fairway_model::{ClientVerification, Listener, ListenerProtocol, PortProtocol, Settings};
use fairway_net::clock::Instant;
use fairway_routing::{BackendSlot, ClientLimits, CompiledHost, CompiledStream, Snapshot};
use rustls::ServerConfig;

use crate::fault::Fault;
use crate::listener::{ListenerId, PortId};
use crate::listening::{Choice, ListenerFacts, Listening, Verification};
use crate::metrics::Generation;
use crate::peer::Peer;
use crate::publish::Published;
use crate::tls::{ClientTrust, Clients, Identities, for_host};
use crate::upstream::{Group, Groups};
use crate::worker::group_table::GroupTable;
use crate::worker::guards::Trusts;

/// A snapshot in use. Exchanges hold it through an `Rc`, so that the shared reference count is touched once per change
/// and worker instead of once per request.
pub(crate) struct Adopted<H> {
    published: Arc<Published>,
    groups: Rc<GroupTable<H>>,
    /// Whether the worker has adopted nothing newer: then `groups` are those of this snapshot.
    is_newest: Cell<bool>,
    /// When the worker began to serve by it.
    pub(crate) since: Instant,
    generation: Rc<Generation>,
}

impl<H: Hop> Adopted<H> {
    /// The first one.
    pub(crate) fn first(published: &Arc<Published>, generation: Rc<Generation>) -> Self {
        Self::with(published, Rc::default(), generation)
    }

    /// The next one: groups whose backend did not change stay, those whose backend did keep the endpoints that stay, and
    /// idle connections to endpoints that left are closed.
    pub(crate) fn next(
        published: &Arc<Published>,
        older: &Self,
        groups: &Groups<H>,
        generation: Rc<Generation>,
    ) -> Self {
        older.is_newest.set(false);
        older.groups.adopt(older.snapshot(), &published.snapshot, groups);
        Self::with(published, Rc::clone(&older.groups), generation)
    }

    fn with(published: &Arc<Published>, groups: Rc<GroupTable<H>>, generation: Rc<Generation>) -> Self {
        let (is_newest, since) = (Cell::new(true), Instant::now());
        Self { published: Arc::clone(published), groups, is_newest, since, generation }
    }

    /// Whether it is this one.
    pub(crate) fn is(&self, published: &Arc<Published>) -> bool {
        Arc::ptr_eq(&self.published, published)
    }

    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.published.snapshot
    }

    /// The version of its snapshot.
    pub(crate) fn version(&self) -> u64 {
        self.published.snapshot.version()
    }

    /// A request that was served by it is over.
    #[inline]
    pub(crate) fn count_request(&self) {
        self.generation.count_request();
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.published.snapshot.config().settings
    }

    pub(crate) fn identities(&self) -> &Identities {
        &self.published.identities
    }

    pub(crate) fn listening(&self) -> &Listening {
        &self.published.listening
    }

    /// What requests need to know of their listener; `None` when it is gone, or speaks something else.
    #[inline]
    pub(crate) fn listener(&self, id: ListenerId) -> Option<ListenerFacts> {
        self.published.listening.facts(id)
    }

    /// Whether the client's listener verifies clients, but did not verify this one in its handshake as it does now.
    #[inline]
    pub(crate) fn is_unverified(&self, peer: &Peer, listener: Option<ListenerFacts>) -> bool {
        listener.is_some_and(|listener| listener.verifies) && !self.has_verified(peer)
    }

    /// Whether the client's connection began before its host had a listener of its own that verifies clients.
    #[inline]
    pub(crate) fn evades_verification(
        &self,
        peer: &Peer,
        listener: Option<ListenerFacts>,
        host: &str,
    ) -> bool {
        listener.is_some_and(|listener| listener.is_beside_verified)
            && self.listening().is_verified_elsewhere(peer.listener, host)
    }

    fn has_verified(&self, peer: &Peer) -> bool {
        let trust = self.listening().verification(peer.listener).trust();
        trust.is_some_and(|trust| peer.is_verified_by(trust))
    }

    /// What holds for the clients of a listener.
    #[inline]
    pub(crate) fn clients(&self, id: ListenerId) -> &ClientLimits {
        self.published.listening.clients(id)
    }

    /// The worker's group for a backend, made now if this is its first use.
    #[inline]
    pub(crate) fn group(&self, slot: BackendSlot, groups: &Groups<H>) -> Option<Rc<Group<H>>> {
        let known = if self.is_newest.get() { self.groups.known(slot) } else { None };
        known.or_else(|| self.unknown_group(slot, PortProtocol::Tcp, groups))
    }

    /// The same for datagrams.
    pub(crate) fn datagram_group(&self, slot: BackendSlot, groups: &Groups<H>) -> Option<Rc<Group<H>>> {
        self.unknown_group(slot, PortProtocol::Udp, groups)
    }

    #[inline(never)]
    fn unknown_group(
        &self,
        slot: BackendSlot,
        transport: PortProtocol,
        groups: &Groups<H>,
    ) -> Option<Rc<Group<H>>> {
        if self.is_newest.get() {
            return self.groups.group(slot, transport, self.snapshot(), groups);
        }
        // Of the endpoints that the backend had, some may be gone. Its slot may be another backend's by now.
        let backend = self.snapshot().backend(slot)?;
        let now = self.groups.group_now(slot, transport, backend, groups);
        Some(now.unwrap_or_else(|| groups.group(Arc::clone(backend), transport, None)))
    }

    /// The listener of a client that comes to `port` and asks for `name` (lower case).
    pub(crate) fn chosen(&self, port: PortId, name: Option<&str>) -> Option<ListenerId> {
        match self.choice(port, name)? {
            Choice::Listener(listener) => Some(listener),
            Choice::Closed => None,
        }
    }

    /// What becomes of a client that comes to `port` and asks for `name` (lower case); `None` where no listener there has the name.
    pub(crate) fn choice(&self, port: PortId, name: Option<&str>) -> Option<Choice> {
        self.listening().port(port)?.carries.by_name()?.choose(name).copied()
    }

    /// Whether `listener` serves clients of TLS or QUIC at `port`.
    pub(crate) fn serves_at(&self, listener: ListenerId, port: PortId) -> bool {
        let by_name = self.listening().port(port).and_then(|port| port.carries.by_name());
        by_name.is_some_and(|by_name| by_name.values().any(|choice| *choice == Choice::Listener(listener)))
    }

    /// Whether `listener` passes the TLS of a client through that asks for `name` (lower case).
    pub(crate) fn passes_through(&self, listener: ListenerId, name: Option<&str>) -> bool {
        self.listening().model(listener).is_some_and(|model| match model.protocol {
            ListenerProtocol::TlsPassthrough => true,
            ListenerProtocol::Https => self.passed_host(model, name).is_some(),
            _ => false,
        })
    }

    /// Whether a connection of `listener` whose client asks for `name` (lower case) is still one to forward.
    pub(crate) fn forwards(&self, listener: ListenerId, name: Option<&str>) -> bool {
        self.listening().model(listener).is_some_and(|model| {
            model.protocol != ListenerProtocol::Https || self.passed_host(model, name).is_some()
        })
    }

    /// Where the TLS of a virtual host of a listener of HTTPS goes that does not end here.
    fn passed_host(&self, model: &Listener, name: Option<&str>) -> Option<&Arc<CompiledStream>> {
        self.snapshot().passed_through(&model.table, name?)
    }

    /// Where a connection of `listener` goes whose client asks for `name` (lower case).
    ///
    /// # Errors
    /// Nobody serves it.
    pub(crate) fn stream(&self, listener: ListenerId, name: Option<&str>) -> Result<&CompiledStream, Fault> {
        let model = self.listening().model(listener).ok_or(Fault::NoListener)?;
        let stream = match model.protocol {
            ListenerProtocol::Https => self.passed_host(model, name),
            _ => self.snapshot().stream(&model.table, name),
        };
        let stream = stream.ok_or(Fault::NoRoute)?;
        if stream.targets().is_empty() { Err(Fault::NoBackend) } else { Ok(stream) }
    }

    /// What a client gets that comes to `port` and asks for `name` (lower case).
    ///
    /// # Errors
    /// Nothing here ends its TLS, or nothing behind it would serve it.
    pub(crate) fn server_tls(
        &self,
        port: PortId,
        name: Option<&str>,
        trusts: &Trusts,
    ) -> Result<ServerSide, Fault> {
        let listener = self.chosen(port, name).ok_or(Fault::NoListener)?;
        let model = self.listening().model(listener).ok_or(Fault::NoListener)?;
        let host = match model.protocol {
            _ if self.passes_through(listener, name) => return Err(Fault::NoListener),
            ListenerProtocol::Https => {
                let facts = self.listener(listener).ok_or(Fault::NoListener)?;
                let is_known = || name.is_some_and(|name| self.snapshot().has_host(facts.table, name));
                if self.clients(listener).rejects_unknown_names && !is_known() {
                    return Err(Fault::NoListener);
                }
                name.and_then(|name| self.snapshot().host(facts.table, name))
            }
            ListenerProtocol::Tls => self.stream(listener, name).map(|_| None)?,
            _ => return Err(Fault::NoListener),
        };
        let own = host.and_then(|host| host.certificate().zip(Some(&host.key().host)));
        let listed = || self.identities().best(&model.tls.certificates, name);
        // Of a Gateway at the address of Ingresses, the listener's certificate comes before that of a host which is not more specific.
        let certificate = match own {
            Some((own, host)) if model.routes.is_some() && host.specificity() <= model.host.specificity() => {
                listed().or(Some(own))
            }
            Some((own, _)) => Some(own),
            None => listed(),
        };
        let config = self.identities().server(certificate);
        let (config, clients) = self.with_clients(config, host, listener, trusts)?;
        Ok(ServerSide { listener, protocol: model.protocol, config, clients })
    }

    /// The settings with what the host, or else the listener, asks of clients.
    fn with_clients(
        &self,
        config: &Arc<ServerConfig>,
        host: Option<&CompiledHost>,
        listener: ListenerId,
        trusts: &Trusts,
    ) -> Result<(Arc<ServerConfig>, Option<Verified>), Fault> {
        let suites = host.and_then(|host| host.model().suites.as_ref());
        // What a listener asks for holds for all that is behind it; rules of a host which ask for something else then let nobody pass.
        let is_of_host = matches!(self.listening().verification(listener), Verification::None);
        let rules = host.filter(|_| is_of_host).and_then(|host| host.model().clients.as_ref());
        let clients = rules.map(|rules| (Arc::clone(rules), trusts.of(rules)));
        let asked = match (&clients, self.listening().verification(listener)) {
            (Some((_, Some(trust))), _) => Clients::Asked(trust),
            (Some((_, None)), _) | (None, Verification::None) => Clients::Unasked,
            (None, Verification::By(trust, demand)) => Clients::of_listener(trust, *demand),
            (None, Verification::Impossible) => return Err(Fault::ProtectionUnavailable),
        };
        let config = match (suites, asked) {
            (None, Clients::Unasked) => Arc::clone(config),
            _ => {
                let (versions, tickets) = (self.identities().versions(), self.identities().tickets());
                let own = for_host(config, versions, suites, asked, tickets);
                Arc::new(own.map_err(|_| Fault::ProtectionUnavailable)?)
            }
        };
        Ok((config, clients))
    }
}

/// By which rules of a host a client is verified; `None` in it is nobody's certificate.
type Verified = (Arc<ClientVerification>, Option<Rc<ClientTrust>>);

/// How a client that asks for a host is served.
pub(crate) struct ServerSide {
    pub(crate) listener: ListenerId,
    /// What the listener speaks.
    pub(crate) protocol: ListenerProtocol,
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) clients: Option<Verified>,
}
