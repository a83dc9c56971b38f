//! The snapshot that a worker serves by, with the worker's own groups of endpoints for it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use crate::fault::Fault;
use fairway_model::{Backend, ClientVerification, Listener, ListenerProtocol, PortProtocol, Settings};
use fairway_routing::{BackendSlot, ClientLimits, CompiledHost, CompiledStream, Port, Snapshot};
use rustls::ServerConfig;

use crate::listener::{ListenerId, PortId};
use crate::listening::{Choice, ListenerFacts, Listening, Verification};
use crate::peer::Peer;
use crate::publish::Published;
use crate::tls::{ClientTrust, Clients, Identities, for_host};
use crate::upstream::{Group, Groups};
use crate::worker::guards::Trusts;
use fairway_connection::sides::Hop;

/// A snapshot in use. Exchanges hold it through an `Rc`, so that the shared reference count is touched once per change
/// and worker instead of once per request.
pub(crate) struct Adopted<H> {
    published: Arc<Published>,
    /// Made when first used.
    groups: RefCell<Vec<Option<Rc<Group<H>>>>>,
    /// The same for datagrams, which few backends get.
    datagram_groups: RefCell<BTreeMap<u32, Rc<Group<H>>>>,
}

impl<H: Hop> Adopted<H> {
    /// The first one.
    pub(crate) fn first(published: &Arc<Published>) -> Self {
        let snapshot = &published.snapshot;
        let groups = RefCell::new((0..snapshot.slots()).map(|_| None).collect());
        Self { published: Arc::clone(published), groups, datagram_groups: RefCell::default() }
    }

    /// The next one: groups whose backend did not change move over, those that did keep the endpoints that stay, and
    /// idle connections to endpoints that left are closed.
    pub(crate) fn next(published: &Arc<Published>, older: &Self, groups: &Groups<H>) -> Self {
        let next = Self::first(published);
        let goes_on = |slot: u32, transport, group: &Rc<Group<H>>| {
            let backend = published.snapshot.backend(BackendSlot(slot));
            if backend.is_some_and(|backend| Arc::ptr_eq(backend, group.backend())) {
                return Some(Rc::clone(group));
            }
            let backend = backend.filter(|backend| backend.key == group.backend().key);
            let now = backend.map(|backend| groups.group(Arc::clone(backend), transport, Some(group)));
            groups.retire(group);
            now
        };
        for (slot, group) in (0..).zip(older.groups.borrow().iter()) {
            if let Some(now) = group.as_ref().and_then(|group| goes_on(slot, PortProtocol::Tcp, group)) {
                next.groups.borrow_mut()[slot as usize] = Some(now);
            }
        }
        for (slot, group) in older.datagram_groups.borrow().iter() {
            if let Some(now) = goes_on(*slot, PortProtocol::Udp, group) {
                next.datagram_groups.borrow_mut().insert(*slot, now);
            }
        }
        next
    }

    /// Whether it is this one.
    pub(crate) fn is(&self, published: &Arc<Published>) -> bool {
        Arc::ptr_eq(&self.published, published)
    }

    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.published.snapshot
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
    pub(crate) fn group(&self, slot: BackendSlot, groups: &Groups<H>) -> Option<Rc<Group<H>>> {
        let index = slot.0 as usize;
        if let Some(Some(group)) = self.groups.borrow().get(index) {
            return Some(Rc::clone(group));
        }
        let backend: &Arc<Backend> = self.published.snapshot.backend(slot)?;
        let group = groups.group(Arc::clone(backend), PortProtocol::Tcp, None);
        *self.groups.borrow_mut().get_mut(index)? = Some(Rc::clone(&group));
        Some(group)
    }

    /// The same for datagrams.
    pub(crate) fn datagram_group(&self, slot: BackendSlot, groups: &Groups<H>) -> Option<Rc<Group<H>>> {
        if let Some(group) = self.datagram_groups.borrow().get(&slot.0) {
            return Some(Rc::clone(group));
        }
        let backend = self.published.snapshot.backend(slot)?;
        let group = groups.group(Arc::clone(backend), PortProtocol::Udp, None);
        self.datagram_groups.borrow_mut().insert(slot.0, Rc::clone(&group));
        Some(group)
    }

    /// The listener of a client that comes to `port` and asks for `name` (lower case).
    pub(crate) fn chosen(&self, port: PortId, name: Option<&str>) -> Option<ListenerId> {
        let Port::Tls(by_name) = &self.listening().port(port)?.carries else { return None };
        match by_name.choose(name)? {
            Choice::Listener(listener) => Some(*listener),
            Choice::Closed => None,
        }
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
                name.and_then(|name| self.snapshot().host(facts.table, name))
            }
            ListenerProtocol::Tls => self.stream(listener, name).map(|_| None)?,
            _ => return Err(Fault::NoListener),
        };
        let own = host.and_then(|host| host.certificate());
        let certificate = own.or_else(|| self.identities().best(&model.tls.certificates, name));
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
        let rules = host.and_then(|host| host.model().clients.as_ref());
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
                let own = for_host((config, self.identities().versions()), suites, asked);
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
