//! What each event of a watch changes in the memory.

use std::sync::Arc;

use fairway_objects::object::{Object, ObjectRef};
use fairway_objects::resources::Change;
use tokio::time::Instant;

use super::{Entry, HOLD, HOLD_AT_START, Heard, Name, Phase, Shown, Tracker};
use crate::source::fault::Fault;
use crate::source::held::Waiting;
use crate::source::stage::Stage;
use crate::source::trimmed::{Content, Item};
use crate::source::watch::{WatchEvent, WatchId, WatchReport};

impl Tracker {
    /// Takes what a watch reports. What comes from a watch that was ended meanwhile is nothing.
    pub(in crate::source) fn take(&mut self, report: WatchReport) {
        let WatchReport { id, at, event } = report;
        if let WatchEvent::Offered(offered) = event {
            return self.offered(&offered, at);
        }
        let Some(progress) = self.watches.get_mut(&id) else { return };
        match event {
            WatchEvent::Began => progress.round += 1,
            WatchEvent::Set(item) => self.set(id, item, Heard::FromWatch, at),
            WatchEvent::Gone(item) => self.gone(id, &item, at),
            WatchEvent::Complete(version) => self.complete(id, version.parse().ok(), at),
            WatchEvent::InStep => self.in_step(id),
            WatchEvent::Failed(fault) => self.fail(id, fault, at),
            WatchEvent::Fetched(object, answer) => self.fetched(id, &object, answer, at),
            WatchEvent::Offered(_) => {}
        }
    }

    fn set(&mut self, id: WatchId, item: Item, heard: Heard, at: Instant) {
        let Some(progress) = self.watches.get(&id) else { return };
        let (kind, round, listed) = (progress.collection.kind, progress.round, progress.listed);
        let name: Name = (kind, item.key.clone());
        if progress.collection.name.is_none() && self.named.contains(&name) {
            return;
        }
        let by_reference = self.is_by_reference(id);
        if let Some(object) = object_ref(&name).filter(|_| by_reference) {
            if !self.references.contains(&object) && !self.entries.contains_key(&name) {
                return;
            }
            if heard == Heard::FromWatch {
                self.fetching.remove(&object);
            }
            self.held.look_again();
        }
        let entry = Entry { version: item.version, watch: id, round, heard };
        if let Some(known) = self.entries.get_mut(&name) {
            let behind = known.heard == Heard::ByFetch && known.version.number > item.version.number;
            if known.version == item.version || behind {
                known.round = round;
                return;
            }
        }
        self.watch_pods_of(&name);
        self.entries.insert(name, entry);
        // What is old when it is first seen says nothing about how fast it came.
        self.outbox.date(item.written.filter(|_| listed));
        match item.content {
            Content::Nothing => self.select(&item.key.name),
            Content::Kept(object) => self.tell(object, at),
            Content::Whole(_) => debug_assert!(false, "no collection of the tracker is followed whole"),
        }
    }

    /// Passes an object on, or holds it.
    fn tell(&mut self, object: Object, at: Instant) {
        let reference = object.reference();
        let missing = self.named_and_unknown(&object, &reference);
        let change = Change::Set(object, None);
        if missing.is_empty() {
            self.held.drop(&reference);
            self.outbox.say(change, at);
            return;
        }
        let patience = if self.outbox.phase == Phase::Synced { HOLD } else { HOLD_AT_START };
        self.held.hold(reference, Waiting { change, missing, heard: at, until: at + patience });
    }

    fn gone(&mut self, id: WatchId, item: &Item, at: Instant) {
        let Some(progress) = self.watches.get(&id) else { return };
        let name: Name = (progress.collection.kind, item.key.clone());
        if let Some(object) = object_ref(&name).filter(|_| self.is_by_reference(id)) {
            self.fetching.remove(&object);
            self.held.look_again();
        }
        let Some(entry) = self.entries.get(&name).filter(|entry| entry.watch == id) else { return };
        if entry.heard == Heard::ByFetch && entry.version.number > item.version.number {
            return;
        }
        self.remove(&name, at);
    }

    /// Removes an object and everything that follows from it.
    pub(super) fn remove(&mut self, name: &Name, at: Instant) {
        if self.entries.remove(name).is_none() {
            return;
        }
        let Some(object) = object_ref(name) else {
            return self.deselect(&Arc::clone(&name.1.name), at);
        };
        self.forget_naming(&object);
        self.forget_pods_of(name, at);
        self.held.drop(&object);
        self.outbox.say(Change::Remove(object), at);
    }

    /// A list is complete: what it lacks is gone.
    fn complete(&mut self, id: WatchId, version: Option<u64>, at: Instant) {
        let Some(progress) = self.watches.get_mut(&id) else { return };
        progress.stage = Stage::Synced;
        let first = !std::mem::replace(&mut progress.listed, true);
        let round = progress.round;
        self.outbox.watches = Shown::default();
        self.held.look_again();
        if round > 1 {
            self.remove_lacking(id, round, version, at);
        }
        if first {
            self.seek_passed_over(id);
        }
        self.end_waiting();
    }

    fn remove_lacking(&mut self, id: WatchId, round: u32, version: Option<u64>, at: Instant) {
        let lacking = |entry: &Entry| {
            let newer = entry.heard == Heard::ByFetch && entry.version.number > version;
            entry.watch == id && entry.round != round && !newer
        };
        let gone: Vec<_> =
            self.entries.iter().filter(|(_, entry)| lacking(entry)).map(|(name, _)| name.clone()).collect();
        for name in gone {
            self.remove(&name, at);
        }
        // From here on the watch itself tells of everything that was in its list.
        for entry in self.entries.values_mut().filter(|entry| entry.watch == id && entry.round == round) {
            entry.heard = Heard::FromWatch;
        }
    }

    fn in_step(&mut self, id: WatchId) {
        let Some(progress) = self.watches.get_mut(&id) else { return };
        let before = std::mem::replace(&mut progress.stage, Stage::Synced);
        if before == Stage::Synced {
            return;
        }
        self.outbox.watches = Shown::default();
        // While it was denied, nobody asked for what was named meanwhile.
        self.seek_all(id);
    }

    fn fail(&mut self, id: WatchId, fault: Fault, at: Instant) {
        let Some(progress) = self.watches.get_mut(&id) else { return };
        if progress.stage.fail(fault, at) {
            progress.stage.log(&progress.collection);
            self.outbox.watches = Shown::default();
            self.held.look_again();
            self.end_waiting();
        }
    }

    fn fetched(
        &mut self,
        id: WatchId,
        object: &ObjectRef,
        answer: Result<Option<Box<Item>>, Fault>,
        at: Instant,
    ) {
        // The watch was faster, or nobody wants it any more.
        if !self.fetching.remove(object) {
            return;
        }
        self.held.look_again();
        match answer {
            Ok(Some(item)) => self.set(id, *item, Heard::ByFetch, at),
            Ok(None) => {}
            Err(fault) => tracing::warn!(?object, %fault, "an object that is named cannot be read"),
        }
    }
}

/// The name as the pipeline knows it.
fn object_ref(name: &Name) -> Option<ObjectRef> {
    let (kind, key) = name;
    Some(ObjectRef::new(kind.kind()?, key.clone()))
}
