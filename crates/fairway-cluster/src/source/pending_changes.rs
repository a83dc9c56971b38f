//! Changes that wait for the objects they reference. Does not decide which objects are known.

use std::collections::BTreeMap;

use fairway_objects::object::ObjectRef;
use fairway_objects::resources::Change;
use tokio::time::Instant;

/// The held changes, the newest per object.
#[derive(Debug, Default)]
pub(super) struct HeldChanges {
    changes: BTreeMap<ObjectRef, HeldChange>,
    /// Whether more objects may be known than at the last check.
    stale: bool,
}

/// A held change.
#[derive(Debug)]
pub(super) struct HeldChange {
    pub(super) change: Change,
    pub(super) missing: Vec<ObjectRef>,
    pub(super) received_at: Instant,
    pub(super) until: Instant,
}

impl HeldChanges {
    /// Holds a change in place of an earlier one of the same object, whose deadline it keeps.
    pub(super) fn hold(&mut self, object: ObjectRef, mut waiting: HeldChange) {
        if let Some(before) = self.changes.get(&object) {
            (waiting.received_at, waiting.until) = (before.received_at, before.until);
        }
        self.changes.insert(object, waiting);
    }

    /// Discards the object's held change: it is outdated.
    pub(super) fn discard(&mut self, object: &ObjectRef) {
        self.changes.remove(object);
    }

    /// The objects that the held change waits for.
    pub(super) fn missing(&self, object: &ObjectRef) -> &[ObjectRef] {
        self.changes.get(object).map(|waiting| waiting.missing.as_slice()).unwrap_or_default()
    }

    /// More objects may be known.
    pub(super) fn mark_for_recheck(&mut self) {
        self.stale = true;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// When the first change has waited long enough.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.changes.values().map(|waiting| waiting.until).min()
    }

    /// The changes that no longer wait, with the time they were received.
    pub(super) fn release(
        &mut self,
        now: Instant,
        known: impl Fn(&ObjectRef) -> bool,
    ) -> Vec<(Change, Instant)> {
        if !self.stale && self.deadline().is_none_or(|deadline| now < deadline) {
            return Vec::new();
        }
        self.stale = false;
        let mut free = Vec::new();
        let waiting = std::mem::take(&mut self.changes);
        for (object, mut waiting) in waiting {
            waiting.missing.retain(|missing| !known(missing));
            if waiting.missing.is_empty() {
                free.push((waiting.change, waiting.received_at));
            } else if now >= waiting.until {
                let missing: Vec<_> = waiting
                    .missing
                    .iter()
                    .map(|object| format!("{} {}", object.kind.name(), object.key))
                    .collect();
                tracing::warn!(
                    object = %object.key, missing = missing.join(", "),
                    "an object that it references is still unknown; serving it without"
                );
                free.push((waiting.change, waiting.received_at));
            } else {
                self.changes.insert(object, waiting);
            }
        }
        free
    }
}
