//! Endpoint groups of a worker by backend slot. One table lives as long as the worker: adopting a snapshot
//! touches only changed slots.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use fairway_connection::sides::Hop;
use fairway_model::{Backend, PortProtocol};
use fairway_routing::{BackendSlot, Snapshot};

use crate::upstream::{Group, Groups};

/// Groups of the latest adopted snapshot.
pub(super) struct GroupTable<H> {
    /// By slot, created on first use.
    groups: RefCell<Vec<Option<Rc<Group<H>>>>>,
    /// Groups for datagrams, which few backends use.
    datagram_groups: RefCell<BTreeMap<BackendSlot, Rc<Group<H>>>>,
    /// The latest snapshot, unless it is the worker's first.
    newest: RefCell<Option<Arc<Snapshot>>>,
}

impl<H> Default for GroupTable<H> {
    fn default() -> Self {
        Self { groups: RefCell::default(), datagram_groups: RefCell::default(), newest: RefCell::default() }
    }
}

impl<H: Hop> GroupTable<H> {
    /// The group of a backend, if it has been used.
    #[inline]
    pub(super) fn existing(&self, slot: BackendSlot) -> Option<Rc<Group<H>>> {
        self.groups.borrow().get(slot.0 as usize)?.clone()
    }

    /// The group for this transport, if it has been used.
    pub(super) fn existing_for(&self, slot: BackendSlot, transport: PortProtocol) -> Option<Rc<Group<H>>> {
        match transport {
            PortProtocol::Tcp => self.existing(slot),
            PortProtocol::Udp => self.datagram_groups.borrow().get(&slot).cloned(),
        }
    }

    /// The group of a backend of the latest snapshot, created on first use.
    pub(super) fn group(
        &self,
        slot: BackendSlot,
        transport: PortProtocol,
        snapshot: &Snapshot,
        groups: &Groups<H>,
    ) -> Option<Rc<Group<H>>> {
        if let Some(group) = self.existing_for(slot, transport) {
            return Some(group);
        }
        let group = groups.group(Arc::clone(snapshot.backend(slot)?), transport, None);
        self.set(slot, transport, Some(Rc::clone(&group)));
        Some(group)
    }

    /// The current group of a backend from an older snapshot; `None` if the slot belongs to another backend
    /// now.
    pub(super) fn current_group(
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

    /// Adopts a newer snapshot: changed backends keep the endpoints that stay, and idle connections to removed
    /// endpoints are closed.
    pub(super) fn adopt(&self, older: &Snapshot, newer: &Arc<Snapshot>, groups: &Groups<H>) {
        *self.newest.borrow_mut() = Some(Arc::clone(newer));
        for slot in newer.backends_changed_since(older) {
            for transport in [PortProtocol::Tcp, PortProtocol::Udp] {
                let Some(group) = self.existing_for(slot, transport) else { continue };
                let next = successor(&group, newer.backend(slot), transport, groups);
                groups.retire(&group);
                self.set(slot, transport, next);
            }
        }
    }

    fn set(&self, slot: BackendSlot, transport: PortProtocol, group: Option<Rc<Group<H>>>) {
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

/// The replacement of a group; `None` if its slot is empty or belongs to another backend.
fn successor<H: Hop>(
    group: &Group<H>,
    backend: Option<&Arc<Backend>>,
    transport: PortProtocol,
    groups: &Groups<H>,
) -> Option<Rc<Group<H>>> {
    let backend = backend.filter(|backend| backend.key == group.backend().key)?;
    Some(groups.group(Arc::clone(backend), transport, Some(group)))
}
