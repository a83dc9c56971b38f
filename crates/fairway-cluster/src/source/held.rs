//! Changes that wait for what they name. Owns them for the moment; never decides what is known.

use std::collections::BTreeMap;

use fairway_objects::object::ObjectRef;
use fairway_objects::resources::Change;
use tokio::time::Instant;

/// The changes that wait, each the newest of its object.
#[derive(Debug, Default)]
pub(super) struct Held {
    changes: BTreeMap<ObjectRef, Waiting>,
    /// Whether more may be known than when they were looked at.
    stale: bool,
}

/// A change that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) change: Change,
    pub(super) missing: Vec<ObjectRef>,
    pub(super) heard: Instant,
    pub(super) until: Instant,
}

impl Held {
    /// Holds a change; its object's earlier one is dropped, but not its patience.
    pub(super) fn hold(&mut self, object: ObjectRef, mut waiting: Waiting) {
        if let Some(before) = self.changes.get(&object) {
            (waiting.heard, waiting.until) = (before.heard, before.until);
        }
        self.changes.insert(object, waiting);
    }

    /// The object's change is overtaken.
    pub(super) fn drop(&mut self, object: &ObjectRef) {
        self.changes.remove(object);
    }

    /// What the object's change waits for.
    pub(super) fn missing(&self, object: &ObjectRef) -> &[ObjectRef] {
        self.changes.get(object).map(|waiting| waiting.missing.as_slice()).unwrap_or_default()
    }

    /// More is known.
    pub(super) fn look_again(&mut self) {
        self.stale = true;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// When the first one has waited long enough.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.changes.values().map(|waiting| waiting.until).min()
    }

    /// The changes that wait no longer, with the time when they were heard.
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
                free.push((waiting.change, waiting.heard));
            } else if now >= waiting.until {
                let missing: Vec<_> = waiting
                    .missing
                    .iter()
                    .map(|object| format!("{} {}", object.kind.name(), object.key))
                    .collect();
                tracing::warn!(
                    object = %object.key, missing = missing.join(", "),
                    "what it names is not known yet; it is served without"
                );
                free.push((waiting.change, waiting.heard));
            } else {
                self.changes.insert(object, waiting);
            }
        }
        free
    }
}
