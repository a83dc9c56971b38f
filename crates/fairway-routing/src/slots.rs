//! Backends as small numbers that stay from snapshot to snapshot, so that workers can keep their state in arrays.

use std::sync::Arc;

use fairway_model::{Backend, BackendKey};
use imbl::ordmap::DiffItem;
use imbl::shared_ptr::DefaultSharedPtr;
use imbl::{GenericHashMap, OrdMap, Vector};

use crate::hash::FastState;

/// The place of a backend: the same from snapshot to snapshot for as long as a configuration has or names the backend.
/// A place may be given to another backend later, with another generation ([`crate::Snapshot::generation`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackendSlot(pub u32);

/// Which backend is where.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    entries: Vector<Entry>,
    /// What the configuration has of them. A map of its own, so that the difference of two snapshots is found along what
    /// they do not share.
    backends: OrdMap<BackendSlot, SharedBackend>,
    by_key: GenericHashMap<BackendKey, BackendSlot, FastState, DefaultSharedPtr>,
    free: Vector<BackendSlot>,
    /// Slots that may have lost their last user. Empty in a finished snapshot.
    loosened: Vec<BackendSlot>,
    /// The last one given.
    generation: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    key: BackendKey,
    /// How often rules name it.
    references: u32,
    generation: u64,
}

/// A backend that is compared by where it is: another value with the same content never takes its place.
#[derive(Clone, Debug)]
struct SharedBackend(Arc<Backend>);

impl PartialEq for SharedBackend {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Slots {
    /// `None`: rules name it, but the configuration does not have it.
    pub(crate) fn backend(&self, slot: BackendSlot) -> Option<&Arc<Backend>> {
        self.backends.get(&slot).map(|backend| &backend.0)
    }

    /// The slots whose backend is not the same as in `older`, in order.
    pub(crate) fn changed_since<'s>(&'s self, older: &'s Self) -> impl Iterator<Item = BackendSlot> + 's {
        older.backends.diff(&self.backends).map(|change| match change {
            DiffItem::Add(slot, _) | DiffItem::Remove(slot, _) | DiffItem::Update { new: (slot, _), .. } => {
                *slot
            }
        })
    }

    pub(crate) fn generation(&self, slot: BackendSlot) -> Option<u64> {
        self.entries.get(slot.0 as usize).map(|entry| entry.generation)
    }

    pub(crate) fn named(&self, key: &BackendKey) -> Option<BackendSlot> {
        self.by_key.get(key).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The configuration has this backend now.
    pub(crate) fn set(&mut self, backend: &Arc<Backend>) {
        let slot = self.of(&backend.key);
        self.backends.insert(slot, SharedBackend(Arc::clone(backend)));
    }

    /// The configuration has no such backend any more.
    pub(crate) fn unset(&mut self, key: &BackendKey) {
        if let Some(slot) = self.named(key) {
            self.backends.remove(&slot);
            self.loosened.push(slot);
        }
    }

    /// A rule names `key`.
    pub(crate) fn acquire(&mut self, key: &BackendKey) -> BackendSlot {
        let slot = self.of(key);
        self.entry(slot).references += 1;
        slot
    }

    /// A rule that named it is gone.
    pub(crate) fn release(&mut self, slot: BackendSlot) {
        self.entry(slot).references -= 1;
        self.loosened.push(slot);
    }

    /// Frees what nobody uses. Last, so that what moves from one rule to another keeps its slot.
    pub(crate) fn sweep(&mut self) {
        for slot in std::mem::take(&mut self.loosened) {
            let entry = &self.entries[slot.0 as usize];
            let unused = entry.references == 0 && !self.backends.contains_key(&slot);
            if unused && self.by_key.get(&entry.key) == Some(&slot) {
                self.by_key.remove(&entry.key);
                self.free.push_back(slot);
            }
        }
    }

    fn of(&mut self, key: &BackendKey) -> BackendSlot {
        if let Some(slot) = self.by_key.get(key) {
            return *slot;
        }
        self.generation += 1;
        let entry = Entry { key: key.clone(), references: 0, generation: self.generation };
        let slot = match self.free.pop_front() {
            Some(slot) => {
                self.entries.set(slot.0 as usize, entry);
                slot
            }
            None => {
                let end =
                    u32::try_from(self.entries.len()).expect("fewer than 2^32 backends fit into memory");
                self.entries.push_back(entry);
                BackendSlot(end)
            }
        };
        self.by_key.insert(key.clone(), slot);
        slot
    }

    fn entry(&mut self, slot: BackendSlot) -> &mut Entry {
        self.entries
            .get_mut(slot.0 as usize)
            .expect("slots are given out by this table only and never shrink")
    }
}
