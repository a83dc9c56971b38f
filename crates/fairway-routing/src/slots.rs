//! Backends as small numbers that are stable across snapshots, so that workers can keep their state in arrays.

use std::sync::Arc;

use fairway_model::{Backend, BackendKey};
use imbl::ordmap::DiffItem;
use imbl::shared_ptr::DefaultSharedPtr;
use imbl::{GenericHashMap, OrdMap, Vector};

use crate::hash::FastHashState;

/// The slot of a backend: stable across snapshots as long as a configuration contains or names the backend. It may be
/// reused for another backend later, with another generation ([`crate::Snapshot::generation`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackendSlot(pub u32);

/// The slots of all backends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    entries: Vector<SlotEntry>,
    /// The backends in the configuration. A separate map, so that comparing two snapshots only visits what they do not
    /// share.
    backends: OrdMap<BackendSlot, SharedBackend>,
    by_key: GenericHashMap<BackendKey, BackendSlot, FastHashState, DefaultSharedPtr>,
    free: Vector<BackendSlot>,
    /// Slots that may have lost their last user. Empty in a finished snapshot.
    loosened: Vec<BackendSlot>,
    /// The last generation assigned.
    generation: u64,
}

#[derive(Clone, Debug)]
struct SlotEntry {
    key: BackendKey,
    /// How many rules name it.
    references: u32,
    generation: u64,
}

/// A backend that is compared by address: another value with equal content is not the same.
#[derive(Clone, Debug)]
struct SharedBackend(Arc<Backend>);

impl PartialEq for SharedBackend {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Slots {
    /// `None` if rules name it but the configuration does not contain it.
    pub(crate) fn backend(&self, slot: BackendSlot) -> Option<&Arc<Backend>> {
        self.backends.get(&slot).map(|backend| &backend.0)
    }

    /// The slots whose backend is not identical to that in `older`, in order.
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

    /// The configuration now contains this backend.
    pub(crate) fn set(&mut self, backend: &Arc<Backend>) {
        let slot = self.slot_for(&backend.key);
        self.backends.insert(slot, SharedBackend(Arc::clone(backend)));
    }

    /// The configuration no longer contains this backend.
    pub(crate) fn unset(&mut self, key: &BackendKey) {
        if let Some(slot) = self.named(key) {
            self.backends.remove(&slot);
            self.loosened.push(slot);
        }
    }

    /// Acquires the slot of `key` for a rule.
    pub(crate) fn acquire(&mut self, key: &BackendKey) -> BackendSlot {
        let slot = self.slot_for(key);
        self.entry(slot).references += 1;
        slot
    }

    /// Releases the slot for a rule.
    pub(crate) fn release(&mut self, slot: BackendSlot) {
        self.entry(slot).references -= 1;
        self.loosened.push(slot);
    }

    /// Frees unused slots. Called last, so that a backend that moves from one rule to another keeps its slot.
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

    fn slot_for(&mut self, key: &BackendKey) -> BackendSlot {
        if let Some(slot) = self.by_key.get(key) {
            return *slot;
        }
        self.generation += 1;
        let entry = SlotEntry { key: key.clone(), references: 0, generation: self.generation };
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

    fn entry(&mut self, slot: BackendSlot) -> &mut SlotEntry {
        self.entries
            .get_mut(slot.0 as usize)
            .expect("slots are given out by this table only and never shrink")
    }
}
