//! The snapshot that a worker serves by, with the worker's own groups of endpoints for it.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use fairway_model::{Backend, Settings};
use fairway_routing::{BackendSlot, Snapshot, TableId};
use rustls::ServerConfig;

use crate::listener::ListenerName;
use crate::publish::Published;
use crate::sides::Hop;
use crate::tls::Identities;
use crate::upstream::{Group, Groups};

/// A snapshot in use. Exchanges hold it through an `Rc`, so that the shared reference count is touched once per change
/// and worker instead of once per request.
pub(crate) struct Adopted<H> {
    published: Arc<Published>,
    listeners: [Option<ListenerFacts>; ListenerName::COUNT],
    /// Made when first used.
    groups: RefCell<Vec<Option<Rc<Group<H>>>>>,
}

/// What a listener of the process is in this snapshot.
#[derive(Clone, Copy)]
pub(crate) struct ListenerFacts {
    pub(crate) table: TableId,
    pub(crate) public_port: u16,
}

impl<H: Hop> Adopted<H> {
    /// The first one.
    pub(crate) fn first(published: &Arc<Published>) -> Self {
        let snapshot = &published.snapshot;
        let groups = RefCell::new((0..snapshot.slots()).map(|_| None).collect());
        Self { published: Arc::clone(published), listeners: listeners(snapshot), groups }
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

    pub(crate) fn listener(&self, name: ListenerName) -> Option<ListenerFacts> {
        self.listeners[name as usize]
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

    /// The TLS settings for a client that asks for `name` (lower case).
    pub(crate) fn server_tls(&self, listener: ListenerName, name: Option<&str>) -> Arc<ServerConfig> {
        let host = self
            .listener(listener)
            .zip(name)
            .and_then(|(facts, name)| self.snapshot().host(facts.table, name));
        let certificate = host.and_then(|host| host.certificate());
        Arc::clone(self.identities().server(certificate))
    }
}

fn listeners(snapshot: &Snapshot) -> [Option<ListenerFacts>; ListenerName::COUNT] {
    ListenerName::ALL.map(|name| {
        let listener = snapshot.listener(name.as_str())?;
        Some(ListenerFacts { table: snapshot.table(&listener.table)?, public_port: listener.public_port })
    })
}
