//! Changes that wait for what they name. Owns them for the moment; never decides what is known.

use std::collections::BTreeMap;

use fairway_translate::{Change, ObjectRef};
use tokio::time::Instant;

/// The changes that wait, each the newest of its object.
#[derive(Debug, Default)]
pub(super) struct Held {
    changes: BTreeMap<ObjectRef, Waiting>,
    /// Whether more may be known than when they were looked at.
    stale: bool,
}

#[derive(Debug)]
struct Waiting {
    change: Change,
    missing: Vec<ObjectRef>,
    heard: Instant,
    until: Instant,
}

impl Held {
    /// Holds a change; its object's earlier one is dropped, but not its patience.
    pub(super) fn hold(
        &mut self,
        object: ObjectRef,
        change: Change,
        missing: Vec<ObjectRef>,
        (heard, until): (Instant, Instant),
    ) {
        let before = self.changes.get(&object).map(|waiting| (waiting.heard, waiting.until));
        let (heard, until) = before.unwrap_or((heard, until));
        self.changes.insert(object, Waiting { change, missing, heard, until });
    }

    /// The object's change is overtaken.
    pub(super) fn drop(&mut self, object: &ObjectRef) {
        self.changes.remove(object);
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
