//! How each event of a watch changes the tracker.

use std::sync::Arc;

use fairway_objects::object::{Object, ObjectRef};
use fairway_objects::resources::Change;
use tokio::time::Instant;

use super::{
    MAX_HOLD, MAX_HOLD_AT_START, Origin, Phase, ReportedStages, TrackedObject, Tracker, WatchedName,
};
use crate::source::fault::Fault;
use crate::source::pending_changes::HeldChange;
use crate::source::stage::WatchStage;
use crate::source::trimmed::{Content, Item};
use crate::source::watch::{WatchEvent, WatchId, WatchReport};

impl Tracker {
    /// Handles a report. Reports of a stopped watch are ignored.
    pub(in crate::source) fn handle_report(&mut self, report: WatchReport) {
        let WatchReport { id, at, event } = report;
        if let WatchEvent::Offered(offered) = event {
            return self.handle_offered(&offered, at);
        }
        let Some(progress) = self.watches.get_mut(&id) else { return };
        match event {
            WatchEvent::ListStarted => progress.round += 1,
            WatchEvent::Set(item) => self.handle_set(id, item, Origin::FromWatch, at),
            WatchEvent::Gone(item) => self.handle_gone(id, &item, at),
            WatchEvent::ListCompleted(version) => self.complete_list(id, version.parse().ok(), at),
            WatchEvent::Synced => self.mark_synced(id),
            WatchEvent::Failed(fault) => self.mark_failing(id, fault, at),
            WatchEvent::Fetched(object, answer) => self.handle_fetched(id, &object, answer, at),
            WatchEvent::Offered(_) => {}
        }
    }

    fn handle_set(&mut self, id: WatchId, item: Item, origin: Origin, at: Instant) {
        let Some(progress) = self.watches.get(&id) else { return };
        let (kind, round, listed) = (progress.collection.kind, progress.round, progress.listed);
        let name: WatchedName = (kind, item.key.clone());
        if progress.collection.name.is_none() && self.named.contains(&name) {
            return;
        }
        let by_reference = self.is_by_reference(id);
        if let Some(object) = object_ref(&name).filter(|_| by_reference) {
            if !self.references.contains(&object) && !self.entries.contains_key(&name) {
                return;
            }
            if origin == Origin::FromWatch {
                self.fetching.remove(&object);
            }
            self.held_changes.mark_for_recheck();
        }
        let entry = TrackedObject { version: item.version, watch: id, round, origin };
        if let Some(known) = self.entries.get_mut(&name) {
            let behind = known.origin == Origin::FromFetch && known.version.number > item.version.number;
            if known.version == item.version || behind {
                known.round = round;
                return;
            }
        }
        self.watch_pods_of(&name);
        self.entries.insert(name, entry);
        // An object that was old when first seen says nothing about latency.
        self.outbox.set_written(item.written.filter(|_| listed));
        match item.content {
            Content::NameOnly => self.select_namespace(&item.key.name),
            Content::Trimmed(object) => self.pass_on(object, at),
            Content::Full(_) => debug_assert!(false, "no collection of the tracker is followed whole"),
        }
    }

    /// Sends an object to the pipeline, or holds it.
    fn pass_on(&mut self, object: Object, at: Instant) {
        let reference = object.reference();
        let missing = self.update_references(&object, &reference);
        let change = Change::Set(object, None);
        if missing.is_empty() {
            self.held_changes.discard(&reference);
            self.outbox.push_change(change, at);
            return;
        }
        let patience = if self.outbox.phase == Phase::Synced { MAX_HOLD } else { MAX_HOLD_AT_START };
        self.held_changes
            .hold(reference, HeldChange { change, missing, received_at: at, until: at + patience });
    }

    fn handle_gone(&mut self, id: WatchId, item: &Item, at: Instant) {
        let Some(progress) = self.watches.get(&id) else { return };
        let name: WatchedName = (progress.collection.kind, item.key.clone());
        if let Some(object) = object_ref(&name).filter(|_| self.is_by_reference(id)) {
            self.fetching.remove(&object);
            self.held_changes.mark_for_recheck();
        }
        let Some(entry) = self.entries.get(&name).filter(|entry| entry.watch == id) else { return };
        if entry.origin == Origin::FromFetch && entry.version.number > item.version.number {
            return;
        }
        self.remove_object(&name, at);
    }

    /// Removes an object and everything that depends on it.
    pub(super) fn remove_object(&mut self, name: &WatchedName, at: Instant) {
        if self.entries.remove(name).is_none() {
            return;
        }
        let Some(object) = object_ref(name) else {
            return self.deselect_namespace(&Arc::clone(&name.1.name), at);
        };
        self.forget_references(&object);
        self.forget_pods_of(name, at);
        self.held_changes.discard(&object);
        self.outbox.push_change(Change::Remove(object), at);
    }

    /// A list is complete: objects that it lacks are gone.
    fn complete_list(&mut self, id: WatchId, version: Option<u64>, at: Instant) {
        let Some(progress) = self.watches.get_mut(&id) else { return };
        progress.stage = WatchStage::Synced;
        let first = !std::mem::replace(&mut progress.listed, true);
        let round = progress.round;
        self.outbox.watches = ReportedStages::default();
        self.held_changes.mark_for_recheck();
        if round > 1 {
            self.remove_unlisted(id, round, version, at);
        }
        if first {
            self.look_up_skipped(id);
        }
        self.start_waiting_watches();
    }

    fn remove_unlisted(&mut self, id: WatchId, round: u32, version: Option<u64>, at: Instant) {
        let lacking = |entry: &TrackedObject| {
            let newer = entry.origin == Origin::FromFetch && entry.version.number > version;
            entry.watch == id && entry.round != round && !newer
        };
        let gone: Vec<_> =
            self.entries.iter().filter(|(_, entry)| lacking(entry)).map(|(name, _)| name.clone()).collect();
        for name in gone {
            self.remove_object(&name, at);
        }
        // From now on the watch reports everything that was in its list.
        for entry in self.entries.values_mut().filter(|entry| entry.watch == id && entry.round == round) {
            entry.origin = Origin::FromWatch;
        }
    }

    fn mark_synced(&mut self, id: WatchId) {
        let Some(progress) = self.watches.get_mut(&id) else { return };
        let before = std::mem::replace(&mut progress.stage, WatchStage::Synced);
        if before == WatchStage::Synced {
            return;
        }
        self.outbox.watches = ReportedStages::default();
        // While it was denied, references that were added meanwhile were not looked up.
        self.look_up_all(id);
    }

    fn mark_failing(&mut self, id: WatchId, fault: Fault, at: Instant) {
        let Some(progress) = self.watches.get_mut(&id) else { return };
        if progress.stage.fail(fault, at) {
            progress.stage.log(&progress.collection);
            self.outbox.watches = ReportedStages::default();
            self.held_changes.mark_for_recheck();
            self.start_waiting_watches();
        }
    }

    fn handle_fetched(
        &mut self,
        id: WatchId,
        object: &ObjectRef,
        answer: Result<Option<Box<Item>>, Fault>,
        at: Instant,
    ) {
        // The watch was faster, or the object is no longer referenced.
        if !self.fetching.remove(object) {
            return;
        }
        self.held_changes.mark_for_recheck();
        match answer {
            Ok(Some(item)) => self.handle_set(id, *item, Origin::FromFetch, at),
            Ok(None) => {}
            Err(fault) => tracing::warn!(?object, %fault, "a referenced object cannot be read"),
        }
    }
}

/// The object as the pipeline names it.
fn object_ref(name: &WatchedName) -> Option<ObjectRef> {
    let (kind, key) = name;
    Some(ObjectRef::new(kind.kind()?, key.clone()))
}
