//! The snapshot that a worker serves by, with the worker's own groups of endpoints for it.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use fairway_model::{Backend, ClientVerification, Settings};
use fairway_routing::{BackendSlot, Port, Snapshot};
use rustls::ServerConfig;

use crate::listener::{ListenerId, PortId};
use crate::listening::{Choice, ListenerFacts, Listening};
use crate::publish::Published;
use crate::upstream::{Group, Groups};
use crate::worker::guards::Trusts;
use fairway_sides::sides::Hop;
use fairway_tls::{ClientTrust, Identities, for_host};

/// A snapshot in use. Exchanges hold it through an `Rc`, so that the shared reference count is touched once per change
/// and worker instead of once per request.
pub(crate) struct Adopted<H> {
    published: Arc<Published>,
    /// Made when first used.
    groups: RefCell<Vec<Option<Rc<Group<H>>>>>,
}

impl<H: Hop> Adopted<H> {
    /// The first one.
    pub(crate) fn first(published: &Arc<Published>) -> Self {
        let snapshot = &published.snapshot;
        let groups = RefCell::new((0..snapshot.slots()).map(|_| None).collect());
        Self { published: Arc::clone(published), groups }
    }

    /// The next one: groups whose backend did not change move over, those that did keep the endpoints that stay, and
    /// idle connections to endpoints that left are closed.
    pub(crate) fn next(published: &Arc<Published>, older: &Self, groups: &Groups<H>) -> Self {
        let next = Self::first(published);
        {
            let mut now = next.groups.borrow_mut();
            for (slot, group) in older.groups.borrow().iter().enumerate() {
                let Some(group) = group else { continue };
                let backend =
                    u32::try_from(slot).ok().and_then(|slot| published.snapshot.backend(BackendSlot(slot)));
                match backend {
                    Some(backend) if Arc::ptr_eq(backend, group.backend()) => {
                        now[slot] = Some(Rc::clone(group));
                    }
                    Some(backend) if backend.key == group.backend().key => {
                        now[slot] = Some(groups.group(Arc::clone(backend), Some(group)));
                        groups.retire(group);
                    }
                    _ => groups.retire(group),
                }
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

    /// What requests need to know of their listener; `None` when it is gone.
    #[inline]
    pub(crate) fn listener(&self, id: ListenerId) -> Option<ListenerFacts> {
        self.published.listening.facts(id)
    }

    /// The worker's group for a backend, made now if this is its first use.
    pub(crate) fn group(&self, slot: BackendSlot, groups: &Groups<H>) -> Option<Rc<Group<H>>> {
        let index = slot.0 as usize;
        if let Some(Some(group)) = self.groups.borrow().get(index) {
            return Some(Rc::clone(group));
        }
        let backend: &Arc<Backend> = self.published.snapshot.backend(slot)?;
        let group = groups.group(Arc::clone(backend), None);
        *self.groups.borrow_mut().get_mut(index)? = Some(Rc::clone(&group));
        Some(group)
    }

    /// What a client gets that comes to `port` and asks for `name` (lower case). `None` where nothing serves it.
    pub(crate) fn server_tls(&self, port: PortId, name: Option<&str>, trusts: &Trusts) -> Option<ServerSide> {
        let Port::Tls(by_name) = &self.listening().port(port)?.carries else { return None };
        let Choice::Listener(listener) = *by_name.choose(name)? else { return None };
        let facts = self.listener(listener)?;
        let host = name.and_then(|name| self.snapshot().host(facts.table, name));
        let tls = &self.listening().model(listener)?.tls;
        let own = host.and_then(|host| host.certificate());
        let certificate = own.or_else(|| self.identities().best(&tls.certificates, name));
        let config = self.identities().server(certificate);
        let suites = host.and_then(|host| host.model().suites.as_ref());
        let rules = host.and_then(|host| host.model().clients.as_ref());
        let clients = rules.map(|rules| (Arc::clone(rules), trusts.of(rules)));
        let trust = clients.as_ref().and_then(|(_, trust)| trust.as_deref());
        let config = match suites.is_some() || trust.is_some() {
            false => Arc::clone(config),
            true => Arc::new(for_host((config, self.identities().versions()), suites, trust).ok()?),
        };
        Some(ServerSide { listener, config, clients })
    }
}

/// How a client that asks for a host is served.
pub(crate) struct ServerSide {
    pub(crate) listener: ListenerId,
    pub(crate) config: Arc<ServerConfig>,
    /// How it is verified; `None` in it is nobody's certificate.
    pub(crate) clients: Option<(Arc<ClientVerification>, Option<Rc<ClientTrust>>)>,
}
