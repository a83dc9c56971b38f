//! The snapshot that a worker serves, and access to the worker's endpoint groups.

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
use crate::listening::{ConnectionTarget, ListenerFacts, Listening, Verification};
use crate::metrics::Generation;
use crate::peer::Peer;
use crate::publish::Published;
use crate::tls::{ClientAuth, ClientTrust, Identities, config_for_host};
use crate::upstream::{Group, Groups};
use crate::worker::group_table::GroupTable;
use crate::worker::guards::ClientTrustCache;

/// A snapshot in use. Exchanges hold it through an `Rc`, so that the shared reference count is touched once per
/// change and worker instead of once per request.
pub(crate) struct Adopted<H> {
    published: Arc<Published>,
    groups: Rc<GroupTable<H>>,
    /// Whether this is the worker's latest snapshot: then `groups` belong to it.
    is_newest: Cell<bool>,
    /// When the worker adopted it.
    pub(crate) adopted_at: Instant,
    generation: Rc<Generation>,
}

impl<H: Hop> Adopted<H> {
    /// The first snapshot of a worker.
    pub(crate) fn first(published: &Arc<Published>, generation: Rc<Generation>) -> Self {
        Self::assemble(published, Rc::default(), generation)
    }

    /// The next snapshot: groups of unchanged backends stay, changed backends keep the endpoints that stay, and
    /// idle connections to removed endpoints are closed.
    pub(crate) fn next(
        published: &Arc<Published>,
        older: &Self,
        groups: &Groups<H>,
        generation: Rc<Generation>,
    ) -> Self {
        older.is_newest.set(false);
        older.groups.adopt(older.snapshot(), &published.snapshot, groups);
        Self::assemble(published, Rc::clone(&older.groups), generation)
    }

    fn assemble(published: &Arc<Published>, groups: Rc<GroupTable<H>>, generation: Rc<Generation>) -> Self {
        let (is_newest, adopted_at) = (Cell::new(true), Instant::now());
        Self { published: Arc::clone(published), groups, is_newest, adopted_at, generation }
    }

    /// Whether this is the same snapshot.
    pub(crate) fn is_same(&self, published: &Arc<Published>) -> bool {
        Arc::ptr_eq(&self.published, published)
    }

    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.published.snapshot
    }

    /// Version of the snapshot.
    pub(crate) fn version(&self) -> u64 {
        self.published.snapshot.version()
    }

    /// Counts a finished request of this snapshot.
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

    /// Properties of a listener for requests; `None` if the listener is gone or not HTTP.
    #[inline]
    pub(crate) fn listener(&self, id: ListenerId) -> Option<ListenerFacts> {
        self.published.listening.facts(id)
    }

    /// Whether the listener verifies clients, but did not verify this one with its current rules.
    #[inline]
    pub(crate) fn is_unverified(&self, peer: &Peer, listener: Option<ListenerFacts>) -> bool {
        listener.is_some_and(|listener| listener.verifies_clients) && !self.has_verified(peer)
    }

    /// Whether another listener, which verifies clients, now serves the host of this connection.
    #[inline]
    pub(crate) fn evades_verification(
        &self,
        peer: &Peer,
        listener: Option<ListenerFacts>,
        host: &str,
    ) -> bool {
        listener.is_some_and(|listener| listener.shares_routes_with_verified)
            && self.listening().is_verified_elsewhere(peer.listener, host)
    }

    fn has_verified(&self, peer: &Peer) -> bool {
        let trust = self.listening().verification(peer.listener).trust();
        trust.is_some_and(|trust| peer.is_verified_by(trust))
    }

    /// Client limits of a listener.
    #[inline]
    pub(crate) fn client_limits(&self, id: ListenerId) -> &ClientLimits {
        self.published.listening.client_limits(id)
    }

    /// The worker's endpoint group of a backend, created on first use.
    #[inline]
    pub(crate) fn group(&self, slot: BackendSlot, groups: &Groups<H>) -> Option<Rc<Group<H>>> {
        let known = if self.is_newest.get() { self.groups.existing(slot) } else { None };
        known.or_else(|| self.find_or_create_group(slot, PortProtocol::Tcp, groups))
    }

    /// The group for datagrams.
    pub(crate) fn datagram_group(&self, slot: BackendSlot, groups: &Groups<H>) -> Option<Rc<Group<H>>> {
        self.find_or_create_group(slot, PortProtocol::Udp, groups)
    }

    #[inline(never)]
    fn find_or_create_group(
        &self,
        slot: BackendSlot,
        transport: PortProtocol,
        groups: &Groups<H>,
    ) -> Option<Rc<Group<H>>> {
        if self.is_newest.get() {
            return self.groups.group(slot, transport, self.snapshot(), groups);
        }
        // In an older snapshot some endpoints may be gone, and the slot may belong to another backend.
        let backend = self.snapshot().backend(slot)?;
        let now = self.groups.current_group(slot, transport, backend, groups);
        Some(now.unwrap_or_else(|| groups.group(Arc::clone(backend), transport, None)))
    }

    /// The listener for `port` and the SNI `name` (lower case).
    pub(crate) fn listener_for(&self, port: PortId, name: Option<&str>) -> Option<ListenerId> {
        match self.target_for(port, name)? {
            ConnectionTarget::Listener(listener) => Some(listener),
            ConnectionTarget::Closed => None,
        }
    }

    /// The target for `port` and the SNI `name` (lower case); `None` if no listener matches.
    pub(crate) fn target_for(&self, port: PortId, name: Option<&str>) -> Option<ConnectionTarget> {
        self.listening().port(port)?.carries.by_name()?.choose(name).copied()
    }

    /// Whether `listener` serves TLS or QUIC at `port`.
    pub(crate) fn serves_at(&self, listener: ListenerId, port: PortId) -> bool {
        let by_name = self.listening().port(port).and_then(|port| port.carries.by_name());
        by_name.is_some_and(|by_name| {
            by_name.values().any(|choice| *choice == ConnectionTarget::Listener(listener))
        })
    }

    /// Whether `listener` passes TLS for the SNI `name` (lower case) through.
    pub(crate) fn passes_through(&self, listener: ListenerId, name: Option<&str>) -> bool {
        self.listening().model(listener).is_some_and(|model| match model.protocol {
            ListenerProtocol::TlsPassthrough => true,
            ListenerProtocol::Https => self.passthrough_stream(model, name).is_some(),
            _ => false,
        })
    }

    /// Whether a connection of `listener` with the SNI `name` (lower case) is still forwarded.
    pub(crate) fn still_forwards(&self, listener: ListenerId, name: Option<&str>) -> bool {
        self.listening().model(listener).is_some_and(|model| {
            model.protocol != ListenerProtocol::Https || self.passthrough_stream(model, name).is_some()
        })
    }

    /// The passthrough route of a host of an HTTPS listener.
    fn passthrough_stream(&self, model: &Listener, name: Option<&str>) -> Option<&Arc<CompiledStream>> {
        self.snapshot().passthrough_route(&model.table, name?)
    }

    /// The route of a forwarded connection of `listener` with the SNI `name` (lower case).
    ///
    /// # Errors
    /// No listener, route or backend serves it.
    pub(crate) fn stream_route(
        &self,
        listener: ListenerId,
        name: Option<&str>,
    ) -> Result<&CompiledStream, Fault> {
        let model = self.listening().model(listener).ok_or(Fault::NoListener)?;
        let stream = match model.protocol {
            ListenerProtocol::Https => self.passthrough_stream(model, name),
            _ => self.snapshot().stream(&model.table, name),
        };
        let stream = stream.ok_or(Fault::NoRoute)?;
        if stream.targets().is_empty() { Err(Fault::NoBackend) } else { Ok(stream) }
    }

    /// TLS configuration for `port` and the SNI `name` (lower case).
    ///
    /// # Errors
    /// TLS is not terminated here, or no listener behind it serves the name.
    pub(crate) fn server_tls(
        &self,
        port: PortId,
        name: Option<&str>,
        trusts: &ClientTrustCache,
    ) -> Result<TlsTermination, Fault> {
        let listener = self.listener_for(port, name).ok_or(Fault::NoListener)?;
        let model = self.listening().model(listener).ok_or(Fault::NoListener)?;
        let host = match model.protocol {
            _ if self.passes_through(listener, name) => return Err(Fault::NoListener),
            ListenerProtocol::Https => {
                let facts = self.listener(listener).ok_or(Fault::NoListener)?;
                let is_known = || name.is_some_and(|name| self.snapshot().has_host(facts.table, name));
                if self.client_limits(listener).rejects_unknown_names && !is_known() {
                    return Err(Fault::NoListener);
                }
                name.and_then(|name| self.snapshot().host(facts.table, name))
            }
            ListenerProtocol::Tls => self.stream_route(listener, name).map(|_| None)?,
            _ => return Err(Fault::NoListener),
        };
        let own_certificate = host.and_then(|host| host.certificate().zip(Some(&host.key().host)));
        let listed = || self.identities().best_match(&model.tls.certificates, name);
        // For a Gateway at the address of Ingresses, the listener's certificate precedes that of a host which
        // is not more specific.
        let certificate = match own_certificate {
            Some((own, host)) if model.routes.is_some() && host.specificity() <= model.host.specificity() => {
                listed().or(Some(own))
            }
            Some((own, _)) => Some(own),
            None => listed(),
        };
        let config = self.identities().server(certificate);
        let (config, host_trust) = self.with_client_auth(config, host, listener, trusts)?;
        Ok(TlsTermination { listener, protocol: model.protocol, config, host_trust })
    }

    /// The TLS configuration with the client authentication of the host, or else of the listener.
    fn with_client_auth(
        &self,
        config: &Arc<ServerConfig>,
        host: Option<&CompiledHost>,
        listener: ListenerId,
        trusts: &ClientTrustCache,
    ) -> Result<(Arc<ServerConfig>, Option<HostClientTrust>), Fault> {
        let suites = host.and_then(|host| host.model().suites.as_ref());
        // Rules of a listener apply to all its hosts; a host with different rules then rejects every client.
        let is_of_host = matches!(self.listening().verification(listener), Verification::None);
        let rules = host.filter(|_| is_of_host).and_then(|host| host.model().clients.as_ref());
        let clients = rules.map(|rules| (Arc::clone(rules), trusts.for_rules(rules)));
        let client_auth = match (&clients, self.listening().verification(listener)) {
            (Some((_, Some(trust))), _) => ClientAuth::Unverified(trust),
            (Some((_, None)), _) | (None, Verification::None) => ClientAuth::None,
            (None, Verification::InHandshake(trust, demand)) => ClientAuth::for_listener(trust, *demand),
            (None, Verification::Unavailable) => return Err(Fault::ProtectionUnavailable),
        };
        let config = match (suites, client_auth) {
            (None, ClientAuth::None) => Arc::clone(config),
            _ => {
                let (versions, tickets) = (self.identities().versions(), self.identities().tickets());
                let config_with_auth = config_for_host(config, versions, suites, client_auth, tickets);
                Arc::new(config_with_auth.map_err(|_| Fault::ProtectionUnavailable)?)
            }
        };
        Ok((config, clients))
    }
}

/// The client rules of a host and their CAs; `None` if these cannot be parsed, which rejects every certificate.
type HostClientTrust = (Arc<ClientVerification>, Option<Rc<ClientTrust>>);

/// How TLS of a connection is terminated.
pub(crate) struct TlsTermination {
    pub(crate) listener: ListenerId,
    pub(crate) protocol: ListenerProtocol,
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) host_trust: Option<HostClientTrust>,
}
