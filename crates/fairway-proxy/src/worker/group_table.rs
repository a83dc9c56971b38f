//! The worker's groups of endpoints by the slots of their backends. There is one table for as long as the worker lives: an
//! adoption touches the slots that changed, and nothing else.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use fairway_connection::sides::Hop;
use fairway_model::{Backend, PortProtocol};
use fairway_routing::{BackendSlot, Snapshot};

use crate::upstream::{Group, Groups};

/// The groups of the snapshot that the worker adopted last.
pub(super) struct GroupTable<H> {
    /// By slot. Made when first used.
    groups: RefCell<Vec<Option<Rc<Group<H>>>>>,
    /// The same for datagrams, which few backends get.
    datagram_groups: RefCell<BTreeMap<BackendSlot, Rc<Group<H>>>>,
    /// The snapshot, where it is not the worker's first.
    newest: RefCell<Option<Arc<Snapshot>>>,
}

impl<H> Default for GroupTable<H> {
    fn default() -> Self {
        Self { groups: RefCell::default(), datagram_groups: RefCell::default(), newest: RefCell::default() }
    }
}

impl<H: Hop> GroupTable<H> {
    /// The group of a backend, if it was used before.
    #[inline]
    pub(super) fn known(&self, slot: BackendSlot) -> Option<Rc<Group<H>>> {
        self.groups.borrow().get(slot.0 as usize)?.clone()
    }

    /// The same for what `transport` carries.
    pub(super) fn known_for(&self, slot: BackendSlot, transport: PortProtocol) -> Option<Rc<Group<H>>> {
        match transport {
            PortProtocol::Tcp => self.known(slot),
            PortProtocol::Udp => self.datagram_groups.borrow().get(&slot).cloned(),
        }
    }

    /// The group of a backend of the snapshot that was adopted last, made now if this is its first use.
    pub(super) fn group(
        &self,
        slot: BackendSlot,
        transport: PortProtocol,
        snapshot: &Snapshot,
        groups: &Groups<H>,
    ) -> Option<Rc<Group<H>>> {
        if let Some(group) = self.known_for(slot, transport) {
            return Some(group);
        }
        let group = groups.group(Arc::clone(snapshot.backend(slot)?), transport, None);
        self.put(slot, transport, Some(Rc::clone(&group)));
        Some(group)
    }

    /// The group of a backend that an older snapshot has in this slot, as it is now; none where the slot is another's by now.
    pub(super) fn group_now(
        &self,
        slot: BackendSlot,
        transport: PortProtocol,
        older: &Backend,
        groups: &Groups<H>,
    ) -> Option<Rc<Group<H>>> {
        let newest = self.newest.borrow();
        let newest = newest.as_ref()?;
        newest.backend(slot).filter(|backend| backend.key == older.key)?;
        self.group(slot, transport, newest, groups)
    }

    /// Goes on with a newer snapshot than the one adopted last: a backend that is another value keeps the endpoints that stay, and
    /// idle connections to endpoints that left are closed.
    pub(super) fn adopt(&self, older: &Snapshot, newer: &Arc<Snapshot>, groups: &Groups<H>) {
        *self.newest.borrow_mut() = Some(Arc::clone(newer));
        for slot in newer.backends_changed_since(older) {
            for transport in [PortProtocol::Tcp, PortProtocol::Udp] {
                let Some(group) = self.known_for(slot, transport) else { continue };
                let next = successor(&group, newer.backend(slot), transport, groups);
                groups.retire(&group);
                self.put(slot, transport, next);
            }
        }
    }

    fn put(&self, slot: BackendSlot, transport: PortProtocol, group: Option<Rc<Group<H>>>) {
        match (transport, group) {
            (PortProtocol::Tcp, group) => {
                let (mut groups, index) = (self.groups.borrow_mut(), slot.0 as usize);
                if groups.len() <= index {
                    groups.resize_with(index + 1, || None);
                }
                groups[index] = group;
            }
            (PortProtocol::Udp, Some(group)) => {
                self.datagram_groups.borrow_mut().insert(slot, group);
            }
            (PortProtocol::Udp, None) => {
                self.datagram_groups.borrow_mut().remove(&slot);
            }
        }
    }
}

/// What takes the place of a group, unless its slot has no backend any more or is another one's.
fn successor<H: Hop>(
    group: &Group<H>,
    backend: Option<&Arc<Backend>>,
    transport: PortProtocol,
    groups: &Groups<H>,
) -> Option<Rc<Group<H>>> {
    let backend = backend.filter(|backend| backend.key == group.backend().key)?;
    Some(groups.group(Arc::clone(backend), transport, Some(group)))
}
